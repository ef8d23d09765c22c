package frame

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a filter: the number of its values, and the bytes of one value.
const (
	MaxFilterValues = 100
	MaxFilterValue  = 256
)

// maxSearchText bounds q, in characters.
const maxSearchText = 200

// Query reads the parameters of a list. It collects their names, the hash of the filters for cursors, and the first
// error.
type Query struct {
	Values  url.Values
	Hash    FilterHash
	Names   []string // names of the parameters, for error messages
	Aliases []string // alternative names of the parameters
	Err     error

	Warnings []Warning // about search terms
}

// NewQuery parses the query string and refuses a malformed one. url.URL.Query would silently drop the malformed part,
// and the list would ignore that filter.
func NewQuery(r *http.Request, list string) *Query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &Query{Values: values, Hash: newFilterHash(list)}
	if err != nil {
		q.Values = nil
		q.Fail("", "the query string cannot be read: check its percent-encoding, and separate parameters by &")
	}
	return q
}

// List returns the values of a filter. Repeats, commas and name[] all give alternatives; an empty value counts as
// absent.
func (q *Query) List(names ...string) []string {
	var out []string
	q.Names, q.Aliases = append(q.Names, names[0]), append(q.Aliases, names[1:]...)
	for _, name := range names {
		q.Aliases = append(q.Aliases, name+"[]")
		for _, sent := range []string{name, name + "[]"} {
			for _, value := range q.Values[sent] {
				for part := range strings.SplitSeq(value, ",") {
					if part = strings.TrimSpace(part); part != "" {
						out = append(out, part)
					}
					if len(part) > MaxFilterValue {
						q.Fail(sent, "has a value longer than %d bytes", MaxFilterValue)
					}
				}
			}
			if len(out) > MaxFilterValues {
				q.Fail(sent, "may have at most %d values", MaxFilterValues)
			}
		}
	}
	q.Hash.Add(append(out, names[0]+":")...)
	return out
}

// Single returns the value of a parameter that may be sent once, "" if it is absent.
func (q *Query) Single(name string) string {
	values := q.Values[name]
	if len(values) > 1 {
		q.Fail(name, "is sent %d times; send it once", len(values))
	}
	return strings.Join(values[:min(len(values), 1)], "")
}

// Time returns the time of a filter and the name by which it was sent.
func (q *Query) Time(names ...string) (t time.Time, sent string) {
	q.Names, q.Aliases = append(q.Names, names[0]), append(q.Aliases, names[1:]...)
	hashed := ""
	for _, name := range names {
		value := q.Single(name)
		if value == "" {
			continue
		}
		if sent != "" {
			q.Fail(name, "means the same as %s; send only one of them", sent)
		}
		var ok bool
		if t, ok = web.ParseMoment(value, time.Now()); !ok {
			q.Fail(name, web.MomentForms)
		}
		sent, hashed = name, t.Format(time.RFC3339Nano)
		if _, fixed := web.ParseTime(value); !fixed {
			hashed = strings.ToLower(value) // 24h is another time on each page of a list
		}
	}
	q.Hash.Add(names[0] + ":" + hashed)
	return t, sent
}

// Param returns the name of a filter in error messages.
func (q *Query) Param(names ...string) string { return names[0] }

// Fail records the error of a parameter, if it is the first.
func (q *Query) Fail(param, format string, args ...any) {
	if q.Err == nil {
		q.Err = web.Invalid(param, format, args...)
	}
}

// RefuseUnknown refuses parameters that no filter has read: a list that ignores a filter shows the wrong rows.
func (q *Query) RefuseUnknown() {
	q.Names = append(q.Names, "limit", "cursor")
	for _, name := range slices.Sorted(maps.Keys(q.Values)) {
		if !slices.Contains(q.Names, name) && !slices.Contains(q.Aliases, name) {
			hint := didYouMean(strings.TrimSuffix(name, "[]"), q.Names)
			// before any error of a filter: what is misspelled may be the filter that was meant
			q.Err = web.Invalid(name, "is not a filter of this list%s; the filters are %s", hint, strings.Join(q.Names, ", "))
			return
		}
	}
}

// RefuseUnknownParameters is RefuseUnknown for a read that is no list.
func (q *Query) RefuseUnknownParameters() {
	known := "the parameters are " + strings.Join(q.Names, ", ")
	if len(q.Names) == 0 {
		known = "there are none"
	}
	for _, name := range slices.Sorted(maps.Keys(q.Values)) {
		if !slices.Contains(q.Names, name) && !slices.Contains(q.Aliases, name) {
			q.Fail(name, "is not a parameter%s; %s", didYouMean(name, q.Names), known)
		}
	}
}

// FilterSource provides filters: the parameters of a list, or the body of a replay.
type FilterSource interface {
	List(names ...string) []string
	// Time also returns the name by which the time was sent, empty if it was not.
	Time(names ...string) (t time.Time, sent string)
	// Param returns the name of a filter for error messages.
	Param(names ...string) string
	Fail(param, format string, args ...any)
}

