package read_test

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// unstoredBench has a writer that flushes only when it is asked to, and a reader in its process.
type unstoredBench struct {
	*history
	writer *write.Writer
	reader *read.Reader
	erased atomic.Pointer[id.ID]
}

func newUnstoredBench(t *testing.T) *unstoredBench {
	b := &unstoredBench{history: newHistory(newBench(t), kit.Seed(t))}
	b.Erased = func(d id.ID) bool { e := b.erased.Load(); return e != nil && *e == d }
	b.writer, _ = b.Writer(write.WriterConfig{FlushEvery: time.Hour, FlushRows: 100_000, FlushBytes: 64 << 20})
	b.reader = b.Reader(b.writer)
	awaitAssignment(t, b.writer)
	return b
}

// awaitAssignment waits until the writer owns its partitions: a reader asks it for a flush once.
func awaitAssignment(t *testing.T, w *write.Writer) {
	storetest.Eventually(t, func() bool { return len(w.Progress().Owned) > 0 })
}

// readEvents returns all events.
func (b *unstoredBench) readEvents() (details []*event.Detail) {
	b.Helper()
	for _, e := range b.events {
		details = append(details, b.readEvent(e.ID))
	}
	return details
}

func (b *unstoredBench) readEvent(d id.ID) *event.Detail {
	b.Helper()
	detail, err := b.reader.Event(b.Context(), storetest.Account, d)
	if err != nil || !detail.AsOf.IsZero() {
		b.Fatal(err, detail)
	}
	return detail
}

