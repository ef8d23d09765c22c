package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Paused deliveries are held, reported once without a time, and delivered within one re-check interval after the
// pause. Another destination is unaffected.
func TestPausedDeliveriesAreHeldUntilResumed(t *testing.T) {
	f := func(name string, pause func(*config.Endpoint, bool), requests int) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{}
				url, _ := w.serve(80, s)
				w.endpoint(url, url+"/other")
				w.view.change(testEndpoint, func(endpoint *config.Endpoint) { pause(endpoint, true) })
				w.start(testConfig())
				const events = 20
				for range events {
					w.accept(w.newEvent(`{}`, "dst_1", "dst_2"))
				}
				time.Sleep(time.Minute)
				is.Equal(t, len(s.all()), requests, "requests while paused")
				held := 2*events - requests
				for _, outcome := range w.outcomes(count(2 * events)) {
					if outcome.Status != event.Delivered &&
						(outcome.Status != event.Held || outcome.Reason != event.Manual || !outcome.NextAt.IsZero()) {
						t.Errorf("while paused: %+v", outcome)
					}
				}
				w.view.change(testEndpoint, func(endpoint *config.Endpoint) { pause(endpoint, false) })
				on := time.Now()
				all := w.outcomes(count(2*events, event.Delivered))
				if len(all) != 2*events+held {
					t.Errorf("%d outcomes for %d deliveries, %d of them held", len(all), 2*events, held)
				}
				for _, r := range s.all()[requests:] {
					if late := r.at.Sub(on); late > lane.MinRecheck+lane.Slack(lane.MinRecheck) {
						t.Errorf("delivered %v after it was resumed", late)
					}
				}
			})
		})
	}
	f("endpoint", func(endpoint *config.Endpoint, on bool) { endpoint.Paused = on }, 0)
	f("destination", func(endpoint *config.Endpoint, on bool) { endpoint.Destinations[0].Paused = on }, 20)
}

// A purge ends waiting deliveries of events received before it and of replays started before it. Later events are
// delivered, and so is a later replay of an old event.
func TestPurge(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].Paused = true })
		w.start(testConfig())
		newRun := func() string {
			run := must.Get(w.ids.New(0))(t)
			return run.Text(id.Run)
		}
		replay := func(ev *event.Event, run string) {
			w.command(&event.Work{
				Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run,
				Prior: event.Failed, PriorReason: event.NotRetryable,
			})
		}
		before, again := w.newEvent(`"before"`), w.newEvent(`"again"`)
		w.accept(before)
		replay(again, newRun())
		time.Sleep(7 * time.Second)
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].PurgeBefore = time.Now() })
		later, replayed := w.newEvent(`"later"`), w.newEvent(`"replayed"`)
		replayed.ID = again.ID // the same event, replayed after the purge
		w.accept(later)
		second := newRun()
		replay(replayed, second)
		time.Sleep(7 * time.Second)
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].Paused = false })
		all := w.outcomes(count(2, event.Delivered))
		got := map[string][]string{}
		for _, outcome := range all {
			name := map[id.ID]string{before.ID: "before", again.ID: "again", later.ID: "later"}[outcome.Event]
			if outcome.Run == second {
				name = "replayed"
			}
			got[name] = append(got[name], statuses([]*event.Outcome{outcome})...)
		}
		want := map[string][]string{
			"before": {"held manual", "skipped purged"}, "later": {"held manual", "delivered"},
			// the purged replay restores the earlier status
			"again": {"held manual", "failed not_retryable"}, "replayed": {"held manual", "delivered"},
		}
		is.Same(t, got, want)
	})
}

// Three consecutive events answered with 410 disable the destination if the configuration can be written. No lane
// waits for the write, and a concurrent change by a user wins.
func TestGoneDestinationIsDisabled(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(_ int, r received) int {
			if r.path != "/hook" {
				return 200
			}
			return 410
		}})
		w.endpoint(url)
		dest := func() config.Destination {
			endpoint, _ := w.view.Endpoint(testEndpoint)
			return endpoint.Destinations[0]
		}
		write := make(chan error)
		w.view.during(func() error { return <-write })
		w.start(testConfig())
		send := func(n int) {
			for range n {
				w.accept(w.newEvent(`{}`))
				time.Sleep(time.Second)
			}
		}
		send(2)
		must.Equal(t, w.view.written(), 0, "disabled after two")
		send(1)
		write <- fmt.Errorf("the configuration log is unavailable")
		time.Sleep(time.Minute)
		if w.view.written() != 1 || !dest().Enabled {
			t.Fatalf("%d writes", w.view.written())
		}
		send(1) // tries again
		write <- nil
		time.Sleep(time.Second)
		if x := dest(); x.Enabled || x.StateReason != "gone_410" ||
			w.metric("relay_dispatch_destinations_disabled_total", "") != 1 {
			t.Fatalf("after four: %+v", x)
		}
		send(1)
		got := statuses(w.outcomes(count(5)))
		if d := cmp.Diff([]string{"failed gone_410", "failed gone_410", "failed gone_410", "failed gone_410",
			"skipped destination_disabled"}, got); d != "" {
			t.Error(d)
		}

		// After it is enabled again, the count starts at 0. Then the URL changes while the write is running.
		enable := func(url string) {
			w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
				endpoint.Destinations[0].URL, endpoint.Destinations[0].Enabled, endpoint.Destinations[0].StateReason = url, true, ""
			})
		}
		enable(url)
		send(2)
		must.Equal(t, w.view.written(), 2, "the count did not start again")
		w.view.during(func() error { enable(url + "/new"); return nil })
		send(1)
		if x := dest(); !x.Enabled || w.view.written() != 3 {
			t.Errorf("the user's change is lost: %+v", x)
		}
		send(1)
		all := w.outcomes(count(9))
		if last := all[8]; last.Status != event.Delivered {
			t.Errorf("at the new URL: %+v", last)
		}
	})
}
