package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := wait.For(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := wait.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// The full pause doubles up to Longest; each pause is between half of it and all of it, and pauses differ.
func TestBackoff(t *testing.T) {
	b := wait.Backoff{First: 100 * time.Millisecond, Longest: time.Second}
	lengths := map[time.Duration]bool{}
	for attempt, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		want *= 100 * time.Millisecond
		for range 100 {
			got := b.After(attempt)
			if got < want/2 || got > want {
				t.Fatalf("attempt %d: %s, want half of %s to all of it", attempt, got, want)
			}
			lengths[got] = true
		}
	}
	if len(lengths) < 100 {
		t.Errorf("only %d different pauses", len(lengths))
	}
	if got := b.After(1 << 40); got > time.Second || got < 500*time.Millisecond {
		t.Errorf("after countless attempts %s", got)
	}
}

// Retry takes its room only while it pauses, and without room it tries once.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := wait.NewRoom(5)
		pause := wait.Backoff{First: time.Millisecond, Longest: time.Second}
		tries := 0
		room.Retry(t.Context(), 3, pause, func() bool {
			if tries++; tries == 2 {
				inner := 0
				room.Retry(t.Context(), 3, pause, func() bool { inner++; return false })
				if inner != 1 || room.Used() != 3 {
					t.Errorf("%d tries without room, %d taken", inner, room.Used())
				}
			}
			return tries == 4
		})
		if tries != 4 || room.Used() != 0 {
			t.Errorf("%d tries, %d taken", tries, room.Used())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if room.Retry(ctx, 5, pause, func() bool { return false }); time.Since(began) != time.Minute || room.Used() != 0 {
			t.Errorf("ended after %v, %d taken", time.Since(began), room.Used())
		}
	})
}
