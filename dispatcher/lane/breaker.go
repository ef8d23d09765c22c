package lane

import "time"

// When a breaker opens, and for how long.
const (
	// breakerFailures in a row, over breakerSpan at least, open it: a destination that is being restarted
	// has neither.
	breakerFailures = 20
	breakerSpan     = 30 * time.Second
	// breakerMinOpen is how long it stays open at first; each probe that fails doubles it up to BreakerMaxOpen.
	breakerMinOpen = 30 * time.Second
	BreakerMaxOpen = time.Hour
	// MaxProbes is how many deliveries that somebody asked for fly at once while it is open.
	MaxProbes = 2
)

// breaker keeps requests from a destination that takes none. Closed, it counts failures in a row. Open, it
// holds everything but what somebody asked for. When its time is over one request flies as its probe
// (half-open), and the rest is held until the probe is answered.
//
// It is the memory of this node. Another owner of the partition begins with a closed one.
type breaker struct {
	failures       int           // in a row
	firstFailureAt time.Time     // of the first of them
	openFor        time.Duration // how long it is open this time; 0: it is closed
	openUntil      time.Time
	probe          *Delivery // the request that is under way to find out; nil: none
}

func (b *breaker) open() bool { return b.openFor > 0 }

// holds reports whether ordinary work must wait. If it need not although the breaker is open, the next
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

// success closes it, whoever sent the request, and reports whether it was open.
func (b *breaker) recordSuccess() (closed bool) {
	closed = b.open()
	*b = breaker{}
	return closed
}

// failure counts and reports whether the breaker opens with it, for the first time or again. What was under
// way when it opened, and what somebody asked for, changes nothing of an open one.
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
