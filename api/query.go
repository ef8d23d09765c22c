package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a filter: the number of its values, and the bytes of one value.
const (
	maxFilterValues = 100
	maxFilterValue  = 256
)

// maxSearchText bounds q, in characters.
const maxSearchText = 200

// query reads the parameters of a list. It collects their names, the hash of the filters for cursors, and the first
// error.
type query struct {
	values  url.Values
	hash    filterHash
	names   []string // names of the parameters, for error messages
	aliases []string // alternative names of the parameters
	err     error

	warnings []warning // about search terms
}

// newQuery parses the query string and refuses a malformed one. url.URL.Query would silently drop the malformed part,
// and the list would ignore that filter.
func newQuery(r *http.Request, list string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values, hash: newFilterHash(list)}
	if err != nil {
		q.values = nil
		q.fail("", "the query string cannot be read: check its percent-encoding, and separate parameters by &")
	}
	return q
}

// list returns the values of a filter. Repeats, commas and name[] all give alternatives; an empty value counts as
// absent.
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

// single returns the value of a parameter that may be sent once, "" if it is absent.
func (q *query) single(name string) string {
	values := q.values[name]
	if len(values) > 1 {
		q.fail(name, "is sent %d times; send it once", len(values))
	}
	return strings.Join(values[:min(len(values), 1)], "")
}

// time returns the time of a filter and the name by which it was sent.
func (q *query) time(names ...string) (t time.Time, sent string) {
	q.names, q.aliases = append(q.names, names[0]), append(q.aliases, names[1:]...)
	for _, name := range names {
		value := q.single(name)
		if value == "" {
			continue
		}
		if sent != "" {
			q.fail(name, "means the same as %s; send only one of them", sent)
		}
		var ok bool
		if t, ok = parseTime(value); !ok {
			q.fail(name, "must be a time such as 2026-08-21T22:24:36Z or a day such as 2026-08-21")
		}
		sent = name
	}
	if sent != "" {
		q.hash.add(names[0] + ":" + t.Format(time.RFC3339Nano))
	} else {
		q.hash.add(names[0] + ":")
	}
	return t, sent
}

// param returns the name of a filter in error messages.
func (q *query) param(names ...string) string { return names[0] }

func (q *query) fail(param, format string, args ...any) {
	if q.err == nil {
		q.err = web.Invalid(param, format, args...)
	}
}

// refuseUnknown refuses parameters that no filter has read: a list that ignores a filter shows the wrong rows.
func (q *query) refuseUnknown() {
	q.names = append(q.names, "limit", "cursor")
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !slices.Contains(q.names, name) && !slices.Contains(q.aliases, name) {
			hint := didYouMean(strings.TrimSuffix(name, "[]"), q.names)
			// before any error of a filter: what is misspelled may be the filter that was meant
			q.err = web.Invalid(name, "is not a filter of this list%s; the filters are %s", hint, strings.Join(q.names, ", "))
			return
		}
	}
}

// refuseUnknownParameters is refuseUnknown for a read that is no list.
func (q *query) refuseUnknownParameters() {
	known := "the parameters are " + strings.Join(q.names, ", ")
	if len(q.names) == 0 {
		known = "there are none"
	}
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !slices.Contains(q.names, name) && !slices.Contains(q.aliases, name) {
			q.fail(name, "is not a parameter%s; %s", didYouMean(name, q.names), known)
		}
	}
}

// filterSource provides filters: the parameters of a list, or the body of a replay.
type filterSource interface {
	list(names ...string) []string
	// time also returns the name by which the time was sent, empty if it was not.
	time(names ...string) (t time.Time, sent string)
	// param returns the name of a filter for error messages.
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
				from.fail(from.param(names...), "has %q; a star is allowed only after the last dot, as in order.*", v)
			}
		}
		if len(values) > 0 {
			f.Set(to, values)
		}
	}
}

// checkEnum refuses values that are not among words.
func checkEnum(from filterSource, param string, values, words []string) {
	for _, v := range values {
		if !slices.Contains(words, v) {
			from.fail(param, "has %q, which is not one of %s%s", v, strings.Join(words, ", "), didYouMean(v, words))
		}
	}
}

// enumFilter reads a filter whose values are an enum.
func enumFilter[T ~string](q *query, name string, known ...T) []T {
	values := q.list(name)
	checkEnum(q, name, values, event.Convert[string](known...))
	return event.Convert[T](values...)
}

// Names of the two ends of a time window.
var (
	sinceNames = []string{"since", "from", "start"}
	untilNames = []string{"until", "to", "end"}
)

// window is the requested time window, with the names by which its ends were sent.
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

// text reads q, the text that rows have to contain; notUTF8 says what to do about other bytes.
func (q *query) text(notUTF8 string) string {
	q.names = append(q.names, "q")
	text := q.single("q")
	if text == "" {
		return ""
	}
	switch {
	case !utf8.ValidString(text):
		q.fail("q", "%s", notUTF8)
	case utf8.RuneCountInString(text) > maxSearchText:
		q.fail("q", "may have at most %d characters", maxSearchText)
	}
	q.hash.add("q:" + text)
	return text
}
