package api

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns limits how many requests of a node use much CPU at the same time. Further ones wait, first come, first served.
type turns struct {
	free *semaphore.Weighted
	wait time.Duration // how long a request waits at most
}

func newTurns(most int64, wait time.Duration) turns { return turns{semaphore.NewWeighted(most), wait} }

// take waits for a turn, which the caller ends with end. ok is false, and end nil, if none came within the wait or ctx
// has ended.
func (t turns) take(ctx context.Context) (end func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	if t.free.Acquire(ctx, 1) != nil {
		return nil, false
	}
	return func() { t.free.Release(1) }, true
}
