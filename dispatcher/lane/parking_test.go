package lane

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestRecheckInterval(t *testing.T) {
	f := func(parked, lanes int, want time.Duration) {
		t.Helper()
		is.Equal(t, RecheckInterval(stream.Tiers(), parked, lanes, RecheckBudget), want,
			"%d parked in one of %d lanes", parked, lanes)
	}
	f(1, 1, 5*time.Second)
	f(20, 100, 5*time.Second)
	f(20_000, 1, 5*time.Second)
	f(38_400, 1, 9600*time.Millisecond) // one retry pass of the tier of 10 s
	f(28_000, 1, 10*time.Second)        // 7 s would be two retry passes: 5 s and 2 s
	f(10_000, 500, 30*time.Minute)
	f(1_000_000, 1, 250*time.Second+35*time.Second+15*time.Second)
	f(20_000_000, 1, time.Hour)
	f(1_000_000_000, 100_000, time.Hour)
}

// For any numbers of parked deliveries, the passes of all of them together stay within RecheckBudget, including the
// extra passes of an interval that needs several tiers.
func TestRecheckBudget(t *testing.T) {
	tiers := stream.Tiers()
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 5))
		parked := make([]int, 1+r.IntN(1<<r.IntN(11)))
		for i := range parked {
			parked[i] = 1 + r.IntN(1<<r.IntN(17))
		}
		perSecond := 0.0
		for _, n := range parked {
			step := RecheckInterval(tiers, n, len(parked), RecheckBudget)
			passes := 0
			for remaining := step; remaining > 0; passes++ {
				remaining -= min(TierFor(tiers, remaining).Delay, remaining)
			}
			must.Equal(t, passes, 1, "retry passes for an interval of %v", step)
			if step < MaxRecheck {
				perSecond += float64(n) / step.Seconds()
			}
		}
		if perSecond > RecheckBudget*1.01 {
			t.Fatalf("seed %d: %.0f retry passes a second for %d lanes", seed, perSecond, len(parked))
		}
	}
}

// A new owner counts all parked deliveries after one re-check interval, exactly from then on. Intervals follow the
// count: re-checks stay within the budget, and each delivery has one per interval. Nothing is lost or doubled.
func TestNewOwnerCountsParkedAfterOneRecheck(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 6))
		lt := newLaneTest(t, 100_000)
		type parked struct {
			work *event.Work
			due  time.Time
		}
		var all []parked
		for d := range 1 + r.IntN(5) {
			for range r.IntN(15_000) {
				work := &event.Work{Dest: fmt.Sprint("d", d), Parked: event.Manual, ParkedBy: 77} // by an earlier owner
				all = append(all, parked{work, lt.now.Add(time.Duration(r.Float64() * float64(20*time.Second)))})
			}
		}
		start, total := lt.now, len(all)
		passes, longest := 0, time.Duration(0)
		for lt.now.Before(start.Add(2 * time.Minute)) {
			lt.now = lt.now.Add(500 * time.Millisecond)
			for i := range all {
				x := &all[i]
				if x.due.After(lt.now) {
					continue
				}
				delivery := &Delivery{Slot: &testSlot{lt.part}, Work: x.work}
				lt.mu.Lock()
				lt.laneOf(delivery, lt.now).countReturned(x.work)
				lt.mu.Unlock()
				s := lt.parkOne(delivery, event.Manual)
				x.due, x.work.ParkedBy = s.Due, s.ParkedBy
				longest = max(longest, s.Due.Sub(lt.now))
				if passes++; lt.now.Before(start.Add(time.Minute)) {
					passes = 0
				}
			}
			if lt.now.After(start.Add(21 * time.Second)) {
				must.Equal(t, lt.Census().Parked[string(event.Manual)], total,
					"seed %d: are counted, %d are parked", seed, total)
			}
		}
		if rate := float64(passes) / 60; rate > RecheckBudget*1.05 || longest > MaxRecheck {
			t.Errorf("seed %d: %d parked in %d lanes passed %.0f times a second, the longest step was %v", seed, total,
				len(lt.byDest), rate, longest)
		}
	}
}

