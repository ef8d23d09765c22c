package lane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// testPartition is a partition that lanes may pause and that may leave the node.
type testPartition struct {
	Partition
	stalls int
	active int
	left   bool
}

func (lt *laneTest) newPartition() *testPartition {
	p := &testPartition{}
	p.AddStalls = func(lanes int) { p.stalls += lanes }
	p.StartWorker = func(l *Lane) { lt.started[l]++ }
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
	burst       int           // of the bucket that was asked for a token last
	unordered   bool
	wakes       int         // how often EnforceLimits was asked for
	gone        []string    // URLs that have answered 410 to several events
	held        []time.Time // what SetHeldUntil was called with
	events      int         // how many events there were
}

func newLaneTest(t testing.TB, most int) *laneTest {
	t.Helper()
	lt := &laneTest{
		now: time.UnixMilli(1_800_000_000_000), started: map[*Lane]int{}, maxInFlight: 64,
		eligibility: Eligibility{Endpoint: &config.Endpoint{}, Destination: &config.Destination{
			DestinationSettings: config.DestinationSettings{Enabled: true}}, Known: true},
	}
	lt.Lanes = New(Config{MaxInFlight: most, MaxInFlightBytes: 1 << 30, MaxSending: most}, Deps{
		Now: func() time.Time { return lt.now }, Wake: func() { lt.wakes++ }, Rules: lt, Limiter: lt, Held: lt,
		OnGone: func(_ *event.Work, url string) { lt.gone = append(lt.gone, url) },
	})
	lt.part = lt.newPartition()
	return lt
}

func (lt *laneTest) MaxInFlight(*event.Work) int            { return lt.maxInFlight }
func (lt *laneTest) Ordered(*event.Work) bool               { return !lt.unordered }
func (lt *laneTest) Check(*event.Work, bool) Eligibility    { return lt.eligibility }
func (lt *laneTest) SetHeldUntil(_ string, until time.Time) { lt.held = append(lt.held, until) }
func (lt *laneTest) TakeToken(_ string, _ float64, burst int) time.Duration {
	lt.burst = burst
	return lt.wait
}
func (lt *laneTest) AwaitCurrent(ctx context.Context) error { return ctx.Err() }
func (lt *laneTest) CheckLatest(context.Context, *event.Work) (Eligibility, error) {
	return lt.eligibility, lt.err
}

// paused reports whether lanes want the partition paused.
func (lt *laneTest) paused() bool { return lt.part.stalls > 0 }

func (lt *laneTest) delivery(dest, run string) *Delivery {
	lt.events++
	ev := &event.Event{ID: id.ID{14: byte(lt.events >> 8), 15: byte(lt.events)}}
	return &Delivery{Slot: &testSlot{lt.part}, Work: &event.Work{Event: ev, Dest: dest, Run: run, Attempt: 1}, Size: 1000}
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
	is.Equal(t, lt.fill("stuck", 5000), laneQueue-1, "were admitted")
	if lt.paused() {
		t.Error("a stuck lane paused its partition")
	}
	is.Equal(t, lt.started[lt.byDest["stuck"]], InitialWindow, "workers")
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
		is.Equal(t, lt.enqueue(lt.delivery("good", "")), "", "no memory is left for a working lane")
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
	must.Equal(t, len(busy), InitialWindow, "requests run at first")
	l.configure(&config.Destination{URL: "u", DestinationSettings: config.DestinationSettings{MaxInFlight: 3}})
	work(4, Succeeded)
	if len(busy) != 3 || l.workers != 3 {
		t.Fatalf("%d requests run, %d are counted, want 3", len(busy), l.workers)
	}
	l.configure(&config.Destination{URL: "u", DestinationSettings: config.DestinationSettings{MaxInFlight: 1000}})
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
		l.configure(&config.Destination{URL: "u", DestinationSettings: config.DestinationSettings{MaxInFlight: limit}})
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
		is.Equal(t, got, want, "limit %d", limit)
	}
	f(1, "rLrLrLL")

	// With a window of several requests, one replay runs and the others give way.
	lt := newLaneTest(t, 100_000)
	for range 3 {
		lt.enqueue(lt.delivery("d", "run_1"))
	}
	lt.fill("d", 4)
	l := lt.byDest["d"]
	l.configure(&config.Destination{URL: "u", DestinationSettings: config.DestinationSettings{MaxInFlight: 64}})
	var got []string
	for range 7 {
		got = append(got, lt.next(l, nil, NotSent).Work.Run)
	}
	is.Same(t, got, []string{"run_1", "", "", "", "", "run_1", "run_1"})
}

