package lane

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

func TestTierFor(t *testing.T) {
	f := func(wait time.Duration, topic string) {
		t.Helper()
		is.Equal(t, TierFor(stream.Tiers(), wait).Topic, topic, wait)
	}
	f(-time.Hour, "retry.1s")
	f(0, "retry.1s")
	f(time.Millisecond, "retry.1s")
	f(time.Second, "retry.1s")
	f(1100*time.Millisecond, "retry.2s")
	f(3*time.Second, "retry.2s")
	f(4*time.Second, "retry.5s")
	f(5*time.Second, "retry.5s")
	f(5500*time.Millisecond, "retry.5s")
	f(8900*time.Millisecond, "retry.5s")
	f(9*time.Second, "retry.10s")
	f(57*time.Second, "retry.30s")
	f(58*time.Second, "retry.1m")
	f(5*time.Minute, "retry.5m")
	f(58*time.Minute, "retry.1h")
	f(72*time.Hour, "retry.1h")
}

// With equal clocks a delivery is never early through all its passes, and late by at most the slack of the last tiers,
// however deep a tier is and whenever its head is fetched.
func TestHopsAreNeverEarlyAndHardlyLate(t *testing.T) {
	tiers := stream.Tiers()
	start := time.UnixMilli(1_800_000_000_000)
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		wait := time.Duration(r.Float64() * float64(time.Second) * float64(int64(1)<<r.IntN(20))) // up to 12 days
		due, now, passes := start.Add(wait), start, 0
		for {
			remaining := due.Sub(now)
			tier := TierFor(tiers, remaining)
			seen := now.Add(time.Duration(r.Float64() * float64(min(tier.Delay, max(remaining, 0))) * float64(r.IntN(2))))
			at := ReadyAt(due, now, seen, tier.Delay)
			if at.After(now.Add(tier.Delay)) && at.After(seen.Add(minTierTime)) {
				t.Fatalf("seed %d: waits %v in %s", seed, at.Sub(now), tier.Topic)
			}
			if now = at; !now.Before(due) {
				break
			}
			if passes++; passes > 400 {
				t.Fatalf("seed %d: %d retry passes for %v", seed, passes, wait)
			}
		}
		if late := now.Sub(due); late > Slack(wait) {
			t.Fatalf("seed %d: %v late after %v", seed, late, wait)
		}
	}
}

// A broker clock that is off by up to an hour makes no delivery early, blocks none longer than the delay of its tier,
// and cannot make records move on without end.
func TestHopsWithSkewedBroker(t *testing.T) {
	tiers := stream.Tiers()
	start := time.UnixMilli(1_800_000_000_000)
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 4))
		skew := time.Duration((2*r.Float64() - 1) * float64(time.Hour))
		wait := time.Duration(r.Float64() * float64(time.Second) * float64(int64(1)<<r.IntN(15)))
		due, now, passes := start.Add(wait), start, 0
		for now.Before(due) {
			tier := TierFor(tiers, due.Sub(now))
			at := ReadyAt(due, now.Add(skew), now, tier.Delay)
			if waited := at.Sub(now); waited > tier.Delay || at.Before(due) && waited < min(minTierTime, tier.Delay) {
				t.Fatalf("seed %d: waits %v in %s, due in %v", seed, waited, tier.Topic, due.Sub(now))
			}
			now, passes = at, passes+1
		}
		if limit := 60 + int(wait/minTierTime); passes > limit || now.Sub(due) > Slack(wait) {
			t.Fatalf("seed %d: %d retry passes, %v late", seed, passes, now.Sub(due))
		}
	}
}
