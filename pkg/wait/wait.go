// Package wait pauses: for a time, and with back-off from one try to the next.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. When ctx ends before, it returns the error of ctx.
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

// Backoff is how long to pause between tries: at most First, and twice as long each time until it is Longest.
type Backoff struct{ First, Longest time.Duration }

// After is the pause after a failed try; the first try is number 0. By chance it is half as long at least and never
// longer, for others rely on Longest.
func (b Backoff) After(try int) time.Duration {
	d := b.First
	for ; try > 0 && d < b.Longest; try-- {
		d *= 2
	}
	d = min(d, b.Longest)
	return d/2 + rand.N(d/2+1)
}

// Jitter makes a pause half to one and a half times as long, by chance: those who failed at the same moment do not all
// come back at one.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
