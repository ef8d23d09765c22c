package lane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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

func TestWindow(t *testing.T) {
	f := func(most int, results string, want int) {
		t.Helper()
		w := newWindow(most)
		for _, r := range results {
			switch r {
			case '+':
				w.recordSuccess()
			case '-':
				w.recordFailure(false)
			case 't':
				w.recordFailure(true)
			}
		}
		is.Equal(t, w.size, want, "%s of %d … may run", results, most)
	}
	f(64, "", 4)
	f(1, "", 1)
	f(0, "+", 1)
	f(64, "+++", 7)
	f(6, "++++++", 6)
	f(64, "++++t", 4)
	f(64, "tttt", 1)
	f(64, "++++++---------", 10)
	f(64, "++++++----------", 2)
	f(64, "++++++----------++", 4)
	f(1, "----------", 1)
	f(64, "++++++---------+-", 11) // failures in a row count
	w := newWindow(64)
	w.resize(2, false)
	f(2, "", w.size)
	w.resize(64, false)
	if w.recordSuccess(); w.size != 3 {
		t.Errorf("after max_in_flight grew: %d", w.size)
	}
	if w.resize(0, false); w.size != 1 {
		t.Errorf("after max_in_flight became 0: %d", w.size)
	}
	w = newWindow(64)
	w.resize(500, true)
	f(500, strings.Repeat("+", 496), w.size) // deliveries that gather are one request
	for range failingAfter {
		w.recordFailure(false)
	}
	is.Equal(t, w.size, FailingWindow)
	is.Equal(t, w.fresh().size, 500)
	w.recordSuccess()
	is.Equal(t, w.size, 500)
}

// When memory is low, stuck lanes give back what they cannot send soon, so that a healthy lane has room for a burst
// beside 500 hanging ones.
func TestStuckLanesShedWhenMemoryIsLow(t *testing.T) {
	lt := newLaneTest(t, 8192)
	for i := range 500 {
		lt.fill(fmt.Sprint("hung", i), 16)
		for lt.paused() {
			lt.now = lt.now.Add(movingWindow)
			lt.EnforceLimits()
		}
	}
	for _, l := range lt.byDest {
		for range lt.started[l] { // four requests run and hang
			lt.next(l, nil, NotSent)
		}
	}
	before, _ := lt.InMemory()
	lt.now = lt.now.Add(2 * stuckAfter)
	shed, again := lt.EnforceLimits()
	for _, j := range shed {
		lt.Release(j.Delivery)
	}
	held, _ := lt.InMemory()
	if again == 0 || held != before-len(shed) || held > 500*(InitialWindow+2*InitialWindow) {
		t.Fatalf("%d of %d deliveries are held after %d were shed, again %v", held, before, len(shed), again)
	}
	for _, l := range lt.byDest {
		for range failingAfter { // they fail, and queue less
			l.window.recordFailure(true)
		}
	}
	for shed, _ = lt.EnforceLimits(); len(shed) > 0; shed = shed[1:] {
		lt.Release(shed[0].Delivery)
	}
	if n := lt.fill("hung7", 100); n > 2 {
		t.Errorf("a stuck lane queued %d more", n)
	}
	if n := lt.fill("healthy", laneQueue); n < laneQueue {
		t.Errorf("a healthy lane had room for %d", n)
	}
}

// Above a quarter of the memory, deliveries to stuck lanes are parked as they arrive. The lanes do not fill half of it
// first, to give it back at once.
func TestStuckLanesQueueLittleWhenMemoryIsLow(t *testing.T) {
	lt := newLaneTest(t, 8192)
	for i := range 200 {
		lt.fill(fmt.Sprint("hung", i), InitialWindow)
	}
	lt.now = lt.now.Add(2 * stuckAfter)
	for i := range 200 {
		lt.fill(fmt.Sprint("hung", i), 100)
	}
	held, _ := lt.InMemory()
	if shed, _ := lt.EnforceLimits(); len(shed) > 0 || held < 8192/4 || held > 8192/4+100+200*2*InitialWindow {
		t.Errorf("%d deliveries are held, %d were shed", held, len(shed))
	}
	if n := lt.fill("healthy", laneQueue); n < laneQueue {
		t.Errorf("a healthy lane had room for %d", n)
	}
}

// However many destinations fail, at one request each, there is room for one that works or was not tried yet.
func TestFailingLanesLeaveAQuarter(t *testing.T) {
	lt := newLaneTest(t, 1000)
	failing := 0
	for i := range 2000 {
		dest := fmt.Sprint("d", i)
		lt.laneOf(lt.delivery(dest, ""), lt.now).window.failures = failingAfter
		failing += lt.fill(dest, 1)
	}
	if lt.paused() || failing > 751 {
		t.Errorf("%d failing lanes have a delivery, paused: %v", failing, lt.paused())
	}
	is.Equal(t, lt.fill("new", 100), 100, "a new lane queued")
}
