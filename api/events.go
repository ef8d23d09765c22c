package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// maxFilterValues bounds the values of one filter.
const maxFilterValues = 100

// maxFilterValue bounds one value, in bytes.
const maxFilterValue = 256

func (a *API) listEvents(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	q, hash, err := a.eventQuery(query, key.Account)
	if err != nil {
		return err
	}
	if q.Search != nil {
		return a.searchEvents(w, r, query, q, hash)
	}
	limit, last, err := pageOf(query, hash)
	if err != nil {
		return err
	}
	if q.Limit = limit; last != nil {
		q.Before = id.ID(*last)
	}
	page, err := a.deps.Events.Events(r.Context(), q)
	if err != nil {
		return err
	}
	out := list[eventRow]{Data: make([]eventRow, len(page.Rows))}
	for i := range page.Rows {
		out.Data[i] = a.listed(&page.Rows[i])
	}
	if page.More && len(page.Rows) > 0 {
		out.NextCursor = hash.cursor(page.Rows[len(page.Rows)-1].ID)
	}
	setAsOf(w, page.AsOf)
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// listed is a row of a list.
func (a *API) listed(s *event.Summary) eventRow {
	row := rowOf(s)
	row.PayloadErasedAt = web.Time(a.deps.Erasures.ErasedAt(s.ID))
	return row
}

// setAsOf says up to when the answer is complete, when that is not now.
func setAsOf(w http.ResponseWriter, t time.Time) {
	if !t.IsZero() {
		w.Header().Set("Relay-Data-As-Of", t.UTC().Format(web.TimeFormat))
	}
}

func (a *API) readEvent(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	d, err := a.detail(r, key)
	if err != nil {
		return err
	}
	setAsOf(w, d.AsOf)
	return a.answers.write(r.Context(), w, detailBytes(d), func() any { return a.detailOf(viewerOf(key), d) })
}

// detail reads the event that the path names.
func (a *API) detail(r *http.Request, key *control.Key) (*event.Detail, error) {
	d, err := a.eventID(r)
	if err != nil {
		return nil, err
	}
	return a.deps.Events.Event(r.Context(), key.Account, d)
}

func (a *API) listAttempts(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	d, err := a.eventID(r)
	if err != nil {
		return err
	}
	hash := newFilterHash("attempts " + key.Account)
	hash.add(d.String())
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	limit, last, err := pageOf(query, hash)
	if err != nil {
		return err
	}
	var before id.ID
	if last != nil {
		before = id.ID(*last)
	}
	page, err := a.deps.Events.Attempts(r.Context(), key.Account, d, before, limit)
	if err != nil {
		return err
	}
	setAsOf(w, page.AsOf)
	return a.answers.write(r.Context(), w, attemptBytes(page.Rows), func() any {
		out := list[attemptView]{Data: attemptsOf(viewerOf(key), d, page.Rows)}
		if page.More && len(page.Rows) > 0 {
			out.NextCursor = hash.cursor(page.Rows[len(page.Rows)-1].ID)
		}
		return out
	})
}

// parseQuery reads the query string strictly: what net/url drops silently would be a filter that is ignored.
func parseQuery(r *http.Request) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, web.Invalid("", "the query string cannot be read: check its percent-encoding, and separate parameters by &")
	}
	return q, nil
}

// eventParams are the parameters of the list of events by their first names; aliases are other names. body and header are
// sent as body[<path>] and header[<name>].
var (
	eventParams  = []string{"endpoint_id", "destination_id", "run_id", "status", "type", "source", "processing", "since", "until", "q", "body", "header", "limit", "cursor"}
	eventLists   = []string{"endpoint_id", "endpoint", "destination_id", "run_id", "status", "type", "source", "processing"} // may be sent as name[] too
	eventAliases = []string{"endpoint", "from", "start", "to", "end"}
)

// query reads filters by any of their names, and remembers what was asked for.
type query struct {
	values url.Values
	hash   filterHash
	err    error
}

