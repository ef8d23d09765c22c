package limit

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// sim runs nodes and a Redis on one simulated clock, which is some thousand times as fast as real time.
type sim struct {
	t     testing.TB
	now   time.Time
	redis *miniredis.Miniredis
	nodes []*simNode
	back  time.Time // when Redis answers again; zero: it does
}

// simNode is a node whose clock differs from Redis' clock by skew.
type simNode struct {
	*Limiter
	skew time.Duration
	next time.Time // the next round
}

const simStep = 5 * time.Millisecond

func newSim(t testing.TB) *sim {
	s := &sim{t: t, now: time.Date(2026, 8, 21, 22, 0, 0, 123_456_789, time.UTC), redis: miniredis.RunT(t)}
	s.redis.SetTime(s.now)
	return s
}

func (s *sim) node(skew time.Duration) *simNode {
	s.t.Helper()
	n := &simNode{skew: skew}
	cfg := DefaultConfig()
	cfg.URL, cfg.Timeout = "redis://"+s.redis.Addr(), longTimeout
	var err error
	n.Limiter, err = New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now.Add(n.skew) }})
	must.Do(s.t, err)
	s.t.Cleanup(func() { n.client.Close() })
	s.nodes = append(s.nodes, n)
	return n
}

// run lets time pass. In each step the nodes make the rounds that are due, and then load is called.
func (s *sim) run(d time.Duration, load func()) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(simStep)
		s.redis.SetTime(s.now)
		s.redis.FastForward(simStep)
		if !s.back.IsZero() && s.now.After(s.back) {
			s.redis.SetError("")
			s.back = time.Time{}
		}
		for _, n := range s.nodes {
			n.round(s)
		}
		load()
	}
}

func (n *simNode) round(s *sim) {
	select {
	case <-n.wake:
	default:
		if s.now.Before(n.next) {
			return
		}
	}
	n.runRound(s.t.Context())
	n.next = s.now.Add(n.untilNextRound())
}

// drain takes all available tokens.
func (n *simNode) drain(rate float64, burst int) (taken int) {
	for n.TakeToken("dst", rate, burst) == 0 {
		taken++
	}
	return taken
}

// near fails if a count differs from the expected one by more than 5 % and more than one delivery.
func near(t testing.TB, what string, got int, want float64) {
	t.Helper()
	if diff := math.Abs(float64(got) - want); diff > max(0.05*want, 1) {
		t.Errorf("%s: %d deliveries, want %.0f within 5 %% or one", what, got, want)
	}
}

// TestRateIsKept takes all available tokens for a minute, with a fault in its middle.
func TestRateIsKept(t *testing.T) {
	type state struct {
		*sim
		owner *simNode
	}
	move := func(skew time.Duration, leave bool) func(*state) {
		return func(s *state) {
			if leave {
				s.owner.reportLevels(t.Context())
			}
			s.nodes = nil // the old owner is gone
			s.owner = s.node(skew)
		}
	}
	step := func(d time.Duration) func(*state) { return func(s *state) { s.owner.skew += d } }
	events := map[string]func(*state){
		"nothing":                           func(*state) {},
		"moved, reported":                   move(0, true),
		"moved, killed":                     move(0, false),
		"moved to a clock behind":           move(-29*time.Second, false),
		"moved to a clock ahead":            move(29*time.Second, false),
		"redis flushed":                     func(s *state) { s.redis.FlushAll() },
		"redis flushed and moved":           func(s *state) { s.redis.FlushAll(); move(0, true)(s) },
		"clock steps back 2 s":              step(-2 * time.Second),
		"clock steps back an hour":          step(-time.Hour),
		"clock steps ahead 2 s":             step(2 * time.Second),
		"clock steps ahead an hour":         step(time.Hour),
		"redis unavailable for 10 s":        func(s *state) { s.unavailable(10 * time.Second) },
		"redis unavailable for 10 s, moved": func(s *state) { s.unavailable(10 * time.Second); move(0, true)(s) },
		"redis steps back an hour":          func(s *state) { s.now = s.now.Add(-time.Hour); s.owner.skew += time.Hour },
		"redis steps ahead 3 seconds": func(s *state) {
			s.now = s.now.Add(
				3 * time.Second)
			s.owner.skew -= 3 * time.Second
		},
	}
	for name, event := range events {
		for _, limit := range []struct {
			rate  float64
			burst int
		}{{0.1, 1}, {1, 1}, {1.5, 2}, {50, 50}, {5000, 500}} {
			t.Run(fmt.Sprintf("%s, %g a second, burst %d", name, limit.rate, limit.burst), func(t *testing.T) {
				t.Parallel()
				s := &state{sim: newSim(t)}
				s.owner = s.node(0)
				taken := 0
				load := func() { taken += s.owner.drain(limit.rate, limit.burst) }
				s.run(5*time.Second, load) // the burst is gone
				taken = 0
				s.run(31*time.Second+370*time.Millisecond, load)
				event(s)
				s.run(28*time.Second+630*time.Millisecond, load)
				near(t, "in a minute", taken, 60*limit.rate)
				t.Logf("%+.2f %%", 100*(float64(taken)/60/limit.rate-1))
			})
		}
	}
}

// unavailable makes Redis answer with errors for d.
func (s *sim) unavailable(d time.Duration) {
	s.redis.SetError("LOADING not now")
	s.back = s.now.Add(d)
}

func TestMain(m *testing.M) { kit.Main(m) }

// engines are the embedded Redis and a real one; suites run on both.
var engines = map[string]func(testing.TB) string{
	"embedded": func(t testing.TB) string { return "redis://" + embedded(t) },
	"redis":    func(t testing.TB) string { return "redis://" + kit.Redis(t).Addr },
}

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, test func(t *testing.T, url string)) {
	for name, start := range engines {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// embedded runs an embedded Redis for the length of a test and returns its address.
func embedded(t testing.TB) string {
	t.Helper()
	s := must.Get(redis.New(redis.Config{Listen: "127.0.0.1:0"}, redis.Deps{}))(t)
	background(t, "embedded redis", s.Run)
	<-s.Ready()
	return s.Addr()
}

// background runs a component until the test ends.
func background(t testing.TB, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		is.OK(t, run(ctx), "%s ended with", name)
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// longTimeout is for tests that do not test time-outs: a loaded machine may pause for longer than 50 ms.
const longTimeout = 10 * time.Second

// node starts a limiter for the length of the test; setup may change it before.
func node(t testing.TB, url string, setup ...func(*Config, *Deps)) *Limiter {
	t.Helper()
	cfg, deps := DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}
	cfg.URL, cfg.Timeout = url, longTimeout
	for _, f := range setup {
		f(&cfg, &deps)
	}
	l := must.Get(New(cfg, deps))(t)
	background(t, "limiter", l.Run)
	return l
}

// With far more keys than MaxBuckets memory is bounded, no call fails, and the buckets in use keep their rate.
func TestBucketsAreBounded(t *testing.T) {
	const room = 2 * shardCount
	reg := prometheus.NewRegistry()
	now := time.Unix(1e9, 0)
	l := must.Get(New(Config{MaxBuckets: room, Timeout: time.Second, ClaimTimeout: time.Second},
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
	l := must.Get(New(Config{MaxBuckets: shardCount, Timeout: time.Second, ClaimTimeout: time.Second},
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
	for _, want := range []string{"redis://", "Timeout", "MaxBuckets", "ClaimTimeout"} {
		is.Failed(t, err, want, "does not name %s", want)
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("no error without log and clock")
	}
}
