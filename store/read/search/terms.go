// Package search defines what a search matches, and writes it as SQL that parses as few bodies as possible.
//
// A text matches when the body, a header line or the id contains it, in any case, or when the body contains it as JSON
// writes it, with the escapes that encoders are known to make (see escapedText). A header matches when its value
// equals one of the values. The scalar at a path of a JSON body matches when it is a string that equals one of the
// values, or true, false or null written as such, or a number of the same value. Integers are compared exactly, other
// numbers in double precision. Strings are compared decoded. Of several members with the same name the first counts.
//
// ClickHouse parses JSON at 2 GB/s and searches bytes at 5 GB/s. So a byte search (see needles) excludes bodies that
// cannot match before they are parsed. ClickHouse's parser rejects some bodies that are valid JSON (RefusedJSON); this
// process matches those itself (MatchesBody).
package search

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
)

const (
	// maxIndexes bounds the numbers in a path that are tried both as a member name and as an array index: each doubles the
	// number of conditions. Further numbers are array indexes only.
	maxIndexes = 3
	// minNeedle is the shortest text, in bytes, that is worth a byte search.
	minNeedle = 3
	// maxNeedles bounds the texts of one multiSearchAny; ClickHouse takes 255.
	maxNeedles = 200
)

// RefusedJSON selects bodies that may be valid JSON although ClickHouse's parser rejects them: for an unpaired
// surrogate, a number beyond 64 bits, or bytes that are not UTF-8.
const RefusedJSON ch.SQL = "match(body, '^\\\\s*[\\\\[{]') AND NOT isValidJSON(body)"

// Where appends the conditions of a search; nil: none. All characters of a text are literal. index lets the
// statement use the text index.
func Where(q *ch.Query, s *event.Search, index bool) *ch.Query {
	if s == nil {
		return q
	}
	if index {
		addIndexHints(q, s)
	}
	for _, m := range s.Header {
		q.Add(" AND (0")
		for _, line := range headerLines(m) {
			q.Add(" OR position(concat('\\n', headers), ").Literal(line).Add(") > 0")
		}
		q.Add(")")
	}
	if s.Text != "" {
		searchText(q, s.Text)
	}
	for _, m := range s.Body {
		searchBody(q, m)
	}
	return q
}

// headerLines returns the lines of which a matching event has at least one, each with a line break before and after it.
func headerLines(m event.HeaderMatch) []string {
	lines := make([]string, len(m.Values))
	for i, v := range m.Values {
		lines[i] = "\n" + string(event.LinesOf([]event.Field{{Name: http.CanonicalHeaderKey(m.Name), Value: v}}))
	}
	return lines
}

