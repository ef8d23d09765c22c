package dispatcher

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// heldNow records the calls of SetHeldUntil.
type heldNow struct {
	mu    sync.Mutex
	until map[string]time.Time
	calls []string
}

func (h *heldNow) SetHeldUntil(dest string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	h.until[dest] = until
	if until.IsZero() {
		h.calls = append(h.calls, "closed")
	} else {
		h.calls = append(h.calls, time.Until(until).Round(time.Second).String())
	}
}

func (h *heldNow) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// A destination is down for nine minutes. After half a minute only probes are sent. Waiting deliveries are held, and
// their outcome reports when the breaker is half-open. When the destination works again, every held
// delivery follows the probe within one re-check interval.
func TestBreakerHoldsAndProbes(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var up atomic.Bool
		s := &sink{answer: func(int, received) int {
			if up.Load() {
				return 200
			}
			return 503
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url).RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 3600, MaxAttempts: 5}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		const events = 100 // one every four seconds
		for range events {
			w.accept(w.newEvent(`{}`))
			time.Sleep(4 * time.Second)
		}
		// 20 failures, probes after half a minute, one and two; the next one will be after four.
		is.Same(t, held.all(), []string{"30s", "1m0s", "2m0s", "4m0s"})
		const sent = 29
		if n := len(s.all()); n != sent {
			t.Errorf("%d requests, want 20, 3 probes and 6 early ones", n)
		}
		until := held.until[testDest]
		is.Equal(t, w.metric("relay_dispatch_parked", "breaker_open"), events-sent-1, "are parked")
		is.Equal(t, w.metric("relay_dispatch_lanes", "open"), 1, "the metrics do not count the open breaker")
		up.Store(true)
		time.Sleep(time.Until(until) + 2*(lane.MinRecheck+lane.Slack(lane.MinRecheck)))
		if n := len(s.all()); n != events {
			t.Errorf("%d requests after the probe succeeded, want one for each event", n)
		}
		if got := held.all(); got[len(got)-1] != "closed" || w.metric("relay_dispatch_parked", "") != 0 {
			t.Errorf("after the success: %v, %v parked", got, w.metric("relay_dispatch_parked", ""))
		}
		checkHeld(t, w.outcomes(count(events-sent, event.Delivered)))
	})
}

// checkHeld asserts that outcomes of held deliveries report a time in the future and are repeated only when that time
// has passed. An early probe may end the wait before.
func checkHeld(t *testing.T, all []*event.Outcome) {
	t.Helper()
	last := map[string]*event.Outcome{}
	times := map[string]int{}
	for _, outcome := range all {
		key := outcome.Event.String()
		switch before := last[key]; {
		case outcome.Status == event.Held:
			times[key]++
			if outcome.Reason != event.BreakerOpen || !outcome.NextAt.After(outcome.At) {
				t.Errorf("held: %+v", outcome)
			}
			if before != nil && before.Status == event.Held && outcome.At.Before(before.NextAt.Truncate(time.Millisecond)) {
				t.Errorf("reported again %v before its time", before.NextAt.Sub(outcome.At))
			}
		}
		last[key] = outcome
	}
	for key, n := range times {
		if n > 8 { // twice for each opening, at most
			t.Errorf("%s was reported %d times", key, n)
		}
	}
}

// The count of 410 answers starts again once the destination is disabled or is no longer the one that answered. It
// stays if the write failed, so that the next 410 asks again.
func TestDisablingResetsTheCountOf410(t *testing.T) {
	const url = "http://a.example/hook"
	f := func(what string, change func(v *view), reset, disabled bool) {
		t.Helper()
		v := newView(&config.Endpoint{ID: testEndpoint,
			Destinations: []config.Destination{{ID: testDest, URL: url,
				DestinationSettings: config.DestinationSettings{Enabled: true}}}})
		change(v)
		var forgotten []string
		r := &disabler{log: testLog(), updater: v, now: time.Now,
			disabled: prometheus.NewCounter(prometheus.CounterOpts{Name: "disabled"})}
		r.disable(t.Context(), disableRequest{testEndpoint, testDest, url, event.Gone410},
			func(dest string) { forgotten = append(forgotten, dest) })
		if got := slices.Equal(forgotten, []string{testDest}); got != reset || len(forgotten) > 1 {
			t.Errorf("%s: the counts of %q start again", what, forgotten)
		}
		endpoint, _ := v.Endpoint(testEndpoint)
		is.Equal(t, endpoint != nil && endpoint.Destinations[0].StateReason == "gone_410", disabled,
			"%s: disabled", what)
	}
	destination := func(change func(*config.Destination)) func(*view) {
		return func(v *view) {
			v.change(testEndpoint, func(endpoint *config.Endpoint) { change(&endpoint.Destinations[0]) })
		}
	}
	f("unchanged", func(*view) {}, true, true)
	f("another URL", destination(func(d *config.Destination) { d.URL += "/new" }), true, false)
	f("disabled", destination(func(d *config.Destination) { d.Enabled = false }), true, false)
	f("another destination", destination(func(d *config.Destination) { d.ID = "dst_2" }), true, false)
	f("deleted endpoint", func(v *view) { v.remove(testEndpoint) }, true, false)
	f("failed write", func(v *view) { v.during(func() error { return errors.New("away") }) }, false, false)
}