// sameMemory reports whether two texts share their memory.
func sameMemory(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }

// A lane lives longer than its first delivery, whose texts share the memory of all headers of the event.
func TestLaneKeepsNoTextOfAnEvent(t *testing.T) {
	lt := newLaneTest(t, 100)
	text := "dst_1 and all headers"
	lt.fill(text[:5], 1)
	for dest, l := range lt.byDest {
		if dest != "dst_1" || sameMemory(dest, text) || sameMemory(l.dest, text) {
			t.Errorf("lane %s keeps the text of an event", dest)
		}
	}
}

// An idle lane is removed. One that counts something is kept longer, but not its opened secrets.
func TestIdleLanesAreRemoved(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	for _, dest := range []string{"idle", "busy", "running", "waiting", "parked", "open", "gone"} {
		lt.fill(dest, 1)
		l := lt.byDest[dest]
		l.target.Store(&opened{})
		delivery := lt.next(l, nil, NotSent)
		switch dest {
		case "busy":
			l.live.PushBack(delivery)
		case "running": // its worker has not asked for the next delivery
			l.deliveries--
		case "waiting":
			lt.waitForToken(l, delivery, time.Second, 1)
			l.live.Clear()
			l.deliveries--
		default:
			if lt.next(l, delivery, NotSent) != nil {
				t.Fatal("a delivery that was never admitted")
			}
		}
	}
	lt.parkOne(lt.delivery("parked", ""), event.LaneFull)
	lt.byDest["open"].breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour)}
	lt.byDest["gone"].gone.events = make([]id.ID, 1)
	f := func(after time.Duration, want string) {
		t.Helper()
		lt.now = lt.now.Add(after)
		lt.sweep()
		got := slices.Sorted(maps.Keys(lt.byDest))
		is.Equal(t, strings.Join(got, " "), want, "the lanes are %q", got)
	}
	f(idleLane-1, "busy gone idle open parked running waiting")
	if lt.byDest["open"].target.Load() == nil {
		t.Error("the secrets of a lane that was used a moment ago are closed")
	}
	f(1, "busy gone open parked running waiting")
	for dest, l := range lt.byDest {
		if used := dest != "open" && dest != "parked" && dest != "gone"; used != (l.target.Load() != nil) {
			t.Errorf("%s: its secrets are open: %t", dest, !used)
		}
	}
	f(2*time.Hour-idleLane-1, "busy open parked running waiting")
	f(1, "busy parked running waiting")
	f(time.Hour-1, "busy parked running waiting")
	f(1, "busy running waiting")
	is.Equal(t, lt.lanesParked, 0, "lanes have parked deliveries")
}

// When a partition is lost, only its own deliveries are dropped. Those of another topic's partition with the same
// number (the events and the commands of an endpoint) stay, and so does the breaker state of other lanes.
func TestDropPartitionsKeepsOtherDeliveries(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	events, commands, other := lt.part, lt.newPartition(), lt.newPartition()
	events.ID = stream.Partition{Topic: stream.Events, Index: 3}
	commands.ID = stream.Partition{Topic: stream.Commands, Index: 3}
	other.ID = stream.Partition{Topic: stream.Events, Index: 4}
	lt.fill("d", 3)
	lt.part = commands
	lt.fill("d", 2)
	lt.enqueue(lt.delivery("d", "run_1"))
	lt.part = other
	lt.fill("e", 1)
	l, e := lt.byDest["d"], lt.byDest["e"]
	e.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour)}
	lt.DropPartitions([]*Partition{&events.Partition})
	if held, bytes := lt.InMemory(); held != 4 || bytes != 4000 || l.deliveries != 3 || l.bytes != 3000 {
		t.Errorf("%d deliveries, %d bytes are held, the lane has %d and %d", held, bytes, l.deliveries, l.bytes)
	}
	if l.live.Len() != 2 || l.requested.Len() != 1 || !e.breaker.open() || lt.lanesParked != 0 {
		t.Errorf("%d live, %d requested, breaker %+v, %d lanes parked", l.live.Len(), l.requested.Len(), e.breaker,
			lt.lanesParked)
	}
	select {
	case <-lt.Freed():
	default:
		t.Error("the reader that waits for memory is not woken")
	}
}

