package fence

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// TestCoalescerResultIsNeverOlderThanItsCall has callers all the time: each result was loaded after its call began, and
// there are far fewer loads than callers.
func TestCoalescerResultIsNeverOlderThanItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		s := newCoalescer(func(context.Context) (time.Time, error) {
			loads.Add(1)
			began := time.Now()
			time.Sleep(100 * time.Millisecond)
			return began, nil
		})
		var wg sync.WaitGroup
		for i := range 1_000 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				began, err := s.get(t.Context())
				is.OK(t, err)
				if began.Before(asked) {
					t.Errorf("asked at %v, loaded at %v", asked, began)
				}
			})
		}
		wg.Wait()
		if n := loads.Load(); n > 12 {
			t.Fatalf("%d loads", n)
		}
	})
}

// TestCoalescerSurvivesCancelledCaller cancels the caller that is to run a load: the others get a result.
func TestCoalescerSurvivesCancelledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCoalescer(func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Second):
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		var wg sync.WaitGroup
		leader, cancel := context.WithCancel(t.Context())
		get := func(ctx context.Context, want int, wantErr error) {
			wg.Go(func() {
				if got, err := s.get(ctx); got != want || !errors.Is(err, wantErr) {
					t.Errorf("got %d, %v", got, err)
				}
			})
			synctest.Wait()
		}
		get(t.Context(), 7, nil)            // loads
		get(leader, 0, context.Canceled)    // is to run the next load
		get(t.Context(), 7, nil)            // waits for it
		time.Sleep(1500 * time.Millisecond) // the second load runs
		get(t.Context(), 7, nil)            // waits for the third
		cancel()
		wg.Wait()
	})
}
