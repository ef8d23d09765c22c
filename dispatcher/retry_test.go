package dispatcher

import (
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func policy(change ...func(*retry.Policy)) retry.Policy {
	policy := retry.Default()
	policy.Jitter = 0
	for _, f := range change {
		f(&policy)
	}
	return policy
}

func TestBaseDelay(t *testing.T) {
	seen := map[string]bool{}
	f := func(policy retry.Policy, want ...time.Duration) {
		t.Helper()
		seen[policy.Strategy] = true
		for i, w := range want {
			if got := baseDelay(policy, i+1); got != w {
				t.Errorf("%s after %d failures: %v, want %v", policy.Strategy, i+1, got, w)
			}
		}
	}
	const s, h = time.Second, time.Hour
	f(policy(), 5*s, 300*s, 1800*s, 2*h, 5*h, 10*h, 14*h, 20*h, 24*h, 24*h)
	f(retry.Policy{Strategy: "schedule", ScheduleSeconds: []int{1, 7}}, s, 7*s, 7*s, 7*s)
	f(retry.Policy{Strategy: "exponential", InitialSeconds: 5, Multiplier: 2, MaxSeconds: 43200}, 5*s, 10*s, 20*s,
		40*s)
	f(retry.Policy{Strategy: "exponential", InitialSeconds: 5, Multiplier: 1.5, MaxSeconds: 10}, 5*s,
		7500*time.Millisecond, 10*s, 10*s)
	f(retry.Policy{Strategy: "linear", IntervalSeconds: 90}, 90*s, 90*s, 90*s)
	f(retry.Policy{Strategy: "none"}, 0)
	f(retry.Policy{Strategy: "schedule"}, 0)
	// A strategy of a newer version: as the default, not without a delay.
	f(retry.Policy{Strategy: "of_a_later_version"}, 5*s, 300*s, 1800*s, 2*h)
	for _, name := range retry.StrategyNames() {
		if !seen[name] {
			t.Errorf("nothing says how long %s waits", name)
		}
	}
}

func TestDelaysNeverOverflow(t *testing.T) {
	for _, strategy := range append(retry.StrategyNames(), "of_a_later_version") {
		policy := retry.Policy{
			Strategy: strategy, MaxAttempts: math.MaxInt, Jitter: 1, RespectRetryAfter: true,
			MaxRetryAfterSeconds: math.MaxInt,
		}
		for _, m := range policy.Members() {
			switch at := m.Field(&policy).(type) {
			case *int:
				*at = math.MaxInt
			case *float64:
				*at = math.MaxFloat64
			case *[]int:
				*at = []int{math.MaxInt}
			}
		}
		for _, failed := range []int{1, 2, 50, math.MaxInt} {
			for _, random := range []float64{0, 0.5, 0.999} {
				if d := retryDelay(policy, failed, maxDelay, random); d < 0 || d > maxDelay {
					t.Fatalf("%s after %d failures: %v", strategy, failed, d)
				}
			}
		}
		want := maxDelay
		if strategy == retry.None {
			want = deadlineGrace
		}
		must.Equal(t, scheduleLength(policy), want, "chain length of %s", strategy)
	}
}

func TestJitter(t *testing.T) {
	policy := policy(func(p *retry.Policy) { p.Jitter = 0.1 })
	f := func(random float64, want time.Duration) {
		t.Helper()
		is.Equal(t, retryDelay(policy, 2, 0, random).Round(time.Millisecond), want, "random %v", random)
	}
	f(0, 270*time.Second)
	f(0.5, 300*time.Second)
	f(0.75, 315*time.Second)
	// Jitter moves the schedule, not the receiver's Retry-After.
	is.Equal(t, retryDelay(policy, 2, time.Hour, 0), time.Hour, "Retry-After of an hour became")
}

func TestRetryAfterIsCapped(t *testing.T) {
	f := func(policy retry.Policy, asked, want time.Duration) {
		t.Helper()
		is.Equal(t, retryDelay(policy, 1, asked, 0.5), want, "asked for %v", asked)
	}
	f(policy(), 0, 5*time.Second)
	f(policy(), 3*time.Second, 5*time.Second)
	f(policy(), time.Minute, time.Minute)
	f(policy(), maxDelay, 24*time.Hour)
	f(policy(func(p *retry.Policy) { p.MaxRetryAfterSeconds = 30 }), time.Minute, 30*time.Second)
	f(policy(func(p *retry.Policy) { p.RespectRetryAfter = false }), time.Minute, 5*time.Second)
}

var refused = destination.Classification{Class: destination.Retryable, Code: event.CodeConnectionRefused}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	expiry := now.AddDate(0, 0, 30)
	f := func(name string, work event.Work, classified destination.Classification, policy retry.Policy, want nextStep) {
		t.Helper()
		work.Event = &event.Event{}
		is.Equal(t, decide(&work, classified, policy, 0, now, expiry, 0.5), want, name)
	}
	first := event.Work{Attempt: 1}
	f("delivered", first, destination.Classification{}, policy(), nextStep{status: event.Delivered})
	f("gone", first, destination.Classification{Class: destination.Final, Reason: event.Gone410}, policy(),
		nextStep{status: event.Failed, reason: event.Gone410})
	f("first retry", first, refused, policy(), nextStep{event.Retrying, "", now.Add(5 * time.Second),
		now.Add(5*time.Second + scheduleLength(policy()))})
	f("an attempt after the deadline of the one before", event.Work{Attempt: 2, Deadline: now.Add(-time.Hour)}, refused,
		policy(), nextStep{event.Retrying, "", now.Add(5 * time.Minute), now.Add(5*time.Minute + scheduleLength(policy()))})
	f("last attempt", event.Work{Attempt: 10}, refused, policy(),
		nextStep{status: event.Failed, reason: event.AttemptsExhausted})
	f("no retries", first, refused, policy(func(p *retry.Policy) { p.Strategy = "none" }),
		nextStep{status: event.Failed, reason: event.AttemptsExhausted})
	f("budget cut meanwhile", event.Work{Attempt: 5}, refused, policy(func(p *retry.Policy) { p.MaxAttempts = 3 }),
		nextStep{status: event.Failed, reason: event.AttemptsExhausted})
	work := event.Work{Event: &event.Event{ExpiresAt: now.Add(5 * time.Second)}, Attempt: 1}
	if got := decide(&work, refused, policy(), 0, now, expiry, 0.5); got.status != event.Skipped ||
		got.reason != event.Expired {
		t.Errorf("it expires when the retry is due: %+v", got)
	}
	work.Event.ExpiresAt = time.Time{}
	if got := decide(&work, refused, policy(), 0, now, now.Add(3*time.Second),
		0.5); got != (nextStep{status: event.Failed, reason: event.PayloadExpired}) {
		t.Errorf("payload expires first: %+v", got)
	}
}

