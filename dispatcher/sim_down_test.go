package dispatcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

var errRefused = errors.New("connection refused")

// full reports whether the cases run at their full size, which takes minutes.
func full() bool { return os.Getenv("RELAY_TORTURE") != "" }

// outage is a destination that is down for a while in which events arrive steadily.
type outage struct {
	every, lasts time.Duration
	observeAt    []time.Duration // times after its start at which parked deliveries are observed
	down         func() (time.Duration, int)
	drain        time.Duration // the longest time for all deliveries once a probe has succeeded
}

// A destination refuses connections for three days.
func TestDownForThreeDays(t *testing.T) {
	if testing.Short() {
		t.Skip("days of fake time: TestDownForAnHour starts the same goroutines")
	}
	o := outage{
		every: 90 * time.Second, lasts: 72 * time.Hour, drain: 2 * time.Minute,
		observeAt: []time.Duration{time.Hour, 24 * time.Hour, 71 * time.Hour},
		down:      func() (time.Duration, int) { return time.Millisecond, 0 },
	}
	if full() {
		o.every, o.drain = time.Second, 11*time.Minute // parked deliveries are re-checked every ten minutes
	}
	o.run(t)
}

// A destination hangs for an hour while many events arrive.
func TestDownForAnHour(t *testing.T) {
	o := outage{
		every: 400 * time.Millisecond, lasts: time.Hour, drain: 2 * time.Minute,
		observeAt: []time.Duration{5 * time.Minute, 30 * time.Minute, 50 * time.Minute},
		down:      func() (time.Duration, int) { return time.Hour, 0 },
	}
	if full() {
		// 24,000 events in the hour, fewer than the 30,000 re-checks that the budget allows a minute: the passes of more new
		// deliveries would hide the rate of re-checks.
		o.every = 150 * time.Millisecond
	}
	o.run(t)
}

func (o outage) run(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_1")
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		start := time.Now()
		up := start.Add(o.lasts)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return o.down()
			}
			return 50 * time.Millisecond, 200
		}
		events := 0
		var provider sync.WaitGroup
		provider.Go(func() {
			for ; time.Now().Before(up); time.Sleep(o.every) {
				s.accept(endpoint)
				events++
			}
		})
		for _, at := range o.observeAt {
			s.absentUntil.Store(start.Add(at).UnixNano())
			time.Sleep(time.Until(start.Add(at)))
			s.observe(at, 4/o.every.Seconds())
		}
		s.absentUntil.Store(up.UnixNano())
		provider.Wait()

		opens, parked, _ := s.laneState("dst_1") // only the next probe finds out that it is up
		if late := opens.Sub(up); opens.IsZero() || late > lane.BreakerMaxOpen {
			t.Fatalf("the next probe is in %v", late)
		}
		s.absentUntil.Store(opens.UnixNano())
		time.Sleep(time.Until(opens))
		s.absentUntil.Store(0)
		for range int(o.drain / time.Second) {
			time.Sleep(time.Second)
			s.memory("while it drains")
		}
		s.ownRetries(events)
		o.check(s, events, parked, up)
	})
}

// ownRetries waits for the few deliveries that were sent as a probe shortly before the destination was up: their next
// attempt follows the retry policy, hours later if they were sent often. All others must be delivered by now.
func (s *sim) ownRetries(events int) {
	got := s.statuses()
	last := time.Now()
	s.seen.Lock()
	failed := s.requests - got["delivered"]
	if few := got["retrying"]; few > failed || got["delivered"]+few != events {
		s.t.Errorf("drained: %v of %d, and %d requests failed", got, events, failed)
	}
	for _, outcome := range s.last {
		if outcome.Status == event.Retrying && outcome.NextAt.After(last) {
			last = outcome.NextAt
		}
	}
	s.seen.Unlock()
	time.Sleep(time.Until(last) + time.Minute)
}