// addDetailedAttempts produces n attempts at an event with all that a row may have.
func (b *unstoredBench) addDetailedAttempts(e *modelEvent, n int) {
	for range n {
		o := b.Outcome(e.Event, "dst_a", event.Retrying)
		o.NextAt = o.At.Add(time.Hour)
		a := o.Attempt
		a.Duration, a.TTFB, a.RetryAfter = 1234567*time.Microsecond, 999*time.Microsecond, 30*time.Second
		a.ErrorCode, a.ErrorMessage = event.CodeTimeout, "time out"
		a.RemoteIP, a.TransformationVersion = netip.MustParseAddr("192.0.2.1"), 3
		a.RequestHeader, a.ResponseHeader = "A: b", "C: d"
		a.ResponseBody = bytes.Repeat([]byte("x"), 3000)
		b.seq++
		b.produce(stream.Outcomes, e.ID.Partition(), o.Record())
		e.attempts++
		e.states["dst_a"] = append(e.states["dst_a"], state{o.Status, o.Reason, "", [3]int64{0, 0, b.seq}})
	}
	if err := b.Producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestUnstoredRowsAreReadAsStoredOnes: single events show what the writer holds in memory, exactly as they show it once
// it is stored. They cause no flush.
func TestUnstoredRowsAreReadAsStoredOnes(t *testing.T) {
	b := newUnstoredBench(t)
	storedRows := func() uint64 {
		return b.QuerySum("SELECT (SELECT count() FROM events) + (SELECT count() FROM attempts)")
	}
	for round := range storetest.Rounds(2, 2, 20) {
		b.clock = time.Now().Add(-100 * time.Hour)
		b.IDs = id.NewGenerator(func() time.Time { return b.clock })
		before := storedRows()
		b.addEvents(10)
		if round < 2 { // more than one read of an event shows, some of them stored
			b.addDetailedAttempts(b.events[0], 120)
		}
		b.erased.Store(&b.events[1].ID)
		inMemory := b.readEvents()
		must.Equal(t, storedRows(), before, "the reads caused a flush: rows are stored, %d before", before)
		b.WaitCaughtUp(b.reader)
		if after := storedRows(); after == before {
			t.Fatal("nothing was flushed")
		}
		if diff := gocmp.Diff(inMemory, b.readEvents(), sameEvents...); diff != "" {
			t.Fatalf("round %d: reads differ (-in memory +stored):\n%s", round, diff)
		}
	}
}

var sameEvents = []gocmp.Option{storetest.CompareIPs, storetest.CompareBytes, cmpopts.EquateEmpty()}

// partlyStored is an event of which the store has a part and memory the rest.
type partlyStored struct {
	*event.Event
	isStored        bool
	outcomes        [2]event.Status     // stored and in memory; empty: none
	outcomeDest     [2]string           // of these
	receipts        [2]event.Processing // stored and in memory; empty: none
	run             string              // of the stored outcome
	commandInMemory bool                // of the run, which is older than the outcome
}

// partlyStoredEvents returns events with each combination of rows in the store and in memory.
func (b *unstoredBench) partlyStoredEvents() (all []partlyStored) {
	outcomes := []event.Status{"", event.Delivered, event.Failed}
	receipts := []event.Processing{"", event.ProcessingFailed, event.ProcessingDone}
	for i := range 2 * 3 * 3 * 3 * 3 {
		all = append(all, partlyStored{Event: b.Event(i % 3), isStored: i%2 == 0, outcomeDest: [2]string{"dst_a", "dst_a"},
			outcomes: [2]event.Status{outcomes[i/2%3], outcomes[i/6%3]},
			receipts: [2]event.Processing{receipts[i/18%3], receipts[i/54%3]}})
	}
	run := id.Random("run_")
	rejected := b.Event(0, func(e *event.Event) {
		e.Dests, e.Verdict, e.Reason = nil, event.VerdictRejected, event.SignatureMismatch
	})
	return append(all,
		partlyStored{Event: rejected, run: run, outcomes: [2]event.Status{event.Delivered}, outcomeDest: [2]string{"dst_a"}},
		partlyStored{Event: b.Event(0), run: run, outcomes: [2]event.Status{event.Failed, event.Delivered},
			outcomeDest: [2]string{"dst_b", "dst_a"}},
		partlyStored{Event: b.Event(0), run: run, outcomes: [2]event.Status{event.Delivered}, outcomeDest: [2]string{"dst_a"},
			commandInMemory: true})
}

// produce produces the rows that are to be stored (0) or to stay in memory (1).
func (x partlyStored) produce(b *unstoredBench, part int) {
	if x.isStored == (part == 0) {
		b.produce(stream.Events, x.ID.Partition(), x.Record())
	}
	if x.outcomes[part] != "" {
		o := b.Outcome(x.Event, x.outcomeDest[part], x.outcomes[part])
		if part == 0 {
			o.Run = x.run
		}
		b.produce(stream.Outcomes, x.ID.Partition(), o.Record())
	}
	if x.commandInMemory && part == 1 {
		b.ProduceCommand(x.Event, x.outcomeDest[0], x.run)
	}
	if x.receipts[part] != "" {
		b.ProduceReceipt(x.Event, x.receipts[part], time.Now())
	}
}

// TestReadsOfPartlyStoredEvents: whichever rows of an event are stored and whichever are in memory, its read shows what
// it shows once all are stored.
func TestReadsOfPartlyStoredEvents(t *testing.T) {
	b := newUnstoredBench(t)
	b.IDs = id.NewGenerator(time.Now)
	events := b.partlyStoredEvents()
	produce := func(part int) {
		for _, x := range events {
			x.produce(b, part)
		}
		must.Do(t, b.Producer.Flush(t.Context()))
	}
	all := func() (details []*event.Detail) {
		for _, x := range events {
			details = append(details, b.readEvent(x.ID))
		}
		return details
	}
	produce(0)
	b.WaitCaughtUp(b.reader)
	produce(1)
	before := b.QuerySum("SELECT count() FROM events")
	inMemory := all()
	is.Equal(t, b.QuerySum("SELECT count() FROM events"), before, "the reads caused a flush")
	b.WaitCaughtUp(b.reader)
	if diff := gocmp.Diff(inMemory, all(), sameEvents...); diff != "" {
		t.Errorf("reads differ (-in memory +stored):\n%s", diff)
	}
}

// TestReadBeforeTheAssignmentCausesAFlush: a read that begins before the writer has its partitions asks for their rows
// once it has them.
func TestReadBeforeTheAssignmentCausesAFlush(t *testing.T) {
	b := newBench(t)
	b.ProduceEvents(b.Event(0))
	w, _ := b.Writer(write.WriterConfig{FlushEvery: time.Hour})
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: time.Minute}, w)
	is.OK(t, r.CaughtUp(t.Context()))
}