// When an endpoint has moved, its lane belongs to the partition of its next deliveries once the earlier ones have
// ended.
func TestLaneFollowsItsPartition(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	before, after := lt.part, lt.newPartition()
	after.ID.Index = 1
	lt.fill("d", 1)
	l := lt.byDest["d"]
	delivery := lt.next(l, nil, NotSent)
	lt.part = after
	lt.fill("d", 1)
	is.Equal(t, l.partitionIndex, before.ID.Index,
		"the lane belongs to partition: while it has deliveries of %d", before.ID.Index)
	lt.next(l, lt.next(l, delivery, NotSent), NotSent)
	parked := lt.parkOne(&Delivery{Slot: &testSlot{before}, Work: &event.Work{Dest: "d"}}, event.LaneFull)
	lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	is.Equal(t, l.partitionIndex, before.ID.Index,
		"the lane belongs to partition: while it has parked deliveries of %d", before.ID.Index)
	for _, part := range []*testPartition{before, after} {
		work := *parked.Delivery.Work
		work.Parked, work.ParkedBy = event.LaneFull, parked.ParkedBy
		lt.enqueue(&Delivery{Slot: &testSlot{part}, Work: &work})
		lt.next(l, lt.next(l, nil, NotSent), NotSent)
	}
	if lt.fill("d", 1); l.partitionIndex != after.ID.Index {
		t.Errorf("the lane belongs to partition %d, its deliveries come from %d", l.partitionIndex, after.ID.Index)
	}
}

// The reader stops at each of the two limits, and is woken when a delivery is released.
func TestFullUntilADeliveryIsReleased(t *testing.T) {
	f := func(maxDeliveries, maxBytes int) {
		t.Helper()
		lt := newLaneTest(t, maxDeliveries)
		lt.maxBytes = maxBytes
		first := lt.delivery("a", "")
		first.Slot.BeginDelivery()
		lt.enqueue(first)
		if lt.Full() {
			t.Error("full with one delivery")
		}
		if lt.enqueue(lt.delivery("b", "")); !lt.Full() {
			t.Error("not full with two")
		}
		lt.Release(first)
		select {
		case <-lt.Freed():
		default:
			t.Error("the reader is not woken")
		}
		if lt.Full() {
			t.Error("still full")
		}
	}
	f(2, 1<<30)
	f(1000, 2000)
}

// The dispatcher is asked to enforce the limits when more than half of the memory is used, and when a partition pauses:
// nothing else would end the pause in time.
func TestLimitsAreEnforcedSoon(t *testing.T) {
	f := func(name string, change func(*laneTest), dest string, n int) {
		t.Helper()
		lt := newLaneTest(t, 100_000)
		change(lt)
		for i := range n + 2 {
			lt.fill(strings.ReplaceAll(dest, "N", fmt.Sprint(i)), 1)
			if want := max(0, min(i+1-n, 1)); lt.wakes != want {
				t.Fatalf("%s: asked %d times after %d deliveries, want %d", name, lt.wakes, i+1, want)
			}
		}
	}
	f("deliveries", func(lt *laneTest) { lt.maxDeliveries = 20 }, "dN", 10)
	f("bytes", func(lt *laneTest) { lt.maxBytes = 20_000 }, "dN", 10)
	f("pause", func(*laneTest) {}, "d", laneQueue)
}

// The last quarter of the memory is for lanes that do not fail.
func TestFailingLaneLeavesAQuarterOfTheMemory(t *testing.T) {
	lt := newLaneTest(t, 40)
	lt.fill("failing", 1)
	lt.byDest["failing"].window.failures = failingAfter
	for i := range 28 {
		lt.fill(fmt.Sprint("d", i), 1)
	}
	if lt.fill("failing", 2); lt.deliveries != 31 {
		t.Errorf("%d deliveries are held, want 31", lt.deliveries)
	}
	is.Equal(t, lt.enqueue(lt.delivery("failing", "")), event.LaneFull, "the failing lane takes more")
	is.Equal(t, lt.enqueue(lt.delivery("good", "")), "", "another lane takes no more")
}

