package lane

import (
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"testing"
)

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
	w.resize(2)
	f(2, "", w.size)
	w.resize(64)
	if w.recordSuccess(); w.size != 3 {
		t.Errorf("after max_in_flight grew: %d", w.size)
	}
	if w.resize(0); w.size != 1 {
		t.Errorf("after max_in_flight became 0: %d", w.size)
	}
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
