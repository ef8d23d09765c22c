package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// list is the envelope of every list. next_cursor is present only if a further row was found.
type list[T any] = wire.List[T]

// Limits of a page, in rows.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// page reads limit and cursor. Call it after all filters were read. last is zero on the first page.
func (q *query) page() (limit int, last rowKey) {
	return q.limit(), readCursor(q, q.hash.key)
}

// configPage is what a list of the configuration is asked for: at most limit rows that were created before a sequence,
// 0 for the newest.
type configPage struct {
	query  *query
	limit  int
	before int64
}

// configPage reads limit and cursor, and refuses all other parameters: call it after the filters were read. For the
// first page it catches up with the configuration.
func (c *core) configPage(r *http.Request, q *query) (configPage, error) {
	limit, last := q.page()
	q.refuseUnknown()
	if q.err != nil {
		return configPage{}, q.err
	}
	if last == (rowKey{}) {
		c.catchUp(r.Context())
	}
	return configPage{q, limit, last.seq()}, nil
}

// writeConfigPage answers with a page; views has the view of each row.
func writeConfigPage[T interface{ CreationSeq() int64 }, V any](w http.ResponseWriter, p configPage, rows []T,
	more bool, views []V) error {
	out := list[V]{Data: views}
	if more {
		out.NextCursor = p.query.hash.cursor(seqKey(rows[len(rows)-1].CreationSeq()))
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

func (q *query) limit() int {
	value := q.single("limit")
	if value == "" {
		return defaultLimit
	}
	n, err := strconv.ParseUint(value, 10, 64) // a number that overflows is clamped like any large one
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		q.fail("limit", "must be an integer from 1; more than %d is taken as %d", maxLimit, maxLimit)
	}
	return int(min(n, maxLimit))
}

// readCursor returns the position in the cursor, the zero value without a cursor.
func readCursor[T any](q *query, decode func(string) (T, error)) (position T) {
	value := q.single("cursor")
	if value == "" {
		return position
	}
	position, err := decode(value)
	if err != nil {
		q.fail("cursor", "was not returned by this list for these filters; start again without a cursor")
	}
	return position
}
