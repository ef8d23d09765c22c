package dispatcher

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// statuses lists status and reason of the outcomes.
func statuses(all []*event.Outcome) []string {
	var texts []string
	for _, outcome := range all {
		text := string(outcome.Status)
		if outcome.Reason != "" {
			text += " " + string(outcome.Reason)
		}
		texts = append(texts, text)
	}
	return texts
}

// checkTimes asserts that no attempt is earlier than the time that the outcome before it reported, nor later than the
// slack of its wait.
func checkTimes(t *testing.T, all []*event.Outcome) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		promised, was := all[i-1].NextAt, all[i].Attempt.StartedAt
		if was.Before(promised) {
			t.Errorf("attempt %d was %v early", i+1, promised.Sub(was))
		}
		wait := promised.Sub(all[i-1].At)
		if late := was.Sub(promised); late > lane.Slack(wait) {
			t.Errorf("attempt %d was %v late after %v", i+1, late, wait)
		}
	}
}

func TestScheduleThroughTheTiers(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(int, received) int { return 500 }})
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy = retry.Policy{
			Strategy: "schedule", ScheduleSeconds: []int{1, 7, 90, 1000}, MaxAttempts: 5,
			Jitter: 0.1}
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		all := w.outcomes(count(1, event.Failed))
		want := append(slices.Repeat([]string{"retrying"}, 4), "failed attempts_exhausted")
		must.Equal(t, cmp.Diff(want, statuses(all)), "")
		checkTimes(t, all)
		if w.metric("relay_dispatch_attempts_total", "http_status") != 5 ||
			w.metric("relay_dispatch_outcomes_total", "attempts_exhausted") != 1 ||
			w.metric("relay_dispatch_retry_lateness_seconds", "") != 4 ||
			w.metric("relay_dispatch_attempt_duration_seconds", "") != 5 {
			t.Error("the metrics do not count five attempts, four of them retries, and one failure")
		}
		for i, base := range []time.Duration{1, 7, 90, 1000} {
			wait := all[i].NextAt.Sub(all[i].Attempt.StartedAt)
			if base *= time.Second; wait < base*9/10-time.Millisecond || wait > base*11/10+time.Millisecond {
				t.Errorf("wait %d: %v, want %v ± 10 %%", i+1, wait, base)
			}
		}
	})
}

func TestRetryAfterOverHTTP(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		n := 0
		url, _ := w.serve(80, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			n++
			switch n {
			case 1:
				rw.Header().Set("Retry-After", "40")
			case 2:
				rw.Header().Set("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
			case 3:
				rw.Header().Set("Retry-After", "99999999999999999999")
			case 4:
				rw.Header().Set("Retry-After", "in a while")
			default:
				return
			}
			rw.WriteHeader(http.StatusServiceUnavailable)
		}))
		w.endpoint(url).RetryPolicy.MaxRetryAfterSeconds = 200
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		all := w.outcomes(count(1, event.Delivered))
		checkTimes(t, all)
		for i, want := range []time.Duration{40, 90, 200, 1} {
			wait := all[i].NextAt.Sub(all[i].At).Round(time.Second) // the date has seconds only
			if want *= time.Second; wait != want {
				t.Errorf("wait %d: %v, want %v", i+1, wait, want)
			}
		}
		if got := all[2].Attempt.RetryAfter; got < 365*24*time.Hour {
			t.Errorf("recorded Retry-After %v is not that of the receiver", got)
		}
	})
}

