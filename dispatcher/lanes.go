package dispatcher

import (
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// HeldMarker hears of breakers that open, and until when, or close (the zero time), for display. It does no
// I/O and never fails.
type HeldMarker interface {
	SetHeld(dest string, until time.Time)
}

// lanes are all lanes of the node and the memory they share.
//
// A full lane is answered in one of two ways. If it moves, the partition that overfills it pauses for
// the fraction of a second that the lane needs: a burst is cheaper to leave where it is. If it is stuck
// or slow, or full time and again, its work is parked in a retry tier, and nobody else waits for it.
// Where it has the partition for itself there is nobody else, and the partition pauses as long as it moves.
//
// The memory is shared by a dynamic threshold: a lane may hold as much as is still free. However many
// lanes are stuck, N of them leave one (N+1)th of the memory to the others. When a quarter of it is taken they take no
// more than they will send soon, and when half of it is taken they give back what is beyond that.
//
// The open files of the node are shared in the same way: a lane may send as many requests as there may be further ones,
// and one in any case.
type lanes struct {
	maxJobs, maxBytes int
	maxSending        int
	tiers             []stream.Tier
	now               func() time.Time
	start             func(*lane)             // starts a worker
	wake              func()                  // asks for recheck to be called soon
	inFlight          func(*event.Work) int   // max_in_flight, 0 when it is not known yet
	setHeld           func(string, time.Time) // see HeldMarker
	rang              chan struct{}           // told when the alarm must look again; capacity 1
	freed             chan struct{}           // told when the intake may go on; capacity 1

	mu      sync.Mutex // guards the rest and all lanes; taken before partition.mu
	byDest  map[string]*lane
	stalled map[*lane]struct{} // those that made a partition pause
	resting restingLanes
	parking int // lanes with parked work
	jobs    int // in lanes and behind them, until everything about them is recorded
	bytes   int
	workers int  // of all lanes, each with one request at a time
	short   bool // memory is short, and recheck is called until it is not
}

func newLanes(cfg Config, now func() time.Time, wake func()) *lanes {
	return &lanes{
		maxJobs: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes, maxSending: cfg.MaxSending,
		tiers: stream.Tiers(), now: now, wake: wake,
		inFlight: func(*event.Work) int { return 0 }, setHeld: func(string, time.Time) {},
		byDest: make(map[string]*lane), stalled: make(map[*lane]struct{}),
		rang: make(chan struct{}, 1), freed: make(chan struct{}, 1),
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
	ls.tell()
}

// tell lets the intake look whether it may go on.
func (ls *lanes) tell() {
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

// lane finds or makes the lane of the work.
func (ls *lanes) lane(w *event.Work, index int32, now time.Time) *lane {
	l := ls.byDest[w.Dest]
	if l == nil {
		// Until it is known one may fly: a burst must not exceed max_in_flight.
		l = &lane{dest: w.Dest, index: index, window: newWindow(ls.inFlight(w)), parking: newParking(), stall: newStall(now)}
		ls.byDest[w.Dest] = l
	}
	if l.held == 0 && l.parking.total == 0 {
		l.index = index // its endpoint was moved
	}
	l.used = now
	return l
}

// admit gives the job to its lane, or returns the reason for which it must be parked.
func (ls *lanes) admit(j *job) event.Reason {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	p := j.slot.part
	l := ls.lane(j.work, p.id.Index, now)
	ls.comeBack(l, j.work)
	if l.held == 0 {
		l.stall.begin(now)
	}
	if p.streak++; p.last != l.dest {
		p.last, p.streak = l.dest, 1
	}
	q := l.queueOf(j.work)
	switch {
	case q == &l.live && l.breaker.holds(now):
		return event.BreakerOpen
	case l.rest.resting(now) && q.len() > 0 && l.queued() >= l.share(j, l.rest.fits):
		return event.Paced
	case l.window.failing() && ls.jobs > ls.maxJobs/4*3:
		return event.LaneFull // however many fail, the last quarter is for those that do not
	case !ls.room(l, q.len(), j, now):
		if !l.stall.may(now, l.held, p) {
			return event.LaneFull
		}
		ls.stall(l, p, now)
	}
	q.push(j)
	l.held++
	l.bytes += j.size
	ls.jobs++
	ls.bytes += j.size
	if !ls.short && ls.isShort() {
		ls.short = true
		ls.wake()
	}
	ls.staff(l, 1)
	return ""
}

// room reports whether the lane stays within its bounds with one job more. An empty lane always does.
func (ls *lanes) room(l *lane, queued int, j *job, now time.Time) bool {
	if l.held == 0 {
		return true
	}
	most := l.share(j, laneQueue)
	if ls.tight() && l.stuck(now) {
		most = stuckQueue(l)
	}
	return queued < most && l.held < ls.maxJobs-ls.jobs && l.bytes+j.size <= ls.maxBytes-ls.bytes
}

// staff starts workers for at most n queued jobs.
func (ls *lanes) staff(l *lane, n int) {
	for n = min(n, l.queued(), l.window.size-l.running); n > 0 && ls.mayHave(l.running+1, ls.workers+1); n-- {
		l.running++
		ls.workers++
		ls.start(l)
	}
}

// mayHave reports whether a lane may have so many workers when all lanes have total.
func (ls *lanes) mayHave(running, total int) bool {
	return running == 1 || running <= ls.maxSending-total+1
}

// sending is the number of requests at this moment.
func (ls *lanes) sending() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return min(ls.workers, ls.maxSending)
}

// result is what a worker did with a job.
type result struct {
	kind resultKind
	wait time.Duration // for a token, of one that is put back
	rate float64       // of the tokens
}

type resultKind uint8

const (
	nothing   resultKind = iota // no request was made
	succeeded                   // the destination took it
	failed                      // it did not
	timedOut                    // it did not in time
	putBack                     // it waits in its lane for a token
)

// next ends a worker's job and gives it another one, nil when the worker must end.
func (ls *lanes) next(l *lane, done *job, r result) *job {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, more := ls.now(), 0
	switch {
	case done == nil:
	case r.kind == putBack:
		l.putBack(done)
		ls.rest(l, r.wait, r.rate, now)
	default:
		more = ls.learn(l, done, r.kind, now)
		l.letGo(done)
		l.stall.finished(now)
		l.used = now
		l.held--
		l.bytes -= done.size
	}
	var j *job
	if l.running <= l.window.size && ls.mayHave(l.running, ls.workers) {
		j = l.pick(now)
	}
	if j == nil {
		l.running--
		ls.workers--
	}
	ls.staff(l, more)
	if len(l.stall.parts) > 0 && l.queued() <= l.stall.at/2 {
		ls.unstall(l, now)
	}
	return j
}

// learn notes what came of a request and returns how many more workers there may be.
func (ls *lanes) learn(l *lane, j *job, kind resultKind, now time.Time) (more int) {
	switch kind {
	case succeeded:
		l.window.success()
		if !l.breaker.success() {
			return 1
		}
		l.window = newWindow(l.window.most)
		ls.setHeld(l.dest, time.Time{})
		return l.queued()
	case failed, timedOut:
		l.window.failure(kind == timedOut)
		if l.breaker.failure(now, j.probe) {
			j.probe = false
			ls.setHeld(l.dest, l.breaker.until)
		}
	}
	return 0
}

// reinforce adds a worker to a lane that has got a token: there may be another one.
func (ls *lanes) reinforce(l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !l.rest.resting(ls.now()) {
		ls.staff(l, 1)
	}
}

// configure follows a change of the destination. At another URL everything begins anew.
func (ls *lanes) configure(l *lane, url string, inFlight int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.url != "" && l.url != url {
		ls.renew(l)
	}
	l.url = url
	l.window.resize(inFlight)
	ls.staff(l, l.queued())
}

// moved begins anew if the destination has another URL than that for which the breaker opened.
func (ls *lanes) moved(dest, url string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil && l.url != "" && l.url != url {
		ls.renew(l)
		l.url = url
	}
}

// disabled forgets what was learned of a destination that was disabled: enabled again it begins anew.
func (ls *lanes) disabled(dest string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil {
		ls.renew(l)
	}
}

func (ls *lanes) renew(l *lane) {
	if l.breaker.open() {
		ls.setHeld(l.dest, time.Time{})
	}
	l.breaker, l.window = breaker{}, newWindow(l.window.most)
	l.gone.reset()
}

// leave takes out of the lanes what belongs to partitions that have left the node, and forgets what was
// learned of their destinations: from now on the next owner knows better.
func (ls *lanes) leave(parts []*partition) {
	left, indexes := make(map[*partition]bool), make(map[int32]bool)
	for _, p := range parts {
		left[p], indexes[p.id.Index] = true, true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byDest {
		if !indexes[l.index] {
			continue
		}
		ls.forgetParked(l)
		ls.renew(l)
		for _, q := range []*queue[*job]{&l.live, &l.runs} {
			for range q.len() {
				j, _ := q.pop()
				if !left[j.slot.part] {
					q.push(j)
					continue
				}
				l.held--
				l.bytes -= j.size
				ls.jobs--
				ls.bytes -= j.size
			}
		}
	}
	ls.tell()
}

// sweep forgets lanes that were empty for a while and know nothing that counts, and the opened secrets of
// all that are empty.
func (ls *lanes) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for dest, l := range ls.byDest {
		idle := now.Sub(l.used)
		if l.held > 0 || l.running > 0 || l.rest.at > 0 || idle < idleLane {
			continue
		}
		l.target.Store(nil)
		if l.parking.total > 0 && idle < rememberParked || l.breaker.open() && now.Sub(l.breaker.until) < rememberOpen {
			continue
		}
		ls.forgetParked(l)
		delete(ls.byDest, dest)
	}
}
