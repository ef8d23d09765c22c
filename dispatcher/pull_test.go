package dispatcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/pull"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// pulled makes the destination of an endpoint one that consumers pull, with a lease of a minute.
func (w *world) pulled() *config.Endpoint {
	endpoint := w.endpoint("pull://consumers")
	endpoint.Destinations[0].Pull = &kinds.Pull{LeaseSeconds: 60}
	return endpoint
}

// take pulls up to n events of the destination.
func take(t *testing.T, d *Dispatcher, consumer string, n int, wait time.Duration) []pull.Event {
	t.Helper()
	return must.Get(d.Pulls().Pull(t.Context(),
		pull.Request{Destination: testDest, Consumer: consumer, Max: n, Wait: wait}))(t)
}

func acknowledge(t *testing.T, d *Dispatcher, events ...pull.Event) (states []pull.State) {
	t.Helper()
	r := pull.Request{Destination: testDest}
	for _, e := range events {
		r.Attempts = append(r.Attempts, e.Attempt)
	}
	return must.Get(d.Pulls().Acknowledge(t.Context(), r))(t)
}

// What nobody pulls is parked after half a minute, so that its offset is committed, and comes back when somebody pulls.
func TestAbandonedDestination(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.pulled()
		d, _ := w.start(testConfig())
		const events = 3000
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		for _, outcome := range w.outcomes(count(events)) {
			full := outcome.Status == event.Pending && outcome.Reason == event.LaneFull
			if !full && (outcome.Status != event.Held || outcome.Reason != event.NotPulled) || outcome.Attempt != nil {
				t.Fatalf("while nobody pulls: %+v", outcome)
			}
		}
		time.Sleep(2 * time.Minute)
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), events, "offset … is committed")
		if n, bytes := d.lanes.InMemory(); n > events || bytes > 8<<20 {
			t.Errorf("%d deliveries and %d bytes in memory", n, bytes)
		}
		began := time.Now()
		seen := 0
		for seen < events && time.Since(began) < time.Minute {
			got := take(t, d, "w", 100, 5*time.Second)
			acknowledge(t, d, got...)
			seen += len(got)
		}
		if took := time.Since(began); seen != events || took > 4*time.Second {
			t.Errorf("%d of %d events in %v", seen, events, took)
		}
		w.outcomes(count(events, event.Delivered))
	})
}

// The configuration at the moment of the pull counts: nothing is handed out while the destination is paused, and
// nothing that was purged or has expired.
func TestPullFollowsTheConfiguration(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.pulled()
		d, _ := w.start(testConfig())
		late := w.newEvent(`{}`)
		late.ExpiresAt = time.Now().Add(10 * time.Second)
		w.accept(w.newEvent(`{}`), late)
		time.Sleep(11 * time.Second)
		synctest.Wait() // a worker that has read the configuration at this moment has ended
		w.view.change(testEndpoint, func(e *config.Endpoint) { e.Destinations[0].Paused = true })
		if got := take(t, d, "w", 9, time.Minute); len(got) > 0 {
			t.Fatalf("%d events while paused", len(got))
		}
		w.view.change(testEndpoint, func(e *config.Endpoint) { e.Destinations[0].Paused = false })
		got := take(t, d, "w", 9, time.Minute)
		if len(got) != 1 || got[0].ID == late.ID {
			t.Fatalf("unpaused: %+v", got)
		}
		acknowledge(t, d, got...)
		w.outcomes(count(1, event.Skipped)) // what has expired
		purged := time.Now().Add(time.Hour)
		w.view.change(testEndpoint, func(e *config.Endpoint) { e.Destinations[0].PurgeBefore = purged })
		w.accept(w.newEvent(`{}`))
		if got := take(t, d, "w", 9, 5*time.Second); len(got) > 0 {
			t.Errorf("purged: %+v", got)
		}
	})
}

// A lease that ends is a failed attempt, which neither opens the circuit breaker nor narrows the window. A client that
// leaves while it waits leases nothing. A consumer pulls once at a time.
func TestLeases(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.pulled()
		d, _ := w.start(testConfig())
		const events = 40
		for range events {
			w.accept(w.newEvent(`{"n":1}`))
		}
		for range 3 { // a consumer that acknowledges nothing
			if got := take(t, d, "broken", events, time.Minute); len(got) != events {
				t.Fatalf("%d of %d events", len(got), events)
			}
			time.Sleep(62 * time.Second)
		}
		failed := w.outcomes(count(3*events, event.Retrying))
		for _, outcome := range failed {
			a := outcome.Attempt
			if a == nil || a.OK || a.ErrorCode != event.CodeNotAcknowledged || a.URL != "pull://broken" ||
				a.Duration != time.Minute {
				t.Fatalf("after the lease: %+v", outcome.Attempt)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel) // while it gathers
		if _, err := d.Pulls().Pull(ctx, pull.Request{Destination: testDest, Consumer: "leaving", Max: 1000,
			Wait: time.Minute}); !errors.Is(err, context.Canceled) {
			t.Errorf("the pull ended with %v", err)
		}
		time.Sleep(2 * time.Second)
		got := take(t, d, "w", events, time.Minute)
		if len(got) != events || got[0].Number != 4 || got[0].Header["webhook-signature"] == "" {
			t.Fatalf("%d events, %+v", len(got), got[0])
		}
		states := acknowledge(t, d, got...)
		again := acknowledge(t, d, append(got, pull.Event{})...)
		for i := range got {
			if states[i] != pull.Acknowledged || again[i] != pull.Acknowledged {
				t.Errorf("acknowledged %v and %v", states[i], again[i])
			}
		}
		if again[events] != pull.Unknown {
			t.Errorf("nobody's attempt is %v", again[events])
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			take(t, d, "w", 1, 10*time.Second)
		}()
		time.Sleep(time.Second)
		second := pull.Request{Destination: testDest, Consumer: "w", Max: 1}
		if _, err := d.Pulls().Pull(t.Context(), second); !errors.Is(err, pull.ErrBusy) {
			t.Errorf("a second pull of the consumer: %v", err)
		}
		<-ended
	})
}

// A stop waits for no lease. What was leased is delivered by the next owner, what was acknowledged is not.
func TestStopEndsLeases(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.pulled()
		d, stop := w.start(testConfig())
		for range 20 {
			w.accept(w.newEvent(`{}`))
		}
		leased := take(t, d, "w", 20, time.Minute)
		acknowledge(t, d, leased[:5]...)
		began := time.Now()
		if stop(); time.Since(began) > 2*time.Second {
			t.Errorf("the stop took %v", time.Since(began))
		}
		d, _ = w.start(testConfig())
		again := take(t, d, "w", 20, time.Minute)
		is.Equal(t, len(again), 15, "events came again")
		for _, e := range again {
			if e.ID == leased[0].ID || e.Number != 1 {
				t.Errorf("%+v", e)
			}
		}
		acknowledge(t, d, again...)
	})
}
