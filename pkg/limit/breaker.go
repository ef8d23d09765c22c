package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// breakAfter is how many exchanges must fail in a row: one alone may have met a pause of this process.
	breakAfter = 3
	// The first probe of an open breaker comes after probeFirst, the next ones after twice the wait each.
	probeFirst, probeLast = 100 * time.Millisecond, 2 * time.Second
)

// breaker keeps callers from waiting for a Redis that does not answer. Only Run probes and closes it.
type breaker struct {
	open atomic.Bool

	mu       sync.Mutex // guards what follows
	failures int
	wait     time.Duration
	next     time.Duration // when to probe
}

func (b *breaker) isOpen() bool { return b.open.Load() }

func (b *breaker) succeeded() {
	b.mu.Lock()
	b.failures = 0
	b.mu.Unlock()
}

// failed counts a failure and says whether it opened the breaker.
func (b *breaker) failed(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	switch {
	case b.open.Load():
		if now >= b.next { // it was the probe; what was still under way says nothing new
			b.wait = min(2*b.wait, probeLast)
			b.next = now + b.wait
		}
		return false
	case b.failures < breakAfter:
		return false
	}
	b.wait = probeFirst
	b.next = now + b.wait
	b.open.Store(true)
	return true
}

// due says whether Run may ask: an open breaker only now and then.
func (b *breaker) due(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open.Load() || now >= b.next
}

// close says whether it was open.
func (b *breaker) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
	return b.open.Swap(false)
}
