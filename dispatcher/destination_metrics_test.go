package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// destinationRig is the collector with a clock of its own.
type destinationRig struct {
	*destinations
	t     *testing.T
	clock time.Time
}

func newDestinationRig(t *testing.T) *destinationRig {
	r := &destinationRig{t: t, clock: time.Unix(1_700_000_000, 0)}
	r.destinations = newDestinations(func() time.Time { return r.clock })
	return r
}

func (r *destinationRig) send(destination string, ok bool, n int) {
	for range n {
		r.observe(destination, ok, 100*time.Millisecond)
	}
}

// scrape returns requests and failures by destination.
func (r *destinationRig) scrape() (attempts, failures map[string]float64) {
	r.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.destinations)
	families := must.Get(registry.Gather())(r.t)
	attempts, failures = map[string]float64{}, map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := m.GetLabel()[0].GetValue()
			if s := m.GetSummary(); s != nil {
				attempts[name] = float64(s.GetSampleCount())
			} else {
				failures[name] = m.GetCounter().GetValue()
			}
		}
	}
	return attempts, failures
}

// With few destinations each has its series from its first request on.
func TestFewDestinationsHaveTheirOwnSeries(t *testing.T) {
	r := newDestinationRig(t)
	r.send("dst_a", true, 3)
	r.send("dst_b", false, 2)
	attempts, failures := r.scrape()
	if len(attempts) != 3 || attempts["dst_a"] != 3 || attempts["dst_b"] != 2 || attempts["other"] != 0 ||
		failures["dst_a"] != 0 || failures["dst_b"] != 2 {
		t.Errorf("requests %v, failures %v", attempts, failures)
	}
}

// With 300,000 destinations there are 101 series, among them the busiest and the worst; all others are counted once,
// as other, and memory is bounded.
func TestMetricsPerDestinationAreBounded(t *testing.T) {
	r := newDestinationRig(t)
	sent := 0.0
	for minute := range 3 {
		for i := range 100_000 {
			r.send(fmt.Sprintf("dst_%d_%d", minute, i), true, 1)
		}
		for i := range topDestinations {
			r.send(fmt.Sprintf("dst_0_%d", i), true, 40)
			r.send(fmt.Sprintf("dst_0_%d", 500+i), false, 20)
		}
		sent += 100_000 + topDestinations*60
		if n := len(r.ranked); n > maxRanked {
			t.Errorf("%d destinations are ranked", n)
		}
		r.clock = r.clock.Add(rankEvery)
	}
	before, _ := r.scrape()
	for i := range topDestinations {
		r.send(fmt.Sprintf("dst_0_%d", i), true, 7)
		r.send(fmt.Sprintf("dst_0_%d", 500+i), false, 5)
	}
	r.send("dst_none", true, 9)
	attempts, failures := r.scrape()
	if len(attempts) != 2*topDestinations+1 || len(failures) != len(attempts) {
		t.Fatalf("%d destinations have requests, %d have failures", len(attempts), len(failures))
	}
	for i := range topDestinations {
		busy, worst := fmt.Sprintf("dst_0_%d", i), fmt.Sprintf("dst_0_%d", 500+i)
		if attempts[busy]-before[busy] != 7 || attempts[worst]-before[worst] != 5 || failures[worst] == 0 {
			t.Fatalf("%s: %v requests; %s: %v and %v failures", busy, attempts[busy], worst, attempts[worst], failures[worst])
		}
	}
	is.Equal(t, attempts["other"]-before["other"], 9, "other has grown by")
	total := 0.0
	for _, n := range attempts {
		total += n
	}
	if sent += topDestinations*12 + 9; total > sent {
		t.Errorf("the series count %v requests, and %v were sent", total, sent)
	}
}

// Who sends nothing any more loses the place to who does; its series does not come back with an old value.
func TestDestinationsLeaveTheTop(t *testing.T) {
	r := newDestinationRig(t)
	for i := range 2 * topDestinations {
		r.send(fmt.Sprintf("dst_old_%d", i), i%2 == 0, 1000)
	}
	for range 12 {
		r.clock = r.clock.Add(rankEvery)
		for i := range 2 * topDestinations {
			r.send(fmt.Sprintf("dst_new_%d", i), i%2 == 0, 10)
		}
	}
	r.clock = r.clock.Add(rankEvery)
	r.send("dst_old_0", true, 1)
	attempts, _ := r.scrape()
	for name, n := range attempts {
		if len(name) > 7 && name[:7] == "dst_old" && n > 1 {
			t.Errorf("%s has %v requests", name, n)
		}
	}
	if attempts["dst_new_0"] == 0 || attempts["dst_new_1"] == 0 {
		t.Errorf("the new destinations are missing in %v", attempts)
	}
}

