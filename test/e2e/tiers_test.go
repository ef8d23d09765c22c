package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// The whole process tree is killed while deliveries wait in every retry tier. All of them are made, and none before its
// due time. Those due later than the test can wait are made by a process whose clock is two hours ahead.
func TestTiersSurviveAKill(t *testing.T) {
	t.Parallel()
	skipShort(t)
	events := rounds(0, 50, 10_000)
	dest := newTally(t, func(h hit) int {
		if h.earlier == 0 && h.number%20 > 0 { // some at once: a circuit breaker opens after half a minute of failures
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	p := newDevProcess(t, t.TempDir(), allowHTTP)
	p.start()
	delays := map[int64]time.Duration{} // by event
	accepted := map[int64]bool{}
	for _, tier := range stream.Tiers() {
		_, in, _ := p.endpoint(map[string]any{
			"destinations": []any{dest.URL + "/" + tier.Topic},
			"retry_policy": map[string]any{
				"strategy": "schedule", "schedule_seconds": []any{tier.Delay.Seconds()}, "max_attempts": 5, "jitter": 0},
		})
		l := startLoad(t, rounds(0, 200, 2000), 100, in)
		eventually(t, 2*time.Minute, func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.accepted) < events {
				return fmt.Sprintf("%d events were accepted, want %d", len(l.accepted), events)
			}
			return ""
		})
		for n := range l.finish() {
			accepted[n], delays[n] = true, tier.Delay
		}
		// every event has had its first attempt
		eventually(t, 2*time.Minute, func() string {
			tried := 0
			dest.each(func(int64, []hit) { tried++ })
			if tried < len(accepted) {
				return fmt.Sprintf("%d of %d events had an attempt", tried, len(accepted))
			}
			return ""
		})
	}
	// short delays are due while the process is down
	p.kill()
	p.start()
	shortest := time.Duration(rounds(0, 5, 30)) * time.Second
	arrived := func(longest time.Duration) func() string {
		return func() string {
			short := map[int64]bool{}
			for n := range accepted {
				if delays[n] <= longest {
					short[n] = true
				}
			}
			if missing := dest.missing(short); missing > 0 {
				return fmt.Sprintf("%d of %d deliveries with a delay of at most %v were not made\n%s", missing, len(short),
					longest, p.logs)
			}
			return ""
		}
	}
	eventually(t, 2*time.Minute, arrived(shortest))
	early, latest := 0, time.Duration(0)
	dest.each(func(n int64, hits []hit) {
		for _, h := range hits {
			if h.attempt == 1 {
				continue
			}
			behind := h.at.Sub(hits[0].at) - delays[n]
			if behind < 0 {
				early++
			}
			latest = max(latest, behind)
		}
	})
	if early > 0 {
		t.Errorf("%d deliveries were made before their due time", early)
	}
	t.Logf("%d events in %d tiers; of those with a delay of at most %v none is lost, %d were early, the last was %v "+
		"behind "+
		"its time",
		len(accepted), len(stream.Tiers()), shortest, early, latest.Round(time.Millisecond))

	p.kill()
	p.env = append(p.env, "RELAY_FAULT_CLOCK=2h")
	p.start()
	eventually(t, 2*time.Minute, arrived(time.Hour))
	wrongStatuses(t, p.client, 0, 2*time.Minute)
}

// The store is unavailable for longer than records are kept in memory. Deliveries continue meanwhile, and afterwards
// every event is stored with its final status.
func TestStoreUnavailableForLong(t *testing.T) {
	t.Parallel()
	store := startEngine(t, "clickhouse")
	n := newCluster(t, engines{sharedEngine(t, "kafka"), "127.0.0.1:1", store.url}, "away", allowHTTP).start("a")[0]
	dest := newTally(t, nil)
	_, in, _ := n.endpoint(map[string]any{"destinations": []any{dest.URL}})
	store.kill()
	l := startLoad(t, rounds(0, 200, 2000), 900, in)
	time.Sleep(time.Duration(rounds(0, 4, 600)) * time.Second)
	accepted := l.finish()
	eventually(t, time.Minute, func() string {
		if missing := dest.missing(accepted); missing > 0 {
			return fmt.Sprintf("%d of %d events were not delivered while the store was unavailable\n%s", missing,
				len(accepted), n.logs)
		}
		return ""
	})
	if status, answer, _ := n.call("GET", "/v1/events", nil); status != http.StatusServiceUnavailable {
		t.Errorf("a list without the store was answered %d %v", status, answer)
	}
	store.start()
	began := time.Now()
	wrongStatuses(t, n.client, len(accepted), 5*time.Minute)
	if all, _ := dest.duplicates(nil); all > 0 {
		t.Errorf("%d events were delivered twice, though only the store was unavailable", all)
	}
	t.Logf("%d events accepted and delivered without the store; it caught up %v after its restart", len(accepted),
		time.Since(began).Round(time.Millisecond))
}