// A delivery that returns is uncounted once, even if its record is read twice. Those that left with their partition are
// not counted.
func TestParkedIsCountedOnce(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	count := func() (n int) {
		for _, c := range lt.Census().Parked {
			n += c
		}
		if lt.byDest["d"].parking.total != n || lt.lanesParked != min(n, 1) {
			t.Errorf("%d in all, %d in the lane, %d lanes", n, lt.byDest["d"].parking.total, lt.lanesParked)
		}
		return n
	}
	park := func(reason event.Reason) *Delivery {
		delivery := lt.delivery("d", "")
		s := lt.parkOne(delivery, reason)
		delivery.Work.Parked, delivery.Work.ParkedBy = reason, s.ParkedBy
		return delivery
	}
	a, b := park(event.LaneFull), park(event.Paced)
	must.Equal(t, count(), 2, "are parked")
	lt.enqueue(a)
	lt.enqueue(a) // a second copy of the record
	must.Equal(t, count(), 1, "are parked after one returned twice")
	other := lt.delivery("d", "")
	other.Work.Parked, other.Work.ParkedBy = event.LaneFull, 12345
	lt.enqueue(other)
	lt.enqueue(b)
	must.Equal(t, count(), 0, "are parked after all returned")
	lt.enqueue(park("a word of a newer version"))
	must.Equal(t, count(), 0, "are parked after one of another owner returned")
	c := park(event.Manual)
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	must.Equal(t, count(), 0, "are parked after the partition left")
	park(event.Manual)
	lt.enqueue(c) // parked before the partition left
	must.Equal(t, count(), 1, "are parked")
}

// Parked deliveries find room beside a stream of new ones that alone would fill the lane.
func TestParkedDeliveriesKeepHalfTheQueue(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	lt.now = lt.now.Add(time.Minute)
	lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	is.Equal(t, lt.fill("d", 5000), laneQueue/2-1, "new deliveries were admitted")
	for range laneQueue / 2 {
		delivery := lt.delivery("d", "")
		delivery.Work.Parked = event.LaneFull
		must.Equal(t, lt.enqueue(delivery), "", "a returning delivery was parked again")
	}
}

// A lane that hangs re-checks what it has parked at the smaller budget. With the first answer it has recovered: it is
// reported once, and parks as before. What a user asked for is re-checked as if the lane did not hang.
func TestHungLaneIsRecheckedRarely(t *testing.T) {
	for _, answer := range []ResultKind{Succeeded, Failed} {
		lt := newLaneTest(t, 100_000)
		lt.fill("hung", laneQueue)
		l := lt.byDest["hung"]
		var running [InitialWindow]*Delivery
		for i := range running {
			running[i] = lt.next(l, nil, NotSent)
		}
		wait := func(run string) time.Duration {
			delivery := lt.delivery("hung", run)
			delivery.Work.Parked = event.LaneFull // the first interval is random
			return lt.parkOne(delivery, event.LaneFull).Due.Sub(lt.now)
		}
		for range 36_000 {
			wait("")
		}
		if got := wait(""); got > 15*time.Second {
			t.Errorf("before the lane hangs a delivery is parked for %v", got)
		}
		lt.now = lt.now.Add(hungAfter + time.Second)
		lt.wakes = 0
		if got := wait(""); got < 72*time.Second || lt.wakes != 1 {
			t.Errorf("the lane hangs, and a delivery is parked for %v; %d wakes", got, lt.wakes)
		}
		if got := wait("run_1"); got > 15*time.Second {
			t.Errorf("the lane hangs, and a replay is parked for %v", got)
		}
		lt.next(l, running[0], TimedOut)
		if dests, _, _ := lt.Recovered(); dests != nil {
			t.Errorf("a time-out made %q recover", dests)
		}
		if lt.next(l, running[1], answer); lt.wakes != 2 {
			t.Error("parked deliveries wait although the lane has recovered")
		}
		if dests, parked, _ := lt.Recovered(); len(dests) != 1 || dests[0] != "hung" || parked != l.parking.total {
			t.Errorf("after an answer %q recovered, with %d of %d parked", dests, parked, l.parking.total)
		}
		if got := wait(""); got > 15*time.Second {
			t.Errorf("after an answer a delivery is parked for %v", got)
		}
		lt.next(l, running[2], answer)
		if dests, _, _ := lt.Recovered(); dests != nil {
			t.Errorf("%q recovered twice", dests)
		}
	}
}

// While a circuit breaker is open, one delivery returns in time to be the probe, however long the others wait.
func TestOneParkedDeliveryIsTheProbe(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	for range 40_000 {
		lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	}
	for range 2 {
		l.breaker = breaker{openFor: breakerMinOpen, openUntil: lt.now.Add(breakerMinOpen)}
		for i := range 3 {
			delivery := lt.delivery("d", "")
			delivery.Work.Parked = event.BreakerOpen
			decision := lt.parkOne(delivery, event.BreakerOpen)
			if probe := decision.Due.Equal(l.breaker.openUntil); probe != (i == 0) {
				t.Errorf("the delivery parked after %d others returns at %v, the breaker is open until %v", i, decision.Due,
					l.breaker.openUntil)
			}
			if decision.EarliestSend.After(l.breaker.openUntil) {
				t.Errorf("a delivery that a probe may bring back any time is reported to wait until %v", decision.EarliestSend)
			}
		}
		lt.now = l.breaker.openUntil
	}
}

