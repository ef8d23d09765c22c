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
	"github.com/eventrelay/relay/test/kit"
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

// While the breaker is open, requested deliveries are sent, two at a time. A success closes the breaker, and held
// deliveries follow within one re-check interval.
func TestReplaysAreProbes(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var up atomic.Bool
		var flying, most atomic.Int64
		s := &sink{answer: func(_ int, r received) int {
			if r.header.Get("Relay-Trigger") == "replay" {
				kit.Raise(&most, flying.Add(1))
				time.Sleep(time.Second)
				flying.Add(-1)
			}
			if up.Load() {
				return 200
			}
			return 503
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url).RetryPolicy = retry.Policy{Strategy: "none"}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		for range 60 { // opens after 40 s
			w.accept(w.newEvent(`{}`))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		before, calls := len(s.all()), len(held.all())
		replay := func() {
			w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
				Run: "run_1"})
		}
		for range 6 {
			replay()
		}
		time.Sleep(4 * time.Second)
		if n := len(s.all()) - before; n != 6 || most.Load() != lane.MaxProbes {
			t.Errorf("%d of 6 replays were sent, %d at once", n, most.Load())
		}
		if n := len(held.all()); n != calls {
			t.Errorf("failed replays moved the breaker: %v", held.all())
		}
		up.Store(true)
		replay()
		time.Sleep(time.Second + lane.MinRecheck + lane.Slack(lane.MinRecheck))
		if got := held.all(); len(got) != calls+1 || got[calls] != "closed" {
			t.Errorf("after the success: %v", got)
		}
		is.Equal(t, w.metric("relay_dispatch_parked", ""), 0, "are still parked one interval after the breaker closed")
	})
}

// A new URL, or disabling the destination, resets the breaker of its lane. Held deliveries are sent within two
// re-check intervals.
func TestNewURLClosesTheBreaker(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		good := &sink{}
		url, _ := w.serve(80, good)
		w.endpoint("http://localhost:81/away").RetryPolicy = retry.Policy{Strategy: "none"}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		open := func() (waiting int) {
			for range 60 {
				w.accept(w.newEvent(`{}`))
				time.Sleep(2 * time.Second)
			}
			time.Sleep(4 * time.Minute)
			return int(w.metric("relay_dispatch_parked", "breaker_open")) + 1 // the next early probe, in memory
		}
		waiting := open()
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].URL = url })
		time.Sleep(2 * (lane.MinRecheck + lane.Slack(lane.MinRecheck)))
		if n := len(good.all()); n != waiting || waiting < 20 {
			t.Errorf("%d of %d that were held arrived at the new URL", n, waiting)
		}
		if got := held.all(); got[len(got)-1] != "closed" {
			t.Errorf("SetHeldUntil: %v", got)
		}

		w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
			endpoint.Destinations[0].URL = "http://localhost:81/away"
		})
		open()
		enable := func(on bool) {
			w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].Enabled = on })
		}
		enable(false)
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		enable(true)
		if got := held.all(); got[len(got)-1] != "closed" {
			t.Errorf("SetHeldUntil: %v", got)
		}
		before := w.metric("relay_dispatch_attempts_total", "")
		w.accept(w.newEvent(`{}`))
		time.Sleep(time.Second)
		is.Equal(t, w.metric("relay_dispatch_attempts_total", ""), before+1,
			"it is still held after it was enabled again")
	})
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
