// Package wait pauses for a given time, or with exponential back-off and jitter between attempts, and wakes who waits.
package wait

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// For pauses for d and returns nil. If ctx ends first, it returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake wakes the goroutine that receives from c, now or once it does again. c has capacity 1: one pending wake-up is
// enough.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Backoff is an exponential back-off: the pause is at most First after the first failed attempt, and its bound doubles
// with each further attempt up to Longest.
type Backoff struct{ First, Longest time.Duration }

// After returns the pause after a failed attempt; the first attempt has number 0. It is a random time between half of
// the full pause and the full pause, so it never exceeds Longest.
func (b Backoff) After(attempt int) time.Duration {
	d := b.First
	for ; attempt > 0 && d < b.Longest; attempt-- {
		d *= 2
	}
	d = min(d, b.Longest)
	return d/2 + rand.N(d/2+1)
}

// Jitter returns a random time between 0.5 and 1.5 times d, so that clients that failed together do not retry together.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Room limits how much may wait at the same time on this node. Its owner chooses the unit, such as requests or bytes.
type Room struct {
	limit int64
	used  atomic.Int64
}

// NewRoom returns an empty Room.
func NewRoom(limit int64) *Room { return &Room{limit: limit} }

// Used returns how much of the room is taken.
func (r *Room) Used() int64 { return r.used.Load() }

// Take takes size of the room and reports whether that much was left. Return it with Give.
func (r *Room) Take(size int64) bool {
	if r.used.Add(size) <= r.limit {
		return true
	}
	r.Give(size)
	return false
}

// Give returns size to the room.
func (r *Room) Give(size int64) { r.used.Add(-size) }

// Retry calls try until it is done or ctx ends. From the first pause on it takes size of the room. If that much is not
// left, it calls try only once.
func (r *Room) Retry(ctx context.Context, size int64, pause Backoff, try func() (done bool)) {
	if try() || !r.Take(size) {
		return
	}
	defer r.Give(size)
	for n := 0; For(ctx, pause.After(n)) == nil && !try(); n++ {
	}
}