// TestListWaitsForTheFlush: the first page of a list waits until all rows are stored, so that later pages need none.
func TestListWaitsForTheFlush(t *testing.T) {
	b := newUnstoredBench(t)
	b.IDs = id.NewGenerator(time.Now)
	for i := range 3 {
		b.ProduceEvents(b.Event(i))
	}
	q := event.Query{Account: storetest.Account, Limit: 2}
	for _, rows := range []int{2, 1} {
		page, err := b.reader.Events(t.Context(), q)
		if err != nil || len(page.Rows) != rows || page.More != (rows == 2) || !page.AsOf.IsZero() {
			t.Fatalf("%v %+v", err, page)
		}
		is.Equal(t, b.QuerySum("SELECT count() FROM events"), 3, "of 3 events are stored when a page is shown")
		q.Before = page.Rows[rows-1].ID
		b.ProduceEvents(b.Event(0))
	}
}

// commitDispatcher commits an offset of a partition of the topic events for the dispatcher's group.
func (b *bench) commitDispatcher(index int32, offset int64) {
	b.Helper()
	assigned := make(chan bool, 1)
	g, err := stream.NewGroup(b.Stream, stream.GroupConfig{
		Name: stream.DispatchGroup, Topics: []string{stream.Events}, MaxPoll: 1,
		Assigned: func(map[stream.Partition]stream.Commit) { assigned <- true },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = g.Poll(ctx, func(stream.Partition, []*stream.Record) {})
		}
	})
	<-assigned
	if err := g.Commit(b.Context(),
		map[stream.Partition]stream.Commit{{Topic: stream.Events, Index: index}: {Offset: offset}}); err != nil {
		b.Error(err)
	}
	cancel()
}

