package lane

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

// Lanes are all lanes of the node and the memory they share.
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
type Lanes struct {
	maxJobs, maxBytes int
	maxSending        int
	tiers             []stream.Tier
	now               func() time.Time
	start             func(*Lane)             // starts a worker; set by Start
	wake              func()                  // asks for recheck to be called soon
	inFlight          func(*event.Work) int   // max_in_flight, 0 when it is not known yet
	setHeld           func(string, time.Time) // see HeldMarker
	rang              chan struct{}           // told when Run must look again; capacity 1
	freed             chan struct{}           // told when the intake may go on; capacity 1

	mu      sync.Mutex // guards the rest and all lanes; taken before partition.mu
	byDest  map[string]*Lane
	stalled map[*Lane]struct{} // those that made a partition pause
	resting restingLanes
	parking int // lanes with parked work
	jobs    int // in lanes and behind them, until everything about them is recorded
	bytes   int
	workers int  // of all lanes, each with one request at a time
	short   bool // memory is short, and recheck is called until it is not
}

// Config bounds what all lanes of a node hold and send together.
type Config struct {
	MaxInFlight      int
	MaxInFlightBytes int
	MaxSending       int
}

// Deps are the parts that lanes stand on. Held may be nil.
type Deps struct {
	Now      func() time.Time
	Wake     func()                // asks for Recheck to be called soon
	InFlight func(*event.Work) int // max_in_flight of the destination, 0 when it is not known yet
	Held     HeldMarker
}

// New makes lanes that start no worker yet: Start says how.
func New(cfg Config, deps Deps) *Lanes {
	ls := &Lanes{
		maxJobs: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes, maxSending: cfg.MaxSending,
		tiers: stream.Tiers(), now: deps.Now, wake: deps.Wake, inFlight: deps.InFlight,
		setHeld: func(string, time.Time) {},
		byDest:  make(map[string]*Lane), stalled: make(map[*Lane]struct{}),
		rang: make(chan struct{}, 1), freed: make(chan struct{}, 1),
	}
	if deps.Held != nil {
		ls.setHeld = deps.Held.SetHeld
	}
	return ls
}

// Start sets how a worker is started. It is called once, before anything is admitted.
func (ls *Lanes) Start(start func(*Lane)) { ls.start = start }

// Freed receives when room may have become free, after Full has reported that there is none.
func (ls *Lanes) Freed() <-chan struct{} { return ls.freed }

// Hold accounts for a job that is in no lane.
func (ls *Lanes) Hold(j *Delivery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.jobs++
	ls.bytes += j.Size
}

// Free ends the account of a job: it is recorded, or dropped.
func (ls *Lanes) Free(j *Delivery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.jobs--
	ls.bytes -= j.Size
	ls.tell()
}

// tell lets the intake look whether it may go on.
func (ls *Lanes) tell() {
	select {
	case ls.freed <- struct{}{}:
	default:
	}
}

// Held returns how many jobs and bytes the node holds.
func (ls *Lanes) Held() (jobs, bytes int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.jobs, ls.bytes
}

// Full reports whether the node holds all it may, so that nothing more is read.
func (ls *Lanes) Full() bool {
	jobs, bytes := ls.Held()
	return jobs >= ls.maxJobs || bytes >= ls.maxBytes
}

// lane finds or makes the lane of the work.
func (ls *Lanes) lane(w *event.Work, index int32, now time.Time) *Lane {
	l := ls.byDest[w.Dest]
	if l == nil {
		// Until it is known one may fly: a burst must not exceed max_in_flight.
		l = &Lane{dest: w.Dest, index: index, window: newWindow(ls.inFlight(w)), parking: newParking(), stall: newStall(now)}
		ls.byDest[w.Dest] = l
	}
	if l.held == 0 && l.parking.total == 0 {
		l.index = index // its endpoint was moved
	}
	l.used = now
	return l
}

// Admit gives the job to its lane, or returns the reason for which it must be parked.
func (ls *Lanes) Admit(j *Delivery) event.Reason {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	p := j.Slot.Source()
	l := ls.lane(j.Work, p.Partition.Index, now)
	ls.comeBack(l, j.Work)
	if l.held == 0 {
		l.stall.begin(now)
	}
	if p.streak++; p.last != l.dest {
		p.last, p.streak = l.dest, 1
	}
	q := l.queueOf(j.Work)
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
	l.bytes += j.Size
	ls.jobs++
	ls.bytes += j.Size
	if !ls.short && ls.isShort() {
		ls.short = true
		ls.wake()
	}
	ls.staff(l, 1)
	return ""
}

