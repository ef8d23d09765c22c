package dispatcher

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

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
	n.SetStartWorker(func(l *lane.Lane) { n.started[l]++ })
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
	work := [...]*event.Work{&d.fresh, &d.retried, &d.parked}[p.kind]
	binary.BigEndian.PutUint32(work.Event.ID[12:], p.event)
	if p.kind == deadParked {
		n.rechecks++
		n.longestParked = max(n.longestParked, time.Duration(n.second-int(p.parked))*time.Second)
	}
	n.carryOut(p, n.Admit(&lane.Delivery{Slot: &slot{partition: n.part}, Work: work, Size: 600}))
	for l, workers := range n.started {
		for ; workers > 0; workers-- {
			n.runWorker(l, p)
		}
		delete(n.started, l)
	}
}

// runWorker is a worker whose requests all fail at once.
func (n *deadNode) runWorker(l *lane.Lane, p deadRecord) {
	last := lane.Result{}
	for {
		decision := l.Next(n.t.Context(), last)
		if decision.Action == lane.Stop {
			return
		}
		last = lane.Result{Delivery: decision.Delivery}
		if decision.Action != lane.Send {
			n.carryOut(p, decision)
			continue
		}
		n.requests++
		last.Kind = lane.Failed
		delay := retryDelay(n.policy, decision.Delivery.Work.Attempt, 0, n.random.Float64())
		n.put(deadRecord{dest: p.dest, event: p.event, kind: deadRetried}, delay)
		n.Release(decision.Delivery)
	}
}

func (n *deadNode) carryOut(p deadRecord, decision lane.Decision) {
	if decision.Action != lane.Park {
		return
	}
	d := &n.dests[p.dest]
	d.parked.Parked, d.parked.ParkedBy = decision.Reason, decision.ParkedBy
	n.put(deadRecord{dest: p.dest, event: p.event, kind: deadParked, parked: int32(n.second)}, decision.Due.Sub(n.now))
	n.Release(decision.Delivery)
}

// recheckInterval is the interval when each destination has so many parked deliveries.
func (n *deadNode) recheckInterval(each int) time.Duration {
	return lane.RecheckInterval(n.tiers, each, len(n.dests), lane.HungRecheckBudget)
}

// tick simulates one second.
func (n *deadNode) tick() {
	n.second++
	n.now = n.now.Add(time.Second)
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
	if sent > 3*dests {
		t.Errorf("%d requests to %d dead destinations in %v", sent, dests, 2*step)
	}
	if jobs, bytes := n.InMemory(); jobs != 0 || bytes != 0 {
		t.Errorf("%d jobs, %d bytes are held", jobs, bytes)
	}
}
