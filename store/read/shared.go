package read

import (
	"context"
	"errors"
	"sync"
)

// shared lets callers that come while a load runs wait for the next one together: an answer is never
// older than its question, and one load runs at a time.
type coalescer[T any] struct {
	load func(context.Context) (T, error)
	slot chan struct{} // 1: held while a load runs

	mu   sync.Mutex // guards next
	next *flight[T] // has not begun; may be joined
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
		// The caller who did the work may have gone in the middle of it.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.value, f.err
		}
	}
}

// join returns the flight that has not begun yet and whether the caller is its first and must lead it.
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
	s.next = nil // who comes now asks a later question
	s.mu.Unlock()
	if f.err == nil {
		f.value, f.err = s.load(ctx)
	}
}
