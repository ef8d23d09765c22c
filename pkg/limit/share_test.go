package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/prometheus/client_golang/prometheus"
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
