package read_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/storetest"
)

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
	b.WaitCaughtUp(r) // rows in memory are listed whatever their age
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
	b.WaitCaughtUp(r) // rows in memory are listed whatever their age
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
