package frame

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// Turns limits how many requests of a node use much CPU at the same time. Further ones wait, first come, first served.
type Turns struct {
	free *semaphore.Weighted
	wait time.Duration // how long a request waits at most
}

// NewTurns allows that many requests at a time.
func NewTurns(most int64, wait time.Duration) Turns { return Turns{semaphore.NewWeighted(most), wait} }

// Take waits for a turn, which the caller ends with end. ok is false, and end nil, if none came within the wait or ctx
// has ended.
func (t Turns) Take(ctx context.Context) (end func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	if t.free.Acquire(ctx, 1) != nil {
		return nil, false
	}
	return func() { t.free.Release(1) }, true
}