// A receiver ends a delivery that it has not accepted, or disables its destination, with a header of its answer. An
// event that it has accepted is delivered all the same; other words mean nothing.
func TestReceiverSteersItsDeliveries(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		answers := []struct {
			status int
			asks   string
		}{{500, "abort-message"}, {200, "Abort-Message"}, {503, "stop"}, {200, ""}, {503, "Disable"}}
		n := 0
		url, _ := w.serve(80, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			answer := answers[min(n, len(answers)-1)]
			n++
			rw.Header().Set("webhook-delivery", answer.asks)
			rw.WriteHeader(answer.status)
		}))
		w.endpoint(url)
		w.start(testConfig())
		for range 5 {
			w.accept(w.newEvent(`{}`))
			time.Sleep(time.Minute)
		}
		want := []string{"failed receiver_aborted", "delivered", "retrying", "delivered", "failed receiver_disabled",
			"skipped destination_disabled"}
		is.Same(t, statuses(w.outcomes(count(5, event.Delivered, event.Failed, event.Skipped))), want)
		e, _ := w.view.Endpoint(testEndpoint)
		if d := e.Destinations[0]; d.Enabled || d.StateReason != "receiver_disabled" || n != len(answers) {
			t.Errorf("%d requests, then %+v", n, d)
		}
	})
}

// A destination is down under traffic for one second less than its breaker needs to open: everything arrives, and
// nothing is sent early.
func TestDestinationDownFor29Seconds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		endpoint := w.endpoint("http://localhost:80/hook")
		endpoint.RetryPolicy = retry.Default()
		w.start(testConfig())
		start := time.Now()
		s := &sink{}
		const events = 600
		for i := range events {
			w.accept(w.newEvent(fmt.Sprintf(`{"n":%d}`, i)))
			time.Sleep(100 * time.Millisecond)
			if i == 290 {
				w.serve(80, s)
			}
		}
		all := w.outcomes(count(events, event.Delivered))
		bodies := map[string]int{}
		for _, r := range s.all() {
			bodies[string(r.body)]++
		}
		is.Equal(t, len(bodies), events, "of %d events arrived", events)
		is.Equal(t, len(s.all()), events, "requests for %d events", events)
		chains := map[string][]*event.Outcome{}
		for _, outcome := range all {
			chains[outcome.Event.String()] = append(chains[outcome.Event.String()], outcome)
		}
		for _, chain := range chains {
			checkTimes(t, chain)
		}
		if len(all) < events+290 {
			t.Errorf("%d outcomes: the destination was not down", len(all))
		}
		t.Logf("%v of traffic and retries", time.Since(start))
	})
}

// Hanging destinations delay no other destination.
func TestHungDestinationsBesideAGoodOne(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *bubbleWorld) {
		const hung = 30
		never := make(chan struct{})
		defer close(never)
		stuck, _ := w.serve(80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-never:
			case <-r.Context().Done():
			}
		}))
		s := &sink{}
		good, _ := w.serve(81, s)
		urls := append(slices.Repeat([]string{stuck}, hung), good)
		endpoint := w.endpoint(urls...)
		endpoint.RetryPolicy = retry.Default()
		var dests []string
		for _, d := range endpoint.Destinations {
			dests = append(dests, d.ID)
		}
		cfg := testConfig()
		cfg.MaxInFlight = 512
		w.start(cfg)
		const events = 100 // 3,000 deliveries to the hung ones, of which 512 may be in flight
		sent := map[string]time.Time{}
		for i := range events {
			body := fmt.Sprintf(`{"n":%d}`, i)
			sent[body] = time.Now()
			w.accept(w.newEvent(body, dests...))
			time.Sleep(20 * time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		got := s.all()
		for _, r := range got {
			if late := r.at.Sub(sent[string(r.body)]); late > time.Second {
				t.Fatalf("the good destination waited %v", late)
			}
		}
		must.Equal(t, len(got), events, "of %d arrived at the good destination", events)
	})
}

