package lane

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// testPartition is a partition that lanes may pause and that may leave the node.
type testPartition struct {
	Partition
	stalls int
	active int
	left   bool
}

func newTestPartition() *testPartition {
	p := &testPartition{}
	p.AddStalls = func(lanes int) { p.stalls += lanes }
	return p
}

// testSlot is a slot of a testPartition.
type testSlot struct{ part *testPartition }

func (s *testSlot) Partition() *Partition { return &s.part.Partition }
func (s *testSlot) EndDelivery()          { s.part.active-- }
func (s *testSlot) BeginDelivery() bool {
	if s.part.left {
		return false
	}
	s.part.active++
	return true
}

// laneTest drives lanes by hand: it counts workers instead of running them. It is also their Rules and their Limiter.
type laneTest struct {
	*Lanes
	now         time.Time
	started     map[*Lane]int
	part        *testPartition
	reason      event.Reason // why the delivery that next took last must be parked
	maxInFlight int
	eligibility Eligibility
	err         error         // of the configuration check
	wait        time.Duration // for a token
}

func newLaneTest(t testing.TB, most int) *laneTest {
	t.Helper()
	lt := &laneTest{
		now: time.UnixMilli(1_800_000_000_000), started: map[*Lane]int{}, part: newTestPartition(), maxInFlight: 64,
		eligibility: Eligibility{Endpoint: &config.Endpoint{}, Destination: &config.Destination{Enabled: true}, Known: true},
	}
	lt.Lanes = New(Config{MaxInFlight: most, MaxInFlightBytes: 1 << 30, MaxSending: most}, Deps{
		Now: func() time.Time { return lt.now }, Wake: func() {}, Rules: lt, Limiter: lt, Held: lt,
		OnGone: func(*event.Work, string) {},
	})
	lt.SetStartWorker(func(l *Lane) { lt.started[l]++ })
	return lt
}

func (lt *laneTest) MaxInFlight(*event.Work) int                  { return lt.maxInFlight }
func (lt *laneTest) Check(*event.Work, bool) Eligibility          { return lt.eligibility }
func (lt *laneTest) TakeToken(string, float64, int) time.Duration { return lt.wait }
func (lt *laneTest) SetHeldUntil(string, time.Time)               {}
func (lt *laneTest) CheckLatest(context.Context, *event.Work) (Eligibility, error) {
	return lt.eligibility, lt.err
}

// paused reports whether lanes want the partition paused.
func (lt *laneTest) paused() bool { return lt.part.stalls > 0 }

func (lt *laneTest) delivery(dest, run string) *Delivery {
	return &Delivery{Slot: &testSlot{lt.part}, Work: &event.Work{Dest: dest, Run: run}, Size: 1000}
}

func (lt *laneTest) fill(dest string, n int) (queued int) {
	for range n {
		if lt.enqueue(lt.delivery(dest, "")) == "" {
			queued++
		}
	}
	return queued
}

// next ends the delivery of a worker, if it has one, and takes its next one.
func (lt *laneTest) next(l *Lane, done *Delivery, kind ResultKind) (delivery *Delivery) {
	delivery, lt.reason = l.finishAndTakeNext(Result{Delivery: done, Kind: kind})
	return delivery
}

// waitForToken returns a delivery to its lane until there is a token.
func (lt *laneTest) waitForToken(l *Lane, done *Delivery, wait time.Duration, rate float64) (delivery *Delivery) {
	delivery, lt.reason = l.finishAndTakeNext(Result{Delivery: done, Kind: waitsForToken, wait: wait, perSecond: rate})
	return delivery
}

// parkOne parks a delivery that is in no lane.
func (lt *laneTest) parkOne(delivery *Delivery, reason event.Reason) Decision {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.laneOf(delivery, lt.now).parkLocked(delivery, reason, lt.now)
}

// A stuck lane fills its queue, parks the rest, and pauses no partition.
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
	if n := lt.started[lt.byDest["stuck"]]; n != InitialWindow {
		t.Errorf("%d workers, want %d", n, InitialWindow)
	}
}

// A lane that was idle until a moment ago and is full pauses its partition. If it completes deliveries, the partition
// resumes at half of the queue; if not, after movingWindow.
func TestBusyLanePausesThePartition(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	if n := lt.fill("busy", laneQueue+100); n != laneQueue+100 || !lt.paused() {
		t.Fatalf("%d admitted, paused: %v", n, lt.paused())
	}
	l := lt.byDest["busy"]
	var delivery *Delivery // of the one worker that completes deliveries
	work := func(n int) {
		for range n {
			delivery = lt.next(l, delivery, NotSent)
		}
	}
	lt.now = lt.now.Add(100 * time.Millisecond)
	work(400)
	if _, again := lt.EnforceLimits(); !lt.paused() || again == 0 {
		t.Fatal("the partition resumed too early")
	}
	work(250)
	if _, again := lt.EnforceLimits(); lt.paused() || again > 0 {
		t.Fatal("the partition is still paused")
	}

	// Busy for a while and full again: its measured speed counts.
	lt.now = lt.now.Add(movingWindow)
	lt.fill("busy", laneQueue)
	if !lt.paused() {
		t.Fatal("a lane that completes deliveries parks")
	}
	lt.now = lt.now.Add(2 * movingWindow)
	if _, again := lt.EnforceLimits(); again > 0 || lt.paused() {
		t.Fatal("a stuck lane still pauses its partition")
	}
	if lt.enqueue(lt.delivery("busy", "")) == "" {
		t.Fatal("a stuck lane queues more")
	}
}

