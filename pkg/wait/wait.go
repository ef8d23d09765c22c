// Package wait pauses: for a given time, or with exponential back-off and jitter between attempts.
package wait

import (
	"context"
	"math/rand/v2"
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
