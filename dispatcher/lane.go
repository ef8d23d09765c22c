package dispatcher

import (
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// Bounds of a lane.
const (
	// laneQueue is how much live work, and how much of replays, waits in memory for one destination: a
	// second of what the default of 64 requests in flight gets through at 60 ms each.
	laneQueue = 1024
	// idleLane is how long an empty lane keeps its opened secrets, and is kept itself.
	idleLane = time.Minute
	// rememberParked and rememberOpen are how long an empty lane is kept for what it knows: of parked work
	// that must have come back by then, and how long its breaker was open.
	rememberParked = 3 * time.Hour
	rememberOpen   = time.Hour
)

// lane is everything that belongs to one destination on this node: a bounded queue, the number of
// requests that may fly, and the workers that send them. Nothing else decides when a destination
// gets its work.
type lane struct {
	dest   string
	target atomic.Pointer[target] // the opened configuration, replaced when the endpoint changes
	gone   goneRun

	// Guarded by lanes.mu.
	index      int32 // the partition that the work comes from
	url        string
	live, runs queue[*job] // runs: what somebody asked for (replays, recoveries, tests); it gives way to live work
	replaying  int         // of runs, being sent
	runsTurn   bool        // with one request at a time they take turns
	held       int         // queued and being sent
	bytes      int
	running    int // workers
	window     window
	breaker    breaker
	parking    parking
	rest       rest
	stall      stall
	used       time.Time
}

func (l *lane) queued() int { return l.live.len() + l.runs.len() }

// asked reports whether somebody asked for just this delivery: it waits behind live work, and a breaker
// does not hold it.
func asked(w *event.Work) bool { return w.Run != "" || w.Trigger == event.TriggerTest }

func (l *lane) queueOf(w *event.Work) *queue[*job] {
	if asked(w) {
		return &l.runs
	}
	return &l.live
}

// share is how much of the room in the queue the job may use: what is parked was here before what is not,
// and keeps half of it.
func (l *lane) share(j *job, room int) int {
	if l.parking.total > 0 && j.work.Parked == "" {
		return (room + 1) / 2
	}
	return room
}

// pick takes what a worker does next: a job to send, or one that says in aside why it must be parked.
func (l *lane) pick(now time.Time) *job {
	if l.rest.resting(now) {
		return l.surplus()
	}
	if !l.breaker.holds(now) {
		j := l.pickAny()
		if j != nil && l.breaker.open() {
			l.breaker.probing, j.probe = true, true
		}
		return j
	}
	if l.replaying < maxProbes {
		if j, ok := l.runs.pop(); ok {
			l.replaying++
			return j
		}
	}
	j, ok := l.live.pop()
	if ok {
		j.aside = event.BreakerOpen
	}
	return j
}

// pickAny takes live work before that of replays, of which one may fly nevertheless.
func (l *lane) pickAny() *job {
	runs := l.live.len() == 0 || l.replaying == 0 && (l.window.size > 1 || l.runsTurn)
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

// surplus takes what must not wait for a token, the newest first. Live work and what somebody asked for
// keep a place each.
func (l *lane) surplus() *job {
	if l.queued() <= l.rest.fits {
		return nil
	}
	for _, q := range []*queue[*job]{&l.runs, &l.live} {
		if q.len() > 1 {
			j := q.popBack()
			if q == &l.runs {
				l.replaying++ // until it is put down
			}
			j.aside = event.Paced
			return j
		}
	}
	return nil
}

// putBack returns a job to the head of the queue: it was not sent.
func (l *lane) putBack(j *job) {
	l.queueOf(j.work).pushFront(j)
	l.letGo(j)
}

// letGo notes that a worker no longer has the job.
func (l *lane) letGo(j *job) {
	if asked(j.work) {
		l.replaying--
	}
	if j.probe { // without an answer: the next one is the probe
		j.probe, l.breaker.probing = false, false
	}
}

// stuck reports whether nothing was finished lately.
func (l *lane) stuck(now time.Time) bool {
	return l.window.failing() || now.Sub(l.stall.moved) > stuckAfter
}