// A lane that is full again and again pauses its partition for one second, then for a tenth of the time. Where it is
// the only destination of the partition, it may pause it as long as it completes deliveries.
func TestStallsAreBounded(t *testing.T) {
	f := func(neighbours bool, most, least time.Duration) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("busy", soleStreak)
		l := lt.byDest["busy"]
		var paused time.Duration
		var delivery *Delivery
		for range 3000 { // half a minute, at 5,000 a second in and out
			if lt.paused() {
				paused += 10 * time.Millisecond
			} else {
				for range 100 {
					lt.enqueue(lt.delivery("busy", ""))
				}
				if neighbours {
					lt.enqueue(lt.delivery("other", ""))
				}
			}
			for range 50 {
				delivery = lt.next(l, delivery, Succeeded)
			}
			lt.EnforceLimits()
			lt.now = lt.now.Add(10 * time.Millisecond)
		}
		if paused > most || paused < least {
			t.Errorf("neighbours %v: paused for %v of 30 s, want %v to %v", neighbours, paused, least, most)
		}
	}
	f(true, 5*time.Second, 2*time.Second)
	f(false, 30*time.Second, 10*time.Second)
}

// However many lanes are stuck, enough memory stays free for the others.
func TestStuckLanesLeaveRoom(t *testing.T) {
	const maxJobs = 8192
	lt := newLaneTest(t, maxJobs)
	for range 100 {
		for i := range 500 {
			lt.fill(fmt.Sprint("stuck", i), 1)
			for lt.paused() { // the reader waits
				lt.now = lt.now.Add(movingWindow)
				lt.EnforceLimits()
			}
			if lt.Full() {
				held, _ := lt.InMemory()
				t.Fatalf("%d deliveries are held", held)
			}
		}
	}
	for range 2 {
		if lt.enqueue(lt.delivery("good", "")) != "" {
			t.Error("no memory is left for a working lane")
		}
	}
}

func TestLaneBytesAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxBytes = 10_000
	lt.fill("a", 1)
	lt.now = lt.now.Add(time.Second)
	if n := lt.fill("a", 100); n != 4 {
		t.Errorf("%d deliveries of 1,000 bytes were queued beside the first, want 4: half of 10,000", n)
	}
}

func TestMaxInFlightChanges(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 100)
	l := lt.byDest["d"]
	var busy []*Delivery
	work := func(n int, kind ResultKind) { // n workers finish, others start
		t.Helper()
		for ; lt.started[l] > 0; lt.started[l]-- {
			if delivery := lt.next(l, nil, NotSent); delivery != nil {
				busy = append(busy, delivery)
			}
		}
		for range n {
			delivery := lt.next(l, busy[0], kind)
			if busy = busy[1:]; delivery != nil {
				busy = append(busy, delivery)
			}
		}
	}
	work(0, NotSent)
	if len(busy) != InitialWindow {
		t.Fatalf("%d requests run at first", len(busy))
	}
	l.configure("u", 3)
	work(4, Succeeded)
	if len(busy) != 3 || l.workers != 3 {
		t.Fatalf("%d requests run, %d are counted, want 3", len(busy), l.workers)
	}
	l.configure("u", 1000)
	for range 3 {
		work(len(busy), Succeeded)
		work(0, NotSent)
	}
	if work(0, NotSent); len(busy) != 24 || l.workers != 24 {
		t.Fatalf("%d requests run, %d are counted, want 24: twice as many with each round", len(busy), l.workers)
	}
}

func TestLiveDeliveriesGoBeforeReplays(t *testing.T) {
	f := func(limit int, want string) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		lt.fill("d", 1)
		l := lt.byDest["d"]
		lt.next(l, nil, NotSent)
		l.configure("u", limit)
		for range 3 {
			lt.enqueue(lt.delivery("d", "run_1"))
		}
		lt.fill("d", 4)
		got := ""
		for range 7 {
			l.workers = 1
			delivery := lt.next(l, nil, NotSent)
			if delivery.Work.Run == "" {
				got += "L"
			} else {
				got += "r"
			}
			l.workerReturned(delivery) // one at a time
			l.deliveries--
		}
		if got != want {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
	f(1, "rLrLrLL")

	// With a window of several requests, one replay runs and the others give way.
	lt := newLaneTest(t, 100_000)
	for range 3 {
		lt.enqueue(lt.delivery("d", "run_1"))
	}
	lt.fill("d", 4)
	l := lt.byDest["d"]
	l.configure("u", 64)
	var got []string
	for range 7 {
		got = append(got, lt.next(l, nil, NotSent).Work.Run)
	}
	if d := cmp.Diff([]string{"run_1", "", "", "", "", "run_1", "run_1"}, got); d != "" {
		t.Error(d)
	}
}

func TestIdleLanesAreRemoved(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("idle", 1)
	lt.fill("busy", 1)
	l := lt.byDest["idle"]
	delivery := lt.next(l, nil, NotSent)
	if lt.next(l, delivery, NotSent) != nil {
		t.Fatal("a delivery that was never admitted")
	}
	lt.now = lt.now.Add(2 * idleLane)
	lt.sweep()
	if lt.byDest["idle"] != nil || lt.byDest["busy"] == nil {
		t.Errorf("lanes: %v", lt.byDest)
	}
}
