package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// A search looks at a stretch of rows after the other, each so long that it should take searchStretch, and ends
	// between two of them when its budget is spent.
	searchStretch, searchBudget = 300 * time.Millisecond, 2 * time.Second
	// firstSearch, leastSearch and largestSearch are rows of a stretch.
	firstSearch, leastSearch, largestSearch = 10_000, 500, 1_000_000
	// maxSearches is how many run at once for an account; another waits for its turn for searchWait.
	maxSearches, searchWait = 2, time.Second
	// maxIndexes bounds the numbers in a path that may be a name as well as a place in an array: each doubles what has to
	// be looked for. Beyond it they are places.
	maxIndexes = 3
)

// searches keeps those of an account from taking all of the store.
type searches struct {
	mu    sync.Mutex // guards turns
	turns map[string]chan struct{}
}

// enter waits for a turn. What it returns gives it back.
func (s *searches) enter(ctx context.Context, account string) (leave func(), err error) {
	s.mu.Lock()
	if s.turns == nil {
		s.turns = make(map[string]chan struct{})
	}
	turn := s.turns[account]
	if turn == nil {
		turn = make(chan struct{}, maxSearches)
		s.turns[account] = turn
	}
	s.mu.Unlock()
	enough := time.NewTimer(searchWait)
	defer enough.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-enough.C:
		return nil, fmt.Errorf("%w: %d searches are running", event.ErrBusy, maxSearches)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// spent reports whether a search has to end for now, and makes the next stretch as long as the last one says; took is
// that one's time, zero before the first.
func (w *walk) spent(began time.Time, took time.Duration) bool {
	if w.q.Search == nil || took == 0 {
		return false
	}
	factor := min(max(float64(searchStretch)/float64(took), 0.25), 4)
	w.chunk = min(max(int(float64(w.chunk)*factor), leastSearch), largestSearch)
	return time.Since(began) >= w.r.cfg.SearchBudget
}

// count adds the rows of a stretch, from its lowest id on, to those that were looked at.
func (w *walk) count(ctx context.Context, lowest id.ID) error {
	q := w.immutable(w.above(new(query).add("SELECT count() FROM events"), lowest))
	return w.r.each(ctx, q, func(rows driver.Rows) error {
		var n uint64
		err := rows.Scan(&n)
		w.scanned += int(n)
		return err
	})
}

// literal passes a text of any bytes: those of a parameter would be unescaped on the way.
func (q *query) literal(s string) *query {
	return q.add("unhex(", hex.EncodeToString([]byte(s))).add(")")
}

// searched appends the conditions of a search. Nothing in a text has a meaning but its letters.
func (w *walk) searched(q *query) *query {
	s := w.q.Search
	if s == nil {
		return q
	}
	if s.Text != "" {
		searchText(q, s.Text)
	}
	for _, m := range s.Header {
		q.add(" AND (0")
		for _, v := range m.Values {
			line := "\n" + string(event.LinesOf([]event.Field{{Name: http.CanonicalHeaderKey(m.Name), Value: v}}))
			q.add(" OR position(concat('\\n', headers), ").literal(line).add(") > 0")
		}
		q.add(")")
	}
	for _, m := range s.Body {
		q.add(" AND (0")
		for _, keys := range bodyKeys(m.Members) {
			for _, v := range m.Values {
				searchScalar(q, keys, v)
			}
		}
		q.add(")")
	}
	return q
}

// searchText looks for a text in body, headers and id, in any case.
func searchText(q *query, text string) {
	find := "positionCaseInsensitive("
	if strings.ContainsFunc(text, func(r rune) bool { return r > 127 }) {
		find = "positionCaseInsensitiveUTF8("
	}
	q.add(" AND (" + find + "body, ").literal(text).add(") > 0 OR " + find + "headers, ").literal(text).add(") > 0")
	if low := strings.ToLower(text); couldBeID(low) {
		q.add(" OR position(concat('" + id.Event + "', " + idText + "), ").literal(low).add(") > 0")
	}
	q.add(")")
}

// idText spells an id as id.ID.String does.
const idText = "arrayStringConcat(arrayMap(i -> substring('0123456789abcdefghjkmnpqrstvwxyz', 1 + toUInt8(bitAnd(bitShiftRight(" +
	"reinterpretAsUInt128(reverse(id)), 5 * (25 - i)), toUInt128(31))), 1), range(26)))"

// couldBeID reports whether a text may stand in evt_ and 26 characters.
func couldBeID(text string) bool {
	const longest = len(id.Event) + 26
	return len(text) <= longest && strings.Trim(text, "0123456789abcdefghjkmnpqrstvwxyz_") == ""
}

// bodyKeys are the arguments of ClickHouse's JSON functions that a path may mean: a number is a place in an array,
// counted from 1 there, or a name.
func bodyKeys(members []string) [][]string {
	all, indexes := [][]string{nil}, 0
	for _, m := range members {
		name := "unhex('" + hex.EncodeToString([]byte(m)) + "')" // of hexadecimal digits alone: nothing of it can be text of the statement
		forms := []string{name}
		if n, err := strconv.ParseUint(m, 10, 31); err == nil {
			place := strconv.FormatUint(n+1, 10)
			if forms = []string{place, name}; indexes >= maxIndexes {
				forms = forms[:1]
			}
			indexes++
		}
		var next [][]string
		for _, keys := range all {
			for _, f := range forms {
				next = append(next, append(keys[:len(keys):len(keys)], f))
			}
		}
		all = next
	}
	return all
}

// searchScalar compares what stands at a place of the body: strings by their text, numbers by their value too.
func searchScalar(q *query, keys []string, value string) {
	at := "(body, " + strings.Join(keys, ", ") + ")"
	q.add(" OR JSONType" + at + " = 'String' AND JSONExtractString" + at + " = ").literal(value)
	q.add(" OR JSONType" + at + " IN ('Int64', 'UInt64', 'Double', 'Bool', 'Null') AND JSONExtractRaw" + at + " = ").literal(value)
	if f, err := strconv.ParseFloat(value, 64); err == nil && f > -1<<53 && f < 1<<53 && isJSONNumber(value) {
		q.add(" OR JSONType" + at + " IN ('Int64', 'UInt64', 'Double') AND JSONExtractFloat" + at + " = toFloat64(").literal(value).add(")")
	}
}

// isJSONNumber keeps out what only Go takes for a number.
func isJSONNumber(s string) bool { return strings.Trim(s, "0123456789+-.eE") == "" }
