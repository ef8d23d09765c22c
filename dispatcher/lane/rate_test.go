package lane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// While a lane waits for a token, no worker runs, the queue holds only what is sent soon, and requested deliveries
// keep a place beside live ones.
func TestRateLimitedLane(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 200)
	l := lt.byDest["d"]
	lt.enqueue(lt.delivery("d", "run_1"))
	lt.enqueue(lt.delivery("d", "run_1"))
	for range lt.started[l] - 1 {
		lt.next(l, nil, NotSent)
	}
	first := lt.next(l, nil, NotSent)
	delivery := lt.waitForToken(l, first, 400*time.Millisecond, 10)
	parked := 0
	for ; delivery != nil; delivery = lt.next(l, delivery, NotSent) {
		if parked++; lt.reason != event.Paced {
			t.Fatalf("the reason is %q", lt.reason)
		}
	}
	if l.live.Len()+l.requested.Len() != 20 || l.requested.Len() != 1 || l.workers != 3 {
		t.Fatalf("%d live, %d requested wait, %d workers, %d parked", l.live.Len(), l.requested.Len(), l.workers, parked)
	}
	if got := l.live.Front(); got != first {
		t.Error("the delivery that waited for a token is not the next")
	}
	if r := lt.enqueue(lt.delivery("d", "")); r != event.Paced {
		t.Errorf("above maxQueued: %q", r)
	}
	if wait := lt.wakeWaitingLanes(); wait != 400*time.Millisecond {
		t.Errorf("Run sleeps for %v", wait)
	}
	started := lt.started[l]
	lt.now = lt.now.Add(400 * time.Millisecond)
	if wait := lt.wakeWaitingLanes(); wait != maxSleep || lt.started[l] != started+1 {
		t.Errorf("%d workers were started, Run sleeps for %v", lt.started[l]-started, wait)
	}

	// A lane asks again within a second even if the token is farther away, and a clock that is set back blocks nothing.
	for delivery = lt.waitForToken(l, lt.next(l, nil, NotSent), 10*time.Second, 0.1); delivery != nil; {
		delivery = lt.next(l, delivery, NotSent)
	}
	if wait := lt.wakeWaitingLanes(); wait != maxTokenWait {
		t.Errorf("Run sleeps for %v", wait)
	}
	lt.now = lt.now.Add(-time.Hour)
	if lt.wakeWaitingLanes(); lt.started[l] != started+2 {
		t.Error("the lane waits for a clock that was set back")
	}
}

// Lanes wake in the order in which their waits end.
func TestLanesWakeInOrderOfTheirWait(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	waits := []int{5, 3, 9, 1, 7, 2, 8}
	for _, ms := range waits {
		dest := fmt.Sprint("d", ms)
		lt.fill(dest, 1)
		l := lt.byDest[dest]
		lt.waitForToken(l, lt.next(l, nil, NotSent), time.Duration(ms)*time.Millisecond, 1)
		delete(lt.started, l)
	}
	var woken []string
	for range 20 {
		lt.wakeWaitingLanes()
		for l, n := range lt.started {
			woken = append(woken, strings.Repeat(l.dest, n))
		}
		clear(lt.started)
		lt.now = lt.now.Add(time.Millisecond)
	}
	slices.Sort(waits)
	if want := strings.Trim(fmt.Sprint(waits), "[]"); strings.ReplaceAll(strings.Join(woken, " "), "d", "") != want {
		t.Errorf("woken in the order %v", woken)
	}
}
