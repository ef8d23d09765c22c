package dispatcher

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

func policy(change ...func(*config.RetryPolicy)) config.RetryPolicy {
	p := config.DefaultRetryPolicy()
	p.Jitter = 0
	for _, f := range change {
		f(&p)
	}
	return p
}

func TestBaseDelay(t *testing.T) {
	seen := map[string]bool{}
	f := func(p config.RetryPolicy, want ...time.Duration) {
		t.Helper()
		seen[p.Strategy] = true
		for i, w := range want {
			if got := baseDelay(p, i+1); got != w {
				t.Errorf("%s after %d failures: %v, want %v", p.Strategy, i+1, got, w)
			}
		}
	}
	const s, h = time.Second, time.Hour
	f(policy(), 5*s, 300*s, 1800*s, 2*h, 5*h, 10*h, 14*h, 20*h, 24*h, 24*h)
	f(config.RetryPolicy{Strategy: "schedule", ScheduleSeconds: []int{1, 7}}, s, 7*s, 7*s, 7*s)
	f(config.RetryPolicy{Strategy: "exponential", InitialSeconds: 5, Multiplier: 2, MaxSeconds: 43200}, 5*s, 10*s, 20*s,
		40*s)
	f(config.RetryPolicy{Strategy: "exponential", InitialSeconds: 5, Multiplier: 1.5, MaxSeconds: 10}, 5*s,
		7500*time.Millisecond, 10*s, 10*s)
	f(config.RetryPolicy{Strategy: "linear", IntervalSeconds: 90}, 90*s, 90*s, 90*s)
	f(config.RetryPolicy{Strategy: "none"}, 0)
	f(config.RetryPolicy{Strategy: "schedule"}, 0)
	// Of a newer version: as the default, not at once.
	f(config.RetryPolicy{Strategy: "of_a_later_version"}, 5*s, 300*s, 1800*s, 2*h)
	for _, name := range config.RetryStrategyNames() {
		if !seen[name] {
			t.Errorf("nothing says how long %s waits", name)
		}
	}
}

func TestDelaysNeverOverflow(t *testing.T) {
	for _, strategy := range append(config.RetryStrategyNames(), "of_a_later_version") {
		p := config.RetryPolicy{
			Strategy: strategy, MaxAttempts: math.MaxInt, Jitter: 1, RespectRetryAfter: true,
			MaxRetryAfterSeconds: math.MaxInt,
		}
		for _, m := range p.Members() {
			switch at := m.Field(&p).(type) {
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
				if d := retryDelay(p, failed, maxDelay, random); d < 0 || d > maxDelay {
					t.Fatalf("%s after %d failures: %v", strategy, failed, d)
				}
			}
		}
		want := maxDelay
		if strategy == config.RetryNone {
			want = deadlineGrace
		}
		if d := scheduleLength(p); d != want {
			t.Fatalf("chain length of %s: %v", strategy, d)
		}
	}
}

