package events

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxSearchTerms bounds the body[…] and header[…] filters of one search, together.
	maxSearchTerms = 10
	// searchWindow is the time window of a search without since, maxSearchWindow the longest window.
	searchWindow, maxSearchWindow = 24 * time.Hour, 31 * 24 * time.Hour
)

// searchTerm splits body[<path>] and header[<name>] into the kind and what it names.
func searchTerm(name string) (kind, of string, ok bool) {
	kind, rest, _ := strings.Cut(name, "[")
	of, ok = strings.CutSuffix(rest, "]")
	return kind, of, ok && (kind == "body" || kind == "header")
}

// search reads the search terms; nil if the request has none.
func search(q *frame.Query) *event.Search {
	s := &event.Search{Text: q.Text("must be UTF-8; header[name] and body[path] also search for other bytes")}
	q.Names = append(q.Names, "body", "header")
	terms := 0
	for _, name := range slices.Sorted(maps.Keys(q.Values)) {
		if base := strings.TrimSuffix(name, "[]"); base == "body" || base == "header" {
			q.Aliases = append(q.Aliases, name)
			q.Fail(name, "needs a path or a name: body[<path>]=value, header[<name>]=value")
		}
		kind, of, ok := searchTerm(name)
		if !ok {
			continue
		}
		q.Aliases = append(q.Aliases, name)
		values := searchValues(q, name)
		if len(values) == 0 {
			continue
		}
		if terms++; terms > maxSearchTerms {
			q.Fail(name, "is one filter too many: a search may have at most %d body[…] and header[…] filters",
				maxSearchTerms)
		}
		if kind == "header" {
			if !httpguts.ValidHeaderFieldName(of) {
				q.Fail(name, "must name a header, as in header[x-request-id]")
			}
			if slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
				q.Fail(name, "has a value that contains a control character, which no header can have")
			}
			s.Header = append(s.Header, event.HeaderMatch{Name: of, Values: values})
			continue
		}
		if _, err := event.ParseBodyPath(of); err != nil {
			q.Fail(name, "must contain a path, as in body[data.order.id]: %v", err)
		}
		if doubt := event.PathDoubt(of); doubt != "" {
			q.Warnings = append(q.Warnings, frame.Warning{Param: name, Message: doubt})
		}
		members := strings.Split(strings.TrimPrefix(of, "$."), ".")
		s.Body = append(s.Body, event.BodyMatch{Members: members, Values: values})
	}
	if s.Text == "" && terms == 0 {
		return nil
	}
	return s
}

// searchValues returns the values of a term as sent, because they may contain commas.
func searchValues(q *frame.Query, name string) []string {
	values := slices.DeleteFunc(slices.Clone(q.Values[name]), func(v string) bool { return v == "" })
	if len(values) > frame.MaxFilterValues {
		q.Fail(name, "may have at most %d values", frame.MaxFilterValues)
	}
	for _, v := range values {
		if len(v) > frame.MaxFilterValue {
			q.Fail(name, "has a value longer than %d bytes", frame.MaxFilterValue)
		}
	}
	q.Hash.Add(append(slices.Clone(values), name+":")...)
	return values
}

// searchTime limits the time window of a search. sinceName is the name by which since was sent, empty if it was not.
func (a *events) searchTime(q *frame.Query, out *event.Query, sinceName string) {
	until := out.Until
	if until.IsZero() {
		until = a.Now()
	}
	if sinceName == "" {
		out.Since = until.Add(-searchWindow)
	}
	// Rounded up to a millisecond, as in the cursor and in ids.
	out.Since = out.Since.Add(time.Millisecond - 1).Truncate(time.Millisecond)
	if until.Sub(out.Since) > maxSearchWindow {
		q.Fail(sinceName, "is more than %d days before the end of the search; use a later time",
			int(maxSearchWindow.Hours()/24))
	}
}

// clampSince limits the since of a cursor: cursors are not signed, and a forged one must not search a longer window.
func (a *events) clampSince(since, until time.Time) time.Time {
	if until.IsZero() {
		until = a.Now()
	}
	if first := until.Add(-maxSearchWindow); since.Before(first) {
		return first
	}
	return since
}

// searchEvents answers a list with search terms. Its cursors contain since: a default since would otherwise move on
// while the client pages.
func (a *events) searchEvents(w http.ResponseWriter, r *http.Request, params *frame.Query, q event.Query) error {
	q.Limit = params.Limit()
	decode := func(text string) (searchPosition, error) { return readSearchPosition(params.Hash, text) }
	if position := frame.ReadCursor(params, decode); position != (searchPosition{}) {
		q.Before, q.Since = position.before, a.clampSince(position.since, q.Until)
	}
	if params.Err != nil {
		return params.Err
	}
	page, err := a.Events.Events(r.Context(), q)
	if errors.Is(err, event.ErrOverloaded) {
		return &web.Error{
			Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: "the account already has two searches running, or the API key as many reads as one key may " +
				"have; wait for one to finish",
		}
	}
	if err != nil {
		return err
	}
	frame.SetAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, rowBytes(page.Rows), func() any {
		out := wire.EventSearch{List: frame.List[wire.EventRow]{Data: a.rowsOf(page.Rows)}, Partial: page.Partial,
			Scanned:  page.Scanned,
			Warnings: params.Warnings}
		switch {
		case page.Partial:
			out.NextCursor = searchCursor(params.Hash, searchPosition{page.ResumeBefore, q.Since})
		case page.More && len(page.Rows) > 0:
			out.NextCursor = searchCursor(params.Hash, searchPosition{page.Rows[len(page.Rows)-1].ID, q.Since})
		}
		return out
	})
}

// searchPosition is where a search continues.
type searchPosition struct {
	before id.ID
	since  time.Time
}

// searchVersion is the version of search cursors, which are not valid for lists.
const searchVersion = 2

// searchCursor encodes a cursor whose position is an id and the milliseconds of since.
func searchCursor(f frame.FilterHash, p searchPosition) string {
	return f.Encode(searchVersion, binary.BigEndian.AppendUint64(p.before[:], uint64(p.since.UnixMilli())))
}

func readSearchPosition(f frame.FilterHash, text string) (searchPosition, error) {
	b, err := f.Decode(text, searchVersion, frame.KeyLen+8)
	if err != nil {
		return searchPosition{}, err
	}
	since := time.UnixMilli(int64(binary.BigEndian.Uint64(b[frame.KeyLen:])))
	return searchPosition{before: id.ID(b[:frame.KeyLen]), since: since.UTC()}, nil
}
