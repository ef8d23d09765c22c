// Package lane decides when each destination gets its deliveries.
//
// A lane belongs to one destination on one node. It owns a bounded queue, the in-flight window, the circuit breaker,
// the wait for a rate limit token, and the count of parked deliveries. Lanes holds all lanes and the memory and
// requests that they share. The package sends nothing and writes nothing: each call returns a Decision, which the
// dispatcher carries out.
//
//	Admit          a delivery is due:       Queued, Park or End
//	Next           a worker is free:        Send, Park, End or Stop
//	EnforceLimits  memory is above half:    Park or End for deliveries that it takes out of queues
//
// A delivery that a decision sends, parks or ends must be released with Release exactly once.
//
// Start reading at Admit and Next below; lanes.go has the shared state, lane.go one queue, and breaker.go,
// pace.go, rate.go and parking.go one limit each.
package lane

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Delivery is one event on its way to one destination. For a record that cannot be decoded only Slot and Size are set.
type Delivery struct {
	Work     *event.Work // nil for a record that cannot be decoded
	Slot     Slot
	Size     int       // bytes of memory that it counts for
	Reserved int       // those of Size that are for a transformed body
	ReadyAt  time.Time // in a retry topic: when it leaves that topic
	ParkedAt time.Time // in a retry topic: when its record was appended

	behind     id.ID // event whose turn it is; zero: unknown
	placeEnded bool  // those after it in the order of its destination may go
	leased     int   // bytes that it counts for in Lane.leases
	hasToken   bool  // of the destination's rate limit, for its next attempt
	rev        int64 // of the endpoint when it was checked last; 0: unknown

	Recorded func() // called when its last outcome is durable; nil: nobody waits for it
}

// DeliveryKey names a delivery, whichever of its attempts and records is meant.
type DeliveryKey struct {
	Event id.ID
	Dest  string
	Run   string // id of the replay or recovery job that delivers; empty: none does
}

// KeyOf returns the key of a delivery.
func KeyOf(work *event.Work) DeliveryKey { return DeliveryKey{work.Event.ID, work.Dest, work.Run} }

// Slot is the log record that a delivery was read from.
type Slot interface {
	// BeginDelivery reports whether the delivery may begin. It returns false when the partition has left this node.
	// Each call that returned true needs one EndDelivery.
	BeginDelivery() bool
	EndDelivery()
	Partition() *Partition
}

// Partition is what lanes need of an assigned partition.
type Partition struct {
	ID        stream.Partition
	AddStalls func(n int) // adds n to the number of lanes that want the partition paused
	// StartWorker starts a worker of a lane. The worker must call Next until that returns Stop. It is the same for all
	// partitions.
	StartWorker func(*Lane)

	lastDest string // destination of the newest delivery; guarded by Lanes.mu
	streak   int    // how many consecutive deliveries were for lastDest; guarded by Lanes.mu
}

// Action is what the dispatcher must do with a delivery.
type Action uint8

// Actions of a Decision.
const (
	Queued  Action = iota // nothing: it is in its lane, a worker will take it
	Dropped               // nothing: its partition has left this node, the next owner delivers it
	Send                  // make the attempt
	Park                  // write it to a retry topic, due at Due
	End                   // record Status and Reason: no attempt follows
	Stop                  // nothing: the worker has no delivery and ends
)

// Decision is what becomes of a delivery. It is complete: carrying it out needs no further call to the lane.
type Decision struct {
	Action      Action
	Delivery    *Delivery
	Eligibility Eligibility // result of the configuration check, for Send
	DecidedAt   time.Time

	Status event.Status // of the outcome, for Park and End; empty: no outcome is recorded
	Reason event.Reason

	Due            time.Time // for Park: when the delivery is re-checked
	EarliestSend   time.Time // for Park: an estimate of when it is sent; zero if unknown
	ReportedNextAt time.Time // for Park: next time that the last outcome reported; before it, Reason is not reported again
	ParkedBy       uint32    // id of the lane that parked it
	OpenFor        time.Duration
	OpenUntil      time.Time // for Park: with OpenFor the state of the circuit breaker; zero if it is closed
	Behind         string    // for Park: event for which it waits, evt_…; empty if unknown
	Err            error     // why the delivery could not be checked or sent
}

// Eligibility says whether the configuration still wants a delivery, as of the check.
type Eligibility struct {
	Endpoint    *config.Endpoint
	Destination *config.Destination
	Status      event.Status // the delivery ends with it; empty: it is still wanted
	Reason      event.Reason
	Paused      bool // wanted, but held while the endpoint or destination is paused or the endpoint moves
	// Known is false if this node does not know the endpoint or the recovery job. Then Check sets nothing else, and
	// CheckLatest sets only Status and Reason.
	Known bool
}

