package lane

import (
	"sync/atomic"
	"time"

	"github.com/gammazero/deque"

	"github.com/eventrelay/relay/pkg/event"
)

// Bounds of a lane.
const (
	// laneQueue is how many live deliveries, and how many of replays, wait in memory for one destination: a
	// second of what the default of 64 requests in flight gets through at 60 ms each.
	laneQueue = 1024
	// idleLane is how long an empty lane keeps its opened secrets, and is kept itself.
	idleLane = time.Minute
	// rememberParked and rememberOpen are how long an empty lane is kept for what it knows: of parked deliveries
	// that must have come back by then, and how long its circuit breaker was open.
	rememberParked = 3 * time.Hour
	rememberOpen   = time.Hour
)

// Lane is everything that belongs to one destination on this node: a bounded queue, the number of requests that may
// run, and the workers that send them. Nothing else decides when a destination gets its deliveries.
type Lane struct {
	dest   string
	target atomic.Pointer[Target] // the opened configuration, replaced when the endpoint changes

	// Guarded by Lanes.mu.
	partitionIndex  int32 // the partition that the deliveries come from
	url             string
	live            deliveryQueue
	requested       deliveryQueue // what somebody asked for (replays, recoveries, tests); it gives way to live deliveries
	requestedActive int           // of runs, with a worker
	requestedTurn   bool          // with one request at a time they take turns
	deliveries      int           // queued and with workers
	bytes           int
	workers         int // workers
	window          window
	breaker         breaker
	parking         parking
	token           tokenWait
	pace            pace
	gone            goneCounter
	lastUsed        time.Time
}

type deliveryQueue = deque.Deque[*Delivery]

func (l *Lane) queued() int { return l.live.Len() + l.requested.Len() }

// asked reports whether somebody asked for just this delivery: it waits behind live ones, and an open circuit breaker
// does not hold it.
func isRequested(work *event.Work) bool { return work.Run != "" || work.Trigger == event.TriggerTest }

func (l *Lane) queueOf(work *event.Work) *deliveryQueue {
	if isRequested(work) {
		return &l.requested
	}
	return &l.live
}

// share is how much of the room in the queue the delivery may use: what is parked was here before what is not,
// and keeps half of it.
func (l *Lane) share(delivery *Delivery, room int) int {
	if l.parking.total > 0 && delivery.Work.Parked == "" {
		return (room + 1) / 2
	}
	return room
}

// next takes what a worker does next, nil when there is nothing, and the reason for which it must be parked; empty:
// it may be sent.
func (l *Lane) takeNext(now time.Time) (*Delivery, event.Reason) {
	if l.token.waiting(now) {
		return l.takeSurplus(), event.Paced
	}
	if !l.breaker.blocks(now) {
		delivery := l.takeAllowed()
		if delivery != nil && l.breaker.open() {
			l.breaker.probe = delivery
		}
		return delivery, ""
	}
	if l.requested.Len() > 0 && l.requestedActive < MaxProbes {
		l.requestedActive++
		return l.requested.PopFront(), ""
	}
	if l.live.Len() > 0 {
		return l.live.PopFront(), event.BreakerOpen
	}
	return nil, ""
}

// takeAllowed takes live deliveries before those of replays, of which one may be sent nevertheless.
func (l *Lane) takeAllowed() *Delivery {
	runs := l.live.Len() == 0 || l.requestedActive == 0 && (l.window.size > 1 || l.requestedTurn)
	if runs && l.requested.Len() > 0 {
		l.requestedActive++
		l.requestedTurn = false
		return l.requested.PopFront()
	}
	l.requestedTurn = true
	if l.live.Len() > 0 {
		return l.live.PopFront()
	}
	return nil
}

// surplus takes what must not wait for a token, the newest first. Live deliveries and what somebody asked for keep a
// place each.
func (l *Lane) takeSurplus() *Delivery {
	switch {
	case l.queued() <= l.token.maxQueued:
	case l.requested.Len() > 1:
		l.requestedActive++ // until it is parked
		return l.requested.PopBack()
	case l.live.Len() > 1:
		return l.live.PopBack()
	}
	return nil
}

// workerReturned counts that a worker no longer has the delivery.
func (l *Lane) workerReturned(delivery *Delivery) {
	if isRequested(delivery.Work) {
		l.requestedActive--
	}
	if l.breaker.probe == delivery { // without an answer: the next one is the probe
		l.breaker.probe = nil
	}
}

// stuck reports whether nothing was finished lately.
func (l *Lane) stuck(now time.Time) bool {
	return l.window.failing() || now.Sub(l.pace.lastCompletion) > stuckAfter
}
