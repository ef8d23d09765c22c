package read_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/storetest"
)

// fill inserts n events of about 3 KB directly into the table, spread over the last hour.
func (b *bench) fill(n string) {
	b.Helper()
	b.Exec(`INSERT INTO events (account, id, ts, endpoint, type, source, verdict, method, headers, body, size)
SELECT 'acc_1', unhex(concat(leftPad(hex(toUnixTimestamp64Milli(ts)), 12, '0'), '000000',
leftPad(hex(number), 14, '0'))), ts, 'ep_1', 'order.created', 'provider', 'verified', 'POST',
concat('Content-Type: application/json\nX-Number: ', toString(number), '\n'),
concat('{"n":', toString(number), ',"note":"', repeat('nothing in here is looked for ', 100),
'","list":[[[1,2,3]]]}') AS body, length(body)
FROM (SELECT number, now64(3) - toIntervalMillisecond(1000 + intDiv(number * 3600000, ` + n +
		`)) AS ts FROM numbers(` + n + `))`)
}

// runningSearches counts the search statements that ClickHouse is running.
func (b *bench) runningSearches() int {
	name := b.URL[strings.LastIndexByte(b.URL, '/')+1:]
	return int(b.QuerySum("SELECT count() FROM system.processes WHERE current_database = '" + name +
		"' AND query LIKE '%JSONExtractRaw(body%' AND query NOT LIKE '%system.processes%'"))
}

func (b *bench) waitUntil(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); _ = wait.For(b.Context(), 5*time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

// endless is a slow search: each body is parsed eight times.
var endless = event.Search{Body: []event.BodyMatch{{Members: []string{"list", "0", "0", "1"}, Values: []string{"7"}}}}

// A search ends when its client has gone or ClickHouse stops.
func TestSearchEndsWithItsClient(t *testing.T) {
	b := newBench(t)
	b.fill("60000")
	p := storetest.NewProxy(t)
	r := b.ReaderWith(cluster.Config{
		URL: p.URL(b.Bench), RetentionDays: 30, SearchRows: 1 << 20,
		SearchBytes: 1 << 30, SearchThreads: 1}, nil)
	q := event.Query{Account: storetest.Account, Search: &endless, Limit: 10, Since: time.Now().Add(-24 * time.Hour)}
	for _, end := range []struct {
		how  string
		do   func(cancel func())
		want error
	}{
		{"the client leaves", func(cancel func()) { cancel() }, context.Canceled},
		{"ClickHouse goes", func(func()) { p.Cut() }, event.ErrUnavailable},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = r.Events(ctx, q) })
		b.waitUntil("a search runs", func() bool { return b.runningSearches() > 0 })
		end.do(cancel)
		began := time.Now()
		wg.Wait()
		is.ErrorIs(t, err, end.want, end.how)
		b.waitUntil("nothing runs", func() bool { return b.runningSearches() == 0 })
		t.Logf("%s: over after %v", end.how, time.Since(began))
		cancel()
	}
}

// The bytes of the bodies bound the chunks of a search, and no event is left out.
func TestSearchChunksAreBoundedByBytes(t *testing.T) {
	b := newBench(t)
	b.fill("500")
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30,
		SearchBytes: 100_000, SearchBudget: time.Nanosecond}, nil)
	page, err := r.Events(t.Context(),
		event.Query{Account: storetest.Account, Search: &event.Search{Text: "no such text"}, Limit: 10,
			Since: time.Now().Add(-24 * time.Hour)})
	if err != nil || !page.Partial || page.Scanned == 0 || page.Scanned > 100_000/3000 {
		t.Errorf("%+v, %v", page, err)
	}
	q := event.Query{Account: storetest.Account,
		Search: &event.Search{Header: []event.HeaderMatch{{Name: "x-number", Values: []string{"0", "250", "499"}}}},
		Limit:  10,
		Since:  time.Now().Add(-24 * time.Hour)}
	ids, partial, scanned := allPages(t, r, q)
	if len(ids) != 3 || partial < 2 || scanned != 500 {
		t.Errorf("found %d in %d partial pages, %d rows", len(ids), partial, scanned)
	}
}

