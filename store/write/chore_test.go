package write

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/test/is"
)

// TestChoreRunsOnTheOwner: work begins soon after a node has become the owner, and repeats at the interval from the end
// of the last call, also after an error. A stop ends it.
func TestChoreRunsOnTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var owner atomic.Bool
		var idle atomic.Int32
		var mu sync.Mutex // guards calls
		var calls []time.Duration
		callTimes := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(calls)
		}
		c := chore{
			ChoreDeps: ChoreDeps{IsOwner: owner.Load, Log: slog.New(slog.DiscardHandler)},
			failure:   "cannot work", interval: time.Hour,
			work: func(context.Context) error {
				mu.Lock()
				calls = append(calls, time.Since(began))
				n := len(calls)
				mu.Unlock()
				time.Sleep(time.Minute)
				if n == 2 {
					return errors.New("unavailable")
				}
				return nil
			},
			onIdle:   func() { idle.Add(1) },
			failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if n := len(callTimes()); n > 0 || idle.Load() != 12 {
			t.Errorf("a node that is not the owner has worked %d times and been idle %d times, want 0 and 12", n, idle.Load())
		}
		owner.Store(true)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		first := time.Minute + ownerCheckInterval
		is.List(t, callTimes(), []time.Duration{first, first + 61*time.Minute, first + 122*time.Minute}, "worked at")
		is.Equal(t, testutil.ToFloat64(c.failures), 1, "failures are counted")
		cancel()
		is.OK(t, <-ended)
	})
}

// TestStopIsNoChoreFailure: a chore with an interval shorter than ownerCheckInterval runs at its own interval, and work
// that a stop cancels does not count as a failure.
func TestStopIsNoChoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := chore{
			ChoreDeps: ChoreDeps{IsOwner: func() bool { return true }, Log: slog.New(slog.DiscardHandler)},
			failure:   "cannot work", interval: time.Second,
			work:     func(ctx context.Context) error { calls++; return ctx.Err() },
			failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		last := c.work
		c.work = func(ctx context.Context) error {
			if calls == 3 {
				<-ctx.Done()
			}
			return last(ctx)
		}
		if err := c.run(ctx); err != nil || calls != 4 || testutil.ToFloat64(c.failures) != 0 {
			t.Errorf("%d calls in 4.5 s, %v failures: %v; want 4 calls and no failure", calls,
				testutil.ToFloat64(c.failures), err)
		}
	})
}