// The metrics live longer than an event, all texts of which share the memory of its headers.
func TestMetricsKeepNoTextOfAnEvent(t *testing.T) {
	r := newDestinationRig(t)
	text := "dst_1 and all headers"
	r.send(text[:5], false, 1)
	for _, name := range append(slices.Collect(maps.Keys(r.ranked)), slices.Collect(maps.Keys(r.exported))...) {
		if name != "dst_1" || unsafe.StringData(name) == unsafe.StringData(text) {
			t.Errorf("%s keeps the text of an event", name)
		}
	}
}

// A partition pauses when too many of its records are unfinished, and resumes when an eighth of them is done.
func TestPartitionPausesWhenTooMuchIsUnfinished(t *testing.T) {
	p, group := testPartition(t, stream.Events, 0)
	var slots []*slot
	for o := range int64(maxUnfinished) {
		must.Equal(t, len(group), 0, "paused at %d", o)
		slots = append(slots, p.beginRecord(o, 1))
	}
	must.Equal(t, len(group), 1, "not paused")
	for i, slot := range slots {
		slot.deliveryDone()
		if paused := len(group) == 1; paused != (i+1 <= maxUnfinished/8) {
			t.Fatalf("paused %v after %d were done", paused, i+1)
		}
	}
}

func TestTierPausesAtItsShare(t *testing.T) {
	p, group := testPartition(t, "retry.1h", time.Hour)
	now := time.UnixMilli(1_800_000_000_000)
	wait := func(o int64, size int) {
		p.addWaiting(&lane.Delivery{Slot: p.beginRecord(o, 1), Size: size, ReadyAt: now.Add(time.Duration(o) * time.Second)})
	}
	for o := range int64(10) {
		wait(o, 10<<10)
	}
	must.Equal(t, len(group), 1, "not paused at its share of the bytes")
	wait(10, 4<<10) // a paused partition gets nothing new; this is the rest of a poll
	ready, next := p.takeReady(now, readyBatch)
	if len(ready) != 1 || len(group) != 1 || !next.Equal(now.Add(time.Second)) {
		t.Fatalf("%d ready, next %v, paused %v", len(ready), next, len(group) == 1)
	}
	if ready, _ = p.takeReady(now.Add(time.Second), readyBatch); len(ready) != 1 || len(group) != 0 {
		t.Fatalf("%d ready, paused %v", len(ready), len(group) == 1)
	}
	for o := int64(11); o < 11+maxWaiting; o++ {
		wait(o, 1)
	}
	must.Equal(t, len(group), 1, "not paused at the number of records")
	p.stop()
	must.Equal(t, len(group), 0, "the client keeps a pause beyond the assignment")
}

// Tiers share the memory: what one holds is not available to the others, except for a small minimum.
func TestTiersShareTheirMemory(t *testing.T) {
	p, group := testPartition(t, "retry.1h", time.Hour)
	q, other := testPartition(t, "retry.5s", 5*time.Second)
	q.memory = p.memory
	wait := func(p *partition, o int64, size int) {
		p.addWaiting(&lane.Delivery{Slot: p.beginRecord(o, 1), Size: size})
	}
	wait(q, 0, 99<<10)
	wait(p, 0, 64<<10)
	if len(other) != 0 || len(group) != 1 {
		t.Fatalf("the first paused %v at half of the memory, the other %v at what is left", len(other) == 1, len(group) == 1)
	}
	q.stop()
	must.Equal(t, p.memory.used.Load(), 64<<10, "bytes are counted after one of them has ended")
	wait(p, 1, 1<<10)
	must.Equal(t, len(group), 0, "still paused although no other tier holds anything")
}

// Deliveries are released in order of the time at which they are ready, then of their offset.
func TestReadyDeliveriesAreOrderedByTime(t *testing.T) {
	p, _ := testPartition(t, "retry.5s", 5*time.Second)
	now := time.UnixMilli(1_800_000_000_000)
	woken := 0
	for o, ready := range []time.Duration{4, 2, 3, 2, 5, 1} {
		p.addWaiting(&lane.Delivery{Slot: p.beginRecord(int64(o), 1), Size: 1, ReadyAt: now.Add(ready * time.Second)})
		woken += wakes(p)
	}
	is.Equal(t, woken, 3, "the timer was woken … times for a new first delivery")
	ready, next := p.takeReady(now.Add(3*time.Second), 3)
	rest, last := p.takeReady(now.Add(3*time.Second), 3)
	var order []int64
	for _, delivery := range append(ready, rest...) {
		order = append(order, slotOf(delivery).offset)
	}
	if !slices.Equal(order, []int64{5, 1, 3, 2}) || !next.Equal(now.Add(3*time.Second)) ||
		!last.Equal(now.Add(4*time.Second)) {
		t.Errorf("offsets %v were ready, the next ones at %v and %v", order, next.Sub(now), last.Sub(now))
	}
}