// room reports whether the lane stays within its bounds with one job more. An empty lane always does.
func (ls *Lanes) room(l *Lane, queued int, j *Delivery, now time.Time) bool {
	if l.held == 0 {
		return true
	}
	most := l.share(j, laneQueue)
	if ls.tight() && l.stuck(now) {
		most = stuckQueue(l)
	}
	return queued < most && l.held < ls.maxJobs-ls.jobs && l.bytes+j.Size <= ls.maxBytes-ls.bytes
}

// staff starts workers for at most n queued jobs.
func (ls *Lanes) staff(l *Lane, n int) {
	for n = min(n, l.queued(), l.window.size-l.running); n > 0 && ls.mayHave(l.running+1, ls.workers+1); n-- {
		l.running++
		ls.workers++
		ls.start(l)
	}
}

// mayHave reports whether a lane may have so many workers when all lanes have total.
func (ls *Lanes) mayHave(running, total int) bool {
	return running == 1 || running <= ls.maxSending-total+1
}

// Sending is the number of requests at this moment.
func (ls *Lanes) Sending() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return min(ls.workers, ls.maxSending)
}

// Result is what a worker did with a delivery.
type Result struct {
	Kind ResultKind
	Wait time.Duration // for a token, of one that is put back
	Rate float64       // of the tokens
}

// ResultKind is what came of a worker's turn.
type ResultKind uint8

// What came of a worker's turn.
const (
	Nothing   ResultKind = iota // no request was made
	Succeeded                   // the destination took it
	Failed                      // it did not
	TimedOut                    // it did not in time
	PutBack                     // it waits in its lane for a token
)

// Next ends a worker's job and gives it another one, nil when the worker must end.
func (ls *Lanes) Next(l *Lane, done *Delivery, r Result) *Delivery {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, more := ls.now(), 0
	switch {
	case done == nil:
	case r.Kind == PutBack:
		l.putBack(done)
		ls.rest(l, r.Wait, r.Rate, now)
	default:
		more = ls.learn(l, done, r.Kind, now)
		l.letGo(done)
		l.stall.finished(now)
		l.used = now
		l.held--
		l.bytes -= done.Size
	}
	var j *Delivery
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
func (ls *Lanes) learn(l *Lane, j *Delivery, kind ResultKind, now time.Time) (more int) {
	switch kind {
	case Succeeded:
		l.window.success()
		if !l.breaker.success() {
			return 1
		}
		l.window = newWindow(l.window.most)
		ls.setHeld(l.dest, time.Time{})
		return l.queued()
	case Failed, TimedOut:
		l.window.failure(kind == TimedOut)
		if l.breaker.failure(now, j.probe) {
			j.probe = false
			ls.setHeld(l.dest, l.breaker.until)
		}
	}
	return 0
}

// Reinforce adds a worker to a lane that has got a token: there may be another one.
func (ls *Lanes) Reinforce(l *Lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !l.rest.resting(ls.now()) {
		ls.staff(l, 1)
	}
}

// Configure follows a change of the destination. At another URL everything begins anew.
func (ls *Lanes) Configure(l *Lane, url string, inFlight int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.url != "" && l.url != url {
		ls.renew(l)
	}
	l.url = url
	l.window.resize(inFlight)
	ls.staff(l, l.queued())
}

// Moved begins anew if the destination has another URL than that for which the breaker opened.
func (ls *Lanes) Moved(dest, url string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil && l.url != "" && l.url != url {
		ls.renew(l)
		l.url = url
	}
}

// Disabled forgets what was learned of a destination that was disabled: enabled again it begins anew.
func (ls *Lanes) Disabled(dest string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil {
		ls.renew(l)
	}
}

func (ls *Lanes) renew(l *Lane) {
	if l.breaker.open() {
		ls.setHeld(l.dest, time.Time{})
	}
	l.breaker, l.window = breaker{}, newWindow(l.window.most)
	l.gone.Reset()
}

// Leave takes out of the lanes what belongs to partitions that have left the node, and forgets what was
// learned of their destinations: from now on the next owner knows better.
func (ls *Lanes) Leave(parts []*Source) {
	left, indexes := make(map[*Source]bool), make(map[int32]bool)
	for _, p := range parts {
		left[p], indexes[p.Partition.Index] = true, true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byDest {
		if !indexes[l.index] {
			continue
		}
		ls.forgetParked(l)
		ls.renew(l)
		for _, q := range []*queue[*Delivery]{&l.live, &l.runs} {
			for range q.len() {
				j, _ := q.pop()
				if !left[j.Slot.Source()] {
					q.push(j)
					continue
				}
				l.held--
				l.bytes -= j.Size
				ls.jobs--
				ls.bytes -= j.Size
			}
		}
	}
	ls.tell()
}

// Sweep forgets lanes that were empty for a while and know nothing that counts, and the opened secrets of
// all that are empty.
func (ls *Lanes) Sweep() {
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
