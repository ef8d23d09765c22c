package lane

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestBreaker(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	var b breaker
	fail := func(n int, every time.Duration, probe bool) (opened bool) {
		for range n {
			opened = b.recordFailure(now, &event.Event{}, probe) || opened
			now = now.Add(every)
		}
		return opened
	}
	f := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %+v", what, b)
		}
	}
	f(!fail(1000, time.Millisecond, false), "opens after a second")
	b.recordSuccess()
	f(!fail(19, 10*time.Second, false), "opens after 19 failures")
	b.recordSuccess()
	f(!fail(19, 10*time.Second, false), "a success does not reset the count")
	f(fail(1, 0, false) && b.blocks(now), "does not open after 20 failures in 190 s")
	f(!fail(50, 0, false) && b.openUntil.Equal(now.Add(breakerMinOpen)), "failures of running requests change it")
	wait := breakerMinOpen
	for range 10 {
		now = b.openUntil
		f(!b.blocks(now), "its open time has passed")
		b.probe = &Delivery{}
		f(b.blocks(now), "more than one probe")
		f(fail(1, 0, true), "a failed probe opens it again")
		wait = min(2*wait, BreakerMaxOpen)
		f(b.openUntil.Equal(now.Add(wait)) && b.blocks(now), "waits twice as long")
	}
	f(wait == BreakerMaxOpen, "an hour is the longest")
	now = now.Add(-24 * time.Hour)
	f(b.blocks(now), "the clock was set back")
	f(!b.blocks(now.Add(BreakerMaxOpen)), "it waits for a clock that was set back")
	f(b.recordSuccess() && !b.blocks(now) && !b.recordSuccess(), "a success closes it")
}

// A breaker that rejected requests close again and again is open for no longer than requests have failed.
func TestOpenNoLongerThanItFailed(t *testing.T) {
	since := time.UnixMilli(1_800_000_000_000)
	now := since
	var b breaker
	for range 20 {
		for range breakerFailures {
			b.recordFailure(now, &event.Event{}, false)
			now = now.Add(2 * time.Second)
		}
		if !b.open() || b.openFor > max(breakerMinOpen, now.Sub(since)) {
			t.Errorf("open for %v after %v", b.openFor, now.Sub(since))
		}
		b.recordRejection(true)
	}
	is.Equal(t, b.openFor > 6*time.Minute, true, "open for %v at last", b.openFor)
	b.recordSuccess()
	is.Equal(t, b.failingSince.IsZero(), true, "a success does not forget the failures")
}

// A half-open breaker sends one probe however many deliveries wait, also when the probe returns to the queue or needs
// no request.
func TestHalfOpenBreakerSendsOneProbe(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now}
	lt.fill("d", 9)
	probe := func() *Delivery {
		t.Helper()
		delivery := lt.next(l, nil, NotSent)
		if delivery == nil || lt.reason != "" || l.breaker.probe == nil {
			t.Fatalf("no probe: %+v", delivery)
		}
		return delivery
	}
	delivery := probe()
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), event.BreakerOpen, "admitted beside the probe")
	other := lt.next(l, nil, NotSent)
	is.Equal(t, lt.reason, event.BreakerOpen, "sent beside the probe: %+v", other)
	if other = lt.next(l, other, NotSent); lt.reason != event.BreakerOpen || l.breaker.probe != delivery {
		t.Errorf("sent beside the probe after another delivery was parked: %+v", other)
	}
	lt.waitForToken(l, delivery, time.Millisecond, 1000)
	lt.now = lt.now.Add(time.Millisecond)
	if again := lt.next(l, nil, NotSent); again != delivery || l.breaker.probe != delivery || l.breaker.probe == nil {
		t.Errorf("the probe that waited for a token is not the next delivery: %+v", again)
	}
	if delivery = lt.next(l, delivery, NotSent); l.breaker.probe != delivery {
		t.Error("no probe follows one that needed no request")
	}
	l.parking.hungUntil = lt.now.Add(time.Hour)
	for next := lt.next(l, delivery, Failed); next != nil; next = lt.next(l, next, NotSent) {
		must.Equal(t, lt.reason, event.BreakerOpen, "sent after the probe has failed: %+v", next)
	}
	if l.breaker.openFor != 2*breakerMinOpen || l.live.Len() != 0 {
		t.Errorf("after the probe: %+v, %d wait", l.breaker, l.live.Len())
	}
	if dests, _, _ := lt.Recovered(); dests != nil {
		t.Errorf("the probe has failed, and %q recovered", dests)
	}
}

