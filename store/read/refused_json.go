package read

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/search"
)

// refusedBytes bounds the bodies that matchRefused holds in memory, in bytes; a single larger body is read alone.
const refusedBytes = 16 << 20

// selectSearched is selectEvents for a search. Its last column marks bodies that ClickHouse cannot parse.
func (w *walk) selectSearched() *ch.Query {
	if len(w.Search.Body) == 0 {
		return w.newSearchQuery().Add(eventColumns + ", false FROM events")
	}
	return w.newSearchQuery().Add(eventColumns + ", toBool(" + search.RefusedJSON + ") FROM events")
}

// matchRefused reads the candidates' bodies that ClickHouse cannot parse, and removes those that do not match.
func (w *walk) matchRefused(ctx context.Context, cands []candidate) ([]candidate, error) {
	var refused []*candidate
	for i := range cands {
		if cands[i].bodyUnread {
			refused = append(refused, &cands[i])
		}
	}
	match := map[id.ID]bool{}
	for len(refused) > 0 {
		size, n := 0, 0
		var ids []id.ID
		for n < len(refused) && (n == 0 || size+int(refused[n].size) <= refusedBytes) {
			size += int(refused[n].size)
			ids = append(ids, refused[n].ID)
			n++
		}
		refused = refused[n:]
		q := w.newSearchQuery().Add("SELECT id, body FROM events WHERE account = ", w.Account)
		ch.WhereIDs(q, ids)
		err := w.r.Each(ctx, q, func(rows driver.Rows) error {
			var of id.ID
			var body []byte
			err := rows.Scan(&of, &body)
			match[of] = search.MatchesBody(body, w.Search.Body)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(cands, func(c candidate) bool { return c.bodyUnread && !match[c.ID] }), nil
}