// The delivery that returns as the probe is re-checked earlier if the lane recovers meanwhile: a replay succeeded, or
// the destination has a new URL.
func TestProbeReturnsWhenItsLaneRecovers(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	l := lt.byDest["d"]
	for range 40_000 {
		lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	}
	l.configure(&config.Destination{URL: "https://old.example/hook",
		DestinationSettings: config.DestinationSettings{MaxInFlight: 1}})
	l.breaker.openFor, l.breaker.openUntil = BreakerMaxOpen, lt.now.Add(BreakerMaxOpen)
	probe := lt.parkOne(lt.delivery("d", ""), event.BreakerOpen)
	lt.now = lt.now.Add(BreakerMaxOpen / 2)
	l.configure(&config.Destination{URL: "https://new.example/hook",
		DestinationSettings: config.DestinationSettings{MaxInFlight: 1}})
	if dests, _, _ := lt.Recovered(); !probe.Due.Equal(lt.now.Add(BreakerMaxOpen/2)) || len(dests) != 1 {
		t.Errorf("it is due in %v, and %q recovered", probe.Due.Sub(lt.now), dests)
	}
}

// A hung lane keeps a copy of its delivery to notice changes. The copy has no body, and the delivery still has its own.
func TestHungDeliveryHasNoBody(t *testing.T) {
	text := "d ep a GET headers" // as event.Decode shares one text
	work := &event.Work{Dest: text[:1], Event: &event.Event{ID: id.ID{1}, Endpoint: "ep", Type: text[5:6],
		Method: text[7:10], Header: []event.Field{{Name: "A"}}, Body: []byte("{}")}}
	h := newHungDelivery(work, event.Manual)
	if want := (event.Event{ID: id.ID{1}, Endpoint: "ep", Type: "a"}); h.work.Dest != "d" ||
		!reflect.DeepEqual(*h.work.Event, want) {
		t.Errorf("it keeps %+v of %+v", h.work.Event, h.work)
	}
	if sameMemory(h.work.Dest, work.Dest) || sameMemory(h.work.Event.Type, work.Event.Type) {
		t.Error("it keeps the text with all headers of the event")
	}
	if work.Event.Body == nil || work.Event.Header == nil {
		t.Error("the delivery has lost its body")
	}
}

// Deliveries that were parked together do not return together.
func TestFirstIntervalsAreSpread(t *testing.T) {
	lt := newLaneTest(t, 100)
	var early, late int
	for range 200 {
		switch wait := lt.parkOne(lt.delivery("d", ""), event.LaneFull).Due.Sub(lt.now); {
		case wait < MinRecheck*2/5:
			early++
		case wait > MinRecheck*4/5:
			late++
		}
	}
	if early == 0 || late == 0 {
		t.Errorf("%d of 200 return early, %d late", early, late)
	}
}

// A circuit breaker holds a delivery until its deadline at most. Whatever else it waits for ends no delivery.
func TestOnlyABreakerEndsWhatWaits(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	known := Eligibility{Endpoint: &config.Endpoint{}, Destination: &config.Destination{}, Known: true}
	paused := known
	paused.Paused = true
	for _, c := range []struct {
		reason      event.Reason
		eligibility Eligibility
		deadline    time.Duration
		ends        bool
	}{
		{event.BreakerOpen, known, 0, true},
		{event.BreakerOpen, known, time.Millisecond, false},
		{event.BreakerOpen, paused, 0, false},
		{event.BreakerOpen, Eligibility{}, 0, false}, // this node does not know the endpoint yet
		{event.LaneFull, known, 0, false},
		{event.Paced, known, 0, false},
	} {
		delivery := lt.delivery("d", "")
		delivery.Work.Deadline = lt.now.Add(c.deadline)
		decision := lt.parkOrEnd(delivery, c.reason, c.eligibility)
		failed := decision.Action == End && decision.Status == event.Failed && decision.Reason == event.AttemptsExhausted
		if failed != c.ends || !c.ends && decision.Action != Park {
			t.Errorf("%s, paused %t, %v before the deadline: %+v", c.reason, c.eligibility.Paused, c.deadline, decision)
		}
	}
}

