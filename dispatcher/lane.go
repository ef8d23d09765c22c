package dispatcher

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a lane.
const (
	// laneQueue is how much live work, and how much of replays, waits in memory for one destination: a
	// second of what the default of 64 requests in flight gets through at 60 ms each.
	laneQueue = 1024
	// firstLimit is how many requests may fly until the first worker has read the destination's
	// max_in_flight: it must not be exceeded by a burst.
	firstLimit = 1
	// movingWindow is the time over which a lane's completions are counted, to tell a lane that is full
	// because it is busy from one that is stuck.
	movingWindow = 250 * time.Millisecond
	// A lane may make partitions pause for stallBudget at once and, in the long run, for a tenth of the time.
	// That much a burst for one destination costs its neighbours.
	stallBudget = time.Second
	stallRefill = 10
	// soleStreak is how many jobs of a partition in a row must be for one destination until it counts as
	// the only one there.
	soleStreak = 2048
	// idleLane is how long an empty lane keeps its opened secrets.
	idleLane = time.Minute
)

// lane is everything that belongs to one destination on this node: a bounded queue, the number of
// requests that may fly, and the workers that send them. Nothing else decides when a destination
// gets its work.
type lane struct {
	dest   string
	target atomic.Pointer[target] // the opened configuration, replaced when the endpoint changes
	gone   goneRun

	// Guarded by lanes.mu.
	live, runs queue[*job] // runs: of replays and recoveries, which give way to live work
	replaying  int         // of runs, being sent
	runsTurn   bool        // with one request at a time they take turns
	held       int         // queued and being sent
	bytes      int
	running    int // workers
	limit      int // max_in_flight
	used       time.Time
	busy       time.Time // since when it is not empty
	window     time.Time // begin of the current counting window
	now        int       // completions in it
	before     int       // completions in the window before

	stalled   []*partition  // paused until half is done
	stalledAt int           // jobs queued when the first of them was
	since     time.Time     // when the first of them was, or the last stall ended
	budget    time.Duration // left for stalls
}

func (l *lane) queued() int { return l.live.len() + l.runs.len() }

// lanes are all lanes of the node and the memory they share.
//
// A full lane is answered in one of two ways. If it moves, the partition that overfills it pauses for
// the fraction of a second that the lane needs: a burst is cheaper to leave where it is. If it is stuck
// or slow, or full time and again, its work is parked in a retry tier, and nobody else waits for it.
// Where it has the partition for itself there is nobody else, and the partition pauses as long as it moves.
//
// The memory is shared by a dynamic threshold: a lane may hold as much as is still free. However many
// lanes are stuck, N of them leave one (N+1)th of the memory to the others.
type lanes struct {
	maxJobs, maxBytes int
	now               func() time.Time
	start             func(*lane) // starts a worker
	wake              func()      // asks for recheck to be called soon

	mu      sync.Mutex // guards the rest and all lanes; taken before partition.mu
	byDest  map[string]*lane
	stalled map[*lane]struct{} // those that made a partition pause
	jobs    int                // in lanes and behind them, until everything about them is recorded
	bytes   int
	freed   chan struct{} // told when the intake may go on; capacity 1
}

func newLanes(cfg Config, now func() time.Time, wake func()) *lanes {
	return &lanes{
		maxJobs: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes, now: now, wake: wake,
		byDest: make(map[string]*lane), stalled: make(map[*lane]struct{}), freed: make(chan struct{}, 1),
	}
}

// hold accounts for a job that is in no lane.
func (ls *lanes) hold(j *job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.jobs++
	ls.bytes += j.size
}

// free ends the account of a job: it is recorded, or dropped.
func (ls *lanes) free(j *job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.jobs--
	ls.bytes -= j.size
	select {
	case ls.freed <- struct{}{}:
	default:
	}
}

// held returns how many jobs and bytes the node holds.
func (ls *lanes) held() (jobs, bytes int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.jobs, ls.bytes
}

// full reports whether the node holds all it may, so that nothing more is read.
func (ls *lanes) full() bool {
	jobs, bytes := ls.held()
	return jobs >= ls.maxJobs || bytes >= ls.maxBytes
}

// admit gives the job to its lane, or reports false: then it must be parked.
func (ls *lanes) admit(j *job) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.byDest[j.work.Dest]
	if l == nil {
		l = &lane{dest: j.work.Dest, limit: firstLimit, window: now, since: now, budget: stallBudget}
		ls.byDest[l.dest] = l
	}
	if l.held == 0 {
		l.busy = now
	}
	l.used = now
	q := &l.live
	if j.work.Run != "" {
		q = &l.runs
	}
	p := j.slot.part
	if p.streak++; p.last != l.dest {
		p.last, p.streak = l.dest, 1
	}
	if !ls.room(l, q.len(), j.size) {
		if !l.mayStall(now, p) {
			return false
		}
		ls.stall(l, p, now)
	}
	q.push(j)
	l.held++
	l.bytes += j.size
	ls.jobs++
	ls.bytes += j.size
	if l.running < l.limit {
		l.running++
		ls.start(l)
	}
	return true
}