// While the breaker is open, two requested deliveries at a time are sent as probes, and live ones are parked.
func TestRequestedDeliveriesAreSentWhileTheBreakerIsOpen(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	l.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour)}
	test := lt.delivery("d", "")
	test.Work.Trigger = event.TriggerTest
	for _, delivery := range []*Delivery{test, lt.delivery("d", "run_1"), lt.delivery("d", "run_1")} {
		must.Equal(t, lt.enqueue(delivery), "", "a requested delivery is parked")
	}
	for range MaxProbes {
		if delivery := lt.next(l, nil, NotSent); delivery == nil || !isRequested(delivery.Work) || lt.reason != "" {
			t.Fatalf("the probe is %+v, reason %q", delivery, lt.reason)
		}
	}
	live := lt.next(l, nil, NotSent)
	if live == nil || isRequested(live.Work) || lt.reason != event.BreakerOpen {
		t.Errorf("beside the probes: %+v, reason %q", live, lt.reason)
	}
	if more := lt.next(l, live, NotSent); more != nil {
		t.Errorf("a third probe: %+v", more)
	}
	if more := lt.next(l, test, Failed); more == nil || more.Work.Run != "run_1" {
		t.Errorf("after a probe: %+v", more)
	}
}

// A lane is reset when its partition leaves: the destination may work when the partition returns.
func TestBreakerIsResetWhenItsPartitionLeaves(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	var calls []time.Time
	lt.setHeld = func(_ string, until time.Time) { calls = append(calls, until) }
	lt.fill("d", 1)
	l := lt.byDest["d"]
	delivery := lt.next(l, nil, NotSent)
	l.breaker = breaker{failures: breakerFailures - 1, firstFailureAt: lt.now.Add(-breakerSpan)}
	lt.next(l, delivery, Failed)
	must.Equal(t, lt.enqueue(lt.delivery("d", "")), event.BreakerOpen, "admitted")
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), "", "parked after the partition returned")
	if len(calls) != 2 || !calls[0].Equal(lt.now.Add(breakerMinOpen)) || !calls[1].IsZero() {
		t.Errorf("SetHeldUntil was called with %v", calls)
	}
}

// Requests that a destination rejects neither open its breaker nor narrow its window, and do not hide that the others
// fail.
func TestRejectionsAreNoFailures(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxInFlight = 1 // one worker
	lt.fill("d", 200)
	l := lt.byDest["d"]
	var delivery *Delivery
	answer := func(kinds ...ResultKind) {
		t.Helper()
		for _, kind := range kinds {
			if delivery = lt.next(l, delivery, kind); delivery == nil || lt.reason != "" {
				t.Fatalf("no delivery is sent: %q", lt.reason)
			}
			lt.now = lt.now.Add(2 * time.Second)
		}
	}
	answer(NotSent)
	for range 100 {
		answer(Rejected)
	}
	if l.breaker != (breaker{}) || l.window != newWindow(l.window.limit) {
		t.Errorf("after 100 rejections: breaker %+v, window %+v", l.breaker, l.window)
	}
	want := breakerMinOpen
	for range 9 {
		for range breakerFailures - 1 {
			answer(Failed, Rejected)
		}
		lt.next(l, delivery, Failed)
		if !l.breaker.open() || l.breaker.openFor != want {
			t.Fatalf("after %d failures and rejections: %+v, want it open for %v", breakerFailures, l.breaker, want)
		}
		want = min(2*want, BreakerMaxOpen)
		lt.now = l.breaker.openUntil
		for l.live.Len() < 100 { // what waits was parked
			lt.fill("d", 1)
		}
		if delivery = lt.next(l, nil, NotSent); l.breaker.probe != delivery {
			t.Fatalf("no probe: %+v", l.breaker)
		}
		answer(Rejected)
		if l.breaker.open() || len(lt.held)%2 != 0 || !lt.held[len(lt.held)-1].IsZero() {
			t.Fatalf("the rejected probe leaves the breaker open: %+v", l.breaker)
		}
	}
	answer(Succeeded)
	is.Equal(t, l.breaker, breaker{}, "after a success")
}

// A requested delivery that is rejected closes the breaker too: many receivers reject the type of a test event.
func TestRejectedTestClosesTheBreaker(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	running := lt.next(l, nil, NotSent)
	l.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour)}
	if lt.next(l, running, Rejected); !l.breaker.open() {
		t.Error("a request that ran when the breaker opened closes it")
	}
	test := lt.delivery("d", "run_1")
	lt.enqueue(test)
	delivery := lt.next(l, nil, NotSent)
	if lt.next(l, delivery, Rejected); delivery != test || l.breaker.open() {
		t.Errorf("after the rejection of %+v: %+v", delivery, l.breaker)
	}
}