// Results change the window, the breaker and the count of 410 answers.
func TestResultsOfRequests(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 100)
	l := lt.byDest["d"]
	l.workers, lt.workers = 1, 1
	delivery := lt.next(l, nil, NotSent)
	finish := func(kind ResultKind, code int) {
		lt.now = lt.now.Add(4 * time.Second)
		delivery.Work.Event = &event.Event{ID: id.ID{byte(code), byte(l.window.failures)}}
		delivery, lt.reason = l.finishAndTakeNext(Result{Delivery: delivery, Kind: kind, Code: code, URL: "u"})
	}
	if finish(TimedOut, 0); l.window.size != InitialWindow/2 {
		t.Errorf("after a time-out %d requests may run", l.window.size)
	}
	finish(Succeeded, 200)
	for range failingAfter {
		lt.now = lt.now.Add(goneSpan/(failingAfter-1) - 4*time.Second)
		finish(Failed, 410)
	}
	if l.window.size != FailingWindow || len(lt.gone) != 1 || len(lt.held) != 0 {
		t.Errorf("after failures %d requests may run, %d 410s were reported, held %v", l.window.size, len(lt.gone), lt.held)
	}
	for range breakerFailures - failingAfter {
		finish(Failed, 500)
	}
	if len(lt.held) != 1 || !lt.held[0].Equal(l.breaker.openUntil) || !l.breaker.open() {
		t.Fatalf("held until %v, breaker %+v", lt.held, l.breaker)
	}
	if delivery == nil || lt.reason != event.BreakerOpen {
		t.Fatalf("the next delivery is sent: %q", lt.reason)
	}
	lt.now = l.breaker.openUntil
	finish(NotSent, 0)
	lt.started[l] = 0
	workers := l.workers
	finish(Succeeded, 200)
	if l.breaker.open() || l.window != newWindow(l.window.limit) || len(lt.held) != 2 || !lt.held[1].IsZero() {
		t.Errorf("after the probe has succeeded: breaker %+v, window %+v, held %v", l.breaker, l.window, lt.held)
	}
	if lt.started[l] != InitialWindow-workers || l.workers != InitialWindow {
		t.Errorf("%d workers were started beside %d", lt.started[l], workers)
	}
}

func TestCensus(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.maxSending = 3
	for dest, change := range map[string]func(l *Lane){
		"fine":      func(*Lane) {},
		"recovered": func(l *Lane) { l.window.size = 1 }, // no request failed since
		"failing":   func(l *Lane) { l.window.failures, l.window.size = 1, l.window.limit-1 },
		"limit":     func(l *Lane) { l.window.failures, l.window.size = 1, l.window.limit },
		"paced":     func(l *Lane) { l.token.until = lt.now.Add(time.Second) },
		"open":      func(l *Lane) { l.breaker.openUntil = lt.now.Add(time.Hour) },
		"half":      func(l *Lane) { l.breaker.openUntil, l.breaker.probe = lt.now, &Delivery{} },
	} {
		lt.fill(dest, 1)
		change(lt.byDest[dest])
	}
	lt.parkOne(lt.delivery("open", ""), event.BreakerOpen)
	lt.parkOne(lt.delivery("half", ""), event.BreakerOpen)
	want := Census{Deliveries: 7, Bytes: 7000, Sending: 3,
		States: map[string]int{"all": 7, "window_reduced": 1, "rate_limited": 1, "open": 1, "half_open": 1},
		Parked: map[string]int{"lane_full": 0, "paced": 0, "behind": 0, "breaker_open": 2, "manual": 0,
			"not_pulled": 0}}
	is.Same(t, lt.Census(), want)
	lt.workers = 2
	is.Equal(t, lt.Census().Sending, 2, "requests run")
}

