package store_test

import (
	"errors"
	"fmt"
	"maps"
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
	"github.com/eventrelay/relay/store"
)

// onShards is the name of the test whose benches have two shards.
const onShards = "TestOnTwoShards"

// urlOf is the address of a bench's database, or of its shards.
func urlOf(t testing.TB, name string) string {
	url := "http://" + engines.clickhouse + "/" + name
	if twoShards(t) {
		return url + "," + url + "_2"
	}
	return url
}

func twoShards(t testing.TB) bool { return strings.HasPrefix(t.Name(), onShards+"/") }

// What holds of one server holds of two that share the rows.
func TestOnTwoShards(t *testing.T) {
	tests := map[string]func(*testing.T){
		"audit": TestAudit, "key uses": TestKeyUses, "lists": TestListsAgreeWithModel,
		"placed": TestPlacedIsWholeAndInOrder, "attempts": TestAttemptsArePaged, "receipts": TestStanding,
		"recovery selection": TestSelectRecovery, "recovery states": TestRecoveryStates, "recovery work": TestRecoveryWork,
		"search": TestSearchAgreesWithModel, "selection": TestSelectionAgreesWithModel,
		"moved": movedEndpoint, "summaries": TestSummariesAreTheRowsOfTheList, "requests": TestUsageCountsRequests, "versions": TestVersions, "away": TestClickHouseAway,
		"erased": TestErasedPayload, "not recovered": TestErasedIsNotRecovered, "expired": TestExpiredDaysAreDropped, "retention": TestRetention,
	}
	if rounds(0, 0, 1) == 1 {
		maps.Copy(tests, map[string]func(*testing.T){
			"usage": TestUsageSurvivesKills, "redo": TestRedoChangesNothing, "poison": TestPoison, "writers": TestWritersShareTheLog,
			"paging":         TestPagingWhileRowsArrive,
			"write and read": TestWriteAndRead, "duplicates": TestDuplicates,
		})
	}
	if testing.Short() { // the others begin no goroutines that these do not
		for name := range tests {
			if !slices.Contains([]string{"lists", "search", "attempts", "moved", "away", "erased", "recovery work"}, name) {
				delete(tests, name)
			}
		}
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

// Rows that come in an order go through what puts the shards' rows in that order: a statement that says it by itself
// would give one shard's rows after the other's.
func TestOrderIsThatOfAllShards(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	// shards.go is what does it, and is what audit.go calls; the edges in find.go and search.go take the highest of all shards. The
	// other one in find.go is of a part of a statement whose rows are put in order behind it.
	allowed := map[string]int{"shards.go": 1, "audit.go": 1, "find.go": 2, "search.go": 1}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "ORDER BY id DESC"); n != allowed[file] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s orders by id %d times, not %d: see newest in shards.go", file, n, allowed[file])
		}
	}
}

