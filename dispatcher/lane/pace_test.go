package lane

import (
	"fmt"
	"testing"
	"time"
)

// After a clock that was ahead is set back, a lane may pause a partition as usual.
func TestClockSetBackLeavesTheBudget(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.next(l, lt.next(l, nil, NotSent), Succeeded)
	lt.now = lt.now.Add(-time.Hour)
	if n := lt.fill("d", laneQueue+10); n != laneQueue+10 || !lt.paused() {
		t.Errorf("%d of %d were admitted, paused: %v", n, laneQueue+10, lt.paused())
	}
}

// Lanes share MaxSending: the more requests hang, the fewer each lane may have, and every lane sends.
func TestRequestsAreShared(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxSending = 100
	lt.maxInFlight = 1000
	busy := map[*Lane][]*Delivery{}
	finish := func(l *Lane) { // the oldest request succeeds, and started workers take deliveries
		t.Helper()
		for ; lt.started[l] > 0; lt.started[l]-- {
			busy[l] = append(busy[l], lt.next(l, nil, NotSent))
		}
		delivery := lt.next(l, busy[l][0], Succeeded)
		if busy[l] = busy[l][1:]; delivery != nil {
			busy[l] = append(busy[l], delivery)
		}
	}
	for n, want := range []int{50, 25, 12, 6} {
		dest := fmt.Sprint("slow-", n)
		lt.fill(dest, 900)
		l := lt.byDest[dest]
		for range 400 {
			finish(l)
		}
		if got := len(busy[l]) + lt.started[l]; got != l.workers || got < want-1 || got > want+1 {
			t.Errorf("lane %d sends %d requests, want %d; its workers are %d", n, got, want, l.workers)
		}
	}
	for n := range 50 {
		dest := fmt.Sprint("other-", n)
		if lt.fill(dest, 1); lt.byDest[dest].workers != 1 {
			t.Errorf("%s sends nothing", dest)
		}
	}
	first := lt.byDest["slow-0"]
	for range 100 {
		finish(first)
	}
	if first.workers > 4 || lt.Census().Sending > lt.maxSending {
		t.Errorf("beside the others the first lane keeps %d requests of %d", first.workers, lt.Census().Sending)
	}
}
