package lane

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// When a circuit breaker opens, and for how long.
const (
	// It opens after breakerFailures consecutive failures over at least breakerSpan. A destination that only restarts
	// reaches neither.
	breakerFailures = 20
	breakerSpan     = 30 * time.Second
	// breakerMinOpen is how long it stays open the first time. It stays open twice as long after each failed probe, and
	// when it opens again without a success since, up to BreakerMaxOpen.
	breakerMinOpen = 30 * time.Second
	BreakerMaxOpen = time.Hour
	// MaxProbes is how many requested deliveries (replays, recoveries, tests) may run at once while it is open. They are
	// probes too: the success of one closes it.
	MaxProbes = 2
)

// breaker is the circuit breaker of one destination. Closed, it counts failures since the last success. Open, it blocks
// all deliveries but requested ones. When openUntil has passed, it is half-open: the next request is its probe, and
// until the answer other deliveries are parked as before.
//
// A rejected request (a status 4xx, see Rejected) shows that the destination works: it is no failure, and it closes an
// open breaker. It does not reset the count of failures either, so a destination that rejects some requests and fails
// the others is held, for twice as long each time.
//
// It is local to this node. A new owner of the partition starts with a closed breaker.
type breaker struct {
	failures       int // since the last success
	firstFailureAt time.Time
	openFor        time.Duration // how long it is open, or was the last time since a success; 0: it was not
	openUntil      time.Time     // zero: it is closed
	probe          *Delivery     // the running probe; nil: none
	lastFailed     id.ID         // event of the last failure that opened it
	next           probeCandidate
	awaitNext      time.Time // until when the probe waits for next; zero: whatever comes is the probe
}

// probeCandidate is a delivery that may be the next probe.
type probeCandidate struct {
	event   id.ID
	attempt int
}

func candidateOf(work *event.Work) probeCandidate { return probeCandidate{work.Event.ID, work.Attempt} }

// prefers reports whether a is the better probe: of another event than the last failure, then with fewer attempts, then
// older. If the probe was whatever comes next, one event that the destination cannot process would hold the others for
// hours: it is retried, so it comes most often.
func (b *breaker) prefers(a, other probeCandidate) bool {
	if repeated := a.event == b.lastFailed; repeated != (other.event == b.lastFailed) {
		return !repeated
	}
	if a.attempt != other.attempt {
		return a.attempt < other.attempt
	}
	return a.event.Compare(other.event) < 0
}

// offer makes a delivery that is parked for wait the next probe if it is the best so far.
func (b *breaker) offer(work *event.Work, wait time.Duration, now time.Time) (chosen bool) {
	candidate := candidateOf(work)
	if now.Before(b.awaitNext) && candidate.event != b.next.event && !b.prefers(candidate, b.next) {
		return false
	}
	b.next, b.awaitNext = candidate, now.Add(wait+Slack(wait))
	return true
}

// yields reports whether a delivery that comes to a half-open breaker leaves the probe to a better one, which is about
// to return from its retry topic.
func (b *breaker) yields(work *event.Work, now time.Time) bool {
	if !b.open() || !now.Before(b.awaitNext) {
		return false
	}
	if candidate := candidateOf(work); candidate.event != b.next.event && !b.prefers(candidate, b.next) {
		return true
	}
	b.awaitNext = time.Time{}
	return false
}

func (b *breaker) open() bool { return !b.openUntil.IsZero() }

// blocks reports whether ordinary deliveries must wait. When it returns false while the breaker is open, the next
// request is the probe.
func (b *breaker) blocks(now time.Time) bool {
	if !b.open() {
		return false
	}
	if b.openUntil.Sub(now) > b.openFor { // the clock was set back
		b.openUntil, b.awaitNext = now.Add(b.openFor), time.Time{}
	}
	return b.probe != nil || now.Before(b.openUntil)
}

// recordSuccess closes the breaker, whichever request succeeded, and reports whether it was open.
func (b *breaker) recordSuccess() (closed bool) {
	closed = b.open()
	*b = breaker{}
	return closed
}

// recordRejection closes the breaker if the probe or a requested delivery was rejected, and reports whether it did.
func (b *breaker) recordRejection(probe bool) (closed bool) {
	if !probe || !b.open() {
		return false
	}
	*b = breaker{openFor: b.openFor}
	return true
}

// recordFailure counts a failure and reports whether the breaker opens, for the first time or again. While it is open
// only the probe counts: requests that ran when it opened, and requested deliveries, do not change it.
func (b *breaker) recordFailure(now time.Time, failed id.ID, probe bool) (opens bool) {
	switch {
	case !b.open():
		if b.failures++; b.failures == 1 || now.Before(b.firstFailureAt) {
			b.firstFailureAt = now
		}
		if b.failures < breakerFailures || now.Sub(b.firstFailureAt) < breakerSpan {
			return false
		}
	case !probe:
		return false
	}
	b.openFor = max(breakerMinOpen, min(2*b.openFor, BreakerMaxOpen))
	b.openUntil, b.probe, b.lastFailed, b.awaitNext = now.Add(b.openFor), nil, failed, time.Time{}
	return true
}
