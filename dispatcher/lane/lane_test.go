package lane

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
)

// testPartition is a partition that lanes may ask to pause, and that may leave the node.
type testPartition struct {
	Source
	stalls int
	left   bool
}

func newTestPartition() *testPartition {
	p := &testPartition{}
	p.Stall = func(lanes int) { p.stalls += lanes }
	return p
}

// testSlot is a slot of it.
type testSlot struct{ part *testPartition }

func (s *testSlot) Source() *Source { return &s.part.Source }

// laneTest drives lanes by hand: workers are counted, not run.
type laneTest struct {
	*Lanes
	now     time.Time
	started map[*Lane]int
	part    *testPartition
}

func newLaneTest(t testing.TB, maxJobs int) *laneTest {
	t.Helper()
	lt := &laneTest{now: time.UnixMilli(1_800_000_000_000), started: map[*Lane]int{}, part: newTestPartition()}
	lt.Lanes = New(Config{MaxInFlight: maxJobs, MaxInFlightBytes: 1 << 30, MaxSending: maxJobs}, Deps{
		Now: func() time.Time { return lt.now }, Wake: func() {}, InFlight: func(*event.Work) int { return 64 },
	})
	lt.Start(func(l *Lane) { lt.started[l]++ })
	return lt
}

// paused reports whether the lanes ask the partition to pause.
func (lt *laneTest) paused() bool { return lt.part.stalls > 0 }

func (lt *laneTest) job(dest, run string) *Delivery {
	return &Delivery{Slot: &testSlot{lt.part}, Work: &event.Work{Dest: dest, Run: run}, Size: 1000}
}

func (lt *laneTest) fill(dest string, n int) (admitted int) {
	for range n {
		if lt.Admit(lt.job(dest, "")) == "" {
			admitted++
		}
	}
	return admitted
}

// A stuck lane takes its queue and no more, and pauses nobody.
func TestStuckLaneParks(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("stuck", 1)
	lt.now = lt.now.Add(time.Second)
	if n := lt.fill("stuck", 5000); n != laneQueue-1 {
		t.Errorf("%d were admitted, want %d", n, laneQueue-1)
	}
	if lt.paused() {
		t.Error("a stuck lane paused its partition")
	}
	if n := lt.started[lt.byDest["stuck"]]; n != FirstWindow {
		t.Errorf("%d workers, want %d", n, FirstWindow)
	}
}

// A lane that is full because it was idle a moment ago pauses the partition; when it does move the
// partition goes on at half of the queue, when it does not, after the window.
func TestBusyLanePausesThePartition(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	if n := lt.fill("busy", laneQueue+100); n != laneQueue+100 || !lt.paused() {
		t.Fatalf("%d admitted, paused: %v", n, lt.paused())
	}
	l := lt.byDest["busy"]
	var j *Delivery // of the one worker that works
	work := func(n int) {
		for range n {
			j = lt.Next(l, j, Result{})
		}
	}
	lt.now = lt.now.Add(100 * time.Millisecond)
	work(400)
	if _, again := lt.Recheck(); !lt.paused() || !again {
		t.Fatal("the partition went on too early")
	}
	work(250)
	if _, again := lt.Recheck(); lt.paused() || again {
		t.Fatal("the partition is still paused")
	}

	// Busy for a while, and full again: it counts how fast it was.
	lt.now = lt.now.Add(movingWindow)
	lt.fill("busy", laneQueue)
	if !lt.paused() {
		t.Fatal("a moving lane parks")
	}
	lt.now = lt.now.Add(2 * movingWindow)
	if _, again := lt.Recheck(); again || lt.paused() {
		t.Fatal("a lane that stopped moving still holds its partition")
	}
	if lt.Admit(lt.job("busy", "")) == "" {
		t.Fatal("a lane that stopped moving takes more")
	}
}

// A lane that is full time and again makes its neighbours wait for a second, then for a tenth of the
// time; one that has the partition for itself may make it wait as long as it moves.
func TestStallsAreBounded(t *testing.T) {
	f := func(neighbours bool, most, least time.Duration) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("busy", soleStreak)
		l := lt.byDest["busy"]
		var paused time.Duration
		var j *Delivery
		for range 3000 { // half a minute, at 5,000 a second in and out
			if lt.paused() {
				paused += 10 * time.Millisecond
			} else {
				for range 100 {
					lt.Admit(lt.job("busy", ""))
				}
				if neighbours {
					lt.Admit(lt.job("other", ""))
				}
			}
			for range 50 {
				j = lt.Next(l, j, Result{Kind: Succeeded})
			}
			lt.Recheck()
			lt.now = lt.now.Add(10 * time.Millisecond)
		}
		if paused > most || paused < least {
			t.Errorf("neighbours %v: paused for %v of 30 s, want %v to %v", neighbours, paused, least, most)
		}
	}
	f(true, 5*time.Second, 2*time.Second)
	f(false, 30*time.Second, 10*time.Second)
}