// movedEndpoint has events in partitions of both shards, and outcomes of old events in its new partition. Each event is
// on one shard, with all that is said of it, and what is asked by endpoint has all of them.
func movedEndpoint(t *testing.T) {
	b := newBench(t)
	w, _ := b.writer(store.WriterConfig{})
	r := b.smallPages(w)
	const n = 12
	var events []*event.Event
	for i := range n {
		e := b.event(1)
		if i < n/2 { // before it was moved
			var err error
			if e.ID, err = b.ids.New(0); err != nil {
				t.Fatal(err)
			}
		}
		b.accept(e)
		events = append(events, e)
		b.put(stream.Outcomes, e.ID.Partition(), b.outcome(e, "dst_a", event.Failed).Record())
	}
	replayed := b.outcome(events[2], "dst_a", event.Delivered, func(o *event.Outcome) { o.Run = b.ids.Next(1).Text(id.Run) })
	b.put(stream.Outcomes, 1, replayed.Record())

	rows := pages(t, r, event.Query{Account: account, Endpoints: []string{"ep_1"}, Limit: 5}, n)
	if len(rows) != n {
		t.Fatalf("%d events are listed, want %d", len(rows), n)
	}
	for i, row := range rows {
		e := events[n-1-i]
		want, attempts := event.Failed, 1
		if e == events[2] {
			want, attempts = event.Delivered, 2
		}
		if row.ID != e.ID || row.Status != want || row.Attempts != attempts {
			t.Errorf("row %d is %s, %s after %d attempts; want %s, %s after %d", i, row.ID, row.Status, row.Attempts, e.ID, want, attempts)
		}
	}
	d, err := r.Event(t.Context(), account, events[2].ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.Status != event.Delivered || len(d.Attempts) != 2 || d.Deliveries[0].Run != replayed.Run {
		t.Errorf("the event that was replayed is %s by %q after %d attempts", d.Status, d.Deliveries[0].Run, len(d.Attempts))
	}
	failed := b.query("SELECT count() FROM deliveries FINAL WHERE status = 'failed'") // a replay elsewhere would leave two
	if failed != n-1 {
		t.Errorf("%d deliveries have failed, want %d", failed, n-1)
	}

	job, sel := b.selected(r, b.selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	if sel.Total != n-1 || sel.Sendable != n-1 || len(sel.Destinations) != 1 || sel.Destinations[0].Total != n-1 {
		t.Errorf("selected %+v, want %d", sel, n-1)
	}
	seen := map[string]bool{events[2].ID.String(): true}
	for i, x := range slices.Backward(b.itemsOf(r, job, sel.Total, 4)) {
		if x.Seq != sel.Total-1-i || seen[x.Event.String()] {
			t.Errorf("item %d has number %d and is of %s", i, x.Seq, x.Event)
		}
		seen[x.Event.String()] = true
	}
	if len(seen) != n {
		t.Errorf("%d events are selected, want %d", len(seen)-1, n-1)
	}
	span := event.UsageSpan{From: time.Now().Add(-48 * time.Hour).Truncate(time.Hour), To: time.Now().Add(time.Hour), Recent: time.Now().Add(-time.Hour).Truncate(time.Hour)}
	f, err := r.Usage(t.Context(), account, span)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.ByEndpoint) != 1 || f.ByEndpoint[0].Received != n || f.Recent != n || f.Attempts != n+1 {
		t.Errorf("used %+v, want %d events and %d requests", f, n, n+1)
	}
}

// A read that one shard cannot answer has no answer, but what is asked of another has. A writer goes on where it was
// when the shard is back.
func TestShardAway(t *testing.T) {
	b := newBench(t)
	p := newProxy(t)
	b.url = b.url + "_1," + p.url(b) + "_2"
	if err := store.Migrate(t.Context(), b.url, 30); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	w, _ := b.writerOf(store.WriterConfig{}, reg)
	r := b.readerOf(store.ReaderConfig{URL: b.url, RetentionDays: 30, FenceWait: 20 * time.Second, Timeout: time.Minute}, w)
	near, far := b.event(0), b.event(1)
	b.accept(near, far)
	all := event.Query{Account: account, Limit: 10}
	if rows := pages(t, r, all, 1); len(rows) != 2 {
		t.Fatalf("%d events are stored", len(rows))
	}
	p.down()
	all.Before = b.ids.Next(0) // without a wait for the writer
	if page, err := r.Events(t.Context(), all); !errors.Is(err, event.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "shard 2") {
		t.Errorf("a list without a shard is %+v, %v", page, err)
	}
	if _, err := r.EventEndpoint(t.Context(), account, near.ID); err != nil {
		t.Errorf("an event of the other shard: %v", err)
	}
	if err := r.Ping(t.Context()); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("the store without a shard answers %v", err)
	}
	more := b.event(0)
	b.accept(more, b.event(1))
	eventually(t, func() bool { return metric(t, reg, "relay_store_away") == 1 })
	p.up()
	eventually(t, func() bool { return r.CaughtUp(t.Context()) == nil })
	all.Before = id.ID{}
	if rows := pages(t, r, all, 1); len(rows) != 4 {
		t.Errorf("%d events are stored after the shard has come back, want 4", len(rows))
	}
	if got := metric(t, reg, "relay_store_away"); got != 0 {
		t.Errorf("%v shards are away", got)
	}
}
