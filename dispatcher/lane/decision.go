// Package lane decides what becomes of the deliveries to each destination, and when.
//
// A lane owns everything that belongs to one destination on one node: a bounded queue, the in-flight window, the
// circuit breaker, the wait for a token of its rate, and the count of what is parked. Lanes holds all of them, and the
// memory and the requests that they share. It sends nothing and writes nothing: each call returns a Decision, which the
// dispatcher carries out.
//
//	Admit   a delivery is due: Queued, or Park, or End
//	Next    a worker is free:  Send, or Park, or End, or Stop
//	Recheck memory is short:   Park or End for what is taken out of queues
//
// Every delivery that is begun (Park, End, Send) is ended by Release.
package lane

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// Delivery is one event on its way to one destination, or a record that cannot be decoded.
type Delivery struct {
	Work    *event.Work // nil for a record that cannot be decoded
	Slot    Slot
	Size    int       // bytes that it holds in memory
	ReadyAt time.Time // of one that waits in a retry topic: when it is taken out of it
}

// Slot is the record that a delivery was read from.
type Slot interface {
	// Begin reports whether the delivery may begin; false when its partition has left this node. Every Begin that
	// was granted has its End.
	BeginDelivery() bool
	EndDelivery()
	Partition() *Partition
}

// Source is a partition as lanes see it.
type Partition struct {
	ID        stream.Partition
	AddStalls func(lanes int) // adds to the lanes that ask the partition to pause

	lastDest string // destination of the newest delivery; guarded by Lanes.mu
	streak   int    // how many deliveries in a row were for it; guarded by Lanes.mu
}

// Action is what a lane wants done with a delivery.
type Action uint8

// What a lane wants done.
const (
	Queued  Action = iota // nothing: a worker will get it
	Dropped               // nothing: its partition has left this node, the next owner delivers it
	Send                  // make the attempt
	Park                  // keep it in a retry topic until Due
	End                   // record Status and Reason: no attempt is made any more
	Stop                  // nothing: there is no work for this worker
)

// Decision is what becomes of a delivery. It is the whole answer: whoever carries it out asks no lane again.
type Decision struct {
	Action      Action
	Delivery    *Delivery
	Eligibility Eligibility // what the configuration says, for Send
	DecidedAt   time.Time   // when it was decided

	Status event.Status // of the outcome, for Park and End; empty: none is recorded
	Reason event.Reason

	Due            time.Time // of what is parked: when it comes by again
	EarliestSend   time.Time // it will hardly be sent before; zero if unknown
	ReportedNextAt time.Time // until then no other outcome speaks of the same reason
	ParkedBy       uint32    // of the lane that parked it
	Err            error     // the configuration could not be read
}

// Standing is what the configuration says of a delivery at this moment.
type Eligibility struct {
	Endpoint    *config.Endpoint
	Destination *config.Destination
	Status      event.Status // the delivery ends so; empty: it is still wanted
	Reason      event.Reason
	Paused      bool // it is wanted later
	Known       bool // false: this node has not heard of the endpoint or of the recovery job, and nothing else is set
}

// Rules read the configuration.
type Rules interface {
	// MaxInFlight is that of the destination, 0 when this node does not know it.
	MaxInFlight(work *event.Work) int
	// Check never waits, and reads the body for a filter only if it may.
	Check(work *event.Work, readBody bool) Eligibility
	// CheckLatest waits until this node has applied what was written before, if it does not know the endpoint.
	CheckLatest(ctx context.Context, work *event.Work) (Eligibility, error)
}

// Limiter holds the rates of destinations.
type Limiter interface {
	// Take asks for one token of key's bucket. 0: it was taken. Otherwise nothing was taken, and the result is
	// the wait until one is likely there. It does no I/O and never fails.
	TakeToken(key string, perSecond float64, burst int) time.Duration
}

// HeldMarker hears of circuit breakers that open, and until when, or close (the zero time), for display. It does no
// I/O and never fails.
type HeldMarker interface {
	SetHeldUntil(dest string, until time.Time)
}

