package limit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// Nodes that draw from one bucket at once get the rate together, whatever their clocks.
func TestTakeSharedToken(t *testing.T) {
	for _, nodes := range []int{1, 2, 5} {
		for _, rate := range []float64{1, 10, 200, 5000} {
			t.Run(fmt.Sprintf("%d nodes, %g a second", nodes, rate), func(t *testing.T) {
				s := newSim(t)
				for i := range nodes {
					s.node(time.Duration(i) * 7 * time.Second)
				}
				taken, first := 0, 0
				load := func() {
					for _, n := range s.nodes {
						for wait, _ := n.TakeSharedToken("send", "key_a", rate); wait == 0; wait,
							_ = n.TakeSharedToken("send", "key_a", rate) {
							taken++
						}
					}
				}
				s.run(time.Second, load)
				first, taken = taken, 0
				if most := (float64(nodes) + 1.5) * rate; float64(first) < rate || float64(first) > most+1 {
					t.Errorf("%d in the first second, want %.0f to %.0f", first, rate, most)
				}
				s.run(time.Minute, load)
				near(t, "in a minute", taken, 60*rate)
			})
		}
	}
}

// All nodes follow Redis' clock when it steps, so a node that joins later draws from the same windows.
func TestSharedBucketsFollowRedisClock(t *testing.T) {
	s := newSim(t)
	s.node(0)
	s.node(0)
	taken := 0
	load := func() {
		for _, n := range s.nodes {
			taken += n.drain(50, 1)
		}
	}
	s.run(2*time.Second, load)
	s.now = s.now.Add(-time.Hour)
	for _, n := range s.nodes {
		n.skew += time.Hour // their own clocks do not step
	}
	s.node(0)
	s.run(2*time.Second, load)
	taken = 0
	s.run(time.Minute, load)
	near(t, "in a minute", taken, 60*50)
}

// A node with few requests gets its share beside a node that takes all tokens, and an idle node takes nothing from the
// others.
func TestSharedBucketsAreFair(t *testing.T) {
	const rate = 100
	s := newSim(t)
	greedy, modest, silent := s.node(0), s.node(0), s.node(0)
	silent.TakeSharedToken("read", "key_a", rate)
	all, requested, got := 0, 0, 0
	var next time.Time
	s.run(time.Minute, func() {
		for wait, _ := greedy.TakeSharedToken("read", "key_a", rate); wait == 0; wait,
			_ = greedy.TakeSharedToken("read", "key_a", rate) {
			all++
		}
		if s.now.After(next) {
			next = s.now.Add(time.Second)
			requested++
			if wait, _ := modest.TakeSharedToken("read", "key_a", rate); wait == 0 {
				got++
			}
		}
	})
	is.Equal(t, got, requested, "of %d requests of the node with few were admitted", requested)
	if all+got < 60*rate*95/100 || all+got > 60*rate+3*rate {
		t.Errorf("%d were admitted in all", all+got)
	}
}

// An owner that is cut off from the other nodes but not from Redis shares the rate with the new owner.
func TestTwoOwnersShareTheRate(t *testing.T) {
	s := newSim(t)
	old := s.node(0)
	old.drain(50, 10)
	taken := 0
	s.run(5*time.Second, func() { old.drain(50, 10) })
	new := s.node(0)
	reg := prometheus.NewRegistry()
	new.metrics = newMetrics(reg, new.Limiter)
	load := func() { taken += old.drain(50, 10) + new.drain(50, 10) }
	s.run(time.Minute, load)
	near(t, "in a minute", taken, 60*50)
	if got := value(t, reg, "relay_limit_leases_total"); got > 4*60 {
		t.Errorf("%v leases were requested in a minute: an exhausted window was requested again", got)
	}
	s.unavailable(3 * time.Second)
	s.run(5*time.Second, load) // for three of these seconds each node had the whole rate
	taken = 0
	s.run(20*time.Second, load)
	near(t, "in 20 s after Redis was unavailable", taken, 20*50)
}

// A burst is given once: not again to the next owner, and not again when Redis is available again.
func TestBurstIsGivenOnce(t *testing.T) {
	const rate, burst = 10, 500
	start := func() (*sim, *simNode) {
		s := newSim(t)
		n, first := s.node(0), 0
		s.run(time.Second, func() { first += n.drain(rate, burst) })
		if first < burst || first > burst+2*rate {
			t.Fatalf("the first second admitted %d, want the burst of %d", first, burst)
		}
		return s, n
	}
	f := func(what string, second func(s *sim, n *simNode) int) {
		t.Helper()
		s, n := start()
		if got := second(s, n); got > 3*rate {
			t.Errorf("%s: %d in a second, want %d or a little more", what, got, rate)
		}
	}
	count := func(s *sim, n *simNode) (taken int) {
		s.run(time.Second, func() { taken += n.drain(rate, burst) })
		return taken
	}
	f("same owner", count)
	f("next owner", func(s *sim, _ *simNode) int {
		s.nodes = nil
		return count(s, s.node(0))
	})
	f("next owner, Redis flushed, level reported", func(s *sim, n *simNode) int {
		s.redis.FlushAll()
		n.reportLevels(t.Context())
		s.nodes = nil
		return count(s, s.node(0))
	})
	f("next owner, Redis unavailable", func(s *sim, _ *simNode) int {
		s.unavailable(time.Hour)
		s.nodes = nil
		return count(s, s.node(0))
	})
	f("next owner, Redis restarted empty", func(s *sim, _ *simNode) int {
		s.unavailable(time.Second)
		s.redis.FlushAll()
		s.run(2*time.Second, func() {})
		s.nodes = nil
		return count(s, s.node(0)) - 2*rate // two seconds' worth was saved
	})
	f("next owner, from the time when Redis was unavailable", func(s *sim, _ *simNode) int {
		s.unavailable(5 * time.Second)
		s.nodes = nil
		n, early := s.node(0), 0
		s.run(6*time.Second, func() { early += n.drain(rate, burst) })
		return early + count(s, n) - 6*rate
	})
	f("Redis unavailable", func(s *sim, n *simNode) int {
		s.unavailable(time.Hour)
		return count(s, n)
	})
	f("Redis back", func(s *sim, n *simNode) int {
		s.unavailable(3 * time.Second)
		s.run(3*time.Second, func() { n.drain(rate, burst) })
		return count(s, n)
	})

	s, n := start() // saved while idle, without a lease, and left to the next owner
	s.run(burst/rate*time.Second, func() {})
	calls := s.redis.CommandCount()
	s.run(time.Minute, func() {})
	is.Equal(t, s.redis.CommandCount()-calls, 0, "an idle bucket costs … commands a minute")
	n.reportLevels(t.Context())
	if got := count(s, s.node(0)); got < burst {
		t.Errorf("an idle bucket gives %d, want its burst of %d", got, burst)
	}
}

