package api

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/eventrelay/relay/pkg/web"
)

// list is the envelope of every list. next_cursor is there only when another row was seen.
type list[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Bounds of a page.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// pageOf reads limit and cursor; last is nil on the first page.
func pageOf(q url.Values, hash filterHash) (limit int, last *[keyLen]byte, err error) {
	limit = defaultLimit
	if values := q["limit"]; len(values) > 0 && values[0] != "" {
		n, err := strconv.ParseUint(values[0], 10, 64) // what does not fit is the largest number, and clamped as such
		if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 || len(values) > 1 {
			return 0, nil, web.Invalid("limit", "must be an integer from 1; more than %d is taken as %d", maxLimit, maxLimit)
		}
		limit = int(min(n, maxLimit))
	}
	if values := q["cursor"]; len(values) > 0 && values[0] != "" {
		key, err := hash.key(values[0])
		if err != nil || len(values) > 1 {
			return 0, nil, web.Invalid("cursor", "is not one that this list gave out for these filters; begin without it")
		}
		last = &key
	}
	return limit, last, nil
}
