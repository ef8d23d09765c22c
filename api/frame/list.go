package frame

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// List is the envelope of every list. next_cursor is present only if a further row was found.
type List[T any] = wire.List[T]

// Limits of a page, in rows.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// Page reads limit and cursor. Call it after all filters were read. last is zero on the first page.
func (q *Query) Page() (limit int, last RowKey) {
	return q.Limit(), ReadCursor(q, q.Hash.key)
}

// ConfigPage is what a list of the configuration is asked for: at most limit rows that were created before a sequence,
// 0 for the newest.
type ConfigPage struct {
	query  *Query
	Limit  int
	Before int64
}

// ConfigPage reads limit and cursor, and refuses all other parameters: call it after the filters were read. For the
// first page it catches up with the configuration.
func (c *Core) ConfigPage(r *http.Request, q *Query) (ConfigPage, error) {
	limit, last := q.Page()
	q.RefuseUnknown()
	if q.Err != nil {
		return ConfigPage{}, q.Err
	}
	if last == (RowKey{}) {
		c.CatchUp(r.Context())
	}
	return ConfigPage{q, limit, last.Seq()}, nil
}

// WriteConfigPage answers with a page; views has the view of each row.
func WriteConfigPage[T interface{ CreationSeq() int64 }, V any](w http.ResponseWriter, p ConfigPage, rows []T,
	more bool, views []V) error {
	out := List[V]{Data: views}
	if more {
		out.NextCursor = p.query.Hash.Cursor(SeqKey(rows[len(rows)-1].CreationSeq()))
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// Limit reads how many rows a page may have.
func (q *Query) Limit() int {
	value := q.Single("limit")
	if value == "" {
		return defaultLimit
	}
	n, err := strconv.ParseUint(value, 10, 64) // a number that overflows is clamped like any large one
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		q.Fail("limit", "must be an integer from 1; more than %d is taken as %d", maxLimit, maxLimit)
	}
	return int(min(n, maxLimit))
}

// ReadCursor returns the position in the cursor, the zero value without a cursor.
func ReadCursor[T any](q *Query, decode func(string) (T, error)) (position T) {
	value := q.Single("cursor")
	if value == "" {
		return position
	}
	position, err := decode(value)
	if err != nil {
		q.Fail("cursor", "was not returned by this list for these filters; start again without a cursor")
	}
	return position
}
