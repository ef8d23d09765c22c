package dispatcher

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// absurdHeaders are what receivers may send as Retry-After, and more.
func absurdHeaders() []string {
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

// absurdPolicy has values that no check lets through, and ordinary ones.
func absurdPolicy(r *rand.Rand) config.RetryPolicy {
	floats := []float64{0, 0.1, 1, 2, -1, -1e300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}
	ints := []int{0, 1, 5, 300, 86400, 10 * 365 * 86400, -1, -86400, math.MaxInt32, math.MaxInt, math.MinInt}
	pick := func() int { return ints[r.IntN(len(ints))] }
	p := config.RetryPolicy{
		Strategy:       []string{"none", "linear", "exponential", "schedule", "", "a later one"}[r.IntN(6)],
		InitialSeconds: pick(), IntervalSeconds: pick(), MaxSeconds: pick(), Multiplier: floats[r.IntN(len(floats))],
		MaxAttempts: []int{-1, 0, 1, 2, 10, 100}[r.IntN(6)], Jitter: floats[r.IntN(len(floats))],
		RespectRetryAfter: r.IntN(4) > 0, MaxRetryAfterSeconds: pick(),
	}
	for range r.IntN(4) {
		p.ScheduleSeconds = append(p.ScheduleSeconds, pick())
	}
	return p
}

// Whatever a policy and a receiver say, and both may lie: a chain has at most its attempts, none is early or in
// the past, no wait is longer than the schedule or the cap on Retry-After allow, each lies before the deadline
// and the end of the payload, and comes through the tiers in few hops.
func TestAbsurdWaits(t *testing.T) {
	headers, tiers := absurdHeaders(), stream.Tiers()
	ids := id.NewGenerator(nil)
	eventID, err := ids.New(1)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 11))
		p := absurdPolicy(r)
		now, expiry := start, start.AddDate(0, 0, 1+r.IntN(30))
		w := &event.Work{Event: &event.Event{ID: eventID, Endpoint: "ep_1"}, Dest: "dst_1", Attempt: 1}
		for {
			header := headers[r.IntN(len(headers))]
			asked := parseRetryAfter(header, now)
			if asked < 0 || asked > maxDelay {
				t.Fatalf("seed %d: %.40q is %v", seed, header, asked)
			}
			n := decide(w, refused, p, asked, now, expiry, r.Float64())
			if n.status != event.Retrying {
				if n.status != event.Failed || n.reason != event.AttemptsExhausted && n.reason != event.PayloadExpired {
					t.Fatalf("seed %d: %+v", seed, n)
				}
				break
			}
			wait := n.due.Sub(now)
			limit := retryDelay(p, w.Attempt, 0, 0)
			for _, random := range []float64{0.5, 1} {
				limit = max(limit, retryDelay(p, w.Attempt, 0, random))
			}
			if p.RespectRetryAfter {
				limit = max(limit, min(asked, seconds(float64(p.MaxRetryAfterSeconds))))
			}
			if wait < 0 || wait > limit || !n.due.Before(n.deadline) || n.deadline.After(expiry) || w.Attempt >= p.Attempts() {
				t.Fatalf("seed %d, attempt %d of %d, %.40q: waits %v of at most %v, until %v of %v", seed, w.Attempt, p.MaxAttempts,
					header, wait, limit, n.due, n.deadline)
			}
			w.Attempt, w.Due, w.Deadline = w.Attempt+1, n.due, n.deadline
			w = throughTheLog(t, w)
			hops := 0
			for now.Before(w.Due) {
				hops++
				now = lane.ReadyAt(w.Due, now, now, lane.TierFor(tiers, w.Due.Sub(now)).Delay)
			}
			if most := int(wait/lane.MaxRecheck) + 2*len(tiers); hops > most {
				t.Fatalf("seed %d: %d hops for %v", seed, hops, wait)
			}
		}
	}
}

// throughTheLog encodes and decodes work: its due time comes back, later by less than a millisecond.
func throughTheLog(t *testing.T, w *event.Work) *event.Work {
	t.Helper()
	r, err := w.Record()
	if err != nil {
		t.Fatal(err)
	}
	back, err := event.DecodeWork(r)
	if err != nil {
		t.Fatal(err)
	}
	if late := back.Due.Sub(w.Due); late < 0 || late >= time.Millisecond || back.Attempt != w.Attempt {
		t.Fatalf("due %v came back as %v, attempt %d as %d", w.Due, back.Due, w.Attempt, back.Attempt)
	}
	return back
}

// FuzzRetryAfter: no header makes a wait beyond the bound, or a negative one.
func FuzzRetryAfter(f *testing.F) {
	for _, h := range absurdHeaders() {
		f.Add(h)
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := parseRetryAfter(header, now); d < 0 || d > maxDelay {
			t.Errorf("%q is %v", header, d)
		}
	})
}
