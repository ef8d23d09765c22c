package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Stack runs components that depend on those before them. They start one after the other and stop in reverse, each only
// after those that started later have ended: the HTTP server before the dispatcher, the dispatcher before the log. The
// first component that ends by itself, with an error or without, stops all.
type Stack struct {
	log         *slog.Logger
	requestStop context.CancelCauseFunc // ends ctx
	ctx         context.Context         // done when everything is to stop

	wg         sync.WaitGroup
	components []*component
}

// The steps of a stop come one after the other, and each waits at most this long. With 3 s for alerts
// (alert.stopTimeout), 2 s for traces and 1 s for logs they add up to 30 s, the least that the chart gives a node after
// the delay (RELAY_SHUTDOWN_DELAY_SECONDS); docker-compose.yml gives 40 s with a delay of 5 s. A stop takes longer
// while Kafka or ClickHouse does not answer; a SIGKILL then repeats deliveries and loses no event.
const (
	// operatorDrain bounds the command socket and the server of metrics, each: their requests can be repeated.
	operatorDrain = 500 * time.Millisecond
	requestDrain  = 5 * time.Second  // requests of clients
	deliveryDrain = 16 * time.Second // deliveries; one that has the default timeout_seconds ends within 15 s
	flushTimeout  = 2 * time.Second  // last records to the log
)

type component struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // set before ended is closed
}

// NewStack creates a stack that stops when ctx ends.
func NewStack(ctx context.Context, log *slog.Logger) *Stack {
	ctx, requestStop := context.WithCancelCause(ctx)
	return &Stack{log: log, ctx: ctx, requestStop: requestStop}
}

// Context is done when everything is to stop.
func (s *Stack) Context() context.Context { return s.ctx }

// Start runs a component. Its context ends when it is its turn to stop.
func (s *Stack) Start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	c := &component{name: name, cancel: cancel, ended: make(chan struct{})}
	s.components = append(s.components, c)
	s.wg.Go(func() {
		defer close(c.ended)
		err := run(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it stopped as asked
		}
		if err != nil {
			c.err = fmt.Errorf("%s: %w", name, err)
		}
		if ctx.Err() == nil && c.err == nil {
			c.err = fmt.Errorf("%s: ended unexpectedly", name)
		}
		s.requestStop(c.err)
	})
}

// Failed reports whether a component has ended with an error. Call it from a component that is being stopped.
func (s *Stack) Failed() bool {
	return slices.ContainsFunc(s.components, func(c *component) bool {
		select {
		case <-c.ended:
			return c.err != nil
		default:
			return false
		}
	})
}

// Ready waits until ready is closed, or until everything is to stop.
func (s *Stack) Ready(ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// Wait blocks until everything is to stop, stops it and returns the errors. The log says so, because running deliveries
// may take half a minute.
func (s *Stack) Wait() error {
	<-s.ctx.Done()
	s.log.Info("stopping: running requests end first")
	err := s.Stop()
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// StopAfterFailedStart stops everything after a failed start and returns the errors. If the start failed only because a
// component ended, it returns that component's error without err.
func (s *Stack) StopAfterFailedStart(err error) error {
	cancelled := s.ctx.Err() != nil && errors.Is(err, context.Canceled)
	stopped := s.Stop()
	if cancelled {
		return stopped
	}
	return errors.Join(err, stopped)
}

// Stop stops all components in reverse order of their start and returns their errors.
func (s *Stack) Stop() error {
	s.requestStop(nil)
	var errs []error
	for _, c := range slices.Backward(s.components) {
		s.log.Debug("stopping", "component", c.name)
		c.cancel()
		<-c.ended
		errs = append(errs, c.err)
	}
	s.wg.Wait()
	return errors.Join(errs...)
}
