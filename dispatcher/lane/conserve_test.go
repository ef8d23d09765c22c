package lane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// laneFuzz applies random operations to lanes in random order and counts every delivery.
type laneFuzz struct {
	*laneTest
	r      *rand.Rand
	t      *testing.T
	ended  map[*Delivery]int
	queued int
	copies int            // deliveries that ended as copies
	parked []event.Work   // what was parked, some of it twice
	lost   *testPartition // one that has left the node
	busy   []*flight      // workers with a request
}

type flight struct {
	lane     *Lane
	delivery *Delivery
}

func (f *laneFuzz) end(delivery *Delivery) {
	f.ended[delivery]++
	f.Release(delivery)
}

// step applies one random operation.
func (f *laneFuzz) step() {
	f.change()
	switch n := f.r.IntN(100); {
	case n < 40:
		f.offer()
	case n < 60:
		f.runWorker()
	case n < 90:
		f.finish([]ResultKind{NotSent, Succeeded, Succeeded, Failed, Failed, Failed, TimedOut}[f.r.IntN(7)])
	case n < 95:
		f.now = f.now.Add(time.Duration(f.r.ExpFloat64() * float64(time.Second)))
		f.wakeWaitingLanes()
	case n < 98:
		refused, _ := f.EnforceLimits()
		for _, decision := range refused {
			f.end(decision.Delivery)
		}
	default:
		f.now = f.now.Add(time.Duration((f.r.Float64() - 0.5) * float64(4*time.Hour))) // the clock is set
		f.sweep()
	}
	if f.r.IntN(2000) == 0 {
		f.revoke()
	}
}

// change changes the configuration and the answers of the limiter at random.
func (f *laneFuzz) change() {
	f.maxInFlight = []int{0, 1, 2, 64}[f.r.IntN(4)]
	f.wait, f.err = 0, nil
	dest := &config.Destination{DestinationSettings: config.DestinationSettings{Enabled: true}}
	eligibility := Eligibility{Endpoint: &config.Endpoint{}, Destination: dest, Known: true}
	switch f.r.IntN(20) {
	case 0:
		eligibility.Status, eligibility.Reason = event.Skipped, event.DestinationDisabled
	case 1:
		eligibility.Paused = true
	case 2:
		eligibility, f.err = Eligibility{}, errors.New("the configuration cannot be read")
	case 3, 4, 5:
		f.wait = time.Duration(f.r.IntN(int(12*time.Second)) + 1)
		dest.RateLimit = &config.RateLimit{PerSecond: f.r.Float64() * 20}
	}
	f.eligibility = eligibility
}

// record returns a delivery that is new, or that was parked. There are so few events that many of them are copies. Some
// are of a partition that has left the node.
func (f *laneFuzz) record() *Delivery {
	delivery := f.delivery(fmt.Sprint("d", f.r.IntN(4)), []string{"", "", "run_1"}[f.r.IntN(3)])
	delivery.Size = 1 + f.r.IntN(100_000)
	delivery.Work.Event, delivery.Work.Attempt = &event.Event{ID: id.ID{byte(f.r.IntN(60))}}, 1+f.r.IntN(2)
	if n := len(f.parked); n > 0 && f.r.IntN(3) == 0 {
		i := f.r.IntN(n)
		work := f.parked[i]
		delivery.Work = &work
		if f.r.IntN(5) > 0 {
			f.parked[i] = f.parked[n-1]
			f.parked = f.parked[:n-1]
		}
	}
	if f.r.IntN(50) == 0 {
		delivery.Slot = &testSlot{f.lost}
	}
	return delivery
}

// offer admits a new or parked delivery.
func (f *laneFuzz) offer() {
	delivery := f.record()
	key, _ := copyKeyOf(delivery.Work)
	first := f.unrecorded[key]
	decision := f.Admit(delivery)
	lost := delivery.Slot.(*testSlot).part.left
	if decision.Delivery != delivery { // the next early probe, which gave way to this one
		if !lost {
			f.queued++
		}
		if decision.Action != Dropped {
			f.check(decision)
			f.end(decision.Delivery)
		}
		return
	}
	switch {
	case lost && decision.Action != Queued && decision.Action != Dropped:
		f.t.Fatalf("the partition has left the node: %+v", decision)
	case lost: // what is queued is dropped later
		return
	case decision.Action == Queued:
		f.queued++
		return
	case decision.Action == End && decision.Status == "":
		if first == nil || first.Slot.(*testSlot).part.left {
			f.t.Fatal("the last record of a delivery ended as a copy")
		}
		f.copies++
		f.Release(delivery)
		return
	}
	if delivery.Work.Run != "" && decision.Reason == event.BreakerOpen {
		f.t.Fatal("an open breaker parked a requested delivery")
	}
	f.check(decision)
	f.Release(delivery)
}

