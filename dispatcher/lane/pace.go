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
	busySince       time.Time // since when the lane is not empty
	lastCompletion  time.Time // when it finished something, or became busy
	windowStart     time.Time // begin of the current counting window
	completed       int       // completions in it
	completedBefore int       // completions in the window before

	paused        []*Partition  // paused until half is done
	queuedAtPause int           // deliveries queued when the first of them was
	budgetSince   time.Time     // when the first of them was, or the last stall ended
	budget        time.Duration // left for stalls
}

func newPace(now time.Time) pace {
	return pace{windowStart: now, budgetSince: now, budget: stallBudget}
}

// begin notes that the lane is no longer empty.
func (s *pace) becomeBusy(now time.Time) { s.busySince, s.lastCompletion = now, now }

// finished counts a completion.
func (s *pace) countCompletion(now time.Time) {
	s.advanceWindow(now)
	s.completed++
	s.lastCompletion = now
}

// may reports whether these partitions may wait for a lane that holds so much. One that was empty a
// moment ago is not measured yet and may make them wait.
func (s *pace) mayStall(now time.Time, held int, partitions ...*Partition) bool {
	s.advanceWindow(now)
	fresh, recent := now.Sub(s.busySince) < movingWindow, s.completed+s.completedBefore
	sole := !slices.ContainsFunc(partitions, func(partition *Partition) bool { return partition.streak < soleStreak })
	if sole {
		return fresh || recent > 0
	}
	// At the speed of the last half second, half of what it holds will be done within the next.
	return s.budgetAt(now) > 0 && (fresh || 2*recent >= held)
}

// budgetAt is how much longer the lane may make others wait.
func (s *pace) budgetAt(now time.Time) time.Duration {
	passed := max(now.Sub(s.budgetSince), 0) // the clock may have been set back
	if len(s.paused) > 0 {
		return s.budget - passed
	}
	return min(s.budget+passed/stallRefill, stallBudget)
}

func (s *pace) advanceWindow(now time.Time) {
	switch passed := now.Sub(s.windowStart); {
	case passed >= 0 && passed < movingWindow:
	case passed >= 0 && passed < 2*movingWindow:
		s.completedBefore, s.completed, s.windowStart = s.completed, 0, s.windowStart.Add(movingWindow)
	default: // long ago, or the clock was set back
		s.completedBefore, s.completed, s.windowStart = 0, 0, now
	}
}

// pausePartition lets the partition pause until the lane has done half of its queue, or may make it wait no longer.
func (ls *Lanes) pausePartition(l *Lane, partition *Partition, now time.Time) {
	s := &l.pace
	if slices.Contains(s.paused, partition) {
		return
	}
	if len(s.paused) == 0 {
		s.budget = s.budgetAt(now)
		s.budgetSince, s.queuedAtPause = now, l.queued()
		ls.stalling[l] = struct{}{}
		ls.wakeTimer()
	}
	s.paused = append(s.paused, partition)
	partition.AddStalls(1)
}

func (ls *Lanes) resumePartitions(l *Lane, now time.Time) {
	s := &l.pace
	s.budget, s.budgetSince = s.budgetAt(now), now // less than nothing when it was noticed late
	for _, partition := range s.paused {
		partition.AddStalls(-1)
	}
	s.paused = nil
	delete(ls.stalling, l)
}

// recheck finds the partitions that have waited long enough, and what stuck lanes must give back. See Recheck.
func (ls *Lanes) enforceLimits() (shed []*Delivery, again time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.stalling {
		if !l.pace.mayStall(now, l.deliveries, l.pace.paused...) {
			ls.resumePartitions(l, now)
		}
	}
	if ls.memoryLow = ls.memoryAbove(2); ls.memoryLow {
		for _, l := range ls.byDest {
			if l.stuck(now) {
				shed = l.shed(shed)
			}
		}
	}
	if ls.memoryLow || len(ls.stalling) > 0 {
		again = movingWindow
	}
	return shed, again
}

// takes reports whether more than one nth of the memory is taken. From a quarter on, stuck lanes take no more than they
// will send soon; from half of it on, they give back what is beyond that. So their deliveries are parked piece by piece
// as they come, not by the thousand at once.
func (ls *Lanes) memoryAbove(nth int) bool {
	return ls.deliveries > ls.maxDeliveries/nth || ls.bytes > ls.maxBytes/nth
}

// shed takes the newest deliveries out of the queue until it holds what that of a stuck lane may.
func (l *Lane) shed(out []*Delivery) []*Delivery {
	for _, q := range []*deliveryQueue{&l.requested, &l.live} {
		for q.Len() > l.stuckQueue() {
			delivery := q.PopBack()
			l.deliveries--
			l.bytes -= delivery.Size
			out = append(out, delivery)
		}
	}
	return out
}

// stuckQueue is how much may wait for a lane that is stuck when memory is short.
func (l *Lane) stuckQueue() int { return 2 * l.window.size }