// However many lanes are stuck, what they leave is enough for the others.
func TestStuckLanesLeaveRoom(t *testing.T) {
	const maxJobs = 8192
	lt := newLaneTest(t, maxJobs)
	for range 100 {
		for i := range 500 {
			lt.fill(fmt.Sprint("stuck", i), 1)
			for lt.paused() { // the intake waits
				lt.now = lt.now.Add(movingWindow)
				lt.Recheck()
			}
			if lt.Full() {
				jobs, _ := lt.Held()
				t.Fatalf("%d jobs are held", jobs)
			}
		}
	}
	for range 2 {
		if lt.Admit(lt.job("good", "")) != "" {
			t.Error("no room is left for a good lane")
		}
	}
}

func TestLaneBytesAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxBytes = 10_000
	lt.fill("a", 1)
	lt.now = lt.now.Add(time.Second)
	if n := lt.fill("a", 100); n != 4 {
		t.Errorf("%d jobs of 1,000 bytes went in beside the first, want 4: half of 10,000", n)
	}
}

func TestMaxInFlightChanges(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 100)
	l := lt.byDest["d"]
	var busy []*Delivery
	work := func(n int, kind ResultKind) { // n workers end what they do, others begin
		t.Helper()
		for ; lt.started[l] > 0; lt.started[l]-- {
			if j := lt.Next(l, nil, Result{}); j != nil {
				busy = append(busy, j)
			}
		}
		for range n {
			j := lt.Next(l, busy[0], Result{Kind: kind})
			if busy = busy[1:]; j != nil {
				busy = append(busy, j)
			}
		}
	}
	work(0, Nothing)
	if len(busy) != FirstWindow {
		t.Fatalf("%d fly at first", len(busy))
	}
	lt.Configure(l, "u", 3)
	work(4, Succeeded)
	if len(busy) != 3 || l.running != 3 {
		t.Fatalf("%d fly, %d are counted, want 3", len(busy), l.running)
	}
	lt.Configure(l, "u", 1000)
	for range 3 {
		work(len(busy), Succeeded)
		work(0, Nothing)
	}
	if work(0, Nothing); len(busy) != 24 || l.running != 24 {
		t.Fatalf("%d fly, %d are counted, want 24: twice as many with each round", len(busy), l.running)
	}
}

func TestLiveWorkBeforeReplays(t *testing.T) {
	f := func(limit int, want string) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("d", 1)
		l := lt.byDest["d"]
		lt.Next(l, nil, Result{})
		lt.Configure(l, "u", limit)
		for range 3 {
			lt.Admit(lt.job("d", "run_1"))
		}
		lt.fill("d", 4)
		got := ""
		for range 7 {
			l.running = 1
			j := lt.Next(l, nil, Result{})
			if j.Work.Run == "" {
				got += "L"
			} else {
				got += "r"
			}
			l.letGo(j) // one at a time
			l.held--
		}
		if got != want {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
	f(1, "rLrLrLL")

	// With room for several, one replay flies and the rest gives way.
	lt := newLaneTest(t, 100_000)
	for range 3 {
		lt.Admit(lt.job("d", "run_1"))
	}
	lt.fill("d", 4)
	l := lt.byDest["d"]
	lt.Configure(l, "u", 64)
	var got []string
	for range 7 {
		got = append(got, lt.Next(l, nil, Result{}).Work.Run)
	}
	if d := cmp.Diff([]string{"run_1", "", "", "", "", "run_1", "run_1"}, got); d != "" {
		t.Error(d)
	}
}

func TestIdleLanesAreForgotten(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("idle", 1)
	lt.fill("busy", 1)
	l := lt.byDest["idle"]
	j := lt.Next(l, nil, Result{})
	if lt.Next(l, j, Result{}) != nil {
		t.Fatal("work out of nothing")
	}
	lt.now = lt.now.Add(2 * idleLane)
	lt.Sweep()
	if lt.byDest["idle"] != nil || lt.byDest["busy"] == nil {
		t.Errorf("lanes: %v", lt.byDest)
	}
}
