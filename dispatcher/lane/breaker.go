package lane

import (
	"strings"
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
	// when it opens again without a success since, up to BreakerMaxOpen, and no longer than requests have failed so far.
	breakerMinOpen = 30 * time.Second
	BreakerMaxOpen = time.Hour
	// MaxProbes is how many requested deliveries (replays, recoveries, tests) may run at once while it is open. They are
	// probes too: the success of one closes it.
	MaxProbes = 2

	// Early probes: earlyPause after the last one, an untried delivery is a probe although the breaker is open. They have
	// a budget of earlyBudget, to which earlyRefill adds one. Deliveries that were parked leave half of it to new ones.
	earlyPause  = 50 * time.Second
	earlyBudget = 60
	earlyRefill = 5 * time.Minute
)

// breaker is the circuit breaker of one destination. Closed, it counts failures since the last success. Open, it blocks
// all deliveries but requested ones. When openUntil has passed, it is half-open: the next request is its probe, and
// until the answer other deliveries are parked as before.
//
// Failures may come from a few events that the destination cannot process, while it works for all others. Their number
// must not decide how long the others wait. So an open breaker also lets early probes through, of which each is the
// first attempt of the newest delivery. They do not change how long it stays open, unless they succeed. Both ends of
// what waits get their turn: the probe of the half-open breaker is the oldest of the deliveries with the fewest
// attempts.
//
// A rejected request (a status 4xx, see Rejected) shows that the destination works: it is no failure, and it closes an
// open breaker. It does not reset the count of failures either, so a destination that rejects some requests and fails
// the others is held, for twice as long each time. As such a breaker often closes early, it would soon be open for far
// longer than the destination failed: it is open for at most as long as it is since the first failure.
//
// It is local to this node. What it parks carries its state, from which a new owner of the partition restores it.
type breaker struct {
	failures       int // since the last success
	firstFailureAt time.Time
	failingSince   time.Time     // when the first failure since a success was, however often it closed; zero: none was
	openFor        time.Duration // how long it is open, or was the last time since a success; 0: it was not
	openUntil      time.Time     // zero: it is closed
	probe          *Delivery     // the running probe; nil: none
	lastFailed     id.ID         // event of the last failure that opened it
	failedType     string        // of the event of the last failed probe
	early          bool          // the running probe is an early one
	earlyAt        time.Time     // no early probe begins before
	earlyFullAt    time.Time     // when their budget is full again
	restored       bool          // the state is of an earlier owner, and no probe has confirmed it
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

// prefersEarly reports whether a is the better early probe: one with fewer attempts, then an event whose sender is
// authenticated, then one of another type than the last failed probe, then the newer one.
func (b *breaker) prefersEarly(a, other *event.Work) bool {
	if a.Attempt != other.Attempt {
		return a.Attempt < other.Attempt
	}
	if x, y := a.Event.Authenticated(), other.Event.Authenticated(); x != y {
		return x
	}
	if x, y := a.Event.Type == b.failedType, other.Event.Type == b.failedType; x != y {
		return y
	}
	return a.Event.ID.Compare(other.Event.ID) > 0
}

// earlyWait is how long an early probe waits for the pause and the budget.
func (b *breaker) earlyWait(now time.Time, parked bool) time.Duration {
	// The clock may have been set back.
	b.earlyAt = Earlier(b.earlyAt, now.Add(earlyPause))
	b.earlyFullAt = Earlier(b.earlyFullAt, now.Add(earlyBudget*earlyRefill))
	spare := (earlyBudget - 1) * earlyRefill
	if parked {
		spare = (earlyBudget/2 - 1) * earlyRefill
	}
	return max(b.earlyAt.Sub(now), later(b.earlyFullAt, now).Sub(now)-spare)
}

// beginEarly makes the delivery an early probe.
func (b *breaker) beginEarly(delivery *Delivery, now time.Time) {
	b.probe, b.early, b.restored = delivery, true, false
	b.earlyAt, b.earlyFullAt = now.Add(earlyPause), later(b.earlyFullAt, now).Add(earlyRefill)
}

// undoEarly takes an early probe back that was not sent.
func (b *breaker) undoEarly(now time.Time) {
	b.probe, b.early = nil, false
	b.earlyAt, b.earlyFullAt = now, b.earlyFullAt.Add(-earlyRefill)
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

// restore opens the breaker as an earlier owner of the partition had it when it parked the delivery. It reports whether
// that changed something. One early probe may be made at once, of any delivery: the breaker may have closed since.
func (b *breaker) restore(work *event.Work, now time.Time) bool {
	until, openFor := work.OpenUntil, work.OpenFor
	if until.IsZero() { // a version before these has parked it
		until = work.ReportedNextAt
		openFor = until.Sub(now)
	}
	if until.IsZero() || b.open() && !until.After(b.openUntil) {
		return false
	}
	openFor = min(max(openFor, breakerMinOpen), BreakerMaxOpen)
	// A probe that runs was made after an older hold. It is an early one of this hold, which its failure must not change.
	*b = breaker{openUntil: until, openFor: openFor, failingSince: until.Add(-2 * openFor),
		restored: b.restored || !b.open(), earlyAt: b.earlyAt, earlyFullAt: b.earlyFullAt,
		probe: b.probe, early: b.probe != nil}
	return true
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
	*b = breaker{openFor: b.openFor, failingSince: b.failingSince, earlyFullAt: b.earlyFullAt}
	return true
}

// recordFailure counts a failure and reports whether the breaker opens, for the first time or again. While it is open
// only the probe counts: requests that ran when it opened, and requested deliveries, do not change it.
func (b *breaker) recordFailure(now time.Time, failed *event.Event, probe bool) (opens bool) {
	switch {
	case !b.open():
		if b.failures++; b.failures == 1 || now.Before(b.firstFailureAt) {
			b.firstFailureAt = now
		}
		if b.failingSince.IsZero() || now.Before(b.failingSince) {
			b.failingSince = now
		}
		if b.failures < breakerFailures || now.Sub(b.firstFailureAt) < breakerSpan {
			return false
		}
		b.earlyAt = now.Add(earlyPause)
	case !probe:
		return false
	case b.early:
		b.probe, b.early, b.earlyAt, b.failedType = nil, false, now.Add(earlyPause), strings.Clone(failed.Type)
		return false
	}
	b.failedType = strings.Clone(failed.Type)
	b.openFor = max(breakerMinOpen, min(2*b.openFor, BreakerMaxOpen, now.Sub(b.failingSince)))
	b.openUntil, b.probe, b.lastFailed, b.awaitNext = now.Add(b.openFor), nil, failed.ID, time.Time{}
	return true
}
