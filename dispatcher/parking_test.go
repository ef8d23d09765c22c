package dispatcher

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Waiting deliveries end when they must, wherever they wait: each re-check evaluates the configuration.
func TestParkedDeliveriesEndByPolicy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.endpoint("http://localhost:80/hook")
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Paused = true })
		cfg := testConfig()
		cfg.RetentionDays = 1
		w.start(cfg)
		now := time.Now()
		work := func(age, deadline time.Duration) {
			ev := w.newEvent(`{}`)
			old := must.Get(w.idsAt(now.Add(-age)))(t)
			ev.ID = old
			work := &event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2}
			if deadline > 0 {
				work.Deadline = now.Add(deadline)
			}
			w.command(work)
		}
		work(23*time.Hour+59*time.Minute, 0)
		work(0, time.Minute)
		work(0, 0)
		time.Sleep(2 * time.Minute)
		got := statuses(w.outcomes(count(4)))
		want := []string{"failed payload_expired", "held manual", "held manual", "held manual"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("outcomes %q", got)
		}
		w.view.remove(testEndpoint)
		ended := []string{"skipped endpoint_deleted", "skipped endpoint_deleted"}
		is.List(t, statuses(w.outcomes(count(6)))[4:], ended, "outcomes")
	})
}

// A delivery that has failed waits as long as its endpoint is paused, and has all of its attempts afterwards.
func TestPauseTakesNoAttempts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { return http.StatusServiceUnavailable }}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 5, MaxAttempts: 3}
		endpoint.Paused = true
		w.start(testConfig())
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2,
			Deadline: time.Now().Add(time.Minute)})
		time.Sleep(2 * time.Minute)
		must.Equal(t, len(s.all()), 0, "requests while the endpoint is paused")
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Paused = false })
		want := []string{"held manual", "retrying", "failed attempts_exhausted"}
		is.List(t, statuses(w.outcomes(count(3))), want, "outcomes")
	})
}

// A delivery that waits because the configuration cannot be read has one outcome before its event is committed: lists
// of pending events look for those without an outcome above the committed offsets only.
func TestUncheckedDeliveryIsReportedOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		delete(w.view.endpoints, testEndpoint)
		began := time.Now()
		w.view.onSync = func() error {
			if time.Since(began) < 10*time.Minute {
				return errors.New("the log is unavailable")
			}
			w.view.put(endpoint)
			return nil
		}
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		outcomes := w.outcomes(count(1, event.Delivered))
		got := statuses(outcomes)
		if len(got) != 2 || outcomes[0].Status != event.Pending || outcomes[0].Dest != testDest || len(s.all()) != 1 {
			t.Errorf("%d requests, outcomes %q", len(s.all()), got)
		}
		if !outcomes[1].WasParked {
			t.Error("the delivery does not say that an earlier outcome reported it as waiting")
		}
		if waited := outcomes[1].At.Sub(outcomes[0].At); waited < 5*time.Minute {
			t.Errorf("the first outcome came %v before the delivery", waited)
		}
	})
}

