package fence

import (
	"context"
	"errors"
	"sync"
)

// coalescer runs one load at a time. Callers that come during a load share the next one, so a result is never older
// than the call that gets it (a singleflight group would return the running load's result).
type coalescer[T any] struct {
	load func(context.Context) (T, error)
	slot chan struct{} // capacity 1: held while a load runs

	mu   sync.Mutex // guards next
	next *flight[T] // the load that has not begun; callers may join it
}

type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newCoalescer[T any](load func(context.Context) (T, error)) *coalescer[T] {
	return &coalescer[T]{load: load, slot: make(chan struct{}, 1)}
}

func (s *coalescer[T]) get(ctx context.Context) (T, error) {
	for {
		f, first := s.join()
		if first {
			s.runLoad(ctx, f)
			return f.value, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		// The context of the caller that ran the load may have ended; others try again.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.value, f.err
		}
	}
}

// join returns the load that has not begun yet, and whether the caller is its first and has to run it.
func (s *coalescer[T]) join() (*flight[T], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, false
	}
	s.next = &flight[T]{done: make(chan struct{})}
	return s.next, true
}

func (s *coalescer[T]) runLoad(ctx context.Context, f *flight[T]) {
	defer close(f.done)
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	s.mu.Lock()
	s.next = nil // later callers need a later load
	s.mu.Unlock()
	if f.err == nil {
		f.value, f.err = s.load(ctx)
	}
}
