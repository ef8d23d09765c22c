package read

import (
	"context"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// refusedBytes bounds the bodies that matchRefused holds in memory, in bytes; a single larger body is read alone.
const refusedBytes = 16 << 20

// selectSearched is selectEvents for a search. Its last column marks bodies that ClickHouse cannot parse.
func (w *walk) selectSearched() *ch.Query {
	if len(w.Search.Body) == 0 {
		return w.newSearchQuery().Add(eventColumns + ", false FROM events")
	}
	return w.newSearchQuery().Add(eventColumns + ", toBool(" + refusedJSON + ") FROM events")
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
		err := w.r.each(ctx, q, func(rows driver.Rows) error {
			var of id.ID
			var body []byte
			err := rows.Scan(&of, &body)
			match[of] = matchBody(body, w.Search.Body)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(cands, func(c candidate) bool { return c.bodyUnread && !match[c.ID] }), nil
}

// matchBody evaluates in this process the conditions that searchBody writes as SQL.
func matchBody(body []byte, terms []event.BodyMatch) bool {
	return event.ValidJSON(body) && !slices.ContainsFunc(terms, func(m event.BodyMatch) bool {
		return !matchScalar(lookup(gjson.ParseBytes(body), m.Members), m.Values)
	})
}

// lookup returns the value at a path. Of members with the same name the first counts.
func lookup(at gjson.Result, members []string) gjson.Result {
	for _, name := range members {
		var next gjson.Result
		place, err := strconv.ParseUint(name, 10, 31)
		at.ForEach(func(key, value gjson.Result) bool {
			switch {
			case at.IsObject() && key.Str == name, at.IsArray() && err == nil && place == 0:
				next = value
				return false
			}
			place--
			return true
		})
		at = next
	}
	return at
}

func matchScalar(at gjson.Result, values []string) bool {
	switch at.Type {
	case gjson.String:
		return slices.Contains(values, at.Str)
	case gjson.True, gjson.False:
		return slices.Contains(values, at.Raw)
	case gjson.Null:
		return at.Exists() && slices.Contains(values, at.Raw)
	case gjson.Number:
		n, ok := parseNumber(at.Raw)
		return slices.Contains(values, at.Raw) || ok && slices.ContainsFunc(values, func(v string) bool {
			m, ok := parseNumber(v)
			return ok && n.equal(m)
		})
	}
	return false
}
