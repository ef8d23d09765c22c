package lane

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// The parking rule: all parked work of a node together comes by about HopBudget times a second, each piece
// at least every LongestPark, and none more often than every ShortestPark.
const (
	HopBudget    = 4000
	ShortestPark = 5 * time.Second
	LongestPark  = time.Hour
)

// ParkReasons are the reasons for which work is parked.
var ParkReasons = [...]event.Reason{event.LaneFull, event.Paced, event.BreakerOpen, event.Manual}

// parking is what a lane knows of its parked work. The records carry the lane's mark, so that one that comes
// back is told from one that an earlier owner parked: that one is new here, and counts when it is parked
// again. So a lane knows all of them after one step, and how many they are exactly from then on.
type parking struct {
	mark   uint32
	counts [len(ParkReasons)]int
	total  int
}

// newParking makes a mark that is never 0, the mark of what was never parked.
func newParking() parking { return parking{mark: rand.Uint32() | 1} }

// of is the count of what is parked for the reason; one that is not known counts as the first.
func (p *parking) of(reason event.Reason) *int {
	return &p.counts[max(slices.Index(ParkReasons[:], reason), 0)]
}

// StepOf is how long parked work waits until it comes by again, when this many pieces of a lane and this
// many lanes are parked. A wait that would take several hops is longer instead: the next one of a single
// hop, so that the budget holds in hops, too.
func StepOf(tiers []stream.Tier, parked, lanes int) time.Duration {
	wanted := float64(parked) * float64(lanes) / HopBudget
	step := max(ShortestPark, time.Duration(min(wanted, LongestPark.Seconds())*float64(time.Second)))
	for _, t := range tiers {
		if t.Delay >= step {
			if TierFor(tiers, step).Delay < step {
				return t.Delay
			}
			break
		}
	}
	return step
}

// Parked is how a piece of work is parked.
type Parked struct {
	Due  time.Time // when it comes by
	Next time.Time // when it will hardly be sent before; zero: nobody knows
	Mark uint32
}

// Park counts the work as parked by its lane. What is parked for the first time comes by somewhat earlier, at
// random: what came at once does not come back at once then.
func (ls *Lanes) Park(w *event.Work, reason event.Reason, index int32) Parked {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.lane(w, index, now)
	if l.parking.total == 0 {
		ls.parking++
	}
	*l.parking.of(reason)++
	l.parking.total++
	step := StepOf(ls.tiers, l.parking.total, ls.parking)
	if w.Parked == "" {
		step = step/5 + time.Duration(rand.Float64()*float64(step-step/5))
	}
	s := Parked{Due: now.Add(step), Mark: l.parking.mark}
	switch reason {
	case event.BreakerOpen:
		s.Next = later(s.Due, l.breaker.until)
	case event.Paced:
		s.Next = later(s.Due, now.Add(l.rest.backlog(l.parking.total)))
	case event.LaneFull:
		s.Next = s.Due
	}
	return s
}

// comeBack notes that work that was parked is here again.
func (ls *Lanes) comeBack(l *Lane, w *event.Work) {
	if w.Parked == "" || w.ParkedBy != l.parking.mark {
		return
	}
	n := l.parking.of(w.Parked)
	if *n == 0 { // a second copy of it
		return
	}
	*n--
	if l.parking.total--; l.parking.total == 0 {
		ls.parking--
	}
}

// forgetParked begins to count anew: another owner may have had the work meanwhile.
func (ls *Lanes) forgetParked(l *Lane) {
	if l.parking.total > 0 {
		ls.parking--
	}
	l.parking = newParking()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
