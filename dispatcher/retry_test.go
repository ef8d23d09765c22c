package dispatcher

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
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