// Many destinations hang, and more is parked for them than memory holds. It costs few retry passes while nothing
// changes. One of them recovers: everything for it arrives within the time that a pass over all parked deliveries
// takes, although they would return much later by themselves.
func TestParkedWorkCostsLittleUntilItsLaneRecovers(t *testing.T) {
	const dests, each = 10, 600
	var endpoints []*config.Endpoint
	for i := range dests {
		endpoints = append(endpoints, simEndpoint(fmt.Sprint("ep_", i), fmt.Sprint("dst_", i)))
	}
	cfg := simConfig()
	cfg.MaxInFlight, cfg.MaxWaitingBytes = 1024, 2<<20 // most of it waits in the log
	simulate(t, cfg, endpoints, func(s *sim) {
		var up atomic.Bool
		s.answer = func(dest string, _ time.Time) (time.Duration, int) {
			if dest == "dst_0" && up.Load() {
				return 50 * time.Millisecond, 200
			}
			return time.Hour, 0
		}
		for range each {
			for _, endpoint := range endpoints {
				s.accept(endpoint)
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(45 * time.Second) // all were re-checked since their lanes hang
		began := time.Now()
		time.Sleep(15 * time.Second)
		if rate := s.passRate(began); rate > 1.1*lane.HungRecheckBudget {
			t.Errorf("%.0f retry passes a second while nothing changes", rate)
		}
		up.Store(true)
		recovered := time.Now()
		// The breaker has opened: its probe is due within half a minute. Requests that run meanwhile are retried later.
		const found, pass = 30 * time.Second, dests * each * time.Second / lane.RecheckBudget
		time.Sleep(found + pass + 2*time.Second)
		s.seen.Lock()
		// A request that timed out as the destination recovered has its own next attempt.
		retried := 0
		for key, outcome := range s.last {
			if key.Dest == "dst_0" && outcome.Status == event.Retrying && outcome.Reason == "" {
				retried++
			}
		}
		n := len(s.succeededAt)
		if n+retried != each || retried > 10 {
			t.Errorf("%d of %d are delivered, %d have a retry of their own", n, each, retried)
		}
		if n > 0 {
			t.Logf("delivered within %v, %v after the first", s.succeededAt[n-1].Sub(recovered),
				s.succeededAt[n-1].Sub(s.succeededAt[0]))
		}
		s.seen.Unlock()
		t.Logf("%.0f retry passes a second since", s.passRate(recovered))
		s.memory("at the end")
	})
}

// What is parked for a paused endpoint costs few retry passes. When it is resumed, everything is delivered
// at RecoveredPace.
func TestPausedWorkCostsLittleUntilItIsResumed(t *testing.T) {
	const events = 5_000
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Paused = true
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		s.answer = func(string, time.Time) (time.Duration, int) { return time.Millisecond, 200 }
		for i := range events {
			s.accept(endpoint)
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(20 * time.Second)
		began := time.Now()
		time.Sleep(20 * time.Second)
		if rate := s.passRate(began); rate > 1.1*lane.HungRecheckBudget {
			t.Errorf("%.0f retry passes a second while it is paused", rate)
		}
		s.view.change("ep_1", func(endpoint *config.Endpoint) { endpoint.Paused = false })
		time.Sleep(time.Second + events*time.Second/lane.RecheckBudget)
		is.Equal(t, s.statuses()["delivered"], events, "of %d are delivered after it was resumed", events)
	})
}

// Re-checks are minutes apart, because 400 lanes have parked deliveries. When a destination has recovered, everything
// for it arrives within seconds: also what was being parked at that moment, which the log has a little later.
func TestWhatIsBeingParkedAtTheRecoveryIsRechecked(t *testing.T) {
	down := simEndpoint("ep_0", "dst_0")
	endpoints := []*config.Endpoint{down}
	for i := range 400 {
		paused := simEndpoint(fmt.Sprint("ep_", i+1), fmt.Sprint("dst_", i+1))
		paused.Paused = true
		endpoints = append(endpoints, paused)
	}
	simulate(t, simConfig(), endpoints, func(s *sim) {
		recordProduced := s.produced
		s.produced = func(topic string, record *stream.Record) time.Duration {
			late := recordProduced(topic, record)
			if strings.HasPrefix(topic, "retry.") {
				late += 300 * time.Millisecond
				record.Timestamp = time.Now().Add(late) // the broker sets it
			}
			return late
		}
		var up atomic.Bool
		s.answer = func(string, time.Time) (time.Duration, int) {
			if up.Load() {
				return 50 * time.Millisecond, 200
			}
			return 0, 0
		}
		for _, endpoint := range endpoints[1:] {
			s.accept(endpoint)
		}
		for i := 0; s.statuses()["delivered"] == 0 && i < 1200; i++ {
			up.Store(i > 450) // its circuit breaker is open since the 30th second
			s.accept(down)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(8 * time.Second)
		if n := s.statuses()["held breaker_open"]; n > 0 {
			t.Errorf("%d deliveries wait for a destination that has recovered", n)
		}
	})
}

// A destination that recovers and is slow has no room for most of what is parked for it. That is parked again, and
// re-checked once, although its new records seem to be from the recovery.
func TestWhatIsParkedAgainAfterTheRecoveryIsNotRechecked(t *testing.T) {
	const events = 2000
	slow := simEndpoint("ep_0", "dst_0")
	endpoints := []*config.Endpoint{slow}
	for i := range 400 { // they make re-checks rare
		endpoints = append(endpoints, simEndpoint(fmt.Sprint("ep_", i+1), fmt.Sprint("dst_", i+1)))
	}
	for _, endpoint := range endpoints {
		endpoint.Paused = true
	}
	simulate(t, simConfig(), endpoints, func(s *sim) {
		s.answer = func(string, time.Time) (time.Duration, int) { return 10 * time.Second, 200 }
		for _, endpoint := range endpoints[1:] {
			s.accept(endpoint)
		}
		for i := range events {
			s.accept(slow)
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(5 * time.Minute)
		before := s.passesInAll()
		s.view.change("ep_0", func(endpoint *config.Endpoint) { endpoint.Paused = false })
		time.Sleep(time.Second + readLag)
		if passes := s.passesInAll() - before; passes == 0 || passes > 1.2*events {
			t.Errorf("%d retry passes for %d deliveries", passes, events)
		}
	})
}

// If the clock is set back during a pass over all parked deliveries, the pass ends in a minute all the same.
func TestPassEndsAfterTheClockIsSetBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	clock := func() time.Time { return now }
	c := &recheck{
		deliveries: &deliveries{now: clock, lanes: lane.New(lane.Config{}, lane.Deps{Now: clock})},
		assignment: newAssignment(),
	}
	c.assignment.added.Store(true)
	c.run()
	if c.pass.from.IsZero() {
		t.Fatal("no pass has begun")
	}
	now = now.Add(-30 * 24 * time.Hour)
	for range 3 {
		c.run()
		now = now.Add(minRecheckSpan)
	}
	if !c.pass.from.IsZero() {
		t.Error("the pass goes on")
	}
}

// What was parked in the very millisecond in which its lane recovered is re-checked with the rest: records carry
// milliseconds. What was parked later is not, nor are retries and deliveries that wait for their rate.
func TestWhatIsRecheckedOnRecovery(t *testing.T) {
	p, _ := testPartition(t, "retry.1h", time.Hour)
	recovered := time.UnixMilli(1_800_000_000_000)
	for o, work := range []struct {
		parked event.Reason
		after  time.Duration
	}{
		{event.BreakerOpen, -time.Minute}, {event.LaneFull, 0}, {event.LaneFull, time.Millisecond},
		{event.Paced, -time.Minute}, {"", -time.Minute},
	} {
		p.addWaiting(&lane.Delivery{
			Slot: p.beginRecord(int64(o), 1), Work: &event.Work{Parked: work.parked}, Size: 1,
			ParkedAt: recovered.Add(work.after), ReadyAt: recovered.Add(time.Hour),
		})
	}
	taken := p.takeParked(recovered, 10, func(*lane.Delivery) bool { return true })
	if len(taken) != 2 || len(p.waiting) != 3 || taken[0].ParkedAt.After(recovered) || taken[1].ParkedAt.After(recovered) {
		t.Errorf("%d taken, %d wait on", len(taken), len(p.waiting))
	}
}

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

// Three consecutive events answered with 410, over some minutes, disable the destination if the configuration can be
// written. No lane waits for the write, and a concurrent change by a user wins. What comes within a day waits.
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
				time.Sleep(95 * time.Second)
			}
		}
		send(2)
		must.Equal(t, w.view.written(), 0, "disabled after two")
		w.accept(w.newEvent(`{}`))
		write <- fmt.Errorf("the configuration log is unavailable")
		time.Sleep(time.Minute)
		if w.view.written() != 1 || !dest().Enabled {
			t.Fatalf("%d writes", w.view.written())
		}
		w.accept(w.newEvent(`{}`)) // tries again
		write <- nil
		time.Sleep(time.Second)
		if x := dest(); x.Enabled || x.StateReason != "gone_410" ||
			w.metric("relay_dispatch_destinations_disabled_total", "") != 1 {
			t.Fatalf("after four: %+v", x)
		}
		endpoint, _ := w.view.Endpoint(testEndpoint)
		is.Same(t, endpoint.EnabledDestinations(), []string{testDest}) // new events wait, too
		w.accept(w.newEvent(`{}`))
		time.Sleep(time.Minute)
		got := statuses(w.outcomes(count(5)))
		if d := cmp.Diff([]string{"failed gone_410", "failed gone_410", "failed gone_410", "failed gone_410",
			"held manual"}, got); d != "" {
			t.Error(d)
		}
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
			endpoint.Destinations[0].GoneAt = time.Now().Add(-config.GoneHold)
		})
		got = statuses(w.outcomes(count(6)))
		is.Equal(t, got[5], "skipped destination_disabled", "after a day")

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
		all := w.outcomes(count(10))
		if last := all[9]; last.Status != event.Delivered {
			t.Errorf("at the new URL: %+v", last)
		}
	})
}