// observe watches all parked deliveries for two re-check intervals: each is re-checked once per interval, within the
// budget. New events add a few passes a second.
func (s *sim) observe(at time.Duration, fresh float64) {
	s.absentUntil.Store(0)
	_, parked, lanes := s.laneState("dst_1")
	step := lane.RecheckInterval(stream.Tiers(), parked, lanes, lane.HungRecheckBudget)
	time.Sleep(step + 2*time.Second) // until all have been re-checked once
	began, watched := time.Now(), max(2*step, 10*time.Second)
	for range int(watched / time.Second) {
		time.Sleep(time.Second)
		s.memory("while it is down")
	}
	rate, want := s.passRate(began), float64(parked)/step.Seconds()
	s.t.Logf("after %v: %d parked, step %v, %.0f retry passes a second", at, parked, step, rate)
	if rate > 1.05*lane.HungRecheckBudget || rate > 1.1*want+10+fresh || rate < 0.8*want {
		s.t.Errorf("after %v: %.0f retry passes a second, want %.0f and at most %d", at, rate, want, lane.HungRecheckBudget)
	}
}

// check asserts the end: everything was delivered, nothing early, nothing twice, nothing is left.
func (o outage) check(s *sim, events, parked int, up time.Time) {
	s.seen.Lock()
	first, last := s.succeededAt[0], s.succeededAt[len(s.succeededAt)-1]
	failures := s.requests - events
	s.seen.Unlock()
	s.t.Logf("%d events, %d parked at the end; %d requests failed; found up %v late, all delivered %v after that; "+
		"%d retry passes watched, %d not",
		events, parked, failures, first.Sub(up), last.Sub(first), s.passesInAll(), s.skippedRechecks)
	if got := s.statuses(); !maps.Equal(got, map[string]int{"delivered": events}) {
		s.t.Errorf("%d events: %v", events, got)
	}
	if len(s.succeededAt) != events || s.early > 0 || s.maxRunning > 64 {
		s.t.Errorf("%d events: %d deliveries, %d early, %d at once", events, len(s.succeededAt), s.early, s.maxRunning)
	}
	if failures > 1100 { // 300 early probes a day
		s.t.Errorf("%d requests to a destination that is down", failures)
	}
	is.Equal(s.t, s.open(), 0, "records are not committed")
}

// A delivery that waits for longer than its payload is kept fails when the payload expires. The others are delivered.
func TestDownForLongerThanPayloadsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("days of fake time: TestDownForAnHour starts the same goroutines")
	}
	endpoint := simEndpoint("ep_1", "dst_1")
	const interval = time.Minute
	endpoint.RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: int(interval / time.Second),
		MaxAttempts: 1_000_000}
	cfg := simConfig()
	cfg.RetentionDays = 1
	const recheck = 10 * time.Minute // how often parked deliveries are re-checked
	simulate(t, cfg, []*config.Endpoint{endpoint}, func(s *sim) {
		start := time.Now()
		up := start.Add(30 * time.Hour)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return time.Millisecond, 0
			}
			return 50 * time.Millisecond, 200
		}
		events := 0
		for ; time.Now().Before(up.Add(2 * time.Hour)); time.Sleep(5 * time.Minute) {
			s.absentUntil.Store(time.Now().Add(recheck).UnixNano())
			if time.Now().Before(up) {
				s.accept(endpoint)
				events++
			}
		}
		got := s.statuses()
		if got["delivered"]+got["failed payload_expired"] != events || got["failed payload_expired"] < 70 {
			t.Errorf("%d events: %v", events, got)
		}
		for k, outcome := range s.last {
			expiry := k.Event.Time().Add(24 * time.Hour)
			switch {
			case outcome.Status == event.Delivered && !outcome.At.Before(expiry.Add(time.Second)):
				t.Errorf("delivered %v after its end", outcome.At.Sub(expiry))
			case outcome.Status == event.Failed &&
				(outcome.At.Before(expiry.Add(-interval)) || outcome.At.After(expiry.Add(recheck+time.Minute)) &&
					outcome.At.Before(up)):
				t.Errorf("failed %v after its end", outcome.At.Sub(expiry))
			}
		}
	})
}

// deadNode runs many destinations that are down through the lanes, the parking rule and the choice of tiers. Records
// are reduced to a destination and a time, so that millions of them fit into memory.
type deadNode struct {
	*lane.Lanes
	t       *testing.T
	now     time.Time
	started map[*lane.Lane]int
	part    *partition
	random  *rand.Rand
	tiers   []stream.Tier
	policy  retry.Policy
	dests   []deadDest

	second   int
	calendar [][]deadRecord // records by the second at which they leave their tier

	passes, rechecks, requests int
	longestParked              time.Duration // longest time between two re-checks
}