// searchText appends the condition that the body, the headers or the id contain a text, in any case.
func searchText(q *ch.Query, text string) {
	function, closing := ch.SQL("positionCaseInsensitive("), ch.SQL("")
	if strings.ContainsFunc(text, func(r rune) bool { return r > 127 }) {
		function = "positionCaseInsensitiveUTF8("
		if !strings.ContainsRune(text, utf8.RuneError) {
			// ClickHouse would skip the bytes after an incomplete UTF-8 sequence, even those of the next row. toValidUTF8
			// replaces such sequences; the spaces protect the last characters from one at the very end.
			function, closing = "positionCaseInsensitiveUTF8(toValidUTF8(concat(", ", '   '))"
		}
	}
	q.Add(" AND (").Add(function).Add("body").Add(closing).Add(", ").Literal(text).Add(") > 0 OR ")
	q.Add(function).Add("headers").Add(closing).Add(", ").Literal(text).Add(") > 0")
	if pattern := escapedText(text); pattern != "" {
		q.Add(" OR position(body, ").Literal(`\`).Add(") > 0 AND match(replaceAll(body, ").
			Literal(`\\`).Add(", ").Literal(`\u005c`).Add("), ").Literal(pattern).Add(")")
	}
	searchID(q, strings.ToLower(text))
	q.Add(")")
}

// escapedASCII are the ASCII characters that some JSON encoder writes as an escape: quote, backslash and control
// characters by the rules of JSON, the slash in PHP, the others in encoders that keep JSON safe inside HTML (Go, .NET).
const escapedASCII = "\"\\/<>&'+`\x7f" +
	"\x00\x01\x02\x03\x04\x05\x06\x07\b\t\n\v\f\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"

// shortEscapes are the characters that JSON may write as a backslash and the letter at the same place in shortLetters;
// the backslash is another.
const shortEscapes, shortLetters = "\"/\b\f\n\r\t", `"/bfnrt`

// mayBeEscaped reports whether a JSON encoder writes a character as an escape. Python and PHP do so by default with all
// that is not ASCII.
func mayBeEscaped(r rune) bool { return r > 127 || strings.ContainsRune(escapedASCII, r) }

// escapedText returns a regular expression that finds a text, in any case, in JSON that has escapes for some of its
// characters; "" for a text without characters that may be escaped. In the JSON each \\ has to be written as \u005c, so
// that every other backslash begins an escape.
func escapedText(text string) string {
	if !strings.ContainsFunc(text, mayBeEscaped) {
		return ""
	}
	var b strings.Builder
	b.WriteString("(?i)")
	for _, r := range text {
		if !mayBeEscaped(r) {
			b.WriteString(regexp.QuoteMeta(string(r)))
			continue
		}
		b.WriteString("(?:" + regexp.QuoteMeta(string(r)))
		if i := strings.IndexRune(shortEscapes, r); i >= 0 {
			b.WriteString(`|\\` + regexp.QuoteMeta(shortLetters[i:i+1]))
		}
		for c := r; ; { // the character in both cases
			b.WriteByte('|')
			for _, unit := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, `\\u%04x`, unit)
			}
			if c = unicode.SimpleFold(c); c == r {
				break
			}
		}
		b.WriteByte(')')
	}
	return b.String()
}

// idText is an id in base32. It has the same groups of 5 bits as id.ID.String, in another alphabet: 4 zero bytes before
// the id align the groups and yield the 6 leading letters that substring removes.
const idText ch.SQL = "substring(base32Encode(concat(unhex('00000000'), id)), 7)"

// searchID appends a condition for events whose printed id contains low, a text in lower case.
func searchID(q *ch.Query, low string) {
	if strings.Contains(id.Event, low) {
		q.Add(" OR 1")
		return
	}
	within, starts := idPatterns(low)
	for _, letters := range within {
		q.Add(" OR position(").Add(idText).Add(", ").Literal(letters).Add(") > 0")
	}
	for _, letters := range starts {
		q.Add(" OR startsWith(").Add(idText).Add(", ").Literal(letters).Add(")")
	}
}

// idPatterns translates a text within a printed id, evt_…, into base32Encode's alphabet. An id matches when it contains
// one of within or begins with one of starts. starts has entries only for a text that reaches into the prefix evt_.
func idPatterns(low string) (within, starts []string) {
	if letters, ok := idLetters(low); ok {
		within = append(within, letters)
	}
	for i := range id.Event {
		rest, ok := strings.CutPrefix(low, id.Event[i:])
		if letters, fit := idLetters(rest); ok && fit {
			starts = append(starts, letters)
		}
	}
	return within, starts
}

// idLetters translates letters of a printed id into base32Encode's alphabet; false when an id cannot contain them.
func idLetters(low string) (letters string, ok bool) {
	const idAlphabet, base32Alphabet = "0123456789abcdefghjkmnpqrstvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	if len(low) > 26 {
		return "", false
	}
	b := []byte(low)
	for i, c := range b {
		at := strings.IndexByte(idAlphabet, c)
		if at < 0 {
			return "", false
		}
		b[i] = base32Alphabet[at]
	}
	return string(b), true
}

// searchBody appends the condition on the scalar at a path of the body. Both the scalar and the values are compared in
// the form in which JSONExtractRaw writes them. The conditions are ordered so that AND evaluates each only where the
// earlier ones hold: a body is parsed a second time only after a hit or an empty result.
func searchBody(q *ch.Query, m event.BodyMatch) {
	for _, texts := range needles(m) {
		q.Add(" AND multiSearchAny(body, [").Literals(texts).Add("])")
	}
	written := jsonForms(m.Values)
	q.Add(" AND (")
	for i, f := range jsonPaths(m.Members) {
		if i > 0 {
			q.Add(" OR ")
		}
		f.raw(q).Add(" IN (")
		for _, s := range written {
			q.Add("JSONExtractRaw(").Literal(s).Add("), ")
		}
		// '' stands for a missing member and for a body that ClickHouse cannot parse; both are checked next.
		q.Add("'') AND (")
		f.raw(q).Add(" != ''")
		// ClickHouse takes an index for the nth member of an object too, so the parent must be an array.
		for i, k := range f {
			if k.index > 0 {
				q.Add(" AND JSONType(body")
				f[:i].keys(q).Add(") = 'Array'")
			}
		}
		if i == 0 {
			q.Add(" OR ")
			f.raw(q).Add(" = '' AND ").Add(RefusedJSON)
		}
		q.Add(")")
	}
	q.Add(")")
}

// pathStep is one step of a path: a member name, or an array index that counts from 1 (0 = none).
type pathStep struct {
	name  string
	index int
}

type jsonPath []pathStep

// raw appends an expression for the value at the path, as ClickHouse writes it.
func (f jsonPath) raw(q *ch.Query) *ch.Query { return f.keys(q.Add("JSONExtractRaw(body")).Add(")") }

// keys appends the path as arguments of a JSON function.
func (f jsonPath) keys(q *ch.Query) *ch.Query {
	for _, k := range f {
		if k.index > 0 {
			q.Add(", ", k.index)
		} else {
			q.Add(", ").Literal(k.name)
		}
	}
	return q
}