// room reports whether the lane stays within its bounds with one job more. An empty lane always does.
func (ls *lanes) room(l *lane, queued, size int) bool {
	return l.held == 0 ||
		queued < laneQueue && l.held < ls.maxJobs-ls.jobs && l.bytes+size <= ls.maxBytes-ls.bytes
}

// mayStall reports whether these partitions may wait for the lane. One that was empty a moment ago
// has not been judged yet and may make them wait.
func (l *lane) mayStall(now time.Time, parts ...*partition) bool {
	l.roll(now)
	fresh, recent := now.Sub(l.busy) < movingWindow, l.now+l.before
	sole := !slices.ContainsFunc(parts, func(p *partition) bool { return p.streak < soleStreak })
	if sole {
		return fresh || recent > 0
	}
	// Half of what it holds will be done within half a second, judged by the last one.
	return l.budgetAt(now) > 0 && (fresh || 2*recent >= l.held)
}

// budgetAt is how much longer the lane may make others wait.
func (l *lane) budgetAt(now time.Time) time.Duration {
	passed := now.Sub(l.since)
	if len(l.stalled) > 0 {
		return l.budget - passed
	}
	return min(l.budget+passed/stallRefill, stallBudget)
}

func (l *lane) roll(now time.Time) {
	switch passed := now.Sub(l.window); {
	case passed < movingWindow:
	case passed < 2*movingWindow:
		l.before, l.now, l.window = l.now, 0, l.window.Add(movingWindow)
	default:
		l.before, l.now, l.window = 0, 0, now
	}
}

// stall lets the partition pause until the lane has done half of its queue, or may make it wait no longer.
func (ls *lanes) stall(l *lane, p *partition, now time.Time) {
	if slices.Contains(l.stalled, p) {
		return
	}
	if len(l.stalled) == 0 {
		l.budget = l.budgetAt(now)
		l.since, l.stalledAt = now, l.queued()
		ls.stalled[l] = struct{}{}
		ls.wake()
	}
	l.stalled = append(l.stalled, p)
	p.stall(1)
}

func (ls *lanes) unstall(l *lane, now time.Time) {
	l.budget, l.since = l.budgetAt(now), now // less than nothing when it was noticed late
	for _, p := range l.stalled {
		p.stall(-1)
	}
	l.stalled = nil
	delete(ls.stalled, l)
}

// recheck lets go on what has waited for its lane long enough: from now on its work is parked. It
// reports whether something still waits, so that it must be called again.
func (ls *lanes) recheck() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.stalled {
		if !l.mayStall(now, l.stalled...) {
			ls.unstall(l, now)
		}
	}
	return len(ls.stalled) > 0
}

// next ends a worker's job and gives it another one, nil when the worker must end.
func (ls *lanes) next(l *lane, finished *job) *job {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if finished != nil {
		ls.leave(l, finished)
	}
	if l.running > l.limit {
		l.running--
		return nil
	}
	j := l.pick()
	if j == nil {
		l.running--
	}
	if len(l.stalled) > 0 && l.queued() <= l.stalledAt/2 {
		ls.unstall(l, ls.now())
	}
	return j
}

func (ls *lanes) leave(l *lane, j *job) {
	now := ls.now()
	l.roll(now)
	l.now++
	l.used = now
	l.held--
	l.bytes -= j.size
	if j.work.Run != "" {
		l.replaying--
	}
}

// pick takes live work before that of replays, of which one may fly nevertheless.
func (l *lane) pick() *job {
	runs := l.live.len() == 0 || l.replaying == 0 && (l.limit > 1 || l.runsTurn)
	if runs {
		if j, ok := l.runs.pop(); ok {
			l.replaying++
			l.runsTurn = false
			return j
		}
	}
	l.runsTurn = true
	j, _ := l.live.pop()
	return j
}

// setLimit changes how many requests may fly.
func (ls *lanes) setLimit(l *lane, limit int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.limit = max(limit, 1)
	for n := min(l.limit, l.held) - l.running; n > 0; n-- {
		l.running++
		ls.start(l)
	}
}

// sweep forgets lanes that were empty for a while, and their opened secrets with them.
func (ls *lanes) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for dest, l := range ls.byDest {
		if l.held == 0 && l.running == 0 && now.Sub(l.used) > idleLane {
			delete(ls.byDest, dest)
		}
	}
}
