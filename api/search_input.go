package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxSearchText bounds q, in characters.
	maxSearchText = 200
	// maxSearchTerms bounds body[…] and header[…] of one search, together.
	maxSearchTerms = 10
	// searchWindow is how far back a search looks that names no time, maxSearchWindow how far it may.
	searchWindow, maxSearchWindow = 24 * time.Hour, 31 * 24 * time.Hour
)

// searchTerm splits body[<path>] and header[<name>].
func searchTerm(name string) (kind, of string, ok bool) {
	kind, rest, _ := strings.Cut(name, "[")
	of, ok = strings.CutSuffix(rest, "]")
	return kind, of, ok && (kind == "body" || kind == "header")
}

// search reads what to look for; nil when nothing is asked for.
func (q *query) search() *event.Search {
	s := &event.Search{Text: q.searchText()}
	terms := 0
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		kind, of, ok := searchTerm(name)
		values := q.searchValues(name)
		if !ok || len(values) == 0 {
			continue
		}
		if terms++; terms > maxSearchTerms {
			q.fail(name, "is one too many: %d of body[…] and header[…] at most", maxSearchTerms)
		}
		if kind == "header" {
			if !httpguts.ValidHeaderFieldName(of) {
				q.fail(name, "must name a header, as in header[x-request-id]")
			}
			if slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
				q.fail(name, "has a value that no header can have: it holds a control character")
			}
			s.Header = append(s.Header, event.HeaderMatch{Name: of, Values: values})
			continue
		}
		if _, err := event.ParseBodyPath(of); err != nil {
			q.fail(name, "must hold a path, as in body[data.order.id]: %v", err)
		}
		s.Body = append(s.Body, event.BodyMatch{Members: strings.Split(strings.TrimPrefix(of, "$."), "."), Values: values})
	}
	if s.Text == "" && terms == 0 {
		return nil
	}
	return s
}

func (q *query) searchText() string {
	values := slices.DeleteFunc(slices.Clone(q.values["q"]), func(v string) bool { return v == "" })
	if len(values) == 0 {
		return ""
	}
	if n := utf8.RuneCountInString(values[0]); len(values) > 1 || n > maxSearchText || !utf8.ValidString(values[0]) {
		q.fail("q", "must be sent once, with at most %d characters", maxSearchText)
	}
	q.hash.add("q:" + values[0])
	return values[0]
}

// searchValues are the values of a term as they were sent: they may hold commas. Empty ones are absent.
func (q *query) searchValues(name string) []string {
	if _, _, ok := searchTerm(name); !ok {
		return nil
	}
	values := slices.DeleteFunc(slices.Clone(q.values[name]), func(v string) bool { return v == "" })
	if len(values) > maxFilterValues {
		q.fail(name, "may have at most %d values", maxFilterValues)
	}
	for _, v := range values {
		if len(v) > maxFilterValue {
			q.fail(name, "has a value longer than %d bytes", maxFilterValue)
		}
	}
	q.hash.add(append(slices.Clone(values), name+":")...)
	return values
}

// searchTime bounds the time that a search looks at; sinceName is how its beginning was sent, if it was.
func (a *API) searchTime(q *query, out *event.Query, sinceName string) {
	until := out.Until
	if until.IsZero() {
		until = a.now()
	}
	if sinceName == "" {
		out.Since = until.Add(-searchWindow)
	}
	out.Since = out.Since.Add(time.Millisecond - 1).Truncate(time.Millisecond) // as the cursor keeps it; ids know no finer times
	if until.Sub(out.Since) > maxSearchWindow {
		q.fail(sinceName, "is more than %d days before the end; a search looks at no more", int(maxSearchWindow.Hours()/24))
	}
}

// clampSince bounds the beginning that a cursor holds: cursors are not signed, and one made up must not look at more
// time than any other search.
func (a *API) clampSince(since, until time.Time) time.Time {
	if until.IsZero() {
		until = a.now()
	}
	if first := until.Add(-maxSearchWindow); since.Before(first) {
		return first
	}
	return since
}

// searchPage is the answer to a search, which may end before it has filled its page.
type searchPage struct {
	list[eventRow]
	Partial bool `json:"partial,omitempty"`
	Scanned int  `json:"scanned"` // rows that were looked at for this page
}

// searchEvents answers a list with a search in it. Its cursors hold the beginning of the time that is looked at: without one
// it moves on while the pages are read.
func (a *API) searchEvents(w http.ResponseWriter, r *http.Request, values url.Values, q event.Query, hash filterHash) error {
	cursors := values["cursor"]
	values = maps.Clone(values)
	delete(values, "cursor")
	limit, _, err := pageOf(values, hash)
	if err != nil {
		return err
	}
	q.Limit = limit
	if len(cursors) > 0 && cursors[0] != "" {
		place, err := hash.searchPlace(cursors[0])
		if err != nil || len(cursors) > 1 {
			return web.Invalid("cursor", "is not one that this list gave out for these filters; begin without it")
		}
		q.Before, q.Since = place.before, a.clampSince(place.since, q.Until)
	}
	page, err := a.deps.Events.Events(r.Context(), q)
	if errors.Is(err, event.ErrBusy) {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second, Message: "the account has two searches running, or the key as many reads as it may have at once; wait for one of them"}
	}
	if err != nil {
		return err
	}
	out := searchPage{list: list[eventRow]{Data: make([]eventRow, len(page.Rows))}, Partial: page.Partial, Scanned: page.Scanned}
	for i := range page.Rows {
		out.Data[i] = a.listed(&page.Rows[i])
	}
	switch {
	case page.Partial:
		out.NextCursor = hash.searchCursor(searchPlace{page.Edge, q.Since})
	case page.More && len(page.Rows) > 0:
		out.NextCursor = hash.searchCursor(searchPlace{page.Rows[len(page.Rows)-1].ID, q.Since})
	}
	setAsOf(w, page.AsOf)
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// searchPlace is where a search goes on.
type searchPlace struct {
	before id.ID
	since  time.Time
}

// searchVersion is that of the cursors of searches, which are none of a list.
const searchVersion = 2

// searchCursor is {version, hash of list and filters, id, milliseconds of since}.
func (f filterHash) searchCursor(p searchPlace) string {
	b := append([]byte{searchVersion}, f.h.Sum(nil)[:filterLen]...)
	b = append(b, p.before[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(p.since.UnixMilli())))
}

func (f filterHash) searchPlace(text string) (searchPlace, error) {
	const length = 1 + filterLen + keyLen + 8
	if base64.RawURLEncoding.DecodedLen(len(text)) != length {
		return searchPlace{}, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != length || b[0] != searchVersion || string(b[1:1+filterLen]) != string(f.h.Sum(nil)[:filterLen]) {
		return searchPlace{}, errCursor
	}
	ms := int64(binary.BigEndian.Uint64(b[1+filterLen+keyLen:]))
	return searchPlace{before: id.ID(b[1+filterLen : 1+filterLen+keyLen]), since: time.UnixMilli(ms).UTC()}, nil
}
