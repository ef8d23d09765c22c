package dispatcher

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a lane.
const (
	// laneQueue is how much work waits in memory for one destination: at most a second of what the
	// default of 64 requests in flight gets through at 60 ms each.
	laneQueue = 1024
	// defaultLimit is max_in_flight until the configuration of the destination was read.
	defaultLimit = 64
	// movingWindow is the time over which a lane's completions are counted, to tell a lane that is full
	// because it is busy from one that is stuck.
	movingWindow = 250 * time.Millisecond
	// idleLane is how long an empty lane keeps its opened secrets.
	idleLane = time.Minute
)

// lane is everything that belongs to one destination on this node: a bounded queue, the number of
// requests that may fly, and the workers that send them. Nothing else decides when a destination
// gets its work.
type lane struct {
	dest   string
	target atomic.Pointer[target] // the opened configuration, replaced when the endpoint changes

	// Guarded by lanes.mu.
	queue   queue[*job]
	held    int // queued and being sent
	bytes   int
	running int // workers
	limit   int // max_in_flight
	used    time.Time
	window  time.Time // begin of the current counting window
	now     int       // completions in it
	before  int       // completions in the window before

	stalled   []*partition // paused until the queue is half empty
	stalledAt int          // length of the queue when the first of them was
}

// lanes are all lanes of the node and the memory they share.
//
// A full lane is answered in one of two ways. If it moves, work of the partition that overfills it
// waits: the partition pauses for the fraction of a second that the lane needs. If it is stuck or slow,
// its work is parked in a retry tier, and nobody else waits for it.
//
// The memory is shared by a dynamic threshold: a lane may hold as much as is still free. However many
// lanes are stuck, N of them leave one (N+1)th of the memory to the others.
type lanes struct {
	maxJobs, maxBytes int
	start             func(*lane) // starts a worker
	clock             func() time.Time

	mu     sync.Mutex // guards the map, the lanes and the sums; taken before partition.mu
	byDest map[string]*lane
	jobs   int // in lanes and behind them, until everything about them is recorded
	bytes  int
	freed  chan struct{} // told when a gate may open
}

func newLanes(cfg Config, clock func() time.Time, start func(*lane)) *lanes {
	return &lanes{
		maxJobs: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes, start: start, clock: clock,
		byDest: make(map[string]*lane), freed: make(chan struct{}, 1),
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

// full reports whether the node holds all it may, so that nothing more is read.
func (ls *lanes) full() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.jobs >= ls.maxJobs || ls.bytes >= ls.maxBytes
}

// held returns how many jobs and bytes the node holds.
func (ls *lanes) held() (jobs, bytes int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.jobs, ls.bytes
}

// admit gives the job to its lane, or reports false: then it must be parked.
func (ls *lanes) admit(j *job) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.clock()
	l := ls.byDest[j.work.Dest]
	if l == nil {
		l = &lane{dest: j.work.Dest, limit: defaultLimit, window: now}
		ls.byDest[l.dest] = l
	}
	l.used = now
	if !ls.room(l, j) {
		if !l.moving(now) {
			return false
		}
		l.stall(j.slot.part)
	}
	l.queue.push(j)
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

// room reports whether the lane is within its bounds with one job more. An empty lane always is.
func (ls *lanes) room(l *lane, j *job) bool {
	if l.held == 0 {
		return true
	}
	return l.queue.len() < laneQueue && l.held < ls.maxJobs-ls.jobs && l.bytes+j.size <= ls.maxBytes-ls.bytes
}

// moving reports whether the lane will have done half of what it holds within half a second, judged
// by the last one.
func (l *lane) moving(now time.Time) bool {
	l.roll(now)
	return 2*(l.now+l.before) >= l.held
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

func (l *lane) stall(p *partition) {
	for _, s := range l.stalled {
		if s == p {
			return
		}
	}
	if len(l.stalled) == 0 {
		l.stalledAt = l.queue.len()
	}
	l.stalled = append(l.stalled, p)
	p.stall(1)
}

// next ends a worker's job and gives it another one, nil when the worker must end.
func (ls *lanes) next(l *lane, finished *job) *job {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if finished != nil {
		now := ls.clock()
		l.roll(now)
		l.now++
		l.used = now
		l.held--
		l.bytes -= finished.size
	}
	if l.running > l.limit {
		l.running--
		return nil
	}
	j, ok := l.queue.pop()
	if !ok {
		l.running--
		j = nil
	}
	if len(l.stalled) > 0 && l.queue.len() <= l.stalledAt/2 {
		for _, p := range l.stalled {
			p.stall(-1)
		}
		l.stalled = nil
	}
	return j
}

// setLimit changes how many requests may fly.
func (ls *lanes) setLimit(l *lane, limit int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.limit = max(limit, 1)
	for n := min(l.limit-l.running, l.queue.len()); n > 0; n-- {
		l.running++
		ls.start(l)
	}
}

// sweep forgets lanes that were empty for a while, and their opened secrets with them.
func (ls *lanes) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.clock()
	for dest, l := range ls.byDest {
		if l.held == 0 && l.running == 0 && now.Sub(l.used) > idleLane {
			delete(ls.byDest, dest)
		}
	}
}