// The default policy through all passes on a clock that jumps: ten attempts within three days and their jitter, none
// early.
func TestThreeDaysOfRetries(t *testing.T) {
	tiers := stream.Tiers()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		policy := retry.Default()
		start := time.UnixMilli(1_800_000_000_000)
		now, expiry := start, start.AddDate(0, 0, 30)
		work := &event.Work{Event: &event.Event{}, Attempt: 1}
		for {
			next := decide(work, refused, policy, 0, now, expiry, r.Float64())
			if next.status != event.Retrying {
				if next.reason != event.AttemptsExhausted || work.Attempt != 10 {
					t.Fatalf("seed %d: %+v after attempt %d", seed, next, work.Attempt)
				}
				break
			}
			wait := next.due.Sub(now)
			base := baseDelay(policy, work.Attempt)
			if wait < base*9/10 || wait > base*11/10 {
				t.Fatalf("seed %d: %v after attempt %d, the schedule says %v", seed, wait, work.Attempt, base)
			}
			for now.Before(next.due) {
				tier := lane.TierFor(tiers, next.due.Sub(now))
				now = lane.ReadyAt(next.due, now, now, tier.Delay)
			}
			if late := now.Sub(next.due); late > lane.Slack(wait) {
				t.Fatalf("seed %d: %v late", seed, late)
			}
			work = &event.Work{Event: work.Event, Attempt: work.Attempt + 1, Due: next.due, Deadline: next.deadline}
		}
		if took := now.Sub(start); took < 65*time.Hour || took > 84*time.Hour {
			t.Fatalf("seed %d: the chain took %v", seed, took)
		}
	}
}