// The probe is the queued delivery with the fewest attempts, of another event than the last probe, and the oldest of
// these.
func TestProbeIsTheBestDelivery(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 6)
	l := lt.byDest["d"]
	for i, attempt := range []int{3, 2, 2, 1, 1, 1} {
		l.live.At(i).Work.Attempt = attempt
	}
	ids := make([]id.ID, l.live.Len())
	for i := range ids {
		ids[i] = l.live.At(i).Work.Event.ID
	}
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now, lastFailed: ids[3]}
	l.live.Swap(4, 5)
	for _, want := range []int{4, 5, 1, 2, 0, 3} {
		delivery := lt.next(l, nil, NotSent)
		if delivery == nil || delivery.Work.Event.ID != ids[want] {
			t.Fatalf("the probe is %+v, want event %d", delivery, want)
		}
		l.breaker.probe = nil
	}
}

// While the best parked delivery is about to return, no other one is the probe. If it does not return, another one is.
func TestProbeWaitsForTheBestDelivery(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	park := func(attempt int) *Delivery {
		delivery := lt.delivery("d", "")
		delivery.Work.Attempt = attempt
		lt.parkOne(delivery, event.BreakerOpen)
		return delivery
	}
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now.Add(breakerMinOpen)}
	lt.now = l.breaker.openUntil.Add(-time.Second)
	retried, best, newer := park(5), park(1), park(1)
	lt.now = l.breaker.openUntil
	for _, delivery := range []*Delivery{retried, newer} {
		is.Equal(t, lt.enqueue(delivery), event.BreakerOpen,
			"attempt %d is admitted before the best delivery", delivery.Work.Attempt)
	}
	is.Equal(t, lt.enqueue(best), "", "the best delivery is parked")
	is.Equal(t, lt.enqueue(lt.delivery("d", "")), "", "another one waits although the best has come")
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now.Add(time.Second)}
	park(1)
	lt.now = lt.now.Add(MinRecheck + 2*Slack(MinRecheck))
	is.Equal(t, lt.enqueue(retried), "", "the probe waits for a delivery that does not return")
}

// However many deliveries are parked on the node, the best one returns when the breaker is half-open.
func TestBestDeliveryReturnsInTimeToBeTheProbe(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.lanesParked = 1000
	for range 5000 {
		lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	}
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now.Add(breakerMinOpen)}
	if decision := lt.parkOne(lt.delivery("d", ""), event.BreakerOpen); decision.Due.After(l.breaker.openUntil) {
		t.Errorf("the best delivery returns %v after the breaker is half-open", decision.Due.Sub(l.breaker.openUntil))
	}
	lt.now = l.breaker.openUntil.Add(2 * Slack(breakerMinOpen))
	if reason := lt.enqueue(lt.delivery("d", "")); reason != "" {
		t.Errorf("the breaker has been half-open for %v, and a new delivery is parked: %q", 2*Slack(breakerMinOpen), reason)
	}
}

// After a clock that was ahead is set back, the probe does not wait for a delivery that was to return by the old time.
func TestProbeWaitsForNoClockThatWasAhead(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now.Add(breakerMinOpen)}
	lt.parkOne(lt.delivery("d", ""), event.BreakerOpen)
	lt.now = lt.now.Add(-24 * time.Hour)
	other := lt.delivery("d", "")
	lt.enqueue(other)
	lt.now = l.breaker.openUntil
	is.Equal(t, lt.enqueue(other), "", "a delivery is parked for one that does not return")
}

// A new owner restores the breaker from what the owner before has parked, an older version too, until a request shows
// that the destination works. At once, and once, any delivery is a probe.
func TestBreakerIsRestored(t *testing.T) {
	parked := func(lt *laneTest, until time.Duration) *Delivery {
		delivery := lt.delivery("d", "")
		work := delivery.Work
		work.Attempt, work.Parked, work.ParkedBy = 2, event.BreakerOpen, 7
		work.OpenFor, work.OpenUntil, work.ReportedNextAt = time.Hour, lt.now.Add(until), lt.now.Add(time.Hour)
		return delivery
	}
	lt := newLaneTest(t, 100_000)
	first := parked(lt, 20*time.Minute)
	lt.RestoreBreaker(first)
	lt.RestoreBreaker(parked(lt, 10*time.Minute)) // it was parked before
	l := lt.byDest["d"]
	must.Equal(t, l.breaker.openUntil, lt.now.Add(20*time.Minute), "open until")
	must.Equal(t, l.breaker.openFor, time.Hour, "open for")
	is.Same(t, lt.held, []time.Time{l.breaker.openUntil})
	is.Equal(t, lt.Admit(first).Action, Queued, "the first delivery is not the probe")
	probe := lt.next(l, nil, NotSent)
	must.Equal(t, probe, first, "the probe")
	is.Equal(t, lt.Admit(parked(lt, 0)).Action, Park, "a second probe")
	lt.next(l, probe, Failed)
	is.Equal(t, l.breaker.openUntil, lt.now.Add(20*time.Minute), "open until, after the first probe failed")
	lt.now = lt.now.Add(earlyPause)
	is.Equal(t, lt.Admit(parked(lt, 0)).Action, Park, "a delivery that was tried is an early probe again")

	l.breaker.openUntil, l.breaker.awaitNext = lt.now, time.Time{}
	lt.Admit(parked(lt, 0))
	lt.next(l, lt.next(l, nil, NotSent), Succeeded)
	lt.RestoreBreaker(parked(lt, time.Hour))
	is.Equal(t, l.breaker, breaker{}, "the destination works")

	lt = newLaneTest(t, 100_000)
	old := parked(lt, 0)
	old.Work.OpenFor, old.Work.OpenUntil = 0, time.Time{}
	lt.RestoreBreaker(old)
	is.Equal(t, lt.byDest["d"].breaker.openUntil, lt.now.Add(time.Hour), "an older version has parked it: open until")
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	is.Equal(t, lt.byDest["d"].breaker.open(), false, "open after the partition has left")
	lt.RestoreBreaker(old)
	is.Equal(t, lt.byDest["d"].breaker.open(), true, "open after it came back")
}

