package dispatcher

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// heldNow is what a marker was told last.
type heldNow struct {
	mu    sync.Mutex
	until map[string]time.Time
	told  []string
}

func (h *heldNow) SetHeldUntil(dest string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	h.until[dest] = until
	if until.IsZero() {
		h.told = append(h.told, "closed")
	} else {
		h.told = append(h.told, time.Until(until).Round(time.Second).String())
	}
}

func (h *heldNow) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

// A destination is down for nine minutes: after half a minute nothing is sent but probes, what waits is
// held and told when it may be tried, the time told is kept, and when the destination is back everything
// that was held follows the probe within a step.
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
		w.endpoint(url).RetryPolicy = config.RetryPolicy{Strategy: "linear", IntervalSeconds: 3600, MaxAttempts: 5}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		const events = 100 // one each four seconds
		for range events {
			w.accept(w.newEvent(`{}`))
			time.Sleep(4 * time.Second)
		}
		// 20 failures, probes after half a minute, one and two; the next one will be after four.
		if d := cmp.Diff([]string{"30s", "1m0s", "2m0s", "4m0s"}, held.all()); d != "" {
			t.Error(d)
		}
		const sent = 23
		if n := len(s.all()); n != sent {
			t.Errorf("%d requests, want 20 and 3 probes", n)
		}
		until := held.until[testDest]
		if n := w.metric("relay_dispatch_parked", "breaker_open"); n != events-sent {
			t.Errorf("%v are parked, want %d", n, events-sent)
		}
		if w.metric("relay_dispatch_lanes", "open") != 1 {
			t.Error("the metrics do not tell of the open breaker")
		}
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

// checkHeld asserts that what is held is told so, with a time in the future, and again only when that time
// is over; and that nothing is attempted before it unless it is a probe's turn.
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
				t.Errorf("told again %v before its time", before.NextAt.Sub(outcome.At))
			}
		case before != nil && before.Status == event.Held && outcome.Attempt != nil:
			if early := before.NextAt.Sub(outcome.Attempt.StartedAt); early > 0 {
				t.Errorf("sent %v before the time that was told", early)
			}
		}
		last[key] = outcome
	}
	for key, n := range times {
		if n > 8 { // twice for each opening, at most
			t.Errorf("%s was told %d times", key, n)
		}
	}
}

// While the breaker is open what somebody asked for flies, two at a time; a success closes the breaker, and
// what was held follows within a step.
func TestReplaysAreProbes(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var up atomic.Bool
		var flying, most atomic.Int64
		s := &sink{answer: func(_ int, r received) int {
			if r.header.Get("Relay-Trigger") == "replay" {
				most.Store(max(most.Load(), flying.Add(1)))
				time.Sleep(time.Second)
				flying.Add(-1)
			}
			if up.Load() {
				return 200
			}
			return 503
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url).RetryPolicy = config.RetryPolicy{Strategy: "none"}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		for range 60 { // opens after 40 s
			w.accept(w.newEvent(`{}`))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		before, told := len(s.all()), len(held.all())
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
		if n := len(held.all()); n != told {
			t.Errorf("failed replays moved the breaker: %v", held.all())
		}
		up.Store(true)
		replay()
		time.Sleep(time.Second + lane.MinRecheck + lane.Slack(lane.MinRecheck))
		if got := held.all(); len(got) != told+1 || got[told] != "closed" {
			t.Errorf("after the success: %v", got)
		}
		if n := w.metric("relay_dispatch_parked", ""); n != 0 {
			t.Errorf("%v are still parked a step after the breaker closed", n)
		}
	})
}

// A new URL, or disabling the destination, makes a lane forget its breaker: what was held goes there
// within two steps.
func TestNewURLClosesTheBreaker(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		good := &sink{}
		url, _ := w.serve(80, good)
		w.endpoint("http://localhost:81/away").RetryPolicy = config.RetryPolicy{Strategy: "none"}
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		open := func() (waiting int) {
			for range 60 {
				w.accept(w.newEvent(`{}`))
				time.Sleep(2 * time.Second)
			}
			time.Sleep(4 * time.Minute)
			return int(w.metric("relay_dispatch_parked", "breaker_open"))
		}
		waiting := open()
		w.view.change(testEndpoint, func(ep *config.Endpoint) { ep.Destinations[0].URL = url })
		time.Sleep(2 * (lane.MinRecheck + lane.Slack(lane.MinRecheck)))
		if n := len(good.all()); n != waiting || waiting < 20 {
			t.Errorf("%d of %d that were held arrived at the new URL", n, waiting)
		}
		if got := held.all(); got[len(got)-1] != "closed" {
			t.Errorf("told: %v", got)
		}

		w.view.change(testEndpoint, func(ep *config.Endpoint) { ep.Destinations[0].URL = "http://localhost:81/away" })
		open()
		enable := func(on bool) {
			w.view.change(testEndpoint, func(ep *config.Endpoint) { ep.Destinations[0].Enabled = on })
		}
		enable(false)
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		enable(true)
		if got := held.all(); got[len(got)-1] != "closed" {
			t.Errorf("told: %v", got)
		}
		before := w.metric("relay_dispatch_attempts_total", "")
		w.accept(w.newEvent(`{}`))
		time.Sleep(time.Second)
		if w.metric("relay_dispatch_attempts_total", "") != before+1 {
			t.Error("enabled again it is still held")
		}
	})
}
