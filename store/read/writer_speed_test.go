package read_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/storetest"
)

// measureWriter lets a writer store n events of 1 KB that wait in the log. It returns the rows per second and the
// duration of each insert.
func (b *bench) measureWriter(n int) (rate float64, inserts []time.Duration) {
	b.Helper()
	stored := b.QuerySum("SELECT count() FROM events")
	records := make([]*stream.Record, n)
	for i := range records {
		records[i] = b.Event(1, func(e *event.Event) {
			e.Body = []byte(`{"text":"` + strings.Repeat("some words ", 90) + `"}`)
		}).Record()
	}
	for some := range slices.Chunk(records, 1_000) {
		b.Produce(stream.Events, storetest.PartitionOf(1), some...)
	}
	g := storetest.NewFaultProxy(b.Bench)
	var mu sync.Mutex // guards inserts and began, until the writer has stopped
	var began time.Time
	g.OnStatement = func(_ *http.Request, statement string, took time.Duration) {
		if !strings.HasPrefix(statement, "INSERT INTO events ") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if inserts == nil {
			began = time.Now().Add(-took) // leave out the time to join the group
		}
		inserts = append(inserts, took)
	}
	_, stop := b.Writer(g.WriterConfig(write.WriterConfig{FlushRows: 2_000}))
	storetest.EventuallyWithin(b.TB.(*testing.T), 5*time.Minute, func() bool {
		return b.QuerySum("SELECT count() FROM events") >= stored+uint64(n)
	})
	took := time.Since(began)
	stop()
	return float64(n) / took.Seconds(), inserts
}

// runSearches runs searches in parallel, page after page, until stop is called, which returns the number of pages.
func (b *bench) runSearches(r *read.Reader, q event.Query, searches int) (stop func() (pages int)) {
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	done := make([]int, searches)
	for i := range searches {
		wg.Go(func() {
			for ; ctx.Err() == nil; done[i]++ {
				if _, err := r.Events(ctx, q); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	if searches > 0 {
		b.waitUntil("a search runs, that waits for inserts", func() bool {
			return b.QuerySum("SELECT count() FROM system.processes WHERE query LIKE '%JSONExtractRaw(body%' AND query "+
				"NOT LIKE "+
				"'%system.processes%' AND Settings['priority'] = '2'") > 0
		})
	}
	return func() (pages int) {
		cancel()
		wg.Wait()
		for _, n := range done {
			pages += n
		}
		return pages
	}
}

// Searches wait while a writer inserts: ClickHouse runs inserts at a higher priority. Other reads have no priority, so
// they do not wait. TestWriterKeepsSpeedBesideSearches measures what that gives.
func TestInsertsGoBeforeSearches(t *testing.T) {
	b := newBench(t)
	g := storetest.NewFaultProxy(b.Bench)
	var mu sync.Mutex // guards searching and priorities
	searching := false
	priorities := map[string][]string{}
	g.OnStatement = func(r *http.Request, statement string, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		kind := "list"
		switch {
		case strings.HasPrefix(statement, "INSERT INTO events "):
			kind = "insert"
		case strings.Contains(statement, "JSONExtractRaw(body"):
			kind = "search"
		case searching || !strings.Contains(statement, "FROM events"):
			return
		}
		if p := r.URL.Query().Get("priority"); !slices.Contains(priorities[kind], p) {
			priorities[kind] = append(priorities[kind], p)
		}
	}
	w, stop := b.Writer(g.WriterConfig(write.WriterConfig{}))
	r := b.ReaderWith(cluster.Config{URL: g.URL, RetentionDays: 30}, w)
	b.ProduceEvents(b.Event(1))
	q := event.Query{Account: storetest.Account, Limit: 10, Since: time.Now().Add(-time.Hour)}
	for _, q.Search = range []*event.Search{nil, &endless} {
		mu.Lock()
		searching = q.Search != nil
		mu.Unlock()
		if _, err := r.Events(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	want := map[string][]string{"insert": {"1"}, "search": {"2"}, "list": {""}}
	is.Equal(t, gocmp.Diff(want, priorities), "", "priorities (-want +got)")
}

// Beside two searches through a large window the writer keeps at least a fifth of its speed. The measurements
// alternate, so that other load on the machine affects both. RELAY_TORTURE runs it.
func TestWriterKeepsSpeedBesideSearches(t *testing.T) {
	if storetest.Rounds(0, 0, 1) == 0 {
		t.Skip("measures speed; RELAY_TORTURE runs it")
	}
	b := newBench(t)
	b.fill("100000")
	r := b.Reader(nil)
	q := event.Query{Account: storetest.Account, Search: &endless, Limit: 10, Since: time.Now().Add(-24 * time.Hour)}
	const n = 40_000
	b.measureWriter(n) // warms up
	var rates [3][]float64
	var inserts [3][]time.Duration
	var pages [3]int
	for range 5 {
		for searches := range rates {
			stop := b.runSearches(r, q, searches)
			rate, took := b.measureWriter(n)
			pages[searches] += stop()
			rates[searches], inserts[searches] = append(rates[searches], rate), append(inserts[searches], took...)
		}
	}
	for i := range rates {
		slices.Sort(rates[i])
		slices.Sort(inserts[i])
		at := func(part float64) time.Duration {
			return inserts[i][int(part*float64(len(inserts[i])-1))].Round(time.Millisecond)
		}
		t.Logf("beside %d searches (%d pages): %.0f rows a second (%.0f to %.0f); an insert of 2,000 takes %v, %v at p90, "+
			"%v at most",
			i, pages[i], rates[i][len(rates[i])/2], rates[i][0], rates[i][len(rates[i])-1], at(0.5), at(0.9), at(1))
	}
	// The best round counts, because other load on the machine varies.
	best := func(i int) float64 { return rates[i][len(rates[i])-1] }
	if best(2) < best(0)/5 {
		t.Errorf("beside two searches the writer stores %.0f rows a second, %.0f alone", best(2), best(0))
	}
}
