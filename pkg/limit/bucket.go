package limit

import (
	"sync"
	"time"
)

// bucket is one token bucket of this node.
type bucket struct {
	mu    sync.Mutex // guards what follows
	rate  float64    // tokens a second
	burst float64    // tokens at most
	level float64
	at    time.Duration // when level was right
}

// take takes one token, or says how long it will be until one is there.
func (b *bucket) take(now time.Duration, rate, burst float64) (wait time.Duration, left float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configureLocked(rate, burst)
	b.refillLocked(now)
	if b.level < 1 {
		return max(time.Duration((1-b.level)/b.rate*float64(time.Second)), time.Millisecond), b.level
	}
	b.level--
	return 0, b.level
}

// configureLocked follows a change of the limit: what was saved beyond a smaller burst is gone.
func (b *bucket) configureLocked(rate, burst float64) {
	if rate != b.rate || burst != b.burst {
		b.rate, b.burst = rate, burst
		b.level = min(b.level, burst)
	}
}

// refillLocked adds what time has brought. A clock that steps back brings nothing and is believed from
// there on; one that steps forward brings a burst at most.
func (b *bucket) refillLocked(now time.Duration) {
	if passed := now - b.at; passed > 0 {
		b.level = min(b.burst, b.level+passed.Seconds()*b.rate)
	}
	b.at = now
}
