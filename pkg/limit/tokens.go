package limit

import (
	"time"
)

// TakeToken asks for one token of the bucket of a key that one node owns at a time. 0: it was taken. Otherwise
// nothing was taken, and the result is the wait until one is likely there. It does no I/O and never fails.
// A rate of 0 is no limit; a burst below 1 is 1.
//
// A bucket that is new on this node may have been another's a moment ago. It begins with a tenth of a
// second's worth, until Redis has told within milliseconds how full it was left.
func (l *Limiter) TakeToken(key string, perSecond float64, burst int) time.Duration {
	most := float64(max(burst, 1))
	wait, _ := l.take(bucketKey{"", key}, 1, perSecond, most, min(most, max(1, perSecond*initialSpan.Seconds())))
	return wait
}

// initialSpan is how much of its rate a bucket begins with when its past is unknown.
const initialSpan = 100 * time.Millisecond

// TakeSharedToken is Take for a key that is used on all nodes at once, with a burst of one second's worth. It
// also tells what is left in this node's sight. All nodes together let through the rate, and each of them
// its burst once. A bucket that is new on this node begins full, for a caller who is refused gives up.
func (l *Limiter) TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64) {
	most := max(perSecond, 1)
	return l.take(bucketKey{class, key}, 1, perSecond, most, most)
}

// TakeSharedTokens is TakeSharedToken for n tokens at once, all or none. What costs more than a second's worth is let
// through by a full bucket and paid off before the next.
func (l *Limiter) TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration) {
	most := max(perSecond, 1)
	wait, _ = l.take(bucketKey{class, key}, float64(n), perSecond, most, most)
	return wait
}

func (l *Limiter) take(k bucketKey, n, rate, burst, first float64) (time.Duration, float64) {
	if !(rate > 0) {
		return 0, burst
	}
	now := l.elapsed()
	b := l.buckets.find(k)
	if b == nil {
		if l.client == nil {
			first = burst // there is no other node to have used it
		}
		b = l.buckets.getOrCreate(k, now, rate, burst, first)
	}
	wait, left, ask := b.take(now, l.leasePeriod.Load(), n, rate, burst)
	if ask && l.client != nil {
		l.enlist(b)
	}
	return wait, left
}

// enlist has Run look at a bucket, and at once.
func (l *Limiter) enlist(b *bucket) {
	b.mu.Lock()
	known := b.active
	b.active = true
	b.mu.Unlock()
	if !known {
		l.buckets.enlist(b)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
