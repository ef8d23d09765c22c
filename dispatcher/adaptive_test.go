package dispatcher

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
)

func TestWindow(t *testing.T) {
	f := func(most int, results string, want int) {
		t.Helper()
		w := newWindow(most)
		for _, r := range results {
			switch r {
			case '+':
				w.success()
			case '-':
				w.failure(false)
			case 't':
				w.failure(true)
			}
		}
		if w.size != want {
			t.Errorf("%s of %d: %d may fly, want %d", results, most, w.size, want)
		}
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
	w := newWindow(64)
	w.resize(2)
	f(2, "", w.size)
	w.resize(64)
	if w.success(); w.size != 3 {
		t.Errorf("after max_in_flight grew: %d", w.size)
	}
}

// A burst to a destination that nothing was sent to before: beginning small costs it four round trips.
func TestBurstToANewLane(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		const events, trip = 1000, 20 * time.Millisecond
		s := &sink{answer: func(int, received) int { time.Sleep(trip); return 200 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		w.start(testConfig())
		all := w.outcomes(count(events, event.Delivered))
		if len(all) != events {
			t.Errorf("%d outcomes: a part was parked", len(all))
		}
		got := s.all()
		took := got[len(got)-1].at.Sub(got[0].at)
		full := events / 64 * trip // with 64 in flight all the time
		t.Logf("%d events in %v; %v with all requests from the start", events, took, full)
		if took > full+8*trip {
			t.Errorf("the burst took %v, %v would be without adapting", took, full)
		}
	})
}

// A destination that hangs is sent four requests, then one or two at a time; when it answers again it gets
// all that it takes.
func TestHungDestinationGetsFewRequests(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var hangs atomic.Bool
		var flying, most, total atomic.Int64
		hangs.Store(true)
		url, _ := w.serve(80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			total.Add(1)
			most.Store(max(most.Load(), flying.Add(1)))
			defer flying.Add(-1)
			if io.Copy(io.Discard, r.Body); hangs.Load() {
				<-r.Context().Done()
				return
			}
			time.Sleep(100 * time.Millisecond)
		}))
		w.endpoint(url).RetryPolicy = control.RetryPolicy{Strategy: "linear", IntervalSeconds: 1, MaxAttempts: 50}
		w.start(testConfig())
		const events = 300
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(time.Second)
		if n := most.Load(); n != firstWindow {
			t.Errorf("%d requests at first", n)
		}
		time.Sleep(15 * time.Second)
		most.Store(0)
		time.Sleep(29 * time.Second)
		if n := most.Load(); n > failingWindow {
			t.Errorf("%d requests to a destination that does not answer", n)
		}
		if w.metric("relay_dispatch_lanes", "limited") != 1 {
			t.Error("the metrics do not tell of the limited lane")
		}
		hangs.Store(false)
		w.outcomes(count(events, event.Delivered))
		if n := most.Load(); n < 32 {
			t.Errorf("%d requests at once after it came back", n)
		}
	})
}

// When memory is short, what is stuck gives back what it will not send soon, so that a healthy lane has
// room for a burst beside 500 hung ones.
func TestStuckLanesGiveRoomBack(t *testing.T) {
	lt := newLaneTest(t, 8192)
	for i := range 500 {
		lt.fill(fmt.Sprint("hung", i), 16)
		for len(lt.group) > 0 {
			lt.now = lt.now.Add(movingWindow)
			lt.recheck()
		}
	}
	for _, l := range lt.byDest {
		for range lt.started[l] { // four are sent and hang
			lt.next(l, nil, result{})
		}
	}
	before, _ := lt.held()
	lt.now = lt.now.Add(2 * stuckAfter)
	shed, again := lt.recheck()
	for _, j := range shed {
		lt.free(j)
	}
	jobs, _ := lt.held()
	if !again || jobs != before-len(shed) || jobs > 500*(firstWindow+2*firstWindow) {
		t.Fatalf("%d of %d jobs are held after %d were shed, again %v", jobs, before, len(shed), again)
	}
	for _, l := range lt.byDest {
		for range failingAfter { // they fail, and take less
			l.window.failure(true)
		}
	}
	for shed, _ = lt.recheck(); len(shed) > 0; shed = shed[1:] {
		lt.free(shed[0])
	}
	if n := lt.fill("hung7", 100); n > 2 {
		t.Errorf("a stuck lane took %d more", n)
	}
	if n := lt.fill("healthy", laneQueue); n < laneQueue {
		t.Errorf("a healthy lane had room for %d", n)
	}
}

// What comes for lanes that are stuck is parked piece by piece from a quarter of the memory on: they do not fill half of
// it, to give it back at once.
func TestStuckLanesTakeLittle(t *testing.T) {
	lt := newLaneTest(t, 8192)
	for i := range 200 {
		lt.fill(fmt.Sprint("hung", i), firstWindow)
	}
	lt.now = lt.now.Add(2 * stuckAfter)
	for i := range 200 {
		lt.fill(fmt.Sprint("hung", i), 100)
	}
	jobs, _ := lt.held()
	if shed, _ := lt.recheck(); len(shed) > 0 || jobs < 8192/4 || jobs > 8192/4+100+200*2*firstWindow {
		t.Errorf("%d jobs are held, %d were shed", jobs, len(shed))
	}
	if n := lt.fill("healthy", laneQueue); n < laneQueue {
		t.Errorf("a healthy lane had room for %d", n)
	}
}

// However many destinations fail, at one request each, there is room for one that does not, or that was not
// tried yet.
func TestFailingLanesLeaveAQuarter(t *testing.T) {
	lt := newLaneTest(t, 1000)
	failing := 0
	for i := range 2000 {
		dest := fmt.Sprint("d", i)
		lt.lane(lt.job(dest, "").work, 0, lt.now).window.fails = failingAfter
		failing += lt.fill(dest, 1)
	}
	if len(lt.group) != 0 || failing > 751 {
		t.Errorf("%d failing lanes have a job, %d partitions are paused", failing, len(lt.group))
	}
	if n := lt.fill("new", 100); n != 100 {
		t.Errorf("a new lane took %d", n)
	}
}
