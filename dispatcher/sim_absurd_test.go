package dispatcher

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// extremeHeaders are Retry-After values that receivers may send, valid and invalid.
func extremeHeaders() []string {
	return []string{
		"", " ", "0", "-0", "-1", "-5", "-9223372036854775808", "-99999999999999999999999", "1", "120", "+120", "120.5",
		"1e30", "-1e30", "NaN", "Inf",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + strings.Repeat("0", 30),
		"1" + strings.Repeat("0", 5000),
		"0x7fffffff", "١٢٠", "120 s", "1,200", "\x00", "120\x00", "soon", strings.Repeat("9", 64<<10),
		"Mon, 01 Jan 0001 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2027 00:00:00 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT",
		"Sat, 32 Dec 2026 23:59:59 GMT", "Fri, 31 Dec 99999 23:59:59 GMT", "2026-12-31T00:00:00Z",
		"Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
	}
}

// extremePolicy has values that no validation accepts, and ordinary ones.
func extremePolicy(r *rand.Rand) retry.Policy {
	floats := []float64{0, 0.1, 1, 2, -1, -1e300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}
	ints := []int{0, 1, 5, 300, 86400, 10 * 365 * 86400, -1, -86400, math.MaxInt32, math.MaxInt, math.MinInt}
	pick := func() int { return ints[r.IntN(len(ints))] }
	policy := retry.Policy{
		Strategy:       []string{"none", "linear", "exponential", "schedule", "", "a later one"}[r.IntN(6)],
		InitialSeconds: pick(), IntervalSeconds: pick(), MaxSeconds: pick(), Multiplier: floats[r.IntN(len(floats))],
		MaxAttempts: []int{-1, 0, 1, 2, 10, 100}[r.IntN(6)], Jitter: floats[r.IntN(len(floats))],
		RespectRetryAfter: r.IntN(4) > 0, MaxRetryAfterSeconds: pick(),
	}
	for range r.IntN(4) {
		policy.ScheduleSeconds = append(policy.ScheduleSeconds, pick())
	}
	return policy
}

// For any policy and any Retry-After, a delivery has at most its number of attempts, none is early or in the past, no
// wait exceeds the schedule or the cap on Retry-After, each lies before its deadline and the expiry of the payload,
// and passes the tiers in few retry passes.
func TestExtremePoliciesAndHeadersKeepTheirBounds(t *testing.T) {
	headers, tiers := extremeHeaders(), stream.Tiers()
	ids := id.NewGenerator(nil)
	eventID := must.Get(ids.New(1))(t)
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 11))
		policy := extremePolicy(r)
		now, expiry := start, start.AddDate(0, 0, 1+r.IntN(30))
		work := &event.Work{Event: &event.Event{ID: eventID, Endpoint: "ep_1"}, Dest: "dst_1", Attempt: 1}
		for {
			header := headers[r.IntN(len(headers))]
			asked := webhook.ParseRetryAfter(header, now)
			if asked < 0 || asked > maxDelay {
				t.Fatalf("seed %d: %.40q is %v", seed, header, asked)
			}
			next := decide(work, refused, policy, asked, now, expiry, r.Float64())
			if next.status != event.Retrying {
				if next.status != event.Failed || next.reason != event.AttemptsExhausted && next.reason != event.PayloadExpired {
					t.Fatalf("seed %d: %+v", seed, next)
				}
				break
			}
			wait := next.due.Sub(now)
			limit := retryDelay(policy, work.Attempt, 0, 0)
			for _, random := range []float64{0.5, 1} {
				limit = max(limit, retryDelay(policy, work.Attempt, 0, random))
			}
			if policy.RespectRetryAfter {
				limit = max(limit, min(asked, seconds(float64(policy.MaxRetryAfterSeconds))))
			}
			if wait < 0 || wait > limit || !next.due.Before(next.deadline) || next.deadline.After(expiry) ||
				work.Attempt >= policy.Attempts() {
				t.Fatalf("seed %d, attempt %d of %d, %.40q: waits %v of at most %v, until %v of %v", seed, work.Attempt,
					policy.MaxAttempts,
					header, wait, limit, next.due, next.deadline)
			}
			work.Attempt, work.Due, work.Deadline = work.Attempt+1, next.due, next.deadline
			work = throughTheLog(t, work)
			passes := 0
			for now.Before(work.Due) {
				passes++
				now = lane.ReadyAt(work.Due, now, now, lane.TierFor(tiers, work.Due.Sub(now)).Delay)
			}
			if most := int(wait/lane.MaxRecheck) + 2*len(tiers); passes > most {
				t.Fatalf("seed %d: %d retry passes for %v", seed, passes, wait)
			}
		}
	}
}

// throughTheLog encodes and decodes work: its due time may become later by less than a millisecond.
func throughTheLog(t *testing.T, work *event.Work) *event.Work {
	t.Helper()
	record, err := work.Record()
	must.Do(t, err)
	back, err := event.DecodeWork(record)
	must.Do(t, err)
	if late := back.Due.Sub(work.Due); late < 0 || late >= time.Millisecond || back.Attempt != work.Attempt {
		t.Fatalf("due %v came back as %v, attempt %d as %d", work.Due, back.Due, work.Attempt, back.Attempt)
	}
	return back
}

// FuzzRetryAfter checks that no header makes a wait beyond the bound, or a negative one.
func FuzzRetryAfter(f *testing.F) {
	for _, h := range extremeHeaders() {
		f.Add(h)
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := webhook.ParseRetryAfter(header, now); d < 0 || d > maxDelay {
			t.Errorf("%q is %v", header, d)
		}
	})
}