// Rules check deliveries against the configuration.
type Rules interface {
	// MaxInFlight returns max_in_flight of the destination, 0 when this node does not know it.
	MaxInFlight(work *event.Work) int
	// Ordered reports whether the destination is ordered, as far as this node knows.
	Ordered(work *event.Work) bool
	// Check never waits. It evaluates a body filter only if readBody is set.
	Check(work *event.Work, readBody bool) Eligibility
	// AwaitCurrent waits while this node may not know changes that were answered, as when it is cut off from the log.
	AwaitCurrent(ctx context.Context) error
	// CheckLatest is Check with readBody. If the endpoint or recovery job is unknown, it waits until this node has applied
	// all earlier writes and checks again. If it is still unknown, the delivery ends as skipped.
	CheckLatest(ctx context.Context, work *event.Work) (Eligibility, error)
}

// Limiter holds the token buckets of destinations.
type Limiter interface {
	// TakeToken asks for one token of the bucket of key. 0 means that the token was taken. Otherwise none was taken,
	// and the result estimates the wait for one. It does no I/O and never fails.
	TakeToken(key string, perSecond float64, burst int) time.Duration
}

// HeldMarker gets the state of circuit breakers, for display on other nodes. until is the end of the open time, zero
// when the breaker closed. SetHeldUntil does no I/O and never fails.
type HeldMarker interface {
	SetHeldUntil(dest string, until time.Time)
}

// Admit decides what becomes of a delivery that is due. It never waits: the reader and the timer of the retry topics
// call it for all lanes. A copy of a delivery that this node is making ends without an outcome. The decision may be for
// another delivery, which gave way to this one.
func (ls *Lanes) Admit(delivery *Delivery) Decision {
	if ls.isCopy(delivery) {
		if !ls.Begin(delivery) {
			return Decision{Action: Dropped, Delivery: delivery}
		}
		return Decision{Action: End, Delivery: delivery, DecidedAt: ls.now()}
	}
	if delivery.Work.Place.Blocks {
		return ls.admitBlocker(delivery)
	}
	reason := ls.enqueue(delivery)
	if reason == event.BreakerOpen {
		parked := ls.holdEarly(delivery)
		if parked == nil {
			return Decision{Action: Queued, Delivery: delivery}
		}
		delivery = parked
	}
	switch {
	case reason == "":
		return Decision{Action: Queued, Delivery: delivery}
	case !ls.Begin(delivery):
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.unrecorded.remove(delivery)
		return Decision{Action: Dropped, Delivery: delivery}
	}
	return ls.parkOrEnd(delivery, reason, ls.rules.Check(delivery.Work, false))
}

// Result is what a worker did with its last delivery. The zero value means that it had none.
type Result struct {
	Delivery *Delivery
	Kind     ResultKind
	Code     int    // HTTP status of the answer, 0 without an answer
	URL      string // of the request

	wait      time.Duration // until a token is likely, for waitsForToken
	perSecond float64       // rate of the tokens
}

// ResultKind says how a request ended.
type ResultKind uint8

// Kinds of results.
const (
	NotSent       ResultKind = iota // no request was made, or the node stopped before its answer
	Succeeded                       // the destination accepted it
	Rejected                        // the destination works, and answered that it does not want this request
	Failed                          // the request failed, but not by a time-out
	TimedOut                        // the destination did not answer in time
	waitsForToken                   // it is back at the head of its queue until there is a token
	WaitsForPull                    // it is back at the head of its queue until a consumer pulls
	Outdated                        // it is back at the head of its queue: the event or its destination has changed
)

