package read_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// The tests below also pass with two shards.
func TestOnTwoShards(t *testing.T) {
	tests := map[string]func(*testing.T){
		"audit": TestAuditAgreesWithModel, "key uses": TestKeyUsesReturnTheNewestUse, "lists": TestListsAgreeWithModel,
		"by offset": TestEventsByOffsetAreCompleteAndInOrder, "attempts": TestAttemptsArePaged,
		"receipts":           TestReceiptResultFollowsLogOrder,
		"recovery selection": TestSelectRecoveryHasEachFailureOnce, "recovery states": TestRecoveryItemStateIsOfItsJob,
		"open recovery items": TestOpenRecoveryItems,
		"search":              TestSearchAgreesWithModel, "selection": TestSelectionAgreesWithModel,
		"moved": movedEndpoint, "summaries": TestSummariesAreTheRowsOfTheList, "requests": TestUsageCountsRequests,
		"runs": TestEventIsFoundByEveryRun,
	}
	thorough := map[string]func(*testing.T){
		"paging":     TestPagingWhileRowsArrive,
		"duplicates": TestDuplicateIsSkippedUntilReplayed, "pages of runs": TestRunIsPaged,
	}
	storetest.OnTwoShards(t, tests, thorough, "lists", "attempts", "moved", "open recovery items")
}

// Only the functions that merge the rows of several shards may use ORDER BY id: elsewhere the rows of one shard would
// follow those of another.
func TestOrderedStatementsMergeShards(t *testing.T) {
	files := must.Get(filepath.Glob("*.go"))(t)
	// shards.go merges, and audit.go calls it. The chunk starts in find.go and search.go take the highest of all shards.
	// The second one in find.go is in a part of a statement that is ordered as a whole.
	allowed := map[string]int{"shards.go": 1, "audit.go": 1, "find.go": 2, "search.go": 1}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if n := strings.Count(string(text), "ORDER BY id DESC"); n != allowed[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s orders by id %d times, not %d: see newest in shards.go", file, n, allowed[file])
		}
	}
}

// movedEndpoint tests an endpoint with events in partitions of both shards. Each event is on one shard, with all its
// outcomes, and reads by endpoint return the events of both shards.
func movedEndpoint(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWithSmallPages(w)
	const n = 12
	var events []*event.Event
	for i := range n {
		e := b.Event(1)
		if i < n/2 { // before it was moved
			var err error
			if e.ID, err = b.IDs.New(0); err != nil {
				t.Fatal(err)
			}
		}
		b.ProduceEvents(e)
		events = append(events, e)
		b.Produce(stream.Outcomes, e.ID.Partition(), b.Outcome(e, "dst_a", event.Failed).Record())
	}
	replayed := b.Outcome(events[2], "dst_a", event.Delivered, func(o *event.Outcome) {
		o.Run = b.IDs.NewUnbounded(1).Text(id.Run)
	})
	b.Produce(stream.Outcomes, 1, replayed.Record())

	rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Endpoints: []string{"ep_1"}, Limit: 5}, n)
	must.Equal(t, len(rows), n, "events are listed")
	for i, row := range rows {
		e := events[n-1-i]
		want, attempts := event.Failed, 1
		if e == events[2] {
			want, attempts = event.Delivered, 2
		}
		if row.ID != e.ID || row.Status != want || row.Attempts != attempts {
			t.Errorf("row %d is %s, %s after %d attempts; want %s, %s after %d", i, row.ID, row.Status, row.Attempts, e.ID,
				want, attempts)
		}
	}
	d := must.Get(r.Event(t.Context(), storetest.Account, events[2].ID))(t)
	if d.Status != event.Delivered || len(d.Attempts) != 2 || d.Deliveries[0].Run != replayed.Run {
		t.Errorf("the event that was replayed is %s by %q after %d attempts", d.Status, d.Deliveries[0].Run, len(d.Attempts))
	}
	b.WaitCaughtUp(r)
	// an outcome on another shard would leave two rows
	failed := b.QuerySum("SELECT count() FROM deliveries FINAL WHERE status = 'failed'")
	is.Equal(t, failed, n-1, "deliveries have failed")

	job, sel := b.SelectRecovery(r, b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	if sel.Total != n-1 || sel.Sendable != n-1 || len(sel.Destinations) != 1 || sel.Destinations[0].Total != n-1 {
		t.Errorf("selected %+v, want %d", sel, n-1)
	}
	seen := map[string]bool{events[2].ID.String(): true}
	for i, x := range slices.Backward(b.RecoveryItems(r, job, sel.Total, 4)) {
		if x.Seq != sel.Total-1-i || seen[x.Event.String()] {
			t.Errorf("item %d has number %d and is of %s", i, x.Seq, x.Event)
		}
		seen[x.Event.String()] = true
	}
	if len(seen) != n {
		t.Errorf("%d events are selected, want %d", len(seen)-1, n-1)
	}
	span := event.UsageSpan{From: time.Now().Add(-48 * time.Hour).Truncate(time.Hour), To: time.Now().Add(time.Hour),
		Recent: time.Now().Add(-time.Hour).Truncate(time.Hour)}
	f, err := r.Usage(t.Context(), event.UsageOf{Account: storetest.Account}, span)
	must.Do(t, err)
	if len(f.ByEndpoint) != 1 || f.ByEndpoint[0].Received != n || f.Recent != n || f.Attempts != n+1 {
		t.Errorf("used %+v, want %d events and %d requests", f, n, n+1)
	}
}

// A read that needs an unavailable shard fails; a read of another shard succeeds. The writer continues when the shard
// is back.
func TestUnavailableShardFailsOnlyItsReads(t *testing.T) {
	b := newBench(t)
	p := storetest.NewProxy(t)
	b.URL = b.URL + "_1," + p.URL(b.Bench) + "_2"
	must.Do(t, storetest.Migrate(t.Context(), b.URL, 30))
	reg := prometheus.NewRegistry()
	w, _ := b.WriterWithMetrics(write.WriterConfig{}, reg)
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30}, w)
	near, far := b.Event(0), b.Event(1)
	b.ProduceEvents(near, far)
	all := event.Query{Account: storetest.Account, Limit: 10}
	if rows := storetest.ListEvents(t, r, all, 1); len(rows) != 2 {
		t.Fatalf("%d events are stored", len(rows))
	}
	p.Cut()
	all.Before = b.IDs.NewUnbounded(0) // a later page does not wait for the writer
	if page, err := r.Events(t.Context(), all); !errors.Is(err, event.ErrUnavailable) ||
		!strings.Contains(fmt.Sprint(err), "shard 2") {
		t.Errorf("a list without a shard is %+v, %v", page, err)
	}
	if _, err := r.EventEndpoint(t.Context(), storetest.Account, near.ID); err != nil {
		t.Errorf("an event of the other shard: %v", err)
	}
	is.ErrorIs(t, r.Ping(t.Context()), event.ErrUnavailable, "the store without a shard answers")
	more := b.Event(0)
	b.ProduceEvents(more, b.Event(1))
	storetest.Eventually(t, func() bool { return storetest.Metric(t, reg, "relay_store_unavailable_shards") == 1 })
	p.Restore()
	storetest.Eventually(t, func() bool { return r.CaughtUp(t.Context()) == nil })
	all.Before = id.ID{}
	if rows := storetest.ListEvents(t, r, all, 1); len(rows) != 4 {
		t.Errorf("%d events are stored after the shard has come back, want 4", len(rows))
	}
	is.Equal(t, storetest.Metric(t, reg, "relay_store_unavailable_shards"), 0, "shards are unavailable")
}
