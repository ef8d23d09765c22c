package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Stack runs components that stand on each other. They are started one after the other and stopped in
// reverse, each only when all above it have ended: the HTTP server before the dispatcher, the
// dispatcher before the log. The first component that ends by itself, with an error or without, stops all.
type Stack struct {
	log  *slog.Logger
	down context.CancelCauseFunc // asks for the end of everything
	ctx  context.Context         // done when the end was asked for

	wg    sync.WaitGroup
	parts []*part
}

type part struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // set before ended is closed
}

// NewStack makes one that ends with ctx.
func NewStack(ctx context.Context, log *slog.Logger) *Stack {
	ctx, down := context.WithCancelCause(ctx)
	return &Stack{log: log, ctx: ctx, down: down}
}

// Context is done when the end was asked for.
func (s *Stack) Context() context.Context { return s.ctx }

// Start runs a component on top of those that run. Its context ends only when it is its turn to stop.
func (s *Stack) Start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	p := &part{name: name, cancel: cancel, ended: make(chan struct{})}
	s.parts = append(s.parts, p)
	s.wg.Go(func() {
		defer close(p.ended)
		err := run(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it was told to stop, and did
		}
		if err != nil {
			p.err = fmt.Errorf("%s: %w", name, err)
		}
		if ctx.Err() == nil && p.err == nil {
			p.err = fmt.Errorf("%s: ended unexpectedly", name)
		}
		s.down(p.err)
	})
}

// Ready waits for a component to say that it is ready, or for the end.
func (s *Stack) Ready(c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// Wait blocks until the end was asked for, stops everything from the top down and returns what went wrong.
func (s *Stack) Wait() error {
	<-s.ctx.Done()
	return s.Stop()
}

// Abandon stops everything after a start that failed. An error that only says that the start was cut short is left out:
// the component that ended tells why.
func (s *Stack) Abandon(err error) error {
	cut := s.ctx.Err() != nil && errors.Is(err, context.Canceled)
	stopped := s.Stop()
	if cut {
		return stopped
	}
	return errors.Join(err, stopped)
}

// Stop stops everything from the top down and returns what went wrong.
func (s *Stack) Stop() error {
	s.down(nil)
	var errs []error
	for _, p := range slices.Backward(s.parts) {
		s.log.Debug("stopping", "component", p.name)
		p.cancel()
		<-p.ended
		errs = append(errs, p.err)
	}
	s.wg.Wait()
	return errors.Join(errs...)
}
