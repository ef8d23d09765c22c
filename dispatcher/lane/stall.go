package lane

import (
	"slices"
	"time"
)

// RecheckAfter is how long after Recheck has asked for it it must be called again.
const RecheckAfter = movingWindow

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
	// soleStreak is how many jobs of a partition in a row must be for one destination until it counts as
	// the only one there.
	soleStreak = 2048
)

// stall is how fast a lane moves, and what it made pause. It is guarded by lanes.mu.
type stall struct {
	busy   time.Time // since when the lane is not empty
	moved  time.Time // when it finished something, or became busy
	window time.Time // begin of the current counting window
	now    int       // completions in it
	before int       // completions in the window before

	parts  []*Source     // paused until half is done
	at     int           // jobs queued when the first of them was
	since  time.Time     // when the first of them was, or the last stall ended
	budget time.Duration // left for stalls
}

func newStall(now time.Time) stall {
	return stall{window: now, since: now, budget: stallBudget}
}

// begin notes that the lane is no longer empty.
func (s *stall) begin(now time.Time) { s.busy, s.moved = now, now }

// finished counts a completion.
func (s *stall) finished(now time.Time) {
	s.roll(now)
	s.now++
	s.moved = now
}

// may reports whether these partitions may wait for a lane that holds so much. One that was empty a
// moment ago has not been judged yet and may make them wait.
func (s *stall) may(now time.Time, held int, parts ...*Source) bool {
	s.roll(now)
	fresh, recent := now.Sub(s.busy) < movingWindow, s.now+s.before
	sole := !slices.ContainsFunc(parts, func(p *Source) bool { return p.streak < soleStreak })
	if sole {
		return fresh || recent > 0
	}
	// Half of what it holds will be done within half a second, judged by the last one.
	return s.budgetAt(now) > 0 && (fresh || 2*recent >= held)
}

// budgetAt is how much longer the lane may make others wait.
func (s *stall) budgetAt(now time.Time) time.Duration {
	passed := max(now.Sub(s.since), 0) // the clock may have been set back
	if len(s.parts) > 0 {
		return s.budget - passed
	}
	return min(s.budget+passed/stallRefill, stallBudget)
}

func (s *stall) roll(now time.Time) {
	switch passed := now.Sub(s.window); {
	case passed >= 0 && passed < movingWindow:
	case passed >= 0 && passed < 2*movingWindow:
		s.before, s.now, s.window = s.now, 0, s.window.Add(movingWindow)
	default: // long ago, or the clock was set back
		s.before, s.now, s.window = 0, 0, now
	}
}

// stall lets the partition pause until the lane has done half of its queue, or may make it wait no longer.
func (ls *Lanes) stall(l *Lane, p *Source, now time.Time) {
	s := &l.stall
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
	p.Stall(1)
}

func (ls *Lanes) unstall(l *Lane, now time.Time) {
	s := &l.stall
	s.budget, s.since = s.budgetAt(now), now // less than nothing when it was noticed late
	for _, p := range s.parts {
		p.Stall(-1)
	}
	s.parts = nil
	delete(ls.stalled, l)
}

// Recheck lets go on what has waited for its lane long enough: from now on its work is parked. When memory
// is short it takes from the lanes that are stuck what they will not send soon, to be parked. It reports
// whether it must be called again.
func (ls *Lanes) Recheck() (shed []*Delivery, again bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.stalled {
		if !l.stall.may(now, l.held, l.stall.parts...) {
			ls.unstall(l, now)
		}
	}
	if ls.short = ls.isShort(); ls.short {
		for _, l := range ls.byDest {
			if l.stuck(now) {
				shed = ls.shed(l, shed)
			}
		}
	}
	return shed, ls.short || len(ls.stalled) > 0
}

// isShort reports whether so much memory is taken that lanes that are stuck must give theirs back.
func (ls *Lanes) isShort() bool { return ls.jobs > ls.maxJobs/2 || ls.bytes > ls.maxBytes/2 }

// tight reports whether so much memory is taken that lanes that are stuck take no more than they will send soon. It
// comes before isShort, so that their work is parked piece by piece as it comes, not by the thousand at once.
func (ls *Lanes) tight() bool { return ls.jobs > ls.maxJobs/4 || ls.bytes > ls.maxBytes/4 }

// shed takes the newest jobs out of the lane until it holds what a stuck one may.
func (ls *Lanes) shed(l *Lane, out []*Delivery) []*Delivery {
	for _, q := range []*queue[*Delivery]{&l.runs, &l.live} {
		for q.len() > stuckQueue(l) {
			j := q.popBack()
			l.held--
			l.bytes -= j.Size
			out = append(out, j)
		}
	}
	return out
}

// stuckQueue is how much may wait for a lane that is stuck when memory is short.
func stuckQueue(l *Lane) int { return 2 * l.window.size }