// A destination is gone when the first attempts of three authenticated events in a row were answered 410, over three
// minutes.
func TestGoneAfterThreeEventsInARow(t *testing.T) {
	var g goneCounter
	n, now := 0, time.UnixMilli(1_800_000_000_000)
	work := event.Work{Attempt: 1}
	verdict := event.VerdictVerified
	newID := func() id.ID { n++; return id.ID{15: byte(n)} }
	f := func(code int, e id.ID, url string, want bool) {
		t.Helper()
		now = now.Add(goneSpan / 2)
		work.Event = &event.Event{ID: e, Source: event.SourceProvider, Verdict: verdict}
		is.Equal(t, g.recordAnswer(code, &work, url, now), want, "%d of %v at %s", code, e, url)
	}
	same := newID()
	f(200, newID(), "a", false)
	f(410, same, "a", false)
	f(410, newID(), "a", false)
	f(410, same, "a", false) // no third event
	f(0, newID(), "a", false)
	f(410, newID(), "a", true)
	f(410, same, "a", true) // again with each 410 until the destination is disabled
	f(410, newID(), "a", true)
	f(500, newID(), "a", false)
	f(410, newID(), "a", false)
	f(410, newID(), "a", false)
	f(410, newID(), "b", false) // another URL
	f(410, newID(), "b", false)
	f(410, newID(), "b", true)
	f(200, newID(), "b", false)
	verdict = event.VerdictUnverified
	for range 5 {
		f(410, newID(), "b", false)
	}
	verdict, work.Attempt = event.VerdictVerified, 2
	for range 5 {
		f(410, newID(), "b", false)
	}
	work.Attempt = 1
	for range goneAfter {
		f(410, newID(), "b", false)
		now = now.Add(-goneSpan / 3) // three within a minute and a half do not count
	}
	lt := newLaneTest(t, 100)
	lt.fill("d", 1)
	lt.byDest["d"].gone = g
	lt.ForgetGone("unknown")
	lt.ForgetGone("d")
	g = lt.byDest["d"].gone
	f(410, newID(), "b", false)
}

// The opened destination is kept until the endpoint changes, and then the lane follows its limit.
func TestTargetFollowsTheEndpoint(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.open = func(_ *config.Endpoint, d *config.Destination) (Target, error) {
		if d.URL == "https://[" {
			return nil, errors.New("broken")
		}
		return d, nil
	}
	lt.fill("d", 1)
	l := lt.byDest["d"]
	open := func(rev int64, url string, maxInFlight int) Target {
		t.Helper()
		target, err := l.Target(Eligibility{Endpoint: &config.Endpoint{Rev: rev},
			Destination: &config.Destination{ID: "d", URL: url,
				DestinationSettings: config.DestinationSettings{MaxInFlight: maxInFlight}}})
		must.Equal(t, err != nil, url == "https://[", err)
		return target
	}
	first := open(1, "https://a", 3)
	if l.window.limit != 3 || open(1, "https://a", 3) != first {
		t.Errorf("it is opened again; the window is %+v", l.window)
	}
	if second := open(2, "https://b", 2); second.(*config.Destination).URL != "https://b" || l.window.limit != 2 {
		t.Errorf("after a change: %s, window %+v", second, l.window)
	}
	if broken := open(3, "https://[", 2); broken != nil {
		t.Errorf("a broken URL gives %+v", broken)
	}
}

// A transformed body counts from the moment its length is known, and memory that it does not need is released.
func TestReserve(t *testing.T) {
	lt := newLaneTest(t, 100)
	delivery := lt.delivery("d", "")
	delivery.Size, delivery.Reserved = 1500, 500
	lt.enqueue(delivery)
	l := lt.byDest["d"]
	for _, c := range []struct {
		reserved, size int
		freed          bool
	}{{700, 1700, false}, {700, 1700, false}, {100, 1100, true}} {
		l.Reserve(delivery, c.reserved)
		if _, bytes := lt.InMemory(); delivery.Reserved != c.reserved || delivery.Size != c.size || l.bytes != c.size ||
			bytes != c.size {
			t.Errorf("%d bytes reserved: %d in all, %d in the lane, %d on the node", c.reserved, delivery.Size, l.bytes, bytes)
		}
		select {
		case <-lt.Freed():
			if !c.freed {
				t.Errorf("%d bytes reserved: memory is reported as freed", c.reserved)
			}
		default:
			if c.freed {
				t.Errorf("%d bytes reserved: the reader is not woken", c.reserved)
			}
		}
	}
}

// A delivery that is larger than a lane may hold is sent all the same, alone.
func TestLargeDeliveryIsQueuedInAnEmptyLane(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.maxBytes = 1000
	large := lt.delivery("d", "")
	large.Size = 5000
	lt.part.streak, lt.part.lastDest = 0, "d"
	lt.laneOf(large, lt.now).pace.budget = -time.Hour
	is.Equal(t, lt.enqueue(large), "", "it is parked")
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), event.LaneFull, "another one beside it")
}