// deadDest has one delivery of each kind, since all its records are alike.
type deadDest struct {
	fresh, retried, parked event.Work
}

// deadRecord is one record in a tier.
type deadRecord struct {
	dest   uint16
	kind   uint8 // deadFresh, deadRetried or deadParked
	due    int32 // milliseconds after the second in which it was put
	parked int32 // seconds since the start, for longestParked
	event  uint32
}

const (
	deadFresh = iota
	deadRetried
	deadParked
)

func newDeadNode(t *testing.T, dests int) *deadNode {
	n := &deadNode{
		t: t, now: time.UnixMilli(1_800_000_000_000), started: map[*lane.Lane]int{}, random: rand.New(rand.NewPCG(1, 2)),
		tiers:  stream.Tiers(),
		policy: retry.Default(), dests: make([]deadDest, dests),
		calendar: make([][]deadRecord, 2*int(lane.MaxRecheck/time.Second)),
	}
	n.part, _ = testPartition(t, stream.Events, 0)
	cfg := lane.Config{MaxInFlight: DefaultConfig().MaxInFlight, MaxInFlightBytes: 1 << 30,
		MaxSending: DefaultConfig().MaxSending}
	n.Lanes = lane.New(cfg, lane.Deps{
		Now: func() time.Time { return n.now }, Wake: func() {},
		Rules: &fixedRules{lane.Eligibility{Endpoint: &config.Endpoint{}, Destination: &config.Destination{}, Known: true}},
	})
	n.part.lanePartition.StartWorker = func(l *lane.Lane) { n.started[l]++ }
	for i := range n.dests {
		name := fmt.Sprint("dead_", i)
		n.dests[i] = deadDest{
			fresh:   event.Work{Event: &event.Event{}, Dest: name, Attempt: 1},
			retried: event.Work{Event: &event.Event{}, Dest: name, Attempt: 2},
			parked:  event.Work{Event: &event.Event{}, Dest: name, Attempt: 1, Parked: event.BreakerOpen},
		}
	}
	return n
}

// put moves a record through the tiers until it is due.
func (n *deadNode) put(p deadRecord, remaining time.Duration) {
	tier := lane.TierFor(n.tiers, remaining)
	n.passes++
	ready := lane.ReadyAt(n.now.Add(remaining), n.now, n.now, tier.Delay)
	wait := ready.Sub(n.now)
	p.due = int32((remaining - wait).Milliseconds())
	at := (n.second + max(int((wait+time.Second-1)/time.Second), 1)) % len(n.calendar)
	n.calendar[at] = append(n.calendar[at], p)
}

// admitRecord admits the delivery of a record to its lane.
func (n *deadNode) admitRecord(p deadRecord) {
	d := &n.dests[p.dest]
	work := *[...]*event.Work{&d.fresh, &d.retried, &d.parked}[p.kind]
	work.Event = new(event.Event) // the lane may keep it
	binary.BigEndian.PutUint32(work.Event.ID[12:], p.event)
	if p.kind == deadParked {
		n.rechecks++
		n.longestParked = max(n.longestParked, time.Duration(n.second-int(p.parked))*time.Second)
	}
	n.carryOut(n.Admit(&lane.Delivery{Slot: &slot{partition: n.part}, Work: &work, Size: 600}))
	n.runWorkers()
}

func (n *deadNode) runWorkers() {
	for l, workers := range n.started {
		for ; workers > 0; workers-- {
			n.runWorker(l)
		}
		delete(n.started, l)
	}
}

// runWorker is a worker whose requests all fail at once.
func (n *deadNode) runWorker(l *lane.Lane) {
	last := lane.Result{}
	for {
		decision := l.Next(n.t.Context(), last)
		if decision.Action == lane.Stop {
			return
		}
		last = lane.Result{Delivery: decision.Delivery}
		if decision.Action != lane.Send {
			n.carryOut(decision)
			continue
		}
		n.requests++
		last.Kind = lane.Failed
		delay := retryDelay(n.policy, decision.Delivery.Work.Attempt, 0, n.random.Float64())
		n.put(n.recordOf(decision.Delivery, deadRetried), delay)
		n.Release(decision.Delivery)
	}
}