// Next counts the result of a worker's last delivery and decides what the worker does next. It checks the
// configuration here, just before the request, so that a change applies to queued deliveries.
func (l *Lane) Next(ctx context.Context, last Result) Decision {
	ls := l.lanes
	for {
		delivery, reason := l.finishAndTakeNext(last)
		if delivery == nil {
			return Decision{Action: Stop}
		}
		last = Result{Delivery: delivery}
		// Before the delivery begins: the partition may leave this node meanwhile, and does not wait for it.
		if ls.rules.AwaitCurrent(ctx) != nil || !delivery.Slot.BeginDelivery() { // this node stops, or the partition has left
			ls.freeMemory(delivery)
			continue
		}
		if reason != "" {
			return ls.parkOrEnd(delivery, reason, ls.rules.Check(delivery.Work, true))
		}
		eligibility, err := ls.rules.CheckLatest(ctx, delivery.Work)
		switch {
		case err != nil && ctx.Err() != nil: // this node stops
			ls.Release(delivery)
			continue
		case err != nil:
			return ls.parkUnchecked(delivery, err)
		case eligibility.Status != "":
			return ls.endDelivery(delivery, eligibility)
		case eligibility.Paused:
			return ls.parkDelivery(delivery, event.Manual, eligibility)
		}
		if eligibility.Destination.Pull != nil && !l.lease(delivery) {
			if reason := l.pullParks(delivery); reason != "" {
				return ls.parkDelivery(delivery, reason, eligibility)
			}
			delivery.Slot.EndDelivery()
			last = Result{Delivery: delivery, Kind: WaitsForPull}
			continue
		}
		if !delivery.hasToken {
			if wait := l.takeToken(eligibility.Destination); wait > 0 {
				delivery.Slot.EndDelivery()
				last = Result{Delivery: delivery, Kind: waitsForToken, wait: wait,
					perSecond: eligibility.Destination.RateLimit.PerSecond}
				continue
			}
			delivery.hasToken = true
		}
		return Decision{Action: Send, Delivery: delivery, Eligibility: eligibility}
	}
}

// holdEarly is the same of the delivery's lane.
func (ls *Lanes) holdEarly(delivery *Delivery) *Delivery {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	return ls.laneOf(delivery, now).holdEarly(delivery, now)
}

// EnforceLimits ends the pauses of partitions that waited long enough for a lane. When more than half of the memory is
// used, it takes deliveries out of the queues of stuck lanes and returns what becomes of them. It takes those out that
// wait for their turn for too long, or need none any more. again is how long to wait before the next call; 0: until
// Deps.Wake is called.
func (ls *Lanes) EnforceLimits() (shed []Decision, again time.Duration) {
	deliveries, again := ls.enforceLimits()
	park := func(delivery *Delivery, reason event.Reason) {
		if !delivery.Slot.BeginDelivery() {
			ls.freeMemory(delivery)
			return
		}
		shed = append(shed, ls.parkOrEnd(delivery, reason, ls.rules.Check(delivery.Work, false)))
	}
	for _, delivery := range deliveries {
		park(delivery, event.LaneFull)
	}
	impatient, waits := ls.impatient()
	for _, delivery := range impatient {
		park(delivery, event.Behind)
	}
	if waits && (again == 0 || again > changeInterval) {
		again = changeInterval
	}
	if early := ls.startEarlyProbes(); again == 0 || early > 0 && early < again {
		again = early
	}
	return shed, again
}

// parkOrEnd decides about a delivery that its lane does not send now: end it if the configuration says so, else park
// it.
func (ls *Lanes) parkOrEnd(delivery *Delivery, reason event.Reason, eligibility Eligibility) Decision {
	switch {
	case eligibility.Status != "":
		return ls.endDelivery(delivery, eligibility)
	case reason == event.OrderFull:
		eligibility.Status, eligibility.Reason = event.Failed, reason
		return ls.endDelivery(delivery, eligibility)
	case eligibility.Paused:
		reason = event.Manual
	case reason == event.BreakerOpen && eligibility.Known && isOverdue(delivery.Work, ls.now()):
		eligibility.Status, eligibility.Reason = event.Failed, event.AttemptsExhausted
		return ls.endDelivery(delivery, eligibility)
	}
	return ls.parkDelivery(delivery, reason, eligibility)
}

// isOverdue reports whether a delivery has waited as long as a circuit breaker may hold it.
func isOverdue(work *event.Work, now time.Time) bool {
	return !work.Deadline.IsZero() && !now.Before(work.Deadline)
}

// endDelivery decides that no attempt follows, for the reason in eligibility.
func (ls *Lanes) endDelivery(delivery *Delivery, eligibility Eligibility) Decision {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	if eligibility.Reason == event.DestinationDisabled { // when it is enabled again, the lane starts from scratch
		l.resetLearned()
	}
	return Decision{Action: End, Delivery: delivery, DecidedAt: now, Status: eligibility.Status,
		Reason: eligibility.Reason}
}

// parkDelivery parks a delivery that is still wanted, as far as this node knows.
func (ls *Lanes) parkDelivery(delivery *Delivery, reason event.Reason, eligibility Eligibility) Decision {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	if eligibility.Endpoint != nil {
		delivery.rev = eligibility.Endpoint.Rev
	}
	if eligibility.Known && reason == event.BreakerOpen {
		l.followURL(eligibility.Destination.URL) // a new URL closes the breaker for the next delivery
	}
	return l.parkLocked(delivery, reason, now)
}