// While the breaker is open, an untried delivery is a probe every earlyPause, the best one that came meanwhile, until
// the budget is spent. What was parked leaves half of it to new deliveries.
func TestEarlyProbesHaveABudget(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.next(l, lt.next(l, nil, NotSent), NotSent)
	l.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(1000 * time.Hour)}
	probes := func(steps int, parked event.Reason) (n int) {
		for range steps {
			older := lt.delivery("d", "")
			newer := lt.delivery("d", "")
			older.Work.Parked, newer.Work.Parked = parked, parked
			lt.Admit(older)
			if decision := lt.Admit(newer); decision.Action == Park {
				lt.Release(decision.Delivery)
			}
			l.breaker.openUntil = lt.now.Add(time.Hour)
			lt.now = lt.now.Add(earlyPause)
			lt.EnforceLimits()
			if probe := lt.next(l, nil, NotSent); probe != nil {
				must.Equal(t, probe, newer, "the probe")
				lt.next(l, probe, Failed)
				n++
			}
		}
		return n
	}
	is.Equal(t, probes(100, event.BreakerOpen), earlyBudget/2+100/6, "probes of parked deliveries in 83 minutes")
	day := int(24 * time.Hour / earlyPause)
	if n := probes(day, ""); n > earlyBudget/2+24*12+1 || n < earlyBudget/2+24*12-5 {
		t.Errorf("%d early probes in a day", n)
	}
	is.Equal(t, l.breaker.openFor, time.Hour, "a failed early probe changes how long the breaker is open")
}

// With a spent budget a new delivery is an early probe when the budget has grown by one.
func TestEarlyProbeAfterASpentBudget(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	lt.next(l, lt.next(l, nil, NotSent), NotSent)
	// The budget has just been spent; no event comes any more but one good one.
	l.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour), earlyAt: lt.now.Add(earlyPause),
		earlyFullAt: lt.now.Add(earlyBudget * earlyRefill)}
	good, began := lt.delivery("d", ""), lt.now
	decision := lt.Admit(good)
	for decision.Action == Park && lt.now.Sub(began) < time.Hour-time.Minute {
		lt.Release(good)
		good.Work.Parked, good.Work.ParkedBy = event.BreakerOpen, decision.ParkedBy
		lt.now = decision.Due.Add(time.Millisecond)
		if lt.now.After(l.breaker.openUntil) {
			break
		}
		decision = lt.Admit(good)
	}
	if waited := lt.now.Sub(began); decision.Action != Queued || waited > 6*time.Minute {
		t.Errorf("the good event is no early probe within %v (last action %v)", waited, decision.Action)
	}
}

// Early probes that wait do not fill the memory of a node.
func TestEarlyProbesHaveABoundInMemory(t *testing.T) {
	lt := newLaneTest(t, 8192)
	lt.maxBytes = 256 << 20
	for i := range 600 {
		dest := fmt.Sprint("down", i)
		first := lt.delivery(dest, "")
		lt.Admit(first)
		l := lt.byDest[dest]
		first.Slot.BeginDelivery()
		lt.next(l, nil, NotSent)
		lt.Release(first)
		lt.next(l, first, NotSent)
		l.breaker = breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour), earlyAt: lt.now.Add(earlyPause)}
		big := lt.delivery(dest, "")
		big.Size = 1 << 20
		if decision := lt.Admit(big); decision.Action == Park {
			lt.Release(big)
		}
	}
	lt.now = lt.now.Add(2 * time.Second)
	shed, _ := lt.EnforceLimits()
	for _, d := range shed {
		lt.Release(d.Delivery)
	}
	n, bytes := lt.InMemory()
	if lt.Full() {
		t.Errorf("full: %d deliveries, %d MiB, %d shed; the reader stops", n, bytes>>20, len(shed))
	}
}
