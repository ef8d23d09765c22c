package lane

import (
	"github.com/eventrelay/relay/test/must"
	"testing"
	"time"
)

// What a stuck lane gives back no longer counts as its bytes, or the lane would be full for ever.
func TestShedDeliveriesFreeTheirBytes(t *testing.T) {
	lt := newLaneTest(t, 100)
	must.Equal(t, lt.fill("d", 60), 60, "of 60 are queued")
	lt.now = lt.now.Add(time.Minute)
	shed, _ := lt.EnforceLimits()
	l := lt.byDest["d"]
	if kept := l.queued(); len(shed) == 0 || kept != 60-len(shed) || l.bytes != kept*1000 || l.deliveries != kept {
		t.Errorf("%d are given back, %d of %d bytes are kept", len(shed), kept, l.bytes)
	}
}

// A lane that completes deliveries gives nothing back, unless all of them fail.
func TestOnlyStuckLanesGiveBack(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.fill("d", 60)
	l := lt.byDest["d"]
	lt.now = lt.now.Add(time.Minute)
	lt.next(l, lt.next(l, nil, NotSent), Succeeded)
	if shed, _ := lt.EnforceLimits(); len(shed) > 0 {
		t.Errorf("a lane that works gives %d back", len(shed))
	}
	l.window.failures = failingAfter
	if shed, _ := lt.EnforceLimits(); len(shed) == 0 {
		t.Error("a lane that fails gives nothing back")
	}
}

// Deliveries that a lane gives back belong to the next owner if their partition has just been lost. They no longer
// count as held here, or the node would stop reading for ever.
func TestShedDeliveriesOfALostPartition(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.fill("d", 60)
	lt.now = lt.now.Add(time.Minute)
	lt.part.left = true
	shed, _ := lt.EnforceLimits()
	held, bytes := lt.InMemory()
	if kept := lt.byDest["d"].queued(); len(shed) != 0 || kept == 60 || held != kept || bytes != kept*1000 {
		t.Errorf("%d are given back, %d are queued, %d deliveries of %d bytes are held", len(shed), kept, held, bytes)
	}
}