// produceOld produces events with the times of their ids, however old. The relay's own producer would time out on them.
func (b *bench) produceOld(events ...*event.Event) {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(storetest.Engines.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for _, e := range events {
		r := e.Record()
		out := &kgo.Record{Topic: b.Stream.Prefix + stream.Events, Partition: e.ID.Partition(), Key: r.Key, Value: r.Value,
			Timestamp: e.ID.Time()}
		for _, h := range r.Headers {
			out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := cl.ProduceSync(b.Context(), out).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPendingListReadsBeyondCommits: an event without an outcome is found where the dispatcher has not committed it,
// and not looked for among older events. The test produces an older one, which cannot exist in operation, to see where
// the list reads.
func TestPendingListReadsBeyondCommits(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now()
	at := func(ago time.Duration) *event.Event {
		b.IDs = id.NewGenerator(func() time.Time { return now.Add(-ago) })
		return b.Event(0)
	}
	impossible, waiting, done, first, second := at(80*time.Hour), at(79*time.Hour), at(78*time.Hour), at(3*time.Hour),
		at(10*time.Minute)
	b.produceOld(impossible, waiting, done, first, second)
	b.ProduceOutcomes(b.Outcome(waiting, "dst_a", event.Pending, func(o *event.Outcome) {
		o.Attempt, o.Reason = nil,
			event.LaneFull
	}))
	b.ProduceOutcomes(b.Outcome(done, "dst_a", event.Delivered))
	listed := func() (ids []id.ID) {
		b.WaitCaughtUp(r)
		for _, s := range storetest.ListEvents(
			t, r, event.Query{Account: storetest.Account, Statuses: []event.Status{event.Pending}, Limit: 1}, 10) {
			ids = append(ids, s.ID)
		}
		return ids
	}
	check := func(what string, want ...*event.Event) {
		t.Helper()
		var ids []id.ID
		for _, e := range want {
			ids = append(ids, e.ID)
		}
		is.List(t, listed(), ids, what)
	}
	check("no commit", second, first, waiting, impossible)
	b.commitDispatcher(0, 3)
	check("two are not committed", second, first, waiting)
	b.commitDispatcher(0, 5)
	check("all is committed", waiting)
	late := at(0)
	b.produceOld(late)
	check("one more", late, waiting)
}

// TestPendingListEndsWithinAMillisecond: the time up to which the log says that all is reported may lie within a
// millisecond, just after an event.
func TestPendingListEndsWithinAMillisecond(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().Truncate(time.Millisecond)
	r.StopClock(now.Add(300 * time.Microsecond))
	var all []*event.Event
	r.LimitUncommitted(0, 0) // so that the log's times say it
	// Nothing uncommitted was appended more than 35 s ago, and an event may be appended up to 3.5 min late.
	const edge = 35*time.Second + 210*time.Second
	for ago := edge + 3*time.Millisecond; ago >= edge-3*time.Millisecond; ago -= time.Millisecond {
		b.IDs = id.NewGenerator(func() time.Time { return now.Add(-ago) })
		all = append(all, b.Event(0))
	}
	b.produceOld(all...)
	for _, e := range all {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered))
	}
	b.commitDispatcher(0, int64(len(all)))
	b.IDs = id.NewGenerator(func() time.Time { return now })
	waiting := b.Event(0)
	b.produceOld(waiting)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	page, err := r.Events(ctx,
		event.Query{Account: storetest.Account, Statuses: []event.Status{event.Pending, event.Rejected}, Limit: 5})
	if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != waiting.ID || page.More {
		t.Errorf("%d rows, more %v, %v", len(page.Rows), page.More, err)
	}
}

// TestPendingListHasEventsAppendedLate: the producer appended an event 90 s after its time, while the partition had no
// leader, behind a newer one of another node. The log's times then say little about the event's.
func TestPendingListHasEventsAppendedLate(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().Truncate(time.Millisecond)
	r.StopClock(now)
	r.LimitUncommitted(0, 0) // so that the log's times say what is uncommitted
	at := func(ago time.Duration) *event.Event {
		b.IDs = id.NewGenerator(func() time.Time { return now.Add(-ago) })
		return b.Event(0)
	}
	newer, late := at(10*time.Second), at(100*time.Second)
	b.produceOld(newer, late)
	b.ProduceOutcomes(b.Outcome(newer, "dst_a", event.Delivered))
	b.commitDispatcher(0, 1)
	b.WaitCaughtUp(r)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	page, err := r.Events(ctx,
		event.Query{Account: storetest.Account, Statuses: []event.Status{event.Pending}, Limit: 5})
	if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != late.ID {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}

// TestPendingListBeginsAtTheOldestUncommittedEvent: lists look for events without an outcome from the millisecond of
// the oldest that the dispatcher has not committed, whenever that was appended. The older one cannot exist in
// operation.
func TestPendingListBeginsAtTheOldestUncommittedEvent(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().Truncate(time.Millisecond)
	r.StopClock(now.Add(300 * time.Microsecond))
	at := func(ago time.Duration) *event.Event {
		b.IDs = id.NewGenerator(func() time.Time { return now.Add(-ago) })
		return b.Event(0)
	}
	impossible, oldest, newest := at(time.Second+time.Millisecond), at(time.Second), at(0)
	b.produceOld(impossible, newest, oldest)
	b.commitDispatcher(0, 1)
	b.WaitCaughtUp(r)
	pending := event.Query{Account: storetest.Account, Statuses: []event.Status{event.Pending}, Limit: 5}
	list := func() (found []id.ID) {
		for _, s := range storetest.ListEvents(t, r, pending, 10) {
			found = append(found, s.ID)
		}
		return found
	}
	// On a busy machine the log may not be read in time, and the list then begins earlier.
	storetest.Eventually(t, func() bool { return slices.Equal(list(), []id.ID{newest.ID, oldest.ID}) })
	// A log that does not answer in time leaves the bound of before, as far as it still holds.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if bound := r.ReportedBound(ended); bound.IsZero() || bound.After(now.Add(-40*time.Second)) {
		t.Errorf("without the log lists begin at %v", bound)
	}
	// What is too much to read bounds the list by the times of the log.
	for what, limit := range map[string]struct {
		records int64
		bytes   int
	}{"records": {1, 1 << 20}, "bytes": {10, 1}} {
		r.LimitUncommitted(limit.records, limit.bytes)
		if got, want := list(), []id.ID{newest.ID, oldest.ID, impossible.ID}; !slices.Equal(got, want) {
			t.Errorf("too many %s: %v, want %v", what, got, want)
		}
	}
}

// TestLaterPagesOfPendingEventsWait: the dispatcher has parked the rest of a list since the first page, and the
// outcomes are not stored yet. Another node's writer has them. It is not asked here, so the page says how old it may
// be.
func TestLaterPagesOfPendingEventsWait(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{FlushRows: 1 << 20, FlushEvery: time.Hour})
	reader := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: time.Second}, nil)
	events := []*event.Event{b.Event(0), b.Event(0), b.Event(0)}
	b.ProduceEvents(events...)
	b.commitDispatcher(0, 0)
	b.WaitCaughtUp(b.Reader(w))
	q := event.Query{Account: storetest.Account, Statuses: []event.Status{event.Pending}, Limit: 1}
	first, err := reader.Events(t.Context(), q)
	if err != nil || len(first.Rows) != 1 || !first.More || first.Rows[0].ID != events[2].ID {
		t.Fatalf("first page: %+v, %v", first, err)
	}
	for _, e := range events {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Pending, func(o *event.Outcome) {
			o.Attempt, o.Reason = nil, event.LaneFull
		}))
	}
	b.commitDispatcher(0, 3)
	q.Before, q.Limit = first.Rows[0].ID, 10
	second, err := reader.Events(t.Context(), q)
	if err != nil || len(second.Rows) != 2 || second.AsOf.IsZero() {
		t.Errorf("second page: %d rows, as of %v, %v", len(second.Rows), second.AsOf, err)
	}
}