// jsonPaths returns the meanings of a path: a number may be an array index or a member name.
func jsonPaths(members []string) []jsonPath {
	all, indexes := []jsonPath{nil}, 0
	for _, m := range members {
		steps := []pathStep{{name: m}}
		if n, err := strconv.ParseUint(m, 10, 31); err == nil {
			if steps = []pathStep{{index: int(n) + 1}, {name: m}}; indexes >= maxIndexes {
				steps = steps[:1]
			}
			indexes++
		}
		var next []jsonPath
		for _, f := range all {
			for _, k := range steps {
				next = append(next, append(f[:len(f):len(f)], k))
			}
		}
		all = next
	}
	return all
}

// jsonForms writes the values in every JSON form that they match: string, keyword and number.
func jsonForms(values []string) (written []string) {
	for _, v := range values {
		if utf8.ValidString(v) { // ClickHouse rejects JSON with any other text
			written = append(written, jsonText(v))
		}
		if v == "true" || v == "false" || v == "null" {
			written = append(written, v)
		}
		if n, ok := parseNumber(v); ok {
			written = append(written, n.json())
			if n.value == 0 {
				written = append(written, "-0.0") // ClickHouse writes the sign of zero
			}
		}
	}
	return written
}

// jsonText writes a string as JSON without HTML escapes, which would make a long text several times as long.
func jsonText(s string) string {
	var b strings.Builder
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if err := w.Encode(s); err != nil {
		panic("BUG: a string cannot be encoded as JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// number is the number in a search value or in a JSON body.
type number struct {
	whole string // the digits of an integer without an exponent, with sign, without leading zeros; else empty
	value float64
}

// parseNumber reads a decimal number. It returns false for a number beyond the range of a float64.
func parseNumber(s string) (number, bool) {
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return number{}, false // ParseFloat also accepts hexadecimal, infinities and underscores
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return number{}, false
	}
	n := number{value: f}
	digits := strings.TrimLeft(s, "+-")
	if strings.Trim(digits, "0123456789") == "" {
		if n.whole = strings.TrimLeft(digits, "0"); n.whole == "" {
			n.whole = "0"
		} else if f < 0 {
			n.whole = "-" + n.whole
		}
	}
	return n, true
}

// key returns a text that is equal for equal numbers.
func (n number) key() string {
	switch {
	case n.value == 0:
		return "0"
	case fits64(n.whole):
		return n.whole
	case n.value == math.Trunc(n.value) && math.Abs(n.value) < 1e21:
		return strconv.FormatFloat(n.value, 'f', -1, 64)
	}
	return n.exponent()
}

// json writes the number in a form that ClickHouse reads, and writes in the same way as every equal number.
func (n number) json() string {
	if k := n.key(); fits64(k) {
		return k
	}
	return n.exponent()
}

func (n number) exponent() string { return strconv.FormatFloat(n.value, 'e', -1, 64) }

// equal compares integers exactly, and other numbers in double precision.
func (n number) equal(m number) bool {
	if n.whole != "" && m.whole != "" {
		return n.whole == m.whole
	}
	return n.key() == m.key()
}

func fits64(whole string) bool {
	_, signed := strconv.ParseInt(whole, 10, 64)
	_, unsigned := strconv.ParseUint(whole, 10, 64)
	return signed == nil || unsigned == nil
}

// needles returns sets of texts: a matching body contains at least one text of every set. First comes the set of the
// values, then one set for each name in the path, the longest name first.
func needles(m event.BodyMatch) (sets [][]string) {
	if texts := valueNeedles(m.Values); texts != nil {
		sets = append(sets, texts)
	}
	names := slices.Clone(m.Members)
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, name := range slices.Compact(names) {
		escaped := map[string]bool{}
		n := needle(name, true, escaped)
		if _, err := strconv.ParseUint(name, 10, 31); err != nil && n != "" {
			sets = append(sets, slices.AppendSeq([]string{n}, maps.Keys(escaped)))
		}
	}
	return sets
}

// valueNeedles returns the set of the values; nil when some value is a number or has no needle, or when there are more
// than maxNeedles.
func valueNeedles(values []string) (texts []string) {
	escaped := map[string]bool{}
	for _, v := range values {
		bare := v == "true" || v == "false" || v == "null"
		n := needle(v, !bare, escaped)
		if _, isNumber := parseNumber(v); isNumber || n == "" {
			return nil // a number can be written in many ways
		}
		texts = append(texts, n)
	}
	if len(texts) > maxNeedles {
		return nil
	}
	return slices.AppendSeq(texts, maps.Keys(escaped))
}

// needle returns a text that the JSON form of a string contains: its longest run of characters that JSON need not
// escape, or "" when that is too short. With quoted it includes the quotes when the run is the whole string. A body may
// still write the characters as \u0041, so needle adds the beginnings of these escapes to escaped.
func needle(s string, quoted bool, escaped map[string]bool) string {
	unescaped := func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '/' }
	best := ""
	for i := 0; i < len(s); i++ {
		from := i
		for i < len(s) && unescaped(s[i]) {
			i++
		}
		if i-from > len(best) {
			best = s[from:i]
		}
	}
	letters := best
	if quoted && best == s {
		best = `"` + s + `"`
	}
	if len(best) < minNeedle {
		return ""
	}
	for i := range len(letters) {
		escaped[`\u00`+string("0123456789"[letters[i]>>4])] = true
	}
	return best
}
