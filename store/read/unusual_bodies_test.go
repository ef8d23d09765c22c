package read_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/storetest"
)

// jsonWriter writes random JSON, in all the forms that JSON allows.
type jsonWriter struct{ *rand.Rand }

func oneOf[T any](a jsonWriter, all ...T) T { return all[a.IntN(len(all))] }

var strangeTexts = []string{
	"ord_42", "paid", "Größe", "straße 7", "日本語", "a/b", `say "hi"`, `C:\new`, "tab\tnew\nline", "\x00nul", "true", "null",
	"42", "4.50", "",
	"😀 smile", "<b>&'", "\u2028x", "\x7f", "0", "x", "ab", "KELVIN \u212a", "e\u0301", "1e2", "\ufffd",
}

var strangeNumbers = []string{
	"0", "-0", "-0.0", "42", "42.0", "4.2e1", "420e-1", "42.00000000000000000001", "4.5", "45E-1", "0.1", "1e2", "100",
	"-7", "9007199254740993", "9007199254740993.0",
	"18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
	"123456789012345678901234567890", "1e300", "5e-324", "1e20", "100000000000000000000", "1e21",
}

var strangeNames = []string{"a", "data", "0", "1", "order id", "größe", `q"k`, "a/b", "*", "#", "@this", "", "name"}