// A destination with a policy of its own has its attempts by that, beside one with the endpoint's.
func TestRetriesOfADestination(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_own", "dst_shared")
	endpoint.RetryPolicy = policy(func(p *retry.Policy) { p.MaxAttempts = 4 })
	own := retry.Policy{Strategy: retry.Schedule, ScheduleSeconds: []int{60}, MaxAttempts: 2, RetryOn: []string{}}
	endpoint.Destinations[0].RetryPolicy = &own
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		var mu sync.Mutex
		attempts := map[string]int{}
		s.answer = func(dest string, _ time.Time) (time.Duration, int) {
			mu.Lock()
			defer mu.Unlock()
			attempts[dest]++
			return time.Millisecond, 500
		}
		s.accept(endpoint)
		time.Sleep(24 * time.Hour)
		is.Equal(t, s.statuses()["failed attempts_exhausted"], 2)
		is.Equal(t, attempts["dst_own"], 2)
		is.Equal(t, attempts["dst_shared"], 4)
	})
}

// An event with a deliver_at waits in the retry topics, also through a restart, and is delivered once, not before.
func TestDeliverAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		_, stop := w.start(testConfig())
		ev := w.newEvent(`{}`)
		ev.DeliverAt = time.Now().Add(150*time.Minute + 123*time.Millisecond)
		w.accept(ev)
		scheduled := w.outcomes(count(1))[0]
		if scheduled.Status != event.Pending || scheduled.Reason != event.Scheduled ||
			scheduled.NextAt.Sub(ev.DeliverAt).Abs() > time.Millisecond {
			t.Errorf("the outcome is %+v", scheduled)
		}
		time.Sleep(time.Hour)
		stop()
		time.Sleep(time.Minute)
		w.start(testConfig())
		w.outcomes(count(1, event.Delivered))
		time.Sleep(time.Minute)
		got := s.all()
		if late := got[0].at.Sub(ev.DeliverAt); len(got) != 1 || late < 0 || late > 2*time.Second {
			t.Errorf("%d requests, the first %v late", len(got), late)
		}
	})
}

// From its expires_at on no attempt is made: none that waits, and no retry. The delivery ends as skipped.
func TestExpiresAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var requests atomic.Int64
		s := &sink{answer: func(int, received) int { requests.Add(1); return 503 }}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy.IntervalSeconds = 20
		w.start(testConfig())
		f := func(inform func(*event.Event), attempts int64, within time.Duration) {
			t.Helper()
			requests.Store(0)
			ev := w.newEvent(`{}`)
			ev.ExpiresAt = time.Now().Add(time.Minute)
			inform(ev)
			w.accept(ev)
			time.Sleep(within)
			last := newestOutcomes(t, w.outcomes(func(all []*event.Outcome) bool {
				return all[len(all)-1].Event == ev.ID && all[len(all)-1].Status.Terminal()
			}))[ev.ID]
			if last.Status != event.Skipped || last.Reason != event.Expired || requests.Load() != attempts {
				t.Errorf("%s %s after %d requests", last.Status, last.Reason, requests.Load())
			}
		}
		f(func(*event.Event) {}, 3, 50*time.Second) // after 0, 20, 40 s; the next one would come at the end
		f(func(ev *event.Event) { ev.DeliverAt = ev.ExpiresAt.Add(-time.Second) }, 1, 70*time.Second)
		paused := *endpoint
		paused.Paused = true
		w.view.put(&paused)
		f(func(*event.Event) {}, 0, 70*time.Second)
	})
}

func TestDeliver(t *testing.T) {
	w := newWorld(t, 1)
	s := &sink{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	w.endpoint(srv.URL)
	_, stop := w.start(testConfig())
	w.accept(w.newEvent(`{"a":1}`), w.newEvent(`{"a":2}`))
	got := w.outcomes(count(2, event.Delivered))
	if len(got) != 2 || got[0].Attempt == nil || !got[0].Attempt.OK || got[0].Code != 200 {
		t.Fatalf("outcomes: %+v", got)
	}
	stop()
	must.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 2, "committed offset")
	if r := s.all(); len(r) != 2 {
		t.Fatalf("%d requests, want 2", len(r))
	}
}

func TestRetryUntilDelivered(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(n int, _ received) int {
			if n < 3 {
				return 503
			}
			return 204
		}})
		w.endpoint(url)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		got := w.outcomes(count(1, event.Delivered))
		if len(got) != 3 || got[0].Status != event.Retrying || got[1].Status != event.Retrying {
			t.Fatalf("outcomes: %+v", got)
		}
		failed, delivered := got[0].Attempt, got[2].Attempt
		if failed.ErrorMessage != "the destination answered 503 Service Unavailable" || delivered.ErrorMessage != "" {
			t.Errorf("the attempts say %q and %q", failed.ErrorMessage, delivered.ErrorMessage)
		}
	})
}