// A paused lane re-checks what it has parked at the smaller budget. When it is resumed, or its endpoint changes in
// another way, it has recovered within changeInterval.
func TestPausedLaneIsRecheckedRarely(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.eligibility.Endpoint, lt.eligibility.Paused = &config.Endpoint{Rev: 1}, true
	change := func(what string, make func()) {
		t.Helper()
		for range 36_000 {
			lt.parkOne(lt.delivery("d", ""), event.Manual)
		}
		for range 3 {
			lt.now = lt.now.Add(changeInterval)
			if dests, _, again := lt.Recovered(); dests != nil || again != changeInterval {
				t.Errorf("before it was %s %q recovered; it is asked again after %v", what, dests, again)
			}
		}
		known := lt.eligibility
		lt.eligibility = Eligibility{} // this node has not applied the write that creates the endpoint
		lt.now = lt.now.Add(changeInterval)
		if dests, _, _ := lt.Recovered(); dests != nil {
			t.Errorf("without the endpoint %q recovered", dests)
		}
		lt.eligibility = known
		make()
		lt.now = lt.now.Add(changeInterval)
		if dests, _, _ := lt.Recovered(); len(dests) != 1 {
			t.Errorf("when it was %s %q recovered", what, dests)
		}
	}
	change("changed", func() { lt.eligibility.Endpoint = &config.Endpoint{Rev: 2} })
	change("deleted", func() { lt.eligibility.Status = event.Skipped })
	lt.eligibility.Status = ""
	change("resumed", func() { lt.eligibility.Paused = false })
	for range 2 {
		lt.now = lt.now.Add(MaxRecheck)
		if dests, _, again := lt.Recovered(); dests != nil || again != 0 {
			t.Errorf("afterwards %q recovered; it is asked again after %v", dests, again)
		}
		for range 36_000 { // of a lane that stays paused all have returned after MaxRecheck
			lt.parkOne(lt.delivery("d", ""), event.Manual)
		}
	}
}

func TestTierFor(t *testing.T) {
	f := func(wait time.Duration, topic string) {
		t.Helper()
		is.Equal(t, TierFor(stream.Tiers(), wait).Topic, topic, wait)
	}
	f(-time.Hour, "retry.1s")
	f(0, "retry.1s")
	f(time.Millisecond, "retry.1s")
	f(time.Second, "retry.1s")
	f(1100*time.Millisecond, "retry.2s")
	f(3*time.Second, "retry.2s")
	f(4*time.Second, "retry.5s")
	f(5*time.Second, "retry.5s")
	f(5500*time.Millisecond, "retry.5s")
	f(8900*time.Millisecond, "retry.5s")
	f(9*time.Second, "retry.10s")
	f(57*time.Second, "retry.30s")
	f(58*time.Second, "retry.1m")
	f(5*time.Minute, "retry.5m")
	f(58*time.Minute, "retry.1h")
	f(72*time.Hour, "retry.1h")
}

// With equal clocks a delivery is never early through all its passes, and late by at most the slack of the last tiers,
// however deep a tier is and whenever its head is fetched.
func TestHopsAreNeverEarlyAndHardlyLate(t *testing.T) {
	tiers := stream.Tiers()
	start := time.UnixMilli(1_800_000_000_000)
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		wait := time.Duration(r.Float64() * float64(time.Second) * float64(int64(1)<<r.IntN(20))) // up to 12 days
		due, now, passes := start.Add(wait), start, 0
		for {
			remaining := due.Sub(now)
			tier := TierFor(tiers, remaining)
			seen := now.Add(time.Duration(r.Float64() * float64(min(tier.Delay, max(remaining, 0))) * float64(r.IntN(2))))
			at := ReadyAt(due, now, seen, tier.Delay)
			if at.After(now.Add(tier.Delay)) && at.After(seen.Add(minTierTime)) {
				t.Fatalf("seed %d: waits %v in %s", seed, at.Sub(now), tier.Topic)
			}
			if now = at; !now.Before(due) {
				break
			}
			if passes++; passes > 400 {
				t.Fatalf("seed %d: %d retry passes for %v", seed, passes, wait)
			}
		}
		if late := now.Sub(due); late > Slack(wait) {
			t.Fatalf("seed %d: %v late after %v", seed, late, wait)
		}
	}
}

// A broker clock that is off by up to an hour makes no delivery early, blocks none longer than the delay of its tier,
// and cannot make records move on without end.
func TestHopsWithSkewedBroker(t *testing.T) {
	tiers := stream.Tiers()
	start := time.UnixMilli(1_800_000_000_000)
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 4))
		skew := time.Duration((2*r.Float64() - 1) * float64(time.Hour))
		wait := time.Duration(r.Float64() * float64(time.Second) * float64(int64(1)<<r.IntN(15)))
		due, now, passes := start.Add(wait), start, 0
		for now.Before(due) {
			tier := TierFor(tiers, due.Sub(now))
			at := ReadyAt(due, now.Add(skew), now, tier.Delay)
			if waited := at.Sub(now); waited > tier.Delay || at.Before(due) && waited < min(minTierTime, tier.Delay) {
				t.Fatalf("seed %d: waits %v in %s, due in %v", seed, waited, tier.Topic, due.Sub(now))
			}
			now, passes = at, passes+1
		}
		if limit := 60 + int(wait/minTierTime); passes > limit || now.Sub(due) > Slack(wait) {
			t.Fatalf("seed %d: %d retry passes, %v late", seed, passes, now.Sub(due))
		}
	}
}
