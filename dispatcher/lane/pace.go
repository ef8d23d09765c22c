package lane

import (
	"slices"
	"time"
)

const (
	// movingWindow is the time over which a lane's completions are counted, to tell a lane that is full
	// because it is busy from one that is stuck.
	movingWindow = 250 * time.Millisecond
	// stuckAfter without a completion a lane does not keep more than it can send soon when memory is short.
	stuckAfter = time.Second
	// A lane may make partitions pause for stallBudget at once and, in the long run, for a tenth of the time.
	// That much a burst for one destination costs its neighbours.
	stallBudget = time.Second
	stallRefill = 10
	// soleStreak is how many deliveries of a partition in a row must be for one destination until it counts as
	// the only one there.
	soleStreak = 2048
)

// pace is how fast a lane moves, and what it made pause. It is guarded by Lanes.mu.
type pace struct {
	busy   time.Time // since when the lane is not empty
	moved  time.Time // when it finished something, or became busy
	window time.Time // begin of the current counting window
	now    int       // completions in it
	before int       // completions in the window before

	parts  []*Partition  // paused until half is done
	at     int           // deliveries queued when the first of them was
	since  time.Time     // when the first of them was, or the last stall ended
	budget time.Duration // left for stalls
}

func newPace(now time.Time) pace {
	return pace{window: now, since: now, budget: stallBudget}
}

// begin notes that the lane is no longer empty.
func (s *pace) begin(now time.Time) { s.busy, s.moved = now, now }

// finished counts a completion.
func (s *pace) finished(now time.Time) {
	s.roll(now)
	s.now++
	s.moved = now
}

// may reports whether these partitions may wait for a lane that holds so much. One that was empty a
// moment ago is not measured yet and may make them wait.
func (s *pace) may(now time.Time, held int, parts ...*Partition) bool {
	s.roll(now)
	fresh, recent := now.Sub(s.busy) < movingWindow, s.now+s.before
	sole := !slices.ContainsFunc(parts, func(p *Partition) bool { return p.streak < soleStreak })
	if sole {
		return fresh || recent > 0
	}
	// At the speed of the last half second, half of what it holds will be done within the next.
	return s.budgetAt(now) > 0 && (fresh || 2*recent >= held)
}

// budgetAt is how much longer the lane may make others wait.
func (s *pace) budgetAt(now time.Time) time.Duration {
	passed := max(now.Sub(s.since), 0) // the clock may have been set back
	if len(s.parts) > 0 {
		return s.budget - passed
	}
	return min(s.budget+passed/stallRefill, stallBudget)
}

func (s *pace) roll(now time.Time) {
	switch passed := now.Sub(s.window); {
	case passed >= 0 && passed < movingWindow:
	case passed >= 0 && passed < 2*movingWindow:
		s.before, s.now, s.window = s.now, 0, s.window.Add(movingWindow)
	default: // long ago, or the clock was set back
		s.before, s.now, s.window = 0, 0, now
	}
}

// holdBack lets the partition pause until the lane has done half of its queue, or may make it wait no longer.
func (ls *Lanes) holdBack(l *Lane, p *Partition, now time.Time) {
	s := &l.pace
	if slices.Contains(s.parts, p) {
		return
	}
	if len(s.parts) == 0 {
		s.budget = s.budgetAt(now)
		s.since, s.at = now, l.queued()
		ls.stalled[l] = struct{}{}
		ls.wake()
	}
	s.parts = append(s.parts, p)
	p.AddStalls(1)
}

func (ls *Lanes) letGo(l *Lane, now time.Time) {
	s := &l.pace
	s.budget, s.since = s.budgetAt(now), now // less than nothing when it was noticed late
	for _, p := range s.parts {
		p.AddStalls(-1)
	}
	s.parts = nil
	delete(ls.stalled, l)
}

// recheck finds the partitions that have waited long enough, and what stuck lanes must give back. See Recheck.
func (ls *Lanes) enforceLimits() (shed []*Delivery, again time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.stalled {
		if !l.pace.may(now, l.held, l.pace.parts...) {
			ls.letGo(l, now)
		}
	}
	if ls.short = ls.takes(2); ls.short {
		for _, l := range ls.byDest {
			if l.stuck(now) {
				shed = l.shed(shed)
			}
		}
	}
	if ls.short || len(ls.stalled) > 0 {
		again = movingWindow
	}
	return shed, again
}

// takes reports whether more than one nth of the memory is taken. From a quarter on, stuck lanes take no more than they
// will send soon; from half of it on, they give back what is beyond that. So their deliveries are parked piece by piece
// as they come, not by the thousand at once.
func (ls *Lanes) takes(nth int) bool { return ls.held > ls.maxHeld/nth || ls.bytes > ls.maxBytes/nth }

// shed takes the newest deliveries out of the queue until it holds what that of a stuck lane may.
func (l *Lane) shed(out []*Delivery) []*Delivery {
	for _, q := range []*deliveries{&l.runs, &l.live} {
		for q.Len() > l.stuckQueue() {
			delivery := q.PopBack()
			l.held--
			l.bytes -= delivery.Size
			out = append(out, delivery)
		}
	}
	return out
}

// stuckQueue is how much may wait for a lane that is stuck when memory is short.
func (l *Lane) stuckQueue() int { return 2 * l.window.size }