// While a lane needs a partition of a retry tier paused, the partition releases nothing. The timer is woken when the
// last lane no longer needs that: nothing else would release what is overdue by then.
func TestStalledTierReleasesNothing(t *testing.T) {
	p, group := testPartition(t, "retry.5s", 5*time.Second)
	now := time.UnixMilli(1_800_000_000_000)
	p.addStalls(1)
	p.addStalls(-1)
	is.Equal(t, wakes(p), 0, "the timer is woken for nothing")
	p.addWaiting(&lane.Delivery{Slot: p.beginRecord(0, 1), Size: 1, ReadyAt: now})
	wakes(p)
	p.addStalls(2)
	if ready, next := p.takeReady(now, 1); ready != nil || !next.IsZero() || len(group) != 1 {
		t.Errorf("%d are released, the next one at %v, paused: %t", len(ready), next, len(group) == 1)
	}
	p.addStalls(-1)
	if woken := wakes(p); woken != 0 || len(group) != 1 {
		t.Errorf("one lane still stalls: woken %d times, paused: %t", woken, len(group) == 1)
	}
	p.addStalls(-1)
	if woken := wakes(p); woken != 1 || len(group) != 0 {
		t.Errorf("no lane stalls: woken %d times, paused: %t", woken, len(group) == 1)
	}
	if ready, _ := p.takeReady(now, 1); len(ready) != 1 {
		t.Error("nothing is released afterwards")
	}
}

// A delivery that completes after its partition was lost does not pause the partition's next assignment.
func TestStoppedPartitionIsNotPaused(t *testing.T) {
	p, group := testPartition(t, stream.Events, 0)
	var slots []*slot
	for o := range int64(maxUnfinished + 1) {
		slots = append(slots, p.beginRecord(o, 1))
	}
	p.stop()
	if slots[0].deliveryDone(); len(group) != 0 {
		t.Error("paused")
	}
}

// A record that was done before this assignment is skipped, and committed.
func TestRecordsDoneBeforeAreCommitted(t *testing.T) {
	p, _ := testPartition(t, stream.Events, 0)
	p.tracker.start(0, 1, gaps(0, 1))
	if p.beginRecord(0, 1) != nil {
		t.Error("it begins again")
	}
	if commit, _, _, ok := p.nextCommit(); !ok || commit.Offset != 1 {
		t.Errorf("commit %+v", commit)
	}
}

// A stop waits for deliveries that have begun, none begins after it, and no unfinished record is committed.
func TestStoppedPartition(t *testing.T) {
	p, _ := testPartition(t, stream.Events, 0)
	s0, s1 := p.beginRecord(0, 1), p.beginRecord(1, 1)
	for range 2 {
		if !p.beginDelivery() {
			t.Fatal("nothing begins")
		}
	}
	p.stop()
	if p.beginDelivery() || p.beginRecord(2, 1) != nil {
		t.Fatal("something begins after the stop")
	}
	s0.deliveryDone()
	p.endDelivery()
	select {
	case <-p.drained:
		t.Fatal("drained with a job in flight")
	default:
	}
	if commit, _, _, ok := p.nextCommit(); !ok || commit.Offset != 1 {
		t.Fatalf("commit %+v", commit)
	}
	s1.deliveryDone()
	p.endDelivery()
	<-p.drained
}

// pauses is a group that records which partitions are paused.
type pauses map[stream.Partition]bool

func (p pauses) Pause(ids ...stream.Partition) {
	for _, id := range ids {
		p[id] = true
	}
}

func (p pauses) Resume(ids ...stream.Partition) {
	for _, id := range ids {
		delete(p, id)
	}
}

func (p pauses) Lag(stream.Partition) int64 { return 0 }

func (p pauses) Commit(context.Context, map[stream.Partition]stream.Commit) error { return nil }

// wakes returns whether the timer was woken, as 0 or 1, and forgets it.
func wakes(p *partition) int {
	defer func() {
		for len(p.wake) > 0 {
			<-p.wake
		}
	}()
	return len(p.wake)
}

func testPartition(t testing.TB, topic string, delay time.Duration) (*partition, pauses) {
	t.Helper()
	group := pauses{}
	p, err := newPartition(&host{group: group, memory: &tierMemory{limit: 200 << 10}, wake: make(chan struct{}, 1)},
		stream.Partition{Topic: topic}, delay, stream.Commit{Offset: 0})
	must.Do(t, err)
	return p, group
}