// list returns the values of a filter: repeats, commas and name[] all mean alternatives; empty is absent.
func (q *query) list(names ...string) []string {
	var out []string
	for _, name := range names {
		for _, sent := range []string{name, name + "[]"} {
			for _, value := range q.values[sent] {
				for part := range strings.SplitSeq(value, ",") {
					if part = strings.TrimSpace(part); part != "" {
						out = append(out, part)
					}
					if len(part) > maxFilterValue {
						q.fail(sent, "has a value longer than %d bytes", maxFilterValue)
					}
				}
			}
			if len(out) > maxFilterValues {
				q.fail(sent, "may have at most %d values", maxFilterValues)
			}
		}
	}
	q.hash.add(append(out, names[0]+":")...)
	return out
}

// time returns the time of a filter and the name it was sent by.
func (q *query) time(names ...string) (t time.Time, sent string) {
	for _, name := range names {
		for _, value := range q.values[name] {
			if value == "" {
				continue
			}
			if sent != "" {
				q.fail(name, "stands beside %s; send one of them", sent)
			}
			var ok bool
			if t, ok = parseTime(value); !ok {
				q.fail(name, "must be a time such as 2026-08-21T22:24:36Z")
			}
			sent = name
		}
	}
	if sent != "" {
		q.hash.add(names[0] + ":" + t.Format(time.RFC3339Nano))
	} else {
		q.hash.add(names[0] + ":")
	}
	return t, sent
}

func (q *query) fail(param, format string, args ...any) {
	if q.err == nil {
		q.err = web.Invalid(param, format, args...)
	}
}

// words turns values into those of a closed set.
func words[T ~string](q *query, name string, values []string, known ...T) []T {
	out := make([]T, 0, len(values))
	for _, v := range values {
		if !slices.Contains(known, T(v)) {
			all := make([]string, len(known))
			for i, k := range known {
				all[i] = string(k)
			}
			q.fail(name, "has %q, which is none of %s%s", v, strings.Join(all, ", "), didYouMean(v, all))
		}
		out = append(out, T(v))
	}
	return out
}

// eventQuery reads the filters of the list of events. An unknown one is refused: a list that ignores a
// filter shows the wrong events.
func (a *API) eventQuery(values url.Values, account string) (event.Query, filterHash, error) {
	q := &query{values: values, hash: newFilterHash("events " + account)}
	if err := unknownFilter(values); err != nil {
		return event.Query{}, q.hash, err
	}
	out := event.Query{
		Account:      account,
		Endpoints:    q.list("endpoint_id", "endpoint"),
		Destinations: q.list("destination_id"),
		Runs:         q.list("run_id"),
		Statuses: words(q, "status", q.list("status"),
			event.Pending, event.Retrying, event.Delivered, event.Failed, event.Skipped, event.Rejected),
		Types:   q.list("type"),
		Sources: words(q, "source", q.list("source"), event.SourceProvider, event.SourceAPI, event.SourceTest),
		Processing: words(q, "processing", q.list("processing"),
			event.ProcessingNone, event.ProcessingRunning, event.ProcessingDone, event.ProcessingFailed, event.ProcessingMissing),
	}
	for _, t := range out.Types {
		if strings.Contains(strings.TrimSuffix(t, ".*"), "*") {
			q.fail("type", "has %q: a star may only end a type, as in order.*", t)
		}
	}
	var sinceName, untilName string
	out.Since, sinceName = q.time("since", "from", "start")
	out.Until, untilName = q.time("until", "to", "end")
	if untilName != "" && !out.Since.Before(out.Until) {
		q.fail(untilName, "must be later than since")
	}
	if out.Until.After(a.now()) {
		out.Until = time.Time{} // now: nothing is newer
	}
	if out.Search = q.search(); out.Search != nil {
		a.searchTime(q, &out, sinceName)
	}
	return out, q.hash, q.err
}

// unknownFilter refuses parameters that the list of events does not have.
func unknownFilter(values url.Values) error {
	known := strings.Join(eventParams, ", ")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		base, array := strings.CutSuffix(name, "[]")
		switch {
		case base == "body", base == "header":
			return web.Invalid(name, "needs what to compare: body[<path>]=value, header[<name>]=value")
		case slices.Contains(eventParams, name), slices.Contains(eventAliases, name), array && slices.Contains(eventLists, base):
			continue
		}
		if _, of, ok := searchTerm(name); ok && of != "" {
			continue
		}
		return web.Invalid(name, "is no filter of this list%s; the filters are %s", didYouMean(base, eventParams), known)
	}
	return nil
}
