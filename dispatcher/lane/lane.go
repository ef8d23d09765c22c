package lane

import (
	"sync/atomic"
	"time"

	"github.com/gammazero/deque"

	"github.com/eventrelay/relay/pkg/event"
)

// Bounds of a lane.
const (
	// laneQueue is how many live deliveries, and separately how many requested ones, wait in memory for one destination
	// before its partition pauses or further ones are parked: one second of work at the default of 64 requests in flight
	// and 60 ms each.
	laneQueue = 1024
	// idleLane is how long an empty lane is kept, with its opened secrets.
	idleLane = time.Minute
	// An empty lane is kept longer for what it counts: rememberParked while deliveries are parked (each is re-checked
	// within an hour, so all have returned by then), rememberOpen after its circuit breaker was open.
	rememberParked = 3 * time.Hour
	rememberOpen   = time.Hour
)

// Lane is the state of one destination on this node: a bounded queue, the in-flight window, and the workers that send.
// Nothing else decides when a destination gets its deliveries.
type Lane struct {
	dest   string
	target atomic.Pointer[Target] // the opened configuration, replaced when the endpoint changes

	// Guarded by Lanes.mu.
	partitionIndex  int32 // of the partition that its deliveries come from
	url             string
	live            deliveryQueue
	requested       deliveryQueue // replays, recoveries and tests; they give way to live deliveries
	requestedActive int           // requested deliveries that workers have
	requestedTurn   bool          // with a window of 1, live and requested deliveries take turns
	deliveries      int           // queued and with workers
	bytes           int
	workers         int // running ones
	window          window
	breaker         breaker
	parking         parking
	token           tokenWait
	pace            pace
	gone            goneCounter
	lastUsed        time.Time
}

type deliveryQueue = deque.Deque[*Delivery]

// Reserve sets how many bytes a delivery that a worker of the lane has needs for its transformed body.
func (l *Lane) Reserve(ls *Lanes, delivery *Delivery, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	change := n - delivery.Reserved
	delivery.Size, delivery.Reserved = delivery.Size+change, n
	l.bytes += change
	ls.bytes += change
	if change < 0 {
		signal(ls.freed)
	}
}

func (l *Lane) queued() int { return l.live.Len() + l.requested.Len() }

// isRequested reports whether a user asked for the delivery: a replay, a recovery job or a test. It gives way to live
// deliveries, and an open circuit breaker does not block it.
func isRequested(work *event.Work) bool { return work.Run != "" || work.Trigger == event.TriggerTest }

func (l *Lane) queueOf(work *event.Work) *deliveryQueue {
	if isRequested(work) {
		return &l.requested
	}
	return &l.live
}

// share is how much of the room in the queue the delivery may use. While the lane has parked deliveries, new ones may
// use half of it, so that parked ones, which came first, find room when they return.
func (l *Lane) share(delivery *Delivery, room int) int {
	if l.parking.total > 0 && delivery.Work.Parked == "" {
		return (room + 1) / 2
	}
	return room
}

// takeNext takes the next delivery for a worker, nil when there is none. With a reason the delivery must be parked;
// without, it may be sent.
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

// takeAllowed takes the next delivery that may be sent. While live deliveries wait, at most one requested delivery runs
// beside them; with a window of 1 the two kinds take turns.
func (l *Lane) takeAllowed() *Delivery {
	mayTakeRequested := l.live.Len() == 0 || l.requestedActive == 0 && (l.window.size > 1 || l.requestedTurn)
	if mayTakeRequested && l.requested.Len() > 0 {
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

// takeSurplus takes a delivery that is too many to wait for a token in the lane: requested before live ones, the newest
// first. It leaves at least one of each kind.
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
	if l.breaker.probe == delivery { // it got no answer: the next delivery is the probe
		l.breaker.probe = nil
	}
}

// stuck reports whether the lane fails, or has completed nothing for stuckAfter.
func (l *Lane) stuck(now time.Time) bool {
	return l.window.failing() || now.Sub(l.pace.lastCompletion) > stuckAfter
}