// TestDeliveredIsNoFailureCandidate: a delivery that was parked or retried is no candidate once it succeeds; one that
// succeeds at the first attempt never becomes one.
func TestDeliveredIsNoFailureCandidate(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	parked, retried, once := b.Event(0), b.Event(0), b.Event(0)
	b.ProduceEvents(parked, retried, once)
	b.ProduceOutcomes(b.Outcome(parked, "dst_a", event.Pending, func(o *event.Outcome) {
		o.Attempt, o.Reason = nil,
			event.LaneFull
	}))
	b.ProduceOutcomes(b.Outcome(retried, "dst_a", event.Retrying))
	candidates := func() uint64 {
		t.Helper()
		b.WaitCaughtUp(r)
		return b.QuerySum("SELECT countIf(status != 'delivered') FROM failure_candidates FINAL")
	}
	is.Equal(t, candidates(), 2, "candidates")
	b.ProduceOutcomes(b.Outcome(parked, "dst_a", event.Delivered, func(o *event.Outcome) { o.WasParked = true }))
	b.ProduceOutcomes(b.Outcome(retried, "dst_a", event.Delivered, func(o *event.Outcome) {
		o.Attempt.Trigger = event.TriggerRetry
	}))
	b.ProduceOutcomes(b.Outcome(once, "dst_a", event.Delivered))
	if n := candidates(); n != 0 {
		t.Errorf("%d candidates, want none", n)
	}
	if n := b.QuerySum("SELECT count() FROM failure_candidates FINAL"); n != 2 {
		t.Errorf("%d rows, want the rows of two deliveries", n)
	}
}
