package lane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

func TestRecheckInterval(t *testing.T) {
	f := func(parked, lanes int, want time.Duration) {
		t.Helper()
		if got := RecheckInterval(stream.Tiers(), parked, lanes); got != want {
			t.Errorf("%d parked in one of %d lanes: %v, want %v", parked, lanes, got, want)
		}
	}
	f(1, 1, 5*time.Second)
	f(20, 100, 5*time.Second)
	f(20_000, 1, 5*time.Second)
	f(38_400, 1, 9600*time.Millisecond) // one hop of the tier of 10 s
	f(28_000, 1, 10*time.Second)        // 7 s would be two hops: 5 s and 2 s
	f(10_000, 500, 30*time.Minute)
	f(1_000_000, 1, 250*time.Second+35*time.Second+15*time.Second)
	f(20_000_000, 1, time.Hour)
	f(1_000_000_000, 100_000, time.Hour)
}

// For any numbers of parked deliveries, the hops of all of them together stay within RecheckBudget, including the
// extra hops of an interval that needs several tiers.
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
			step := RecheckInterval(tiers, n, len(parked))
			hops := 0
			for remaining := step; remaining > 0; hops++ {
				remaining -= min(TierFor(tiers, remaining).Delay, remaining)
			}
			if hops != 1 {
				t.Fatalf("%d hops for an interval of %v", hops, step)
			}
			if step < MaxRecheck {
				perSecond += float64(n) / step.Seconds()
			}
		}
		if perSecond > RecheckBudget*1.01 {
			t.Fatalf("seed %d: %.0f hops a second for %d lanes", seed, perSecond, len(parked))
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
		hops, longest := 0, time.Duration(0)
		for lt.now.Before(start.Add(2 * time.Minute)) {
			lt.now = lt.now.Add(500 * time.Millisecond)
			for i := range all {
				x := &all[i]
				if x.due.After(lt.now) {
					continue
				}
				delivery := &Delivery{Slot: &testSlot{lt.part}, Work: x.work}
				lt.mu.Lock()
				lt.countReturned(lt.laneOf(delivery, lt.now), x.work)
				lt.mu.Unlock()
				s := lt.parkOne(delivery, event.Manual)
				x.due, x.work.ParkedBy = s.Due, s.ParkedBy
				longest = max(longest, s.Due.Sub(lt.now))
				if hops++; lt.now.Before(start.Add(time.Minute)) {
					hops = 0
				}
			}
			if lt.now.After(start.Add(21 * time.Second)) {
				if n := lt.Census().Parked[string(event.Manual)]; n != total {
					t.Fatalf("seed %d: %d are counted, %d are parked", seed, n, total)
				}
			}
		}
		if rate := float64(hops) / 60; rate > RecheckBudget*1.05 || longest > MaxRecheck {
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
	if n := count(); n != 2 {
		t.Fatalf("%d are parked", n)
	}
	lt.enqueue(a)
	lt.enqueue(a) // a second copy of the record
	if n := count(); n != 1 {
		t.Fatalf("%d are parked after one returned twice", n)
	}
	other := lt.delivery("d", "")
	other.Work.Parked, other.Work.ParkedBy = event.LaneFull, 12345
	lt.enqueue(other)
	lt.enqueue(b)
	if n := count(); n != 0 {
		t.Fatalf("%d are parked after all returned", n)
	}
	lt.enqueue(park("a word of a newer version"))
	if n := count(); n != 0 {
		t.Fatalf("%d are parked after one of another owner returned", n)
	}
	c := park(event.Manual)
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	if n := count(); n != 0 {
		t.Fatalf("%d are parked after the partition left", n)
	}
	park(event.Manual)
	lt.enqueue(c) // parked before the partition left
	if n := count(); n != 1 {
		t.Fatalf("%d are parked", n)
	}
}

// Parked deliveries find room beside a stream of new ones that alone would fill the lane.
func TestParkedDeliveriesKeepHalfTheQueue(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 1)
	lt.now = lt.now.Add(time.Minute)
	lt.parkOne(lt.delivery("d", ""), event.LaneFull)
	if n := lt.fill("d", 5000); n != laneQueue/2-1 {
		t.Errorf("%d new deliveries were admitted", n)
	}
	for range laneQueue / 2 {
		delivery := lt.delivery("d", "")
		delivery.Work.Parked = event.LaneFull
		if r := lt.enqueue(delivery); r != "" {
			t.Fatalf("a returning delivery was parked again: %s", r)
		}
	}
}