// An idle limiter makes a round a second. Whatever needs an exchange with Redis causes a round at once, and those that
// follow come every 50 ms.
func TestIdleLimiterIsWoken(t *testing.T) {
	s := newSim(t)
	n := s.node(0)
	idle := func(when string, want bool) {
		t.Helper()
		if interval := n.untilNextRound(); (interval == idleInterval) != want || n.isIdle() != want {
			t.Errorf("%s: the next round follows after %v", when, interval)
		}
	}
	woken := func(by string) {
		t.Helper()
		select {
		case <-n.wake:
		default:
			t.Errorf("%s wakes nobody", by)
		}
	}
	idle("before Redis has answered", false)
	n.runRound(t.Context())
	idle("after it has", true)
	n.TakeToken("dst", 10, 5)
	woken("a bucket")
	n.runRound(t.Context())
	idle("with a bucket", false)
	s.run(idleAfter+time.Second, func() {})
	idle("when the bucket is full and unused", true)
	n.SetHeldUntil("dst", s.now.Add(time.Minute))
	woken("the state of a circuit breaker")
	idle("before it is written", false)
	n.runRound(t.Context())
	idle("when it is written", true)

	s.unavailable(time.Minute)
	for range breakAfter {
		n.HeldUntil(t.Context(), []string{"dst"})
	}
	woken("Redis that no longer answers")
	idle("while it does not", false)
	s.run(time.Minute+2*maxProbeWait, func() {})
	idle("when it answers again", true)

	alone := must.Get(New(DefaultConfig(), Deps{Log: n.log, Now: n.now}))(t)
	alone.runRound(t.Context())
	alone.TakeToken("dst", 10, 5)
	alone.SetHeldUntil("dst", s.now.Add(time.Minute))
	if !alone.isIdle() {
		t.Error("without Redis there is nothing to exchange")
	}
}

// Several tokens are taken together or not at all. More than a bucket holds requires a full one, and the next caller
// waits until the debt is refilled. Over an hour the rate is kept whatever the sizes.
func TestTakeSharedTokens(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := must.Get(New(DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))(t)
	f := func(n int, want time.Duration) {
		t.Helper()
		if got := l.TakeSharedTokens("bytes", "ep_1", n, 1000); (got - want).Abs() > time.Microsecond {
			t.Errorf("%d tokens: wait %v, want %v", n, got, want)
		}
	}
	f(400, 0)
	f(700, 100*time.Millisecond)
	f(600, 0)
	f(0, 0)
	now = now.Add(time.Second)
	f(5000, 0) // the bucket was full: a debt of 4,000
	f(1, 4001*time.Millisecond)
	now = now.Add(4500 * time.Millisecond)
	f(5000, 500*time.Millisecond)
	taken := 0
	for began, i := now, 0; now.Sub(began) < time.Hour; i++ {
		n := 1 + i*7919%3000
		if wait := l.TakeSharedTokens("bytes", "ep_1", n, 1000); wait > 0 {
			now = now.Add(wait)
			continue
		}
		taken += n
	}
	if rate := float64(taken) / 3600; rate < 950 || rate > 1002 {
		t.Errorf("%.0f tokens a second", rate)
	}
}

// A message reaches who listens to its channel, also one that was added later, and nobody after the channel was left.
func TestBus(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) { useBus(t, url) })
}

// useBus does once what a bus does in Redis.
func useBus(t *testing.T, url string) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	b, sender := cfg.NewBus(), cfg.NewBus()
	defer sender.client.Close()
	var channels atomic.Pointer[[]string]
	channels.Store(&[]string{"pull:1"})
	changed, got := make(chan struct{}), make(chan string, 99)
	background(t, "bus", func(ctx context.Context) error {
		b.Listen(ctx, func() []string { return *channels.Load() }, changed, func(channel string, message []byte) {
			got <- channel + " " + string(message)
		})
		return nil
	})
	heard := func(channel, message string, want bool) {
		t.Helper()
		kit.WaitFor(t, "the channel "+channel, func() bool {
			return must.Get(sender.Publish(t.Context(), channel, []byte(message)))(t) > 0 == want
		})
	}
	large := strings.Repeat("x", 3<<20)
	heard("pull:1", large, true)
	is.Equal(t, <-got, "pull:1 "+large, "got")
	channels.Store(&[]string{"pull:2"})
	changed <- struct{}{}
	heard("pull:2", "two", true)
	is.Equal(t, <-got, "pull:2 two", "got")
	heard("pull:1", "one", false)
}

func TestNoBusWithoutRedis(t *testing.T) {
	if b := DefaultConfig().NewBus(); b != nil {
		t.Error("there is a bus without Redis")
	}
}
