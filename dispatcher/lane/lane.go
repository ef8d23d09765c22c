// Package lane decides when a destination gets its deliveries.
//
// A lane owns everything that belongs to one destination on one node: a bounded queue, the in-flight window, the
// circuit breaker, the wait for a token of its rate, and the count of what is parked. Lanes holds all of them and the
// memory and requests that they share. It sends nothing and writes nothing: the dispatcher does what is decided here.
package lane

import (
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
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

// Delivery is one event on its way to one destination, or the record of one that cannot be decoded.
type Delivery struct {
	Work  *event.Work // nil for a record that cannot be decoded
	Slot  Slot
	Size  int       // bytes that it holds
	Ready time.Time // of one that waits in a retry topic

	// Set by its lane when a worker gets it.
	Aside event.Reason // it must be parked for this; empty: it may be sent
	probe bool         // of a breaker that is half-open
}

// Slot is the record that a delivery is part of.
type Slot interface {
	// Source is the partition that the record was read from.
	Source() *Source
}

// Source is a partition as lanes see it.
type Source struct {
	Partition stream.Partition
	Stall     func(lanes int) // adds to the lanes that ask the partition to pause

	last   string // destination of the newest delivery; guarded by Lanes.mu
	streak int    // how many deliveries in a row were for it; guarded by Lanes.mu
}

// Lane is everything that belongs to one destination on this node: a bounded queue, the number of
// requests that may fly, and the workers that send them. Nothing else decides when a destination
// gets its work.
type Lane struct {
	dest   string
	target atomic.Pointer[Target] // the opened configuration, replaced when the endpoint changes
	gone   Gone

	// Guarded by lanes.mu.
	index      int32 // the partition that the work comes from
	url        string
	live, runs queue[*Delivery] // runs: what somebody asked for (replays, recoveries, tests); it gives way to live work
	replaying  int              // of runs, being sent
	runsTurn   bool             // with one request at a time they take turns
	held       int              // queued and being sent
	bytes      int
	running    int // workers
	window     window
	breaker    breaker
	parking    parking
	rest       rest
	stall      stall
	used       time.Time
}

func (l *Lane) queued() int { return l.live.len() + l.runs.len() }

// asked reports whether somebody asked for just this delivery: it waits behind live work, and a breaker
// does not hold it.
func asked(w *event.Work) bool { return w.Run != "" || w.Trigger == event.TriggerTest }

func (l *Lane) queueOf(w *event.Work) *queue[*Delivery] {
	if asked(w) {
		return &l.runs
	}
	return &l.live
}

// share is how much of the room in the queue the job may use: what is parked was here before what is not,
// and keeps half of it.
func (l *Lane) share(j *Delivery, room int) int {
	if l.parking.total > 0 && j.Work.Parked == "" {
		return (room + 1) / 2
	}
	return room
}

// pick takes what a worker does next: a job to send, or one that says in aside why it must be parked.
func (l *Lane) pick(now time.Time) *Delivery {
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
	if l.replaying < MaxProbes {
		if j, ok := l.runs.pop(); ok {
			l.replaying++
			return j
		}
	}
	j, ok := l.live.pop()
	if ok {
		j.Aside = event.BreakerOpen
	}
	return j
}

// pickAny takes live work before that of replays, of which one may fly nevertheless.
func (l *Lane) pickAny() *Delivery {
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
func (l *Lane) surplus() *Delivery {
	if l.queued() <= l.rest.fits {
		return nil
	}
	for _, q := range []*queue[*Delivery]{&l.runs, &l.live} {
		if q.len() > 1 {
			j := q.popBack()
			if q == &l.runs {
				l.replaying++ // until it is put down
			}
			j.Aside = event.Paced
			return j
		}
	}
	return nil
}

// putBack returns a job to the head of the queue: it was not sent.
func (l *Lane) putBack(j *Delivery) {
	l.queueOf(j.Work).pushFront(j)
	l.letGo(j)
}

// letGo notes that a worker no longer has the job.
func (l *Lane) letGo(j *Delivery) {
	if asked(j.Work) {
		l.replaying--
	}
	if j.probe { // without an answer: the next one is the probe
		j.probe, l.breaker.probing = false, false
	}
}

// Target is the opened destination that was kept last, nil if there is none.
func (l *Lane) Target() *Target { return l.target.Load() }

// Keep keeps the opened destination.
func (l *Lane) Keep(t *Target) { l.target.Store(t) }

// Gone counts the answers 410 of the destination.
func (l *Lane) Gone() *Gone { return &l.gone }

// stuck reports whether nothing was finished lately.
func (l *Lane) stuck(now time.Time) bool {
	return l.window.failing() || now.Sub(l.stall.moved) > stuckAfter
}
