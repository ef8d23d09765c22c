package lane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// While a lane waits for a token, no worker runs, the queue holds only what is sent soon, and requested deliveries
// keep a place beside live ones.
func TestRateLimitedLane(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 200)
	l := lt.byDest["d"]
	for range 3 {
		lt.enqueue(lt.delivery("d", "run_1"))
	}
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
	is.Equal(t, l.live.Front(), first, "the delivery that waited for a token is not the next")
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), event.Paced, "above maxQueued")
	is.Equal(t, lt.wakeWaitingLanes(), 400*time.Millisecond, "Run sleeps for")
	started := lt.started[l]
	lt.now = lt.now.Add(400 * time.Millisecond)
	if wait := lt.wakeWaitingLanes(); wait != maxSleep || lt.started[l] != started+1 {
		t.Errorf("%d workers were started, Run sleeps for %v", lt.started[l]-started, wait)
	}

	// A lane asks again within a second even if the token is farther away, and a clock that is set back blocks nothing.
	for delivery = lt.waitForToken(l, lt.next(l, nil, NotSent), 10*time.Second, 0.1); delivery != nil; {
		delivery = lt.next(l, delivery, NotSent)
	}
	is.Equal(t, lt.wakeWaitingLanes(), maxTokenWait, "Run sleeps for")
	lt.now = lt.now.Add(-time.Hour)
	if lt.wakeWaitingLanes(); lt.started[l] != started+2 {
		t.Error("the lane waits for a clock that was set back")
	}
}

// A lane that waits for a token still takes deliveries of each kind, but only as many as it will send soon.
func TestRoomOfARateLimitedLane(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.wait, lt.eligibility.Destination.RateLimit = time.Second, &config.RateLimit{PerSecond: 2}
	if decision := l.Next(t.Context(), Result{}); decision.Action != Stop {
		t.Fatalf("%+v", decision)
	}
	for i, c := range []struct {
		run  string
		want event.Reason
	}{{"", ""}, {"", ""}, {"", ""}, {"", event.Paced}, {"run_1", ""}, {"run_1", event.Paced}} {
		is.Equal(t, lt.enqueue(lt.delivery("d", c.run)), c.want, "delivery %d", i)
	}
	select {
	case <-lt.waitChanged:
	default:
		t.Error("Run does not learn that a lane waits")
	}
}

// A token bucket holds at least the tokens of MinBurst. With a token for one worker there may be one for another.
func TestTakeToken(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 10)
	l := lt.byDest["d"]
	take := func(perSecond float64, burst int, wait time.Duration) int {
		lt.wait = wait
		limit := &config.RateLimit{PerSecond: perSecond, Burst: burst}
		is.Equal(t, l.takeToken(&config.Destination{RateLimit: limit}), wait, "the wait")
		return lt.burst
	}
	if a, b := take(1000, 5, time.Second), take(10, 5, time.Second); a != 100 || b != 5 {
		t.Errorf("bursts of %d and %d, want 100 and 5", a, b)
	}
	l.window.size = 8
	for _, c := range []struct {
		wait  time.Duration // for a token
		until time.Time     // the lane waits for one already
		more  int
	}{{0, lt.now, 1}, {time.Second, lt.now, 0}, {0, lt.now.Add(time.Second), 0}} {
		l.token.until = c.until
		before := l.workers
		if take(1, 1, c.wait); l.workers-before != c.more {
			t.Errorf("%d workers were started, want %d", l.workers-before, c.more)
		}
	}
	lt.limiter = nil
	if take(1, 1, 0); lt.wait != 0 {
		t.Error("a node without a limiter waits for a token")
	}
}

// A parked delivery is reported to be sent when those that are parked with it have had their tokens.
func TestPacedDeliveryReportsItsBacklog(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want time.Duration
	}{{0, 0}, {0.5, 20 * time.Second}, {1e-300, maxBacklog}} {
		lt := newLaneTest(t, 100)
		lt.fill("d", 1)
		lt.byDest["d"].token.perSecond = c.rate
		for range 9 {
			lt.parkOne(lt.delivery("d", ""), event.Paced)
		}
		decision := lt.parkOne(lt.delivery("d", ""), event.Paced)
		if want := later(decision.Due, lt.now.Add(c.want)); !decision.EarliestSend.Equal(want) {
			t.Errorf("%v a second: reported for %v, want %v", c.rate, decision.EarliestSend, want)
		}
	}
}

// Run starts a worker as soon as the wait of a lane is over, and removes lanes that are idle.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lt, began := newLaneTest(t, 100), time.Now()
		lt.Lanes.now = time.Now
		lt.fill("idle", 1)
		idle := lt.byDest["idle"]
		lt.next(idle, lt.next(idle, nil, NotSent), NotSent)
		lt.fill("d", 1)
		l := lt.byDest["d"]
		lt.waitForToken(l, lt.next(l, nil, NotSent), 400*time.Millisecond, 1)
		var started []time.Duration
		l.startWorker = func(*Lane) { started = append(started, time.Since(began)) }
		ctx, cancel := context.WithTimeout(t.Context(), idleLane+sweepEvery)
		defer cancel()
		lt.Run(ctx)
		is.List(t, started, []time.Duration{400 * time.Millisecond},
			"workers were started after … the token was there after 400 ms")
		if lt.byDest["idle"] != nil || lt.byDest["d"] == nil {
			t.Errorf("the lanes are %v", lt.byDest)
		}
	})
}

// Lanes wake in the order in which their waits end.
func TestLanesWakeInOrderOfTheirWait(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	waits := []int{5, 3, 9, 1, 7, 2, 8}
	for _, ms := range waits {
		dest := fmt.Sprint("d", ms)
		lt.fill(dest, 2)
		l := lt.byDest[dest]
		second := lt.next(l, nil, NotSent)
		lt.waitForToken(l, lt.next(l, nil, NotSent), time.Duration(10-ms)*time.Millisecond, 1)
		lt.waitForToken(l, second, time.Duration(ms)*time.Millisecond, 1) // the last answer counts
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
	is.Equal(t, strings.ReplaceAll(strings.Join(woken, " "), "d", ""), strings.Trim(fmt.Sprint(waits), "[]"),
		"woken in the order %v", woken)
}
