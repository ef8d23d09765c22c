package frame

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// recentTime is how old an answer of recent may be.
const recentTime = 10 * time.Second

// maxRecent is how many answers recent remembers.
const maxRecent = 1000

// Recent shares expensive answers between callers: each is loaded at most once in recentTime on this node, and by one
// caller at a time.
type Recent[T any] struct {
	Now  func() time.Time
	runs singleflight.Group

	mu      sync.Mutex // guards answers
	answers map[string]recentAnswer[T]
}

type recentAnswer[T any] struct {
	at    time.Time
	value T
}

// Get returns the answer to key, or the error of ctx if that ends before. load goes on when its caller leaves: others
// wait for it. Errors are not remembered.
func (r *Recent[T]) Get(ctx context.Context, key string, load func(context.Context) (T, error)) (T, error) {
	if value, ok := r.remembered(key); ok {
		return value, nil
	}
	loaded := r.runs.DoChan(key, func() (any, error) {
		if value, ok := r.remembered(key); ok {
			return value, nil
		}
		value, err := load(context.WithoutCancel(ctx))
		if err == nil {
			r.remember(key, value)
		}
		return value, err
	})
	var none T
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case x := <-loaded:
		if x.Err != nil {
			return none, x.Err
		}
		return x.Val.(T), nil
	}
}

func (r *Recent[T]) remembered(key string) (value T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.answers[key]
	return a.value, ok && r.Now().Sub(a.at) < recentTime
}

func (r *Recent[T]) remember(key string, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil || len(r.answers) >= maxRecent {
		r.answers = map[string]recentAnswer[T]{}
	}
	r.answers[key] = recentAnswer[T]{r.Now(), value}
}

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
