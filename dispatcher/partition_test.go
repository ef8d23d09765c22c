package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// A partition rests when too much of it is undone, and goes on at half of it.
func TestPartitionPausesWhenTooMuchIsUndone(t *testing.T) {
	p, group := testPartition(t, stream.Events, 0)
	var slots []*slot
	for o := range int64(maxUndone) {
		if len(group) != 0 {
			t.Fatalf("paused at %d", o)
		}
		slots = append(slots, p.add(o, 1))
	}
	if len(group) != 1 {
		t.Fatal("not paused")
	}
	for i, s := range slots {
		s.done()
		if paused := len(group) == 1; paused != (i+1 <= maxUndone/2) {
			t.Fatalf("paused %v after %d were done", paused, i+1)
		}
	}
}

func TestTierPausesAtItsShare(t *testing.T) {
	p, group := testPartition(t, "retry.1h", time.Hour)
	p.setShare(100 << 10)
	now := time.UnixMilli(1_800_000_000_000)
	wait := func(o int64, size int) {
		p.wait(&job{slot: p.add(o, 1), size: size, ready: now.Add(time.Duration(o) * time.Second)})
	}
	for o := range int64(10) {
		wait(o, 10<<10)
	}
	if len(group) != 1 {
		t.Fatal("not paused at its share of the bytes")
	}
	jobs, next := p.ripe(now.Add(4*time.Second), ripeBatch)
	if len(jobs) != 5 || len(group) != 1 || !next.Equal(now.Add(5*time.Second)) {
		t.Fatalf("%d ripe, next %v, paused %v", len(jobs), next, len(group) == 1)
	}
	if jobs, _ = p.ripe(now.Add(5*time.Second), ripeBatch); len(jobs) != 1 || len(group) != 0 {
		t.Fatalf("%d ripe, paused %v", len(jobs), len(group) == 1)
	}
	for o := int64(10); o < 10+maxWaiting; o++ {
		wait(o, 1)
	}
	if len(group) != 1 {
		t.Fatal("not paused at the number of records")
	}
	p.stop()
	if len(group) != 0 {
		t.Fatal("the client keeps a pause beyond the assignment")
	}
}

// What begins before a stop is waited for, nothing begins after it, and nothing is committed from a
// record that was not done.
func TestStoppedPartition(t *testing.T) {
	p, _ := testPartition(t, stream.Events, 0)
	s0, s1 := p.add(0, 1), p.add(1, 1)
	for range 2 {
		if !p.begin() {
			t.Fatal("nothing begins")
		}
	}
	p.stop()
	if p.begin() || p.add(2, 1) != nil {
		t.Fatal("something begins after the stop")
	}
	s0.done()
	p.end()
	select {
	case <-p.drained:
		t.Fatal("drained with a job in flight")
	default:
	}
	if mark, _, _, ok := p.take(); !ok || mark.Offset != 1 {
		t.Fatalf("mark %+v", mark)
	}
	s1.done()
	p.end()
	<-p.drained
}
