package limit

import (
	"time"
)

// TakeToken takes one token of a bucket that one node uses at a time. It returns 0 if it took a token, else the time
// until one is probably available. It does no I/O and never fails. A rate of 0 means no limit; a burst below 1 is 1.
//
// A bucket that is new on this node may have been used on another node just before. It begins with a tenth of a
// second's tokens, at least one, until Redis has answered how full the other node left it, usually within milliseconds.
// If Redis is not configured, a new bucket is full.
func (l *Limiter) TakeToken(key string, perSecond float64, burst int) time.Duration {
	most := float64(max(burst, 1))
	wait, _ := l.take(bucketKey{"", key}, 1, perSecond, most, min(most, max(1, perSecond*initialSpan.Seconds())))
	return wait
}

// initialSpan is how much of its rate, in time, a bucket begins with whose level is not known yet.
const initialSpan = 100 * time.Millisecond

// TakeSharedToken is TakeToken for a bucket that all nodes use at once, with a burst of one second's tokens. It also
// returns how many tokens this node has left. All nodes together admit the rate, and each of them its burst once. A
// bucket that is new on this node begins full, because a caller that is rejected does not try again.
func (l *Limiter) TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64) {
	most := max(perSecond, 1)
	return l.take(bucketKey{class, key}, 1, perSecond, most, most)
}

// TakeSharedTokens is TakeSharedToken for n tokens, all or none. For more than one second's tokens the bucket must be
// full; its level then falls below zero, and the next caller waits until that is refilled.
func (l *Limiter) TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration) {
	most := max(perSecond, 1)
	wait, _ = l.take(bucketKey{class, key}, float64(n), perSecond, most, most)
	return wait
}

func (l *Limiter) take(k bucketKey, n, rate, burst, initial float64) (time.Duration, float64) {
	if !(rate > 0) {
		return 0, burst
	}
	now := l.elapsed()
	b := l.buckets.find(k)
	if b == nil {
		if l.client == nil {
			initial = burst // there is no other node to have used it
		}
		b = l.buckets.getOrCreate(k, now, rate, burst, initial)
	}
	wait, left, wake := b.take(now, l.leasePeriod.Load(), n, rate, burst)
	if wake && l.client != nil {
		l.enlist(b)
	}
	return wait, left
}

// enlist makes Run visit a bucket, and start a round at once.
func (l *Limiter) enlist(b *bucket) {
	b.mu.Lock()
	known := b.active
	b.active = true
	b.mu.Unlock()
	if !known {
		l.buckets.enlist(b)
	}
	l.wakeUp()
}
