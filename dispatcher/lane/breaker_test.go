package lane

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

func TestBreaker(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	var b breaker
	fail := func(n int, every time.Duration, probe bool) (opened bool) {
		for range n {
			opened = b.recordFailure(now, probe) || opened
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
	if r := lt.enqueue(lt.delivery("d", "")); r != event.BreakerOpen {
		t.Errorf("admitted beside the probe: %q", r)
	}
	other := lt.next(l, nil, NotSent)
	if lt.reason != event.BreakerOpen {
		t.Errorf("sent beside the probe: %+v", other)
	}
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
		if lt.reason != event.BreakerOpen {
			t.Fatalf("sent after the probe has failed: %+v", next)
		}
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
		if r := lt.enqueue(delivery); r != "" {
			t.Fatalf("a requested delivery is parked: %s", r)
		}
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
	if r := lt.enqueue(lt.delivery("d", "")); r != event.BreakerOpen {
		t.Fatalf("admitted: %q", r)
	}
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	if r := lt.enqueue(lt.delivery("d", "")); r != "" {
		t.Errorf("parked after the partition returned: %q", r)
	}
	if len(calls) != 2 || !calls[0].Equal(lt.now.Add(breakerMinOpen)) || !calls[1].IsZero() {
		t.Errorf("SetHeldUntil was called with %v", calls)
	}
}
