package dispatcher

import (
	"errors"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// ruledHops is how many hops a second the parking rule gives all parked work of a node together.
const ruledHops = 4000

var errRefused = errors.New("connection refused")

// full reports whether the cases run at their full size, which takes minutes.
func full() bool { return os.Getenv("RELAY_TORTURE") != "" }

// outage is a destination that takes nothing for a while in which events come steadily.
type outage struct {
	every, lasts time.Duration
	looks        []time.Duration // after its begin, when all that is parked is watched for two steps
	down         func() (time.Duration, int)
	drain        time.Duration // the longest that all may take once the destination is found up again
}

// A destination refuses connections for three days.
func TestDownForThreeDays(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour begins the same goroutines")
	}
	o := outage{
		every: 30 * time.Second, lasts: 72 * time.Hour, drain: 2 * time.Minute,
		looks: []time.Duration{time.Hour, 24 * time.Hour, 71 * time.Hour},
		down:  func() (time.Duration, int) { return time.Millisecond, 0 },
	}
	if full() {
		o.every, o.drain = time.Second, 10*time.Minute
	}
	o.run(t)
}

// A destination hangs for an hour of many events.
func TestDownForAnHour(t *testing.T) {
	o := outage{
		every: 100 * time.Millisecond, lasts: time.Hour, drain: 2 * time.Minute,
		looks: []time.Duration{5 * time.Minute, 30 * time.Minute, 50 * time.Minute},
		down:  func() (time.Duration, int) { return time.Hour, 0 },
	}
	if testing.Short() {
		o.every = 400 * time.Millisecond
	}
	if full() {
		o.every, o.drain = 10*time.Millisecond, 10*time.Minute
	}
	o.run(t)
}

func (o outage) run(t *testing.T) {
	ep := simEndpoint("ep_1", "dst_1")
	simulate(t, simConfig(), []*config.Endpoint{ep}, func(s *sim) {
		start := time.Now()
		up := start.Add(o.lasts)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return o.down()
			}
			return 50 * time.Millisecond, 200
		}
		events := 0
		var provider sync.WaitGroup
		provider.Go(func() {
			for ; time.Now().Before(up); time.Sleep(o.every) {
				s.accept(ep)
				events++
			}
		})
		for _, at := range o.looks {
			s.away.Store(start.Add(at).UnixNano())
			time.Sleep(time.Until(start.Add(at)))
			s.observe(at, 4/o.every.Seconds())
		}
		s.away.Store(up.UnixNano())
		provider.Wait()

		opens, parked, _ := s.lane("dst_1") // nobody knows that it is up until the next probe
		if late := opens.Sub(up); opens.IsZero() || late > lane.BreakerMaxOpen {
			t.Fatalf("the next probe is in %v", late)
		}
		s.away.Store(opens.UnixNano())
		time.Sleep(time.Until(opens))
		s.away.Store(0)
		for range int(o.drain / time.Second) {
			time.Sleep(time.Second)
			s.memory("while it drains")
		}
		s.ownRetries(events)
		o.check(s, events, parked, up)
	})
}

// ownRetries waits for the few deliveries that were sent as a probe shortly before the destination was up: their next
// attempt comes by the retry policy, hours later if they were sent often. All else must have been delivered.
func (s *sim) ownRetries(events int) {
	got := s.statuses()
	if few := got["retrying"]; few > 3 || got["delivered"]+few != events {
		s.t.Errorf("drained: %v of %d", got, events)
	}
	last := time.Now()
	s.seen.Lock()
	for _, outcome := range s.last {
		if outcome.Status == event.Retrying && outcome.NextAt.After(last) {
			last = outcome.NextAt
		}
	}
	s.seen.Unlock()
	time.Sleep(time.Until(last) + time.Minute)
}

// look watches all that is parked for two steps: it passes once a step, within the budget. What is new
// makes a few hops a second besides.
func (s *sim) observe(at time.Duration, fresh float64) {
	s.away.Store(0)
	_, parked, lanes := s.lane("dst_1")
	step := lane.RecheckInterval(s.d.tiers, parked, lanes)
	time.Sleep(step + 2*time.Second) // until all have come by once
	began, watched := time.Now(), max(2*step, 10*time.Second)
	for range int(watched / time.Second) {
		time.Sleep(time.Second)
		s.memory("while it is down")
	}
	rate, want := s.hopRate(began), float64(parked)/step.Seconds()
	s.t.Logf("after %v: %d parked, step %v, %.0f hops a second", at, parked, step, rate)
	if rate > 1.05*ruledHops || rate > 1.1*want+10+fresh || rate < 0.8*want {
		s.t.Errorf("after %v: %.0f hops a second, want %.0f and at most %d", at, rate, want, ruledHops)
	}
}

// judge looks at the end: everything was delivered, nothing early, nothing twice, nothing is left.
func (o outage) check(s *sim, events, parked int, up time.Time) {
	s.seen.Lock()
	first, last := s.taken[0], s.taken[len(s.taken)-1]
	failures := s.requests - events
	s.seen.Unlock()
	s.t.Logf("%d events, %d parked at the end; %d requests failed; found up %v late, all delivered %v after that; "+
		"%d hops watched, %d not",
		events, parked, failures, first.Sub(up), last.Sub(first), s.hopsInAll(), s.elided)
	if got := s.statuses(); !maps.Equal(got, map[string]int{"delivered": events}) {
		s.t.Errorf("%d events: %v", events, got)
	}
	if len(s.taken) != events || s.early > 0 || s.most > 64 {
		s.t.Errorf("%d events: %d deliveries, %d early, %d at once", events, len(s.taken), s.early, s.most)
	}
	if failures > 500 {
		s.t.Errorf("%d requests to a destination that is down", failures)
	}
	if n := s.open(); n != 0 {
		s.t.Errorf("%d records are not committed", n)
	}
}

// What waits for longer than its payload is kept fails when that is over, and the rest is delivered.
func TestDownForLongerThanPayloadsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour begins the same goroutines")
	}
	ep := simEndpoint("ep_1", "dst_1")
	const interval = time.Minute
	ep.RetryPolicy = config.RetryPolicy{Strategy: "linear", IntervalSeconds: int(interval / time.Second),
		MaxAttempts: 1_000_000}
	cfg := simConfig()
	cfg.RetentionDays = 1
	const look = 10 * time.Minute // how often what is parked comes by
	simulate(t, cfg, []*config.Endpoint{ep}, func(s *sim) {
		start := time.Now()
		up := start.Add(30 * time.Hour)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return time.Millisecond, 0
			}
			return 50 * time.Millisecond, 200
		}
		events := 0
		for ; time.Now().Before(up.Add(2 * time.Hour)); time.Sleep(5 * time.Minute) {
			s.away.Store(time.Now().Add(look).UnixNano())
			if time.Now().Before(up) {
				s.accept(ep)
				events++
			}
		}
		got := s.statuses()
		if got["delivered"]+got["failed payload_expired"] != events || got["failed payload_expired"] < 70 {
			t.Errorf("%d events: %v", events, got)
		}
		for k, outcome := range s.last {
			expiry := k.event.Time().Add(24 * time.Hour)
			switch {
			case outcome.Status == event.Delivered && !outcome.At.Before(expiry.Add(time.Second)):
				t.Errorf("delivered %v after its end", outcome.At.Sub(expiry))
			case outcome.Status == event.Failed &&
				(outcome.At.Before(expiry.Add(-interval)) || outcome.At.After(expiry.Add(look+time.Minute)) &&
					outcome.At.Before(up)):
				t.Errorf("failed %v after its end", outcome.At.Sub(expiry))
			}
		}
	})
}
