package read_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestPagingWhileRowsArrive pages through 2,000 events (20,000 with RELAY_TORTURE) while more arrive and parts are
// merged. Every event that was acknowledged before the first page is listed exactly once.
func TestPagingWhileRowsArrive(t *testing.T) { pagingWhileRowsArrive(t, true) }

// TestPagingWithoutMerges does the same while no part is merged.
func TestPagingWithoutMerges(t *testing.T) { pagingWhileRowsArrive(t, false) }

func pagingWhileRowsArrive(t *testing.T, merging bool) {
	n, seven, one := 2_000, 105, 15
	switch {
	case os.Getenv("RELAY_TORTURE") != "":
		n, seven, one = 20_000, 7_000, 1_000
	case testing.Short() || storetest.TwoShards(t) || !merging:
		n, seven, one = 1_000, 70, 10
	}
	b := newBench(t)
	if !merging {
		for _, table := range []string{"events", "events_by_endpoint", "deliveries"} {
			b.Exec("SYSTEM STOP MERGES " + table)
		}
	}
	w, _ := b.Writer(write.WriterConfig{FlushRows: n / 4, FlushEvery: 100 * time.Millisecond})
	r := b.Reader(w)
	var known, fifth []id.ID
	for i := range n {
		known = append(known, b.send(i))
		if i%10 == 5 {
			fifth = append(fifth, known[i])
		}
	}
	must.Do(t, b.Producer.Flush(t.Context()))
	newestFirst := func(a, b id.ID) int { return slices.Compare(b[:], a[:]) }
	slices.SortFunc(known, newestFirst)
	slices.SortFunc(fifth, newestFirst)
	old := make(map[id.ID]bool, n)
	for _, d := range known {
		old[d] = true
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	// Merges and new rows follow the number of pages, not the time: on a slow machine there would be merges and new rows
	// only, and few pages.
	merge, pages := make(chan struct{}, 1), 0
	wg.Go(func() {
		for {
			select {
			case <-merge:
				b.Exec("OPTIMIZE TABLE events FINAL")
				b.Exec("OPTIMIZE TABLE events_by_endpoint FINAL")
			case <-ctx.Done():
				return
			}
		}
	})
	f := func(q event.Query, want []id.ID) {
		t.Helper()
		q.Account = storetest.Account
		var got []id.ID
		for ; len(got) < len(want); pages++ {
			if merging && pages%5 == 0 {
				select {
				case merge <- struct{}{}:
				default: // a merge is pending already
				}
			}
			for i := range 5 {
				b.send(5*pages + i)
			}
			page := must.Get(r.Events(t.Context(), q))(t)
			for _, row := range page.Rows {
				if old[row.ID] { // newer events may be listed too
					got = append(got, row.ID)
				}
			}
			if !page.More {
				break
			}
			q.Before = page.Rows[len(page.Rows)-1].ID
		}
		if len(got) < len(want) {
			t.Fatalf("limit %d: %d of %d rows", q.Limit, len(got), len(want))
		}
		must.List(t, got[:len(want)], want, "limit %d: rows were skipped, repeated or in another order", q.Limit)
		t.Logf("limit %d: %d rows are there, after %d pages in all", q.Limit, len(want), pages)
	}
	f(event.Query{Limit: 100}, known)
	f(event.Query{Limit: 7}, known[:seven])
	f(event.Query{Limit: 1, Before: known[0]}, known[1:one])
	f(event.Query{Limit: 100, Endpoints: []string{"ep_5"}}, fifth)
	f(event.Query{Limit: 100, Statuses: []event.Status{event.Pending}}, known[:seven])
}

// send produces the i-th event without waiting for it; it belongs to one of ten endpoints.
func (b *bench) send(i int) id.ID {
	b.Helper()
	e := b.Event(i % 10)
	b.Producer.Produce(stream.Events, e.ID.Partition(), e.Record(), func(_ *stream.Record, err error) {
		if err != nil {
			b.Error(err)
		}
	})
	return e.ID
}
