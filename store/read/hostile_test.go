package read_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
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