// A tier has far more records than may be held: memory stays bounded, live events are not delayed, and everything is
// delivered when it is due.
func TestDeepTier(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		const pending = 6_000
		due := time.Now().Add(time.Minute)
		done := make(chan error, pending)
		for range pending {
			work := &event.Work{Event: w.newEvent(`{"n":1}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2, Due: due}
			record := must.Get(work.Record())(t)
			w.producer.Produce("retry.1m", 0, record, func(_ *stream.Record, err error) { done <- err })
		}
		for range pending {
			must.Do(t, <-done)
		}
		cfg := testConfig()
		cfg.MaxWaitingBytes = 1 << 20 // a single tier may hold half of it
		d, _ := w.start(cfg)
		time.Sleep(10 * time.Second)
		p := d.assignment.partition(stream.Partition{Topic: "retry.1m"})
		p.mu.Lock()
		held, bytes, paused := len(p.waiting), p.waitingBytes, p.paused
		p.mu.Unlock()
		if !paused || held > maxWaiting+maxPollRecords || bytes > 512<<10+maxPollRecords*2048 {
			t.Errorf("%d records, %d bytes are held, paused %v", held, bytes, paused)
		}
		is.Equal(t, w.metric("relay_dispatch_tier_records", "retry.1m"), pending,
			"the metric counts: records in the tier, %d wait", pending)
		before := time.Now()
		w.accept(w.newEvent(`{"live":true}`))
		w.outcomes(count(1, event.Delivered))
		if took := time.Since(before); took > 100*time.Millisecond {
			t.Errorf("a live event took %v beside a deep tier", took)
		}
		all := w.outcomes(count(pending+1, event.Delivered))
		for _, outcome := range all {
			if outcome.Attempt.Trigger != event.TriggerRetry {
				continue
			}
			if early := due.Sub(outcome.Attempt.StartedAt); early > time.Millisecond {
				t.Fatalf("%v early", early)
			}
		}
		last := all[len(all)-1].Attempt.StartedAt
		t.Logf("%d pending: %d held in %d bytes, the last was sent %v after it was due", pending, held, bytes, last.Sub(due))
		if late := last.Sub(due); late > lane.Slack(time.Minute) {
			t.Errorf("the last was %v late", late)
		}
	})
}

// A delivery that a replay has made is not repeated by its waiting retry. Retries of other events are unaffected.
func TestReplayEndsTheWaitingRetry(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var up atomic.Bool
		s := &sink{answer: func(int, received) int {
			if up.Load() {
				return 200
			}
			return 500
		}}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 60, MaxAttempts: 3}
		w.start(testConfig())
		replayed, other := w.newEvent(`{"n":1}`), w.newEvent(`{"n":2}`)
		w.accept(replayed)
		w.accept(other)
		w.outcomes(count(2))
		up.Store(true)
		w.command(&event.Work{Event: replayed, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: "run_1"})
		all := w.outcomes(count(5))
		last := map[string]string{}
		for _, outcome := range all {
			last[outcome.Event.String()+outcome.Run] = string(outcome.Status) + string(outcome.Reason)
		}
		want := map[string]string{
			replayed.ID.String() + "run_1": "delivered", replayed.ID.String(): "skippedsuperseded",
			other.ID.String(): "delivered",
		}
		is.Same(t, last, want)
		is.Equal(t, len(s.all()), 4, "requests")
	})
}

func TestSupersededIsBounded(t *testing.T) {
	var s superseded
	of := func(n int) lane.DeliveryKey { return lane.DeliveryKey{Dest: fmt.Sprint(n)} }
	for n := range maxSuperseded + 10 {
		s.add(of(n), time.Unix(20, 0))
		s.add(of(n), time.Unix(10, 0))
	}
	has := func(n int) bool { return s.hasSince(of(n), time.Unix(20, 0)) }
	if has(9) || !has(10) || !has(maxSuperseded+9) || len(s.known) != maxSuperseded {
		t.Errorf("%d are known", len(s.known))
	}
	if s.hasSince(of(10), time.Unix(21, 0)) {
		t.Error("a success counts for what began after it")
	}
	s.add(of(10), time.Unix(21, 0))
	if !s.hasSince(of(10), time.Unix(21, 0)) || s.order[9] != of(maxSuperseded+9) || s.next != 10 {
		t.Errorf("the last success began at %v, the oldest key is %v", s.known[of(10)], s.order[s.next])
	}
}
