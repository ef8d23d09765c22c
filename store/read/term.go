package read

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// What a search means, and how it is said so that a body is looked at as rarely as can be:
//
// A text is looked for in the bytes of the body, of the header lines, and in the id, in any case. A header has to have
// one of the values, exactly. What stands at a path of a JSON body has to be a string that is one of the values, or
// true, false or null by that word, or a number of the same value: whole numbers are compared to the last digit, others
// as double precision says. Strings are compared decoded. Of members with the same name the first counts.
//
// ClickHouse reads JSON at 2 GB/s and looks for bytes at 5, so bodies that cannot match are passed by the bytes before
// they are read (see needles). Its parser refuses some bodies that are JSON (refusedJSON); those are judged by this
// program.

const (
	// maxIndexes bounds the numbers in a path that may be a name as well as a place in an array: each doubles what has to
	// be looked for. Beyond it they are places.
	maxIndexes = 3
	// minNeedle is how long a text must be to be worth looking for, in bytes.
	minNeedle = 3
	// maxNeedles bounds those of one statement; ClickHouse takes 255.
	maxNeedles = 200
)

// refusedJSON is true of a body that may be JSON though ClickHouse's parser refuses it: for half a pair of
// surrogates, for a number beyond 64 bits, for bytes that are no UTF-8.
const refusedJSON ch.SQL = "match(body, '^\\\\s*[\\\\[{]') AND NOT isValidJSON(body)"

// searched appends the conditions of a search. Nothing in a text has a meaning but its letters.
func (w *walk) addSearch(q *ch.Query) *ch.Query {
	s := w.Search
	if s == nil {
		return q
	}
	if w.r.cfg.SearchIndex {
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

// headerLines are those of which an event has to have one, with the line end before them.
func headerLines(m event.HeaderMatch) []string {
	lines := make([]string, len(m.Values))
	for i, v := range m.Values {
		lines[i] = "\n" + string(event.LinesOf([]event.Field{{Name: http.CanonicalHeaderKey(m.Name), Value: v}}))
	}
	return lines
}

// searchText looks for a text in body, headers and id, in any case.
func searchText(q *ch.Query, text string) {
	find, end := ch.SQL("positionCaseInsensitive("), ch.SQL("")
	if strings.ContainsFunc(text, func(r rune) bool { return r > 127 }) {
		find = "positionCaseInsensitiveUTF8("
		if !strings.ContainsRune(text, utf8.RuneError) {
			// Bytes that look like the beginning of a letter would hide what stands behind them, in the next row too; at
			// the very end they would take the others there with them.
			find, end = "positionCaseInsensitiveUTF8(toValidUTF8(concat(", ", '   '))"
		}
	}
	q.Add(" AND (").Add(find).Add("body").Add(end).Add(", ").Literal(text).Add(") > 0 OR ")
	q.Add(find).Add("headers").Add(end).Add(", ").Literal(text).Add(") > 0")
	searchID(q, strings.ToLower(text))
	q.Add(")")
}

// idText spells an id in another alphabet of 32 letters than id.ID.String: with 4 bytes of nothing before it, its
// letters begin where those of an id do, behind 6 more.
const idText ch.SQL = "substring(base32Encode(concat(unhex('00000000'), id)), 7)"

// searchID adds the events whose id, as it is printed, holds a text.
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

// idPatterns are the letters of base32Encode that an id has somewhere, or begins with, when it is printed with a text
// in it.
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

// idLetters translates what may stand in an id into the letters of base32Encode.
func idLetters(low string) (letters string, ok bool) {
	const ours, theirs = "0123456789abcdefghjkmnpqrstvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	if len(low) > 26 {
		return "", false
	}
	b := []byte(low)
	for i, c := range b {
		at := strings.IndexByte(ours, c)
		if at < 0 {
			return "", false
		}
		b[i] = theirs[at]
	}
	return string(b), true
}

// searchBody compares what stands at a path of the body. Read as JSON it is compared in the form in which ClickHouse
// writes it, and the values are written by ClickHouse too. The conditions are joined so that each is asked only where
// those before it are true: a body is read twice only when its first reading came to a hit or to nothing.
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
		// What is not there, and what is in a body that is not read, is empty.
		q.Add("'') AND (")
		f.raw(q).Add(" != ''")
		// A number names the nth member of an object too: a place is one of an array only.
		for i, k := range f {
			if k.index > 0 {
				q.Add(" AND JSONType(body")
				f[:i].keys(q).Add(") = 'Array'")
			}
		}
		if i == 0 {
			q.Add(" OR ")
			f.raw(q).Add(" = '' AND ").Add(refusedJSON)
		}
		q.Add(")")
	}
	q.Add(")")
}

