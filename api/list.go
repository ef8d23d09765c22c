package api

import (
	"errors"
	"strconv"
)

// list is the envelope of every list. next_cursor is present only if a further row was found.
type list[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Limits of a page, in rows.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// page reads limit and cursor. Call it after all filters were read. last is zero on the first page.
func (q *query) page() (limit int, last rowKey) {
	return q.limit(), readCursor(q, q.hash.key)
}

func (q *query) limit() int {
	values := q.values["limit"]
	if len(values) == 0 || values[0] == "" {
		return defaultLimit
	}
	n, err := strconv.ParseUint(values[0], 10, 64) // a number that overflows is clamped like any large one
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 || len(values) > 1 {
		q.fail("limit", "must be an integer from 1; more than %d is taken as %d", maxLimit, maxLimit)
	}
	return int(min(n, maxLimit))
}

// readCursor returns the position in the cursor, the zero value without a cursor.
func readCursor[T any](q *query, decode func(string) (T, error)) (position T) {
	values := q.values["cursor"]
	if len(values) == 0 || values[0] == "" {
		return position
	}
	position, err := decode(values[0])
	if err != nil || len(values) > 1 {
		q.fail("cursor", "was not returned by this list for these filters; start again without a cursor")
	}
	return position
}