// A search may be as long as a URL allows, with the most expensive terms.
func TestSearchAcceptsWhatAURLHolds(t *testing.T) {
	t.Run("without an index", func(t *testing.T) { searchTakesWhatAURLHolds(newBench(t), t) })
	t.Run("with one", func(t *testing.T) { searchTakesWhatAURLHolds(newIndexed(t), t) })
}

func searchTakesWhatAURLHolds(b *bench, t *testing.T) {
	w, _ := b.Writer(write.WriterConfig{})
	b.ProduceEvents(b.Event(1, func(e *event.Event) {
		e.Body = []byte(
			`{"0":{"0":{"0":"` + strings.Repeat(`\u0001`, 200) + `"}}}`)
	}))
	r := b.Reader(w)
	b.BuildIndexes(r)
	hit := strings.Repeat("\x01", 200)
	s := event.Search{Text: `\u0001\u0001`}
	for i := range 10 {
		m := event.BodyMatch{Members: []string{"0", "0", "0"}, Values: []string{hit}}
		for bytes := 600; bytes < 64<<10/10; bytes += 800 { // as a URL writes them
			m.Values = append(m.Values, strings.Repeat("\x02", 200), strings.Repeat(`"`, 200)+string(rune('a'+i)))
		}
		s.Body = append(s.Body, m)
	}
	page, err := r.Events(t.Context(),
		event.Query{Account: storetest.Account, Search: &s, Limit: 10, Since: time.Now().Add(-time.Hour)})
	if err != nil || len(page.Rows) != 1 {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
	deep := event.Search{Body: []event.BodyMatch{{Members: slices.Repeat([]string{"0"}, 16), Values: []string{"1"}}}}
	if _, err := r.Events(t.Context(),
		event.Query{Account: storetest.Account, Search: &deep, Limit: 10, Since: time.Now().Add(-time.Hour)}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"\x00", "\x00\x01\x7f", "%_%", `\\\'";--`, "') OR 1=1 --", "(a+)+$", strings.Repeat("é", 200),
		strings.Repeat("😀", 200), "\x00é(",
		"{p1:String}", "\xff"} {
		if page, err := r.Events(
			t.Context(), event.Query{
				Account: storetest.Account, Search: &event.Search{Text: text}, Limit: 10,
				Since: time.Now().Add(-time.Hour)}); err != nil || len(page.Rows) != 0 {
			t.Errorf("%q: %d rows, %v", text, len(page.Rows), err)
		}
	}
}

// The partial pages of a search neither skip nor repeat an event while others arrive.
func TestSearchPagesWhileEventsArrive(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	tagged := func(e *event.Event) { e.Body = []byte(`{"tag":"searched","n":1}`) }
	var want []id.ID
	for i := range 300 {
		e := b.Event(i % 4)
		if i%3 == 0 {
			tagged(e)
			want = append(want, e.ID)
		}
		b.ProduceEvents(e)
	}
	slices.SortFunc(want, func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30,
		SearchRows: 7, SearchBudget: time.Nanosecond}, w)
	s := event.Search{Body: []event.BodyMatch{{Members: []string{"tag"}, Values: []string{"searched"}}}}
	q := event.Query{Account: storetest.Account, Search: &s, Limit: 5, Since: time.Now().Add(-time.Hour)}
	if _, err := r.Events(t.Context(), q); err != nil { // waits for the fence: all are stored
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil && i < 2000; i++ {
			b.ProduceEvents(b.Event(i%4, tagged))
		}
	})
	ids, partial, _ := allPages(t, r, q)
	stop()
	wg.Wait()
	at := slices.Index(ids, want[0])
	if at < 0 || !slices.Equal(ids[at:], want) {
		t.Errorf("%d events, of which the last %d should be those that were there before", len(ids), len(want))
	}
	seen := map[id.ID]bool{}
	for _, d := range ids {
		if seen[d] {
			t.Errorf("%s is repeated", d)
		}
		seen[d] = true
	}
	if partial == 0 {
		t.Error("no page was partial")
	}
}

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