// pathStep is a step into a body: into an object by a name, or into an array, counted from 1.
type pathStep struct {
	name  string
	index int
}

type jsonPath []pathStep

// raw appends what stands there, as ClickHouse writes it.
func (f jsonPath) raw(q *ch.Query) *ch.Query { return f.keys(q.Add("JSONExtractRaw(body")).Add(")") }

// keys appends the arguments of ClickHouse's JSON functions.
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

// jsonPaths are what a path may mean: a number is a place in an array or a name.
func jsonPaths(members []string) []jsonPath {
	all, indexes := []jsonPath{nil}, 0
	for _, m := range members {
		meant := []pathStep{{name: m}}
		if n, err := strconv.ParseUint(m, 10, 31); err == nil {
			if meant = []pathStep{{index: int(n) + 1}, {name: m}}; indexes >= maxIndexes {
				meant = meant[:1]
			}
			indexes++
		}
		var next []jsonPath
		for _, f := range all {
			for _, k := range meant {
				next = append(next, append(f[:len(f):len(f)], k))
			}
		}
		all = next
	}
	return all
}

// scalars write the values in every JSON form that they stand for.
func jsonForms(values []string) (written []string) {
	for _, v := range values {
		if utf8.ValidString(v) { // no JSON that ClickHouse reads holds other text
			written = append(written, jsonText(v))
		}
		if v == "true" || v == "false" || v == "null" {
			written = append(written, v)
		}
		if n, ok := parseNumber(v); ok {
			written = append(written, n.json())
			if n.value == 0 {
				written = append(written, "-0.0") // ClickHouse keeps its sign
			}
		}
	}
	return written
}

// jsonText writes a string, and what HTML minds as it is, for there may be much of it.
func jsonText(s string) string {
	var b strings.Builder
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if err := w.Encode(s); err != nil {
		panic("BUG: a string is no JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// number is one that a value or a JSON number says.
type number struct {
	whole string // its digits when it has no fraction and no exponent, with its sign but no zeros before it
	value float64
}

// parseNumber reads decimal numbers; what is beyond double precision is none.
func parseNumber(s string) (number, bool) {
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return number{}, false // keeps out what only Go takes for a number
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

// key writes every number in one way only.
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

// json writes the number so that ClickHouse reads it, and then writes it as it writes all that are equal.
func (n number) json() string {
	if k := n.key(); fits64(k) {
		return k
	}
	return n.exponent()
}

func (n number) exponent() string { return strconv.FormatFloat(n.value, 'e', -1, 64) }

// equal compares whole numbers exactly, and others as double precision has them.
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

// needles are sets of texts: every body that matches holds at least one of each. First come those of the values, then
// those of the names in the path, the longest first.
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

// valueNeedles are those of values; nil when there are none.
func valueNeedles(values []string) (texts []string) {
	escaped := map[string]bool{}
	for _, v := range values {
		bare := v == "true" || v == "false" || v == "null"
		n := needle(v, !bare, escaped)
		if _, number := parseNumber(v); number || n == "" {
			return nil // numbers may be written in many ways
		}
		texts = append(texts, n)
	}
	if len(texts) > maxNeedles {
		return nil
	}
	return slices.AppendSeq(texts, maps.Keys(escaped))
}

// needle is what the JSON text of a string must hold: its longest stretch of letters that stand for themselves, unless
// they are written by their number, \u0041. How those begin is entered into escaped.
func needle(s string, quoted bool, escaped map[string]bool) string {
	plain := func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '/' }
	best := ""
	for i := 0; i < len(s); i++ {
		from := i
		for i < len(s) && plain(s[i]) {
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
