package limit

import (
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// With far more keys than MaxBuckets memory is bounded, no call fails, and the buckets in use keep their rate.
func TestBucketsAreBounded(t *testing.T) {
	const room = 2 * shardCount
	reg := prometheus.NewRegistry()
	now := time.Unix(1e9, 0)
	l := must.Get(New(Config{MaxBuckets: room, Timeout: time.Second, PendingTTL: time.Second},
		Deps{Log: slog.New(slog.DiscardHandler), Metrics: reg, Now: func() time.Time { return now }}))(t)
	for i := range 100 * room {
		now = now.Add(time.Microsecond)
		must.Equal(t, l.TakeToken("dst_"+strconv.Itoa(i), 1, 1), 0, "a new key waits for")
	}
	if got := value(t, reg, "relay_limit_buckets"); got > room || got < room/2 {
		t.Errorf("%v buckets, room for %d", got, room)
	}
	if got := value(t, reg, "relay_limit_buckets_evicted_total"); got < 99*room {
		t.Errorf("%v were evicted", got)
	}
}

// An idle, full bucket is removed, and Run stops visiting it; one that is not full stays.
func TestIdleBucketsAreRemoved(t *testing.T) {
	s := newSim(t)
	n := s.node(0)
	n.runRound(t.Context())
	for i := range 100 {
		n.TakeToken("dst_"+strconv.Itoa(i), 10, 5)
	}
	n.TakeToken("slow", 0.1, 20)
	s.run(time.Second, func() {})
	for n.TakeToken("slow", 0.1, 20) == 0 {
	}
	if len(n.active) != 101 {
		t.Errorf("%d are active, want all 101", len(n.active))
	}
	s.run(removeAfter+10*time.Second, func() {})
	if len(n.active) != 1 || n.buckets.len() != 1 {
		t.Errorf("%d active and %d in memory, want the slow one", len(n.active), n.buckets.len())
	}
	s.run(150*time.Second, func() {})
	is.Equal(t, n.buckets.len(), 0, "buckets in memory")
}

// Without Redis the bucket itself is the only record of its level.
func TestBucketsAreNotRemovedBeforeTheyAreFull(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := must.Get(New(Config{MaxBuckets: shardCount, Timeout: time.Second, PendingTTL: time.Second},
		Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))(t)
	taken := func() (n int) {
		for l.TakeToken("dst_a", 0.1, 60) == 0 {
			n++
		}
		return n
	}
	must.Equal(t, taken(), 60, "taken of 60")
	for _, want := range []int{10, 10, 60} {
		now = now.Add(time.Duration(want) * 10 * time.Second)
		for range 2 * shardCount {
			l.runRound(t.Context())
		}
		if there := l.buckets.len(); there != 1 && want < 60 || there != 0 && want == 60 {
			t.Errorf("%d buckets in memory after a pause of %d times 10 s", there, want)
		}
		is.Equal(t, taken(), want, "taken")
	}
}

// While Redis is unavailable full buckets stay: a new one would begin with fewer tokens.
func TestFullBucketsStayWithoutRedis(t *testing.T) {
	s := newSim(t)
	s.unavailable(time.Hour)
	n := s.node(0)
	n.TakeToken("dst", 1, 20)
	s.run(2*removeAfter, func() {})
	is.Equal(t, n.drain(1, 20), 20, "taken of an idle bucket of 20")
}

// A rate of 0 creates no bucket and calls nothing.
func TestUnlimited(t *testing.T) {
	s := newSim(t)
	n := s.node(0)
	n.runRound(t.Context())
	calls := s.redis.CommandCount()
	for _, rate := range []float64{0, -1, math.NaN()} {
		for range 1000 {
			must.Equal(t, n.TakeToken("dst_a", rate, 1), 0, "rate %v waits for", rate)
		}
	}
	s.run(time.Second, func() {})
	if n.buckets.len() != 0 || s.redis.CommandCount() != calls {
		t.Errorf("%d buckets, %d calls", n.buckets.len(), s.redis.CommandCount()-calls)
	}
}

// One busy bucket requests about two leases a second, and 500 of them share few exchanges.
func TestLeasesAreFew(t *testing.T) {
	s := newSim(t)
	n := s.node(0)
	load := func() {
		for i := range 500 {
			for n.TakeToken("dst_"+strconv.Itoa(i), 20, 1) == 0 {
			}
		}
	}
	s.run(2*time.Second, load)
	reg := prometheus.NewRegistry()
	n.metrics = newMetrics(reg, n.Limiter)
	s.run(10*time.Second, load)
	leases := value(t, reg, "relay_limit_leases_total")
	if leases > 500*10*2.5 {
		t.Errorf("%.1f leases a second and bucket", leases/500/10)
	}
	requested, granted := value(t, reg, "relay_limit_tokens_requested_total"),
		value(t, reg, "relay_limit_tokens_granted_total")
	if want := 500 * 10 * 20.0; math.Abs(granted-want) > want/10 || requested < granted {
		t.Errorf("%v tokens requested, %v granted, want %v", requested, granted, want)
	}
	t.Logf("%.2f leases a second and bucket, %.1f %% of the tokens granted", leases/500/10, 100*granted/requested)
}

// A changed limit holds from the next call on.
func TestLimitChanges(t *testing.T) {
	s := newSim(t)
	n, rate, burst, taken := s.node(0), 10.0, 100, 0
	load := func() { taken += n.drain(rate, burst) }
	change := func(r float64, b int, want float64) {
		t.Helper()
		rate, burst, taken = r, b, 0
		s.run(20*time.Second, load)
		near(t, "in 20 s", taken, want)
	}
	change(10, 100, 300)
	change(100, 100, 2000)
	change(0.5, 1, 10)
	change(40, 400, 800)
	s.run(20*time.Second, func() {}) // saves 400
	change(1, 3, 22)
}

// A wait is neither zero nor endless, and when it ends there is a token.
func TestWaitEndsWithAToken(t *testing.T) {
	s := newSim(t)
	n := s.node(0)
	s.run(time.Second, func() { n.drain(4, 1) })
	wait := n.TakeToken("dst", 4, 1)
	if wait < time.Millisecond || wait > 250*time.Millisecond {
		t.Fatalf("wait %v at 4 a second", wait)
	}
	s.run(wait+simStep, func() {})
	is.Equal(t, n.TakeToken("dst", 4, 1), 0, "after the wait another of")
}

func TestConfig(t *testing.T) {
	for url, ok := range map[string]bool{
		"": true, "redis://localhost": true, "rediss://user:pass@redis.example.com:6380/2": true,
		"unix:///run/redis.sock": true,
		"localhost:6379":         false, "http://localhost": false, "redis://u:hunter2@host:port": false,
		"redis://u:hunter2@host/db": false,
	} {
		cfg := DefaultConfig()
		cfg.URL = url
		_, err := New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		is.Equal(t, err == nil, ok, "%q: %v", url, err)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats the password: %q", err)
		}
	}
	err := Config{URL: "x", MaxBuckets: 1}.Validate()
	for _, want := range []string{"redis://", "Timeout", "MaxBuckets", "PendingTTL"} {
		is.Failed(t, err, want, "does not name %s", want)
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("no error without log and clock")
	}
}
