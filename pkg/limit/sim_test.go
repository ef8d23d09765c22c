package limit

import (
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
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