// Admit decides what becomes of a delivery that is due. It never waits: the reader and the timer of the retry topics
// call it for all lanes.
func (ls *Lanes) Admit(delivery *Delivery) Decision {
	reason := ls.enqueue(delivery)
	switch {
	case reason == "":
		return Decision{Action: Queued, Delivery: delivery}
	case !ls.Begin(delivery):
		return Decision{Action: Dropped, Delivery: delivery}
	}
	return ls.parkOrEnd(delivery, reason, ls.rules.Check(delivery.Work, false))
}

// Result is what a worker did with its delivery; the zero value: it had none.
type Result struct {
	Delivery *Delivery
	Kind     ResultKind
	Code     int    // of the answer, 0 without one
	URL      string // that was asked

	wait      time.Duration // for a token, of one that goes back into the queue
	perSecond float64       // of the tokens
}

// ResultKind is what came of a request.
type ResultKind uint8

// What came of a request.
const (
	NotSent       ResultKind = iota // no request was made
	Succeeded                       // the destination took it
	Failed                          // it did not
	TimedOut                        // it did not in time
	waitsForToken                   // it waits in its lane for a token
)

// Next ends what a worker did and decides what it does next. The configuration is read here, at the last moment, so
// that a change counts for what is queued.
func (ls *Lanes) Next(ctx context.Context, l *Lane, last Result) Decision {
	for {
		delivery, reason := ls.finishAndTakeNext(l, last)
		if delivery == nil {
			return Decision{Action: Stop}
		}
		last = Result{Delivery: delivery}
		if !delivery.Slot.BeginDelivery() { // its partition has left this node
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
		if wait := ls.takeToken(l, eligibility.Destination); wait > 0 {
			delivery.Slot.EndDelivery()
			last = Result{Delivery: delivery, Kind: waitsForToken, wait: wait,
				perSecond: eligibility.Destination.RateLimit.PerSecond}
			continue
		}
		return Decision{Action: Send, Delivery: delivery, Eligibility: eligibility}
	}
}

// Recheck lets go on the partitions that have waited long enough for a lane: from now on its deliveries are parked.
// When memory is short it takes out of stuck lanes what they will not send soon. It returns what becomes of that, and
// when it must be called again; 0: not before Wake.
func (ls *Lanes) EnforceLimits() (refused []Decision, again time.Duration) {
	shed, again := ls.enforceLimits()
	for _, delivery := range shed {
		if !delivery.Slot.BeginDelivery() {
			ls.freeMemory(delivery)
			continue
		}
		refused = append(refused, ls.parkOrEnd(delivery, event.LaneFull, ls.rules.Check(delivery.Work, false)))
	}
	return refused, again
}

// refuse ends a delivery that its lane does not send now, if the configuration says so, else parks it.
func (ls *Lanes) parkOrEnd(delivery *Delivery, reason event.Reason, eligibility Eligibility) Decision {
	switch {
	case eligibility.Status != "":
		return ls.endDelivery(delivery, eligibility)
	case eligibility.Paused:
		reason = event.Manual
	}
	return ls.parkDelivery(delivery, reason, eligibility)
}

// end says that no attempt is made any more, for the reason that the configuration gives.
func (ls *Lanes) endDelivery(delivery *Delivery, eligibility Eligibility) Decision {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	if eligibility.Reason == event.DestinationDisabled { // enabled again it begins anew
		ls.resetLearned(l)
	}
	return Decision{Action: End, Delivery: delivery, DecidedAt: now, Status: eligibility.Status,
		Reason: eligibility.Reason}
}

// keep parks a delivery that is still wanted.
func (ls *Lanes) parkDelivery(delivery *Delivery, reason event.Reason, eligibility Eligibility) Decision {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	if eligibility.Known && reason == event.BreakerOpen {
		ls.followURL(l, eligibility.Destination.URL) // mended by hand, perhaps: what comes by next is tried there
	}
	return ls.parkLocked(l, delivery, reason, now)
}
