package api

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns bounds how many requests of a node do at the same time what takes a processor for long. A further one waits for
// its turn, which comes in the order of the requests.
type turns struct {
	free *semaphore.Weighted
	wait time.Duration
}

func newTurns(most int64, wait time.Duration) turns { return turns{semaphore.NewWeighted(most), wait} }

// take waits for a turn, which the caller ends with end. ok is false if none came within the wait.
func (t turns) take(ctx context.Context) (end func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	if t.free.Acquire(ctx, 1) != nil {
		return nil, false
	}
	return func() { t.free.Release(1) }, true
}
