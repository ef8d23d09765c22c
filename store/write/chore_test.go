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
)

// A chore is the owner's: soon when a node becomes that, and then at every beat from the end of the last look, whatever
// came of it. A node that starts often does it all the same, and a stop ends it.
func TestChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var owner atomic.Bool
		var idle atomic.Int32
		var mu sync.Mutex // guards looks
		var looks []time.Duration
		looked := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(looks)
		}
		c := chore{
			ChoreDeps: ChoreDeps{IsOwner: owner.Load, Log: slog.New(slog.DiscardHandler)},
			failure:   "look", interval: time.Hour,
			work: func(context.Context) error {
				mu.Lock()
				looks = append(looks, time.Since(began))
				n := len(looks)
				mu.Unlock()
				time.Sleep(time.Minute)
				if n == 2 {
					return errors.New("away")
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
		if n := len(looked()); n > 0 || idle.Load() != 12 {
			t.Errorf("a node that is no owner has looked %d times, and found %d times that it is none", n, idle.Load())
		}
		owner.Store(true)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		first := time.Minute + ownerCheckInterval
		if want := []time.Duration{first, first + 61*time.Minute, first + 122*time.Minute}; !slices.Equal(looked(), want) {
			t.Errorf("looked at %v, want %v", looked(), want)
		}
		if n := testutil.ToFloat64(c.failures); n != 1 {
			t.Errorf("%v failures are counted", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A chore that is due more often than a node looks whether it is the owner is done that often, and what a stop breaks
// off is no failure.
func TestQuickChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		c := chore{
			ChoreDeps: ChoreDeps{IsOwner: func() bool { return true }, Log: slog.New(slog.DiscardHandler)},
			failure:   "look", interval: time.Second,
			work:     func(ctx context.Context) error { looks++; return ctx.Err() },
			failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		last := c.work
		c.work = func(ctx context.Context) error {
			if looks == 3 {
				<-ctx.Done()
			}
			return last(ctx)
		}
		if err := c.run(ctx); err != nil || looks != 4 || testutil.ToFloat64(c.failures) != 0 {
			t.Errorf("%d looks in four seconds and a half, %v failures: %v", looks, testutil.ToFloat64(c.failures), err)
		}
	})
}
