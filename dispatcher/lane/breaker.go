package lane

import "time"

// When a circuit breaker opens, and for how long.
const (
	// It opens after breakerFailures consecutive failures over at least breakerSpan. A destination that only restarts
	// reaches neither.
	breakerFailures = 20
	breakerSpan     = 30 * time.Second
	// breakerMinOpen is how long it stays open the first time. Each failed probe doubles that, up to BreakerMaxOpen.
	breakerMinOpen = 30 * time.Second
	BreakerMaxOpen = time.Hour
	// MaxProbes is how many requested deliveries (replays, recoveries, tests) may run at once while it is open. They are
	// probes too: the success of one closes it.
	MaxProbes = 2
)

// breaker is the circuit breaker of one destination. Closed, it counts consecutive failures. Open, it blocks all
// deliveries but requested ones. When openUntil has passed, it is half-open: the next request is its probe, and until
// the answer other deliveries are parked as before.
//
// It is local to this node. A new owner of the partition starts with a closed breaker.
type breaker struct {
	failures       int // consecutive
	firstFailureAt time.Time
	openFor        time.Duration // how long it is open this time; 0: it is closed
	openUntil      time.Time
	probe          *Delivery // the running probe; nil: none
}

func (b *breaker) open() bool { return b.openFor > 0 }

// blocks reports whether ordinary deliveries must wait. When it returns false while the breaker is open, the next
// request is the probe.
func (b *breaker) blocks(now time.Time) bool {
	if b.openFor == 0 {
		return false
	}
	if b.openUntil.Sub(now) > b.openFor { // the clock was set back
		b.openUntil = now.Add(b.openFor)
	}
	return b.probe != nil || now.Before(b.openUntil)
}

// recordSuccess closes the breaker, whichever request succeeded, and reports whether it was open.
func (b *breaker) recordSuccess() (closed bool) {
	closed = b.open()
	*b = breaker{}
	return closed
}

// recordFailure counts a failure and reports whether the breaker opens, for the first time or again. While it is open
// only the probe counts: requests that ran when it opened, and requested deliveries, do not change it.
func (b *breaker) recordFailure(now time.Time, probe bool) (opens bool) {
	switch {
	case !b.open():
		if b.failures++; b.failures == 1 || now.Before(b.firstFailureAt) {
			b.firstFailureAt = now
		}
		if b.failures < breakerFailures || now.Sub(b.firstFailureAt) < breakerSpan {
			return false
		}
		b.openFor = breakerMinOpen
	case !probe:
		return false
	default:
		b.openFor = min(2*b.openFor, BreakerMaxOpen)
	}
	b.openUntil, b.probe = now.Add(b.openFor), nil
	return true
}
