package lane

import (
	"slices"
	"time"
)

const (
	// movingWindow is the counting window for a lane's completions. They tell a busy lane from a stuck one.
	movingWindow = 250 * time.Millisecond
	// stuckAfter is after how long without a completion a lane is stuck. When memory is low, a stuck lane queues no more
	// than it can send soon.
	stuckAfter = time.Second
	// A lane may pause partitions for stallBudget at once and for a tenth of the time in the long run (1/stallRefill).
	// That bounds how long a burst for one destination delays the others.
	stallBudget = time.Second
	stallRefill = 10
	// soleStreak is how many consecutive deliveries of a partition must be for one destination until that counts as
	// the only one there.
	soleStreak = 2048
)

// pace measures how fast a lane completes deliveries and how long it pauses partitions. It is guarded by Lanes.mu.
type pace struct {
	busySince       time.Time // the lane is not empty since then
	lastCompletion  time.Time // or when it became busy
	lastAnswer      time.Time // of a request, success or not
	windowStart     time.Time // of the current counting window
	completed       int       // in the current window
	completedBefore int       // in the window before

	paused        []*Partition  // partitions that pause until half of the queue is done
	queuedAtPause int           // queued deliveries when the first of them paused
	budgetSince   time.Time     // when the first of them paused, or the last pause ended
	budget        time.Duration // how much longer it may pause partitions, as of budgetSince
}

func newPace(now time.Time) pace {
	return pace{windowStart: now, budgetSince: now, budget: stallBudget}
}

// becomeBusy marks that the lane is no longer empty.
func (s *pace) becomeBusy(now time.Time) { s.busySince, s.lastCompletion = now, now }

// countCompletion counts a completion.
func (s *pace) countCompletion(now time.Time) {
	s.advanceWindow(now)
	s.completed++
	s.lastCompletion = now
}

// mayStall reports whether these partitions may pause for a lane that holds that many deliveries. A lane that was empty
// until a moment ago is not measured yet and may pause them. A lane with nearly all deliveries of the partitions needs
// no budget, since it delays no other.
func (s *pace) mayStall(now time.Time, held int, partitions ...*Partition) bool {
	s.advanceWindow(now)
	fresh, recent := now.Sub(s.busySince) < movingWindow, s.completed+s.completedBefore
	sole := !slices.ContainsFunc(partitions, func(partition *Partition) bool { return partition.streak < soleStreak })
	if sole {
		return fresh || recent > 0
	}
	// At the speed of the last half second, the lane completes half of what it holds within the next half second.
	return s.budgetAt(now) > 0 && (fresh || 2*recent >= held)
}

// budgetAt is how much longer the lane may pause partitions; negative when a pause has lasted too long.
func (s *pace) budgetAt(now time.Time) time.Duration {
	passed := max(now.Sub(s.budgetSince), 0) // the clock may have been set back
	if len(s.paused) > 0 {
		return s.budget - passed
	}
	return min(s.budget+passed/stallRefill, stallBudget)
}

// advanceWindow starts a new counting window when the current one is over.
func (s *pace) advanceWindow(now time.Time) {
	switch passed := now.Sub(s.windowStart); {
	case passed >= 0 && passed < movingWindow:
	case passed >= 0 && passed < 2*movingWindow:
		s.completedBefore, s.completed, s.windowStart = s.completed, 0, s.windowStart.Add(movingWindow)
	default: // long ago, or the clock was set back
		s.completedBefore, s.completed, s.windowStart = 0, 0, now
	}
}

// pausePartition pauses the partition until the lane has done half of its queue or has used up its stall budget.
func (l *Lane) pausePartition(partition *Partition, now time.Time) {
	s := &l.pace
	if slices.Contains(s.paused, partition) {
		return
	}
	if len(s.paused) == 0 {
		s.budget = s.budgetAt(now)
		s.budgetSince, s.queuedAtPause = now, l.queued()
		l.lanes.stalling[l] = struct{}{}
		l.lanes.wakeTimer()
	}
	s.paused = append(s.paused, partition)
	partition.AddStalls(1)
}

// resumePartitions ends the pauses for this lane.
func (l *Lane) resumePartitions(now time.Time) {
	s := &l.pace
	s.budget, s.budgetSince = s.budgetAt(now), now // negative when the end is noticed late
	for _, partition := range s.paused {
		partition.AddStalls(-1)
	}
	s.paused = nil
	delete(l.lanes.stalling, l)
}

// enforceLimits ends pauses that used up their budget and takes the surplus out of stuck lanes. See EnforceLimits.
func (ls *Lanes) enforceLimits() (shed []*Delivery, again time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.stalling {
		if !l.pace.mayStall(now, l.deliveries, l.pace.paused...) {
			l.resumePartitions(now)
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

// memoryAbove reports whether more than one nth of the memory is used. Above a quarter, stuck lanes queue no more than
// they can send soon; above half, they give back the rest. So their deliveries are parked a few at a time as they
// arrive, not thousands at once.
func (ls *Lanes) memoryAbove(nth int) bool {
	return ls.deliveries > ls.maxDeliveries/nth || ls.bytes > ls.maxBytes/nth
}

// shed takes the newest deliveries out of the queues until each holds at most stuckQueue.
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

// stuckQueue bounds the queue of a stuck lane when memory is low.
func (l *Lane) stuckQueue() int { return min(2*l.window.size, laneQueue) }

// How many requests may run to one destination.
const (
	// InitialWindow is the window of a new lane. It doubles with each round of successes, so a fast destination reaches
	// the default max_in_flight of 64 after four rounds. A destination that hangs has got only InitialWindow requests.
	InitialWindow = 4
	// FailingWindow is the most requests that run when none of the last failingAfter succeeded.
	FailingWindow = 2
	failingAfter  = 10
)

// window is the in-flight window of a lane. It grows by one with each success and halves with each time-out. Where
// deliveries gather for one request it is as large as it may be unless requests fail: a batch would otherwise wait for
// its time with the few that the window lets in.
type window struct {
	size     int // deliveries that may be sent now, from 1 to limit
	limit    int // max_in_flight
	failures int // consecutive
	gathers  bool
}

func newWindow(limit int) window {
	w := window{limit: max(limit, 1)}
	w.size = min(InitialWindow, w.limit)
	return w
}

// fresh is the window of a lane that starts over.
func (w *window) fresh() window {
	again := newWindow(w.limit)
	again.resize(w.limit, w.gathers)
	return again
}

// resize applies a changed max_in_flight, and whether deliveries gather.
func (w *window) resize(limit int, gathers bool) {
	w.limit, w.gathers = max(limit, 1), gathers
	if w.size = min(w.size, w.limit); gathers && w.failures == 0 {
		w.size = w.limit
	}
}

func (w *window) recordSuccess() {
	w.failures = 0
	if w.size = min(w.size+1, w.limit); w.gathers {
		w.size = w.limit
	}
}

func (w *window) recordFailure(timeout bool) {
	w.failures++
	if timeout {
		w.size = max(w.size/2, 1)
	}
	if w.failing() {
		w.size = min(w.size, FailingWindow)
	}
}

// failing reports whether the last failingAfter requests failed.
func (w *window) failing() bool { return w.failures >= failingAfter }
