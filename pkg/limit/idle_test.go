package limit

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

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