// check asserts what holds for every decision.
func (f *laneFuzz) check(decision Decision) {
	switch due := decision.Due.Sub(f.now); decision.Action {
	case Park:
		if due < time.Second || due > MaxRecheck {
			f.t.Fatalf("parked for %v", due)
		}
		if decision.Status == "" && decision.Reason != decision.Delivery.Work.Parked {
			f.t.Fatalf("no outcome for %+v", decision)
		}
		work := *decision.Delivery.Work
		work.Parked, work.ParkedBy, work.ReportedNextAt = decision.Reason, decision.ParkedBy, decision.ReportedNextAt
		f.parked = append(f.parked, work)
	case End:
		if decision.Status == "" || !decision.Due.IsZero() {
			f.t.Fatalf("ended: %+v", decision)
		}
	case Send:
		if !decision.Eligibility.Known || decision.Eligibility.Paused || decision.Eligibility.Status != "" {
			f.t.Fatalf("sent against the configuration: %+v", decision)
		}
	default:
		f.t.Fatalf("decision: %+v", decision)
	}
}

// runWorker runs a worker that was started.
func (f *laneFuzz) runWorker() {
	for l, n := range f.started {
		if n > 0 {
			f.started[l]--
			f.goOn(l, Result{})
			return
		}
	}
}

func (f *laneFuzz) goOn(l *Lane, last Result) {
	for {
		decision := l.Next(f.t.Context(), last)
		if decision.Action == Stop {
			return
		}
		f.check(decision)
		if running := l.workers; running > l.window.limit {
			f.t.Fatalf("%d workers, max_in_flight is %d", running, l.window.limit)
		}
		if decision.Action == Send {
			f.busy = append(f.busy, &flight{l, decision.Delivery})
			return
		}
		f.end(decision.Delivery)
		last = Result{Delivery: decision.Delivery}
	}
}

// finish ends the request of a worker.
func (f *laneFuzz) finish(kind ResultKind) {
	if len(f.busy) == 0 {
		return
	}
	i := f.r.IntN(len(f.busy))
	x := f.busy[i]
	f.busy[i] = f.busy[len(f.busy)-1]
	f.busy = f.busy[:len(f.busy)-1]
	f.end(x.delivery)
	f.goOn(x.lane, Result{Delivery: x.delivery, Kind: kind})
}

// revoke takes the partition away: its queued deliveries belong to the next owner.
func (f *laneFuzz) revoke() {
	f.part.left = true
	for _, l := range f.byDest {
		for _, q := range []*deliveryQueue{&l.live, &l.requested} {
			for delivery := range q.Iter() {
				if delivery.Slot.Partition() == &f.part.Partition {
					f.ended[delivery]++
				}
			}
		}
		if l.early != nil && l.early.Slot.Partition() == &f.part.Partition {
			f.ended[l.early]++
		}
	}
	f.DropPartitions([]*Partition{&f.part.Partition})
	f.lost, f.part = f.part, f.newPartition()
}

// Under any sequence of operations each admitted delivery ends exactly once, all counters are zero at the end, and no
// lane keeps a delivery that no worker will send. A copy ends only while another record of its delivery is in memory,
// and no delivery is remembered for copies at the end.
func TestEveryDeliveryEndsOnce(t *testing.T) {
	seeds := uint64(8)
	if os.Getenv("RELAY_TORTURE") != "" {
		seeds = 200
	}
	for seed := range seeds {
		f := &laneFuzz{laneTest: newLaneTest(t, 600), r: rand.New(rand.NewPCG(seed, 8)), t: t, ended: map[*Delivery]int{}}
		f.maxBytes, f.lost = 20_000_000, f.newPartition()
		f.lost.left = true
		for range 20_000 {
			f.step()
		}
		for n := 0; ; n++ {
			f.change()
			for range 100 {
				f.runWorker()
				f.finish(Succeeded)
			}
			if held, _ := f.InMemory(); held == 0 {
				break
			}
			if f.now = f.now.Add(time.Minute); n > 1000 {
				t.Fatalf("seed %d: %d lanes keep deliveries that no worker sends", seed, len(f.byDest))
			}
			f.wakeWaitingLanes()
		}
		is.Equal(t, len(f.ended), f.queued, "seed %d: of %d deliveries ended", seed, f.queued)
		for delivery, n := range f.ended {
			must.Equal(t, n, 1, "seed %d: a delivery to %s ended … times", seed, delivery.Work.Dest)
		}
		for range 1000 {
			f.runWorker()
		}
		held, bytes := f.InMemory()
		for _, l := range f.byDest {
			if l.deliveries != 0 || l.bytes != 0 || l.workers != 0 || l.requestedActive != 0 || l.queued() != 0 {
				t.Errorf("seed %d: lane %s holds %d deliveries, %d bytes, %d workers, %d of runs",
					seed, l.dest, l.deliveries, l.bytes, l.workers, l.requestedActive)
			}
		}
		if held != 0 || bytes != 0 || f.workers != 0 || f.part.active != 0 {
			t.Errorf("seed %d: %d deliveries, %d bytes, %d workers are held", seed, held, bytes, f.workers)
		}
		if f.copies == 0 || len(f.unrecorded) != 0 {
			t.Errorf("seed %d: %d copies ended, %d deliveries are remembered", seed, f.copies, len(f.unrecorded))
		}
	}
}
