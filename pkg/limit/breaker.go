package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// breakAfter is how many exchanges must fail in a row: a single failure may come from a pause of this process.
	breakAfter = 3
	// The first probe of an open breaker follows after minProbeWait; each failed probe doubles the wait up to
	// maxProbeWait.
	minProbeWait, maxProbeWait = 100 * time.Millisecond, 2 * time.Second
)

// breaker is the circuit breaker for Redis: callers do not wait for a Redis that does not answer. Only Run probes and
// closes it, except that of claims (admit).
type breaker struct {
	open atomic.Bool

	mu        sync.Mutex // guards what follows
	failures  int
	probeWait time.Duration
	nextProbe time.Duration // when Run probes
}

func (b *breaker) isOpen() bool { return b.open.Load() }

func (b *breaker) succeeded() {
	b.mu.Lock()
	b.failures = 0
	b.mu.Unlock()
}

// failed counts a failure and reports whether it opened the breaker.
func (b *breaker) failed(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.open.Load():
		if now >= b.nextProbe { // it was the probe; exchanges that began before the breaker opened do not count
			b.probeWait = min(2*b.probeWait, maxProbeWait)
			b.nextProbe = now + b.probeWait
		}
		return false
	case b.failures < breakAfter:
		return false
	}
	b.probeWait = minProbeWait
	b.nextProbe = now + b.probeWait
	b.open.Store(true)
	return true
}

// mayProbe reports whether Run may send a request: always while the breaker is closed, else when the next probe is due.
func (b *breaker) mayProbe(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open.Load() || now >= b.nextProbe
}

// admit reports whether a caller may send a request: every one while the breaker is closed, else one whenever a probe
// is due. A success closes the breaker.
func (b *breaker) admit(now time.Duration) bool {
	if !b.open.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() {
		return true
	}
	if now < b.nextProbe {
		return false
	}
	b.probeWait = min(2*b.probeWait, maxProbeWait)
	b.nextProbe = now + b.probeWait
	return true
}

// close closes the breaker and reports whether it was open.
func (b *breaker) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
	return b.open.Swap(false)
}
