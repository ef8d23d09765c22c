package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
	p.wakeTimer = func() { woken++ }
	for o, ready := range []time.Duration{4, 2, 3, 2, 5, 1} {
		p.addWaiting(&lane.Delivery{Slot: p.beginRecord(int64(o), 1), Size: 1, ReadyAt: now.Add(ready * time.Second)})
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
	woken, now := 0, time.UnixMilli(1_800_000_000_000)
	p.wakeTimer = func() { woken++ }
	p.addStalls(1)
	p.addStalls(-1)
	is.Equal(t, woken, 0, "the timer is woken for nothing")
	p.addWaiting(&lane.Delivery{Slot: p.beginRecord(0, 1), Size: 1, ReadyAt: now})
	woken = 0
	p.addStalls(2)
	if ready, next := p.takeReady(now, 1); ready != nil || !next.IsZero() || len(group) != 1 {
		t.Errorf("%d are released, the next one at %v, paused: %t", len(ready), next, len(group) == 1)
	}
	if p.addStalls(-1); woken != 0 || len(group) != 1 {
		t.Errorf("one lane still stalls: woken %d times, paused: %t", woken, len(group) == 1)
	}
	if p.addStalls(-1); woken != 1 || len(group) != 0 {
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

func testPartition(t testing.TB, topic string, delay time.Duration) (*partition, pauses) {
	t.Helper()
	group := pauses{}
	p, err := newPartition(stream.Partition{Topic: topic}, delay, group, &tierMemory{limit: 200 << 10}, func() {},
		stream.Commit{Offset: 0})
	must.Do(t, err)
	return p, group
}