func TestJitter(t *testing.T) {
	p := policy(func(p *config.RetryPolicy) { p.Jitter = 0.1 })
	f := func(random float64, want time.Duration) {
		t.Helper()
		if got := retryDelay(p, 2, 0, random).Round(time.Millisecond); got != want {
			t.Errorf("random %v: %v, want %v", random, got, want)
		}
	}
	f(0, 270*time.Second)
	f(0.5, 300*time.Second)
	f(0.75, 315*time.Second)
	// It moves the schedule, not what the receiver asked for.
	if got := retryDelay(p, 2, time.Hour, 0); got != time.Hour {
		t.Errorf("Retry-After of an hour became %v", got)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		if got := parseRetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	f("", 0)
	f("0", 0)
	f("120", 2*time.Minute)
	f(" 120 ", 2*time.Minute)
	f("-5", 0)
	f("1.5", 0)
	f("soon", 0)
	f("99999999999999", maxDelay)
	f("99999999999999999999999999999999999999", maxDelay)
	f("Fri, 21 Aug 2026 12:00:30 GMT", 30*time.Second)
	f("Friday, 21-Aug-26 12:00:30 GMT", 30*time.Second) // the two obsolete forms of RFC 9110, 5.6.7
	f("Fri Aug 21 12:00:30 2026", 30*time.Second)
	f("Fri, 21 Aug 2026 11:59:30 GMT", 0)
	f("Fri, 21 Aug 9999 12:00:00 GMT", maxDelay)
}

func TestRetryAfterIsCapped(t *testing.T) {
	f := func(p config.RetryPolicy, asked, want time.Duration) {
		t.Helper()
		if got := retryDelay(p, 1, asked, 0.5); got != want {
			t.Errorf("asked for %v: %v, want %v", asked, got, want)
		}
	}
	f(policy(), 0, 5*time.Second)
	f(policy(), 3*time.Second, 5*time.Second)
	f(policy(), time.Minute, time.Minute)
	f(policy(), maxDelay, 24*time.Hour)
	f(policy(func(p *config.RetryPolicy) { p.MaxRetryAfterSeconds = 30 }), time.Minute, 30*time.Second)
	f(policy(func(p *config.RetryPolicy) { p.RespectRetryAfter = false }), time.Minute, 5*time.Second)
}

var refused = classification{fate: retry, code: event.CodeConnectionRefused}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	expiry := now.AddDate(0, 0, 30)
	f := func(name string, w event.Work, v classification, p config.RetryPolicy, want next) {
		t.Helper()
		if got := decide(&w, v, p, 0, now, expiry, 0.5); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	first := event.Work{Attempt: 1}
	f("delivered", first, classification{}, policy(), next{status: event.Delivered})
	f("gone", first, classification{fate: fail, reason: event.Gone410}, policy(),
		next{status: event.Failed, reason: event.Gone410})
	f("first retry", first, refused, policy(), next{event.Retrying, "", now.Add(5 * time.Second),
		now.Add(scheduleLength(policy()))})
	f("the deadline stays", event.Work{Attempt: 2, Deadline: now.Add(time.Hour)}, refused, policy(),
		next{event.Retrying, "", now.Add(5 * time.Minute), now.Add(time.Hour)})
	f("beyond the deadline", event.Work{Attempt: 2, Deadline: now.Add(time.Minute)}, refused, policy(),
		next{status: event.Failed, reason: event.AttemptsExhausted})
	f("last attempt", event.Work{Attempt: 10}, refused, policy(),
		next{status: event.Failed, reason: event.AttemptsExhausted})
	f("no retries", first, refused, policy(func(p *config.RetryPolicy) { p.Strategy = "none" }),
		next{status: event.Failed, reason: event.AttemptsExhausted})
	f("budget cut meanwhile", event.Work{Attempt: 5}, refused, policy(func(p *config.RetryPolicy) { p.MaxAttempts = 3 }),
		next{status: event.Failed, reason: event.AttemptsExhausted})
	w := event.Work{Attempt: 1}
	if got := decide(&w, refused, policy(), 0, now, now.Add(3*time.Second),
		0.5); got != (next{status: event.Failed, reason: event.PayloadExpired}) {
		t.Errorf("payload expires first: %+v", got)
	}
}

// The default policy through all its hops on a clock that jumps: ten attempts within three days and
// its jitter, none early.
func TestThreeDaysOfRetries(t *testing.T) {
	tiers := stream.Tiers()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := config.DefaultRetryPolicy()
		start := time.UnixMilli(1_800_000_000_000)
		now, expiry := start, start.AddDate(0, 0, 30)
		w := &event.Work{Attempt: 1}
		for {
			n := decide(w, refused, p, 0, now, expiry, r.Float64())
			if n.status != event.Retrying {
				if n.reason != event.AttemptsExhausted || w.Attempt != 10 {
					t.Fatalf("seed %d: %+v after attempt %d", seed, n, w.Attempt)
				}
				break
			}
			wait := n.due.Sub(now)
			base := baseDelay(p, w.Attempt)
			if wait < base*9/10 || wait > base*11/10 {
				t.Fatalf("seed %d: %v after attempt %d, the schedule says %v", seed, wait, w.Attempt, base)
			}
			for now.Before(n.due) {
				tier := lane.TierFor(tiers, n.due.Sub(now))
				now = lane.ReadyAt(n.due, now, now, tier.Delay)
			}
			if late := now.Sub(n.due); late > lane.Slack(wait) {
				t.Fatalf("seed %d: %v late", seed, late)
			}
			w = &event.Work{Attempt: w.Attempt + 1, Due: n.due, Deadline: n.deadline}
		}
		if took := now.Sub(start); took < 65*time.Hour || took > 84*time.Hour {
			t.Fatalf("seed %d: the chain took %v", seed, took)
		}
	}
}