func (a jsonWriter) text(s string) string {
	if a.IntN(3) == 0 {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\n': `\n`, '\t': `\t`}[r]
		switch {
		case a.IntN(4) == 0 || short == "" && r < ' ':
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, oneOf(a, `\u%04x`, `\u%04X`), u)
			}
		case short != "" && (r != '/' || a.IntN(2) == 0):
			b.WriteString(short)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

func (a jsonWriter) space() string { return oneOf(a, "", "", "", " ", "\n\t", "\r\n") }

func (a jsonWriter) value(depth int) string {
	n := 6
	if depth > 0 {
		n = 10
	}
	switch k := a.IntN(n); {
	case k < 3:
		return a.text(oneOf(a, strangeTexts...))
	case k < 5:
		return oneOf(a, strangeNumbers...)
	case k < 6:
		return oneOf(a, "true", "false", "null")
	case k < 8:
		var all []string
		for range a.IntN(4) {
			all = append(all, a.space()+a.value(depth-1)+a.space())
		}
		return "[" + strings.Join(all, ",") + "]"
	default:
		return a.object(depth)
	}
}

// object writes an object; it may have a member twice.
func (a jsonWriter) object(depth int) string {
	var all []string
	for range 1 + a.IntN(4) {
		all = append(all, a.space()+a.text(oneOf(a, strangeNames...))+a.space()+":"+a.space()+a.value(depth-1))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func (a jsonWriter) body() string {
	s := a.object(3)
	switch a.IntN(16) {
	case 0: // valid JSON that ClickHouse's parser rejects
		s = `{"half":"\ud83d","data":` + s + `}`
	case 1:
		s = `{"big":1e999,"a":` + s + `}`
	case 2:
		s = strings.Replace(s, "a", "a\xff", 1)
	case 3: // invalid JSON
		s = s[:a.IntN(len(s))]
	case 4:
		s += "x"
	case 5:
		s = string([]byte{0, byte(a.IntN(256)), byte(a.IntN(256))}) + s
	case 6:
		s = "a=" + oneOf(a, strangeTexts...) + "&b=2"
	case 7:
		s = "[" + a.value(2) + "," + s + "]"
	case 8:
		s = a.space() + a.value(0) + a.space()
	}
	return s
}

func (a jsonWriter) search() (s event.Search) {
	for range 1 + a.IntN(4)/3 {
		m := event.BodyMatch{}
		for range 1 + a.IntN(5)/3 {
			m.Members = append(m.Members, oneOf(a, strangeNames[:len(strangeNames)-2]...))
		}
		m.Members = slices.DeleteFunc(m.Members, func(n string) bool { return n == "" })
		if len(m.Members) == 0 {
			m.Members = []string{"data"}
		}
		for range 1 + a.IntN(12) {
			if v := oneOf(a, append(slices.Clone(strangeTexts), strangeNumbers...)...); v != "" && v != "\ufffd" {
				m.Values = append(m.Values, v, oneOf(a, "true", "null", "+42", "007", "nan", "inf", "0x2a", "{", "[]"))
			}
		}
		if len(m.Values) > 0 {
			s.Body = append(s.Body, m)
		}
	}
	if a.IntN(8) == 0 || len(s.Body) == 0 {
		s.Text = oneOf(a, "ord_42", "PAID", "größe", "GRÖ", "日本", `\u00`, `"`, "%", "_", "E", "😀", "\\", "\x00", "\n")
	}
	return s
}

// However a body is written, and whatever it contains, a search finds it exactly when the model does.
func TestSearchOfUnusualBodiesAgreesWithModel(t *testing.T) {
	t.Run("without an index", func(t *testing.T) { searchOfUnusualBodies(newBench(t), t) })
	t.Run("with one", func(t *testing.T) { searchOfUnusualBodies(newIndexed(t), t) })
}

func searchOfUnusualBodies(b *bench, t *testing.T) {
	w, _ := b.Writer(write.WriterConfig{})
	seed := kit.Seed(t)
	a := jsonWriter{rand.New(rand.NewPCG(seed, 1))}
	var events []*event.Event
	var records []*stream.Record
	for range storetest.Rounds(200, 200, 400) {
		e := b.Event(1, func(e *event.Event) { e.Body = []byte(a.body()) })
		events, records = append(events, e), append(records, e.Record())
	}
	b.Produce(stream.Events, storetest.PartitionOf(1), records...)
	slices.Reverse(events)
	r := b.Reader(w)
	b.BuildIndexes(r)
	searches, hits := storetest.Rounds(20, 20, 1000), 0
	for range searches {
		s := a.search()
		var want []id.ID
		for _, e := range events {
			if matchesModel(e, &s) {
				want = append(want, e.ID)
			}
		}
		hits += len(want)
		got, _, _ := allPages(t, r,
			event.Query{Account: storetest.Account, Search: &s, Limit: 100, Since: time.Now().Add(-time.Hour)})
		if slices.Equal(got, want) {
			continue
		}
		for _, e := range events {
			if is, should := slices.Contains(got, e.ID), slices.Contains(want, e.ID); is != should {
				t.Errorf("%q finds %q: %t, want %t", s, e.Body, is, should)
				break
			}
		}
	}
	t.Logf("%d searches have %d hits", searches, hits)
	if hits == 0 {
		t.Errorf("%d searches have %d hits, too few to prove anything", searches, hits)
	}
}

// An incomplete UTF-8 sequence in a body hides nothing from a search, neither in the body nor in the next row.
func TestSearchBesideIncompleteUTF8(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	var records []*stream.Record
	for _, body := range []string{"cut\xe2\x82", "größe", "\xe2größe", "größe\xf0", "größe", "\xf0\x9fgröße"} {
		records = append(records, b.Event(1, func(e *event.Event) { e.Body = []byte(body) }).Record())
	}
	b.Produce(stream.Events, storetest.PartitionOf(1), records...)
	ids, _, _ := allPages(t, b.Reader(w), event.Query{
		Account: storetest.Account, Search: &event.Search{Text: "GRÖßE"}, Limit: 100, Since: time.Now().Add(-time.Hour)})
	is.Equal(t, len(ids), 5, "found … of 5")
}

// JSON writes control characters as escapes only; a search finds them, and no escaped backslash before a letter.
func TestSearchFindsEscapedControlCharacters(t *testing.T) {
	b := newIndexed(t)
	w, _ := b.Writer(write.WriterConfig{})
	var events []*event.Event
	for _, body := range []string{`{"a":"\u0000nul"}`, `{"a":"line\nbreak"}`, `{"a":"line\u000Abreak"}`, "line\nbreak",
		"\x00", `{"a":"\\u0000"}`, `{"a":"C:\\new"}`, `{"a":"C:\\\new"}`, `{"a":"\u007f\u001b[0m"}`, `{"a":"\b\f\r\t"}`,
		`{"a":"Ö\n"}`} {
		e := b.Event(1, func(e *event.Event) { e.Body = []byte(body) })
		b.ProduceEvents(e)
		events = append([]*event.Event{e}, events...)
	}
	r := b.Reader(w)
	b.BuildIndexes(r)
	for _, text := range []string{"\x00", "\x00NUL", "\new", "line\nbreak", "LINE\nBREAK", "\x7f\x1b", "\b\f\r\t",
		"ö\n", "\\\n"} {
		s := event.Search{Text: text}
		var want []id.ID
		for _, e := range events {
			if matchesModel(e, &s) {
				want = append(want, e.ID)
			}
		}
		got, _, _ := allPages(t, r,
			event.Query{Account: storetest.Account, Search: &s, Limit: 100, Since: time.Now().Add(-time.Hour)})
		if !slices.Equal(got, want) || len(want) == 0 || len(want) == len(events) {
			t.Errorf("%q finds %d events, want %d", text, len(got), len(want))
		}
	}
}