// ReadFilters reads filters into a query of the store.
func ReadFilters(from FilterSource, filters []event.Filter, to *event.Query) {
	for i := range filters {
		f := &filters[i]
		names := append([]string{f.Name}, f.Aliases...)
		values := from.List(names...)
		if f.AllowedValues != nil {
			words := f.AllowedValues
			if _, isList := from.(*Query); isList {
				words = slices.Concat(words, f.ListValues)
			}
			CheckEnum(from, from.Param(names...), values, words)
		}
		for _, v := range values {
			if f.Prefix && strings.Contains(strings.TrimSuffix(v, ".*"), "*") {
				from.Fail(from.Param(names...), "has %q; a star is allowed only after the last dot, as in order.*", v)
			}
		}
		if len(values) > 0 {
			f.Set(to, values)
		}
	}
}

// CheckEnum refuses values that are not among words.
func CheckEnum(from FilterSource, param string, values, words []string) {
	for _, v := range values {
		if !slices.Contains(words, v) {
			from.Fail(param, "has %q, which is not one of %s%s", v, strings.Join(words, ", "), didYouMean(v, words))
		}
	}
}

// EnumFilter reads a filter whose values are an enum.
func EnumFilter[T ~string](q *Query, name string, known ...T) []T {
	values := q.List(name)
	CheckEnum(q, name, values, event.Convert[string](known...))
	return event.Convert[T](values...)
}

// Names of the two ends of a time window.
var (
	SinceNames = []string{"since", "from", "start"}
	UntilNames = []string{"until", "to", "end"}
)

// Window is the requested time window, with the names by which its ends were sent.
type Window struct {
	Since, Until         time.Time
	SinceName, UntilName string
}

// ReadWindow reads a time window, whose end must be later than its beginning.
func ReadWindow(from FilterSource, sinceNames, untilNames []string) (w Window) {
	w.Since, w.SinceName = from.Time(sinceNames...)
	w.Until, w.UntilName = from.Time(untilNames...)
	if w.UntilName != "" && !w.Since.Before(w.Until) {
		from.Fail(w.UntilName, "must be later than since")
	}
	return w
}

// Text reads q, the text that rows have to contain; notUTF8 says what to do about other bytes.
func (q *Query) Text(notUTF8 string) string {
	q.Names = append(q.Names, "q")
	text := q.Single("q")
	if text == "" {
		return ""
	}
	switch {
	case !utf8.ValidString(text):
		q.Fail("q", "%s", notUTF8)
	case utf8.RuneCountInString(text) > maxSearchText:
		q.Fail("q", "may have at most %d characters", maxSearchText)
	}
	q.Hash.Add("q:" + text)
	return text
}

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
	return web.Answer(w, http.StatusOK, out)
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

// CursorVersion changes with the meaning of a cursor; cursors of other versions are refused.
const CursorVersion = 1

// KeyLen is the length in bytes of a row's key: an id, or a creation sequence in the last eight bytes.
const KeyLen = 16

// filterLen is how many bytes of the hash of list and filters a cursor carries. They detect mistakes, not forgery: a
// cursor grants no access.
const filterLen = 8

// RowKey is the position of a row in its list.
type RowKey [KeyLen]byte

// SeqKey returns the key of a row that is ordered by its creation sequence.
func SeqKey[T int | int64](seq T) (key RowKey) {
	binary.BigEndian.PutUint64(key[KeyLen-8:], uint64(seq))
	return key
}

// Seq returns the creation sequence in a key, 0 for the zero key.
func (k RowKey) Seq() int64 { return int64(binary.BigEndian.Uint64(k[KeyLen-8:])) }

var errCursor = errors.New("the cursor does not belong to this list and these filters")

// FilterHash hashes the list and the filters that a cursor is valid for.
type FilterHash struct{ h hash.Hash }

func newFilterHash(list string) FilterHash {
	f := FilterHash{sha256.New()}
	f.Add(list)
	return f
}

// Add hashes the values of one filter, regardless of their order.
func (f FilterHash) Add(values ...string) {
	sorted := slices.Sorted(slices.Values(values))
	for _, v := range slices.Compact(sorted) {
		f.h.Write([]byte(v))
		f.h.Write([]byte{0})
	}
	f.h.Write([]byte{1})
}

// Cursor encodes a position in a list: version, hash of list and filters, key of the last row.
func (f FilterHash) Cursor(key RowKey) string { return f.Encode(CursorVersion, key[:]) }

// key decodes a cursor into the key of the last row, or returns errCursor.
func (f FilterHash) key(text string) (RowKey, error) {
	b, err := f.Decode(text, CursorVersion, KeyLen)
	if err != nil {
		return RowKey{}, err
	}
	return RowKey(b), nil
}

// Encode encodes a position of any size; see Cursor.
func (f FilterHash) Encode(version byte, position []byte) string {
	b := append([]byte{version}, f.h.Sum(nil)[:filterLen]...)
	return base64.RawURLEncoding.EncodeToString(append(b, position...))
}

// Decode returns the position in a cursor; length is the size of the position in bytes.
func (f FilterHash) Decode(text string, version byte, length int) ([]byte, error) {
	length += 1 + filterLen
	if base64.RawURLEncoding.DecodedLen(len(text)) != length {
		return nil, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != length || b[0] != version || string(b[1:1+filterLen]) != string(f.h.Sum(nil)[:filterLen]) {
		return nil, errCursor
	}
	return b[1+filterLen:], nil
}
