package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Stack runs components that depend on those before them. They start one after the other and stop in reverse, each only
// after those that started later have ended: the HTTP server before the dispatcher, the dispatcher before the log. The
// first component that ends by itself, with an error or without, stops all.
type Stack struct {
	log         *slog.Logger
	requestStop context.CancelCauseFunc // ends ctx
	ctx         context.Context         // done when everything is to stop

	wg    sync.WaitGroup
	parts []*part
}

type part struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // set before ended is closed
}

// NewStack creates a stack that stops when ctx ends.
func NewStack(ctx context.Context, log *slog.Logger) *Stack {
	ctx, down := context.WithCancelCause(ctx)
	return &Stack{log: log, ctx: ctx, requestStop: down}
}

// Context is done when everything is to stop.
func (s *Stack) Context() context.Context { return s.ctx }

// Start runs a component. Its context ends when it is its turn to stop.
func (s *Stack) Start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	p := &part{name: name, cancel: cancel, ended: make(chan struct{})}
	s.parts = append(s.parts, p)
	s.wg.Go(func() {
		defer close(p.ended)
		err := run(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it stopped as asked
		}
		if err != nil {
			p.err = fmt.Errorf("%s: %w", name, err)
		}
		if ctx.Err() == nil && p.err == nil {
			p.err = fmt.Errorf("%s: ended unexpectedly", name)
		}
		s.requestStop(p.err)
	})
}

// Ready waits until c is closed, or until everything is to stop.
func (s *Stack) Ready(c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// Wait blocks until everything is to stop, stops it and returns the errors.
func (s *Stack) Wait() error {
	<-s.ctx.Done()
	return s.Stop()
}

// StopAfterFailedStart stops everything after a failed start and returns the errors. When the start failed only because
// a component ended, that component's error says why, and err is left out.
func (s *Stack) StopAfterFailedStart(err error) error {
	cut := s.ctx.Err() != nil && errors.Is(err, context.Canceled)
	stopped := s.Stop()
	if cut {
		return stopped
	}
	return errors.Join(err, stopped)
}

// Stop stops all components in reverse order of their start and returns their errors.
func (s *Stack) Stop() error {
	s.requestStop(nil)
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