func (n *deadNode) carryOut(decision lane.Decision) {
	if decision.Action != lane.Park {
		return
	}
	parked := n.recordOf(decision.Delivery, deadParked)
	d := &n.dests[parked.dest]
	d.parked.Parked, d.parked.ParkedBy = decision.Reason, decision.ParkedBy
	n.put(parked, decision.Due.Sub(n.now))
	n.Release(decision.Delivery)
}

// recheckInterval is the interval when each destination has so many parked deliveries.
func (n *deadNode) recheckInterval(each int) time.Duration {
	return lane.RecheckInterval(n.tiers, each, len(n.dests), lane.HungRecheckBudget)
}

// recordOf is the record that continues a delivery.
func (n *deadNode) recordOf(delivery *lane.Delivery, kind uint8) deadRecord {
	dest, _ := strconv.Atoi(strings.TrimPrefix(delivery.Work.Dest, "dead_"))
	return deadRecord{dest: uint16(dest), event: binary.BigEndian.Uint32(delivery.Work.Event.ID[12:]), kind: kind,
		parked: int32(n.second)}
}

// tick simulates one second.
func (n *deadNode) tick() {
	n.second++
	n.now = n.now.Add(time.Second)
	shed, _ := n.EnforceLimits()
	for _, decision := range shed {
		n.carryOut(decision)
	}
	n.runWorkers()
	at := n.second % len(n.calendar)
	pieces := n.calendar[at]
	n.calendar[at] = nil
	for _, p := range pieces {
		if p.due > 0 {
			n.put(p, time.Duration(p.due)*time.Millisecond)
		} else {
			n.admitRecord(p)
		}
	}
}

// 500 destinations are down, and 500 deliveries wait for each, 10,000 with RELAY_TORTURE. All of them together are
// re-checked within the budget, each at least once an hour, and hardly a request is sent.
func TestManyDeadDestinations(t *testing.T) {
	dests, each, perSecond := 500, 500, 2_000
	if full() {
		each, perSecond = 10_000, 5_000
	}
	n := newDeadNode(t, dests)
	for i := range dests * each {
		if i%perSecond == 0 {
			n.tick()
		}
		n.admitRecord(deadRecord{dest: uint16(i % dests), event: uint32(i), kind: deadFresh})
	}
	arrived := n.second
	step := n.recheckInterval(each)
	watch := int(2 * step / time.Second)
	for range watch { // until all have been re-checked once
		n.tick()
	}
	parked := 0
	for _, c := range n.Census().Parked {
		parked += c
	}
	passes, rechecks, requests, most := n.passes, n.rechecks, n.requests, 0
	n.longestParked = 0
	for range watch {
		before := n.passes
		n.tick()
		most = max(most, n.passes-before)
	}
	rate, passed, sent := float64(n.passes-passes)/float64(watch), float64(n.rechecks-rechecks)/float64(watch),
		n.requests-requests
	t.Logf("%d parked after %d s of arrivals, step %v: %.0f retry passes a second, %d in the busiest; %.0f rechecks; "+
		"%d requests in %v; not re-checked for %v at most",
		parked, arrived, step, rate, most, passed, sent, 2*step, n.longestParked)
	budget := max(lane.HungRecheckBudget, float64(parked)/lane.MaxRecheck.Seconds()) // so many need more, once an hour
	if parked < dests*each*99/100 || rate > 1.05*budget || passed < 0.95*float64(parked)/step.Seconds() ||
		n.longestParked > lane.MaxRecheck+time.Minute {
		t.Errorf("%d of %d are parked, %.0f retry passes a second, %.0f rechecks, not re-checked for %v at most", parked,
			dests*each, rate,
			passed, n.longestParked)
	}
	if most := 3*dests + dests*int(2*step/(50*time.Second)); sent > most { // early probes
		t.Errorf("%d requests to %d dead destinations in %v", sent, dests, 2*step)
	}
	if jobs, bytes := n.InMemory(); jobs > dests || bytes > 600*dests { // the next early probe of each
		t.Errorf("%d jobs, %d bytes are held", jobs, bytes)
	}
}
