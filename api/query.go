package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of the values of one filter, and of one value in bytes.
const (
	maxFilterValues = 100
	maxFilterValue  = 256
)

// query reads the parameters of a list. It remembers which there are, what was asked for, and the first fault.
type query struct {
	values  url.Values
	hash    filterHash
	names   []string // of the parameters, as a fault lists them
	aliases []string // other names that they may be sent by
	err     error
}

// newQuery reads the query string strictly: what net/url drops silently would be a filter that is ignored.
func newQuery(r *http.Request, list string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values, hash: newFilterHash(list)}
	if err != nil {
		q.values = nil
		q.fail("", "the query string cannot be read: check its percent-encoding, and separate parameters by &")
	}
	return q
}

// list returns the values of a filter: repeats, commas and name[] all mean alternatives; empty is absent.
func (q *query) list(names ...string) []string {
	var out []string
	q.names, q.aliases = append(q.names, names[0]), append(q.aliases, names[1:]...)
	for _, name := range names {
		q.aliases = append(q.aliases, name+"[]")
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
	q.names, q.aliases = append(q.names, names[0]), append(q.aliases, names[1:]...)
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

// param is the name that a fault of a filter has.
func (q *query) param(names ...string) string { return names[0] }

func (q *query) fail(param, format string, args ...any) {
	if q.err == nil {
		q.err = web.Invalid(param, format, args...)
	}
}

// closed refuses parameters that nobody has read: a list that ignores a filter shows the wrong rows.
func (q *query) refuseUnknown() {
	q.names = append(q.names, "limit", "cursor")
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !slices.Contains(q.names, name) && !slices.Contains(q.aliases, name) {
			hint := didYouMean(strings.TrimSuffix(name, "[]"), q.names)
			q.err = web.Invalid(name, "is no filter of this list%s; the filters are %s", hint, strings.Join(q.names, ", "))
			return
		}
	}
}

// filterSource is where filters stand: in the parameters of a list, or in the body of a replay.
type filterSource interface {
	list(names ...string) []string
	// time returns the name that the time was sent by, empty when it was not.
	time(names ...string) (t time.Time, sent string)
	// param is the name that a filter was sent by.
	param(names ...string) string
	fail(param, format string, args ...any)
}

// readFilters reads filters into a query of the store.
func readFilters(from filterSource, filters []event.Filter, to *event.Query) {
	for i := range filters {
		f := &filters[i]
		names := append([]string{f.Name}, f.Aliases...)
		values := from.list(names...)
		if f.AllowedValues != nil {
			checkEnum(from, from.param(names...), values, f.AllowedValues)
		}
		for _, v := range values {
			if f.Prefix && strings.Contains(strings.TrimSuffix(v, ".*"), "*") {
				from.fail(from.param(names...), "has %q: a star may only end a type, as in order.*", v)
			}
		}
		if len(values) > 0 {
			f.Set(to, values)
		}
	}
}

// checkEnum refuses values that are none of a closed set.
func checkEnum(from filterSource, param string, values, words []string) {
	for _, v := range values {
		if !slices.Contains(words, v) {
			from.fail(param, "has %q, which is none of %s%s", v, strings.Join(words, ", "), didYouMean(v, words))
		}
	}
}

// words reads a filter whose values are a closed set.
func enumFilter[T ~string](q *query, name string, known ...T) []T {
	values := q.list(name)
	checkEnum(q, name, values, event.Convert[string](known...))
	return event.Convert[T](values...)
}

// Names of the two ends of a window of time.
var (
	sinceNames = []string{"since", "from", "start"}
	untilNames = []string{"until", "to", "end"}
)

// window is the time that is asked for, and the names that its ends were sent by.
type window struct {
	since, until         time.Time
	sinceName, untilName string
}

func readWindow(from filterSource, sinceNames, untilNames []string) (w window) {
	w.since, w.sinceName = from.time(sinceNames...)
	w.until, w.untilName = from.time(untilNames...)
	if w.untilName != "" && !w.since.Before(w.until) {
		from.fail(w.untilName, "must be later than since")
	}
	return w
}
