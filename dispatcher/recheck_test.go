package dispatcher

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// Many destinations hang, and more is parked for them than memory holds. It costs few retry passes while nothing
// changes. One of them recovers: everything for it arrives within the time that a pass over all parked deliveries
// takes, although they would return much later by themselves.
func TestParkedWorkCostsLittleUntilItsLaneRecovers(t *testing.T) {
	const dests, each = 10, 600
	var endpoints []*config.Endpoint
	for i := range dests {
		endpoints = append(endpoints, simEndpoint(fmt.Sprint("ep_", i), fmt.Sprint("dst_", i)))
	}
	cfg := simConfig()
	cfg.MaxInFlight, cfg.MaxWaitingBytes = 1024, 2<<20 // most of it waits in the log
	simulate(t, cfg, endpoints, func(s *sim) {
		var up atomic.Bool
		s.answer = func(dest string, _ time.Time) (time.Duration, int) {
			if dest == "dst_0" && up.Load() {
				return 50 * time.Millisecond, 200
			}
			return time.Hour, 0
		}
		for range each {
			for _, endpoint := range endpoints {
				s.accept(endpoint)
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(45 * time.Second) // all were re-checked since their lanes hang
		began := time.Now()
		time.Sleep(15 * time.Second)
		if rate := s.passRate(began); rate > 1.1*lane.HungRecheckBudget {
			t.Errorf("%.0f retry passes a second while nothing changes", rate)
		}
		up.Store(true)
		recovered := time.Now()
		// The breaker has opened: its probe is due within half a minute. Requests that run meanwhile are retried later.
		const found, pass = 30 * time.Second, dests * each * time.Second / lane.RecheckBudget
		time.Sleep(found + pass + 2*time.Second)
		s.seen.Lock()
		// A request that timed out as the destination recovered has its own next attempt.
		retried := 0
		for key, outcome := range s.last {
			if key.Dest == "dst_0" && outcome.Status == event.Retrying && outcome.Reason == "" {
				retried++
			}
		}
		n := len(s.succeededAt)
		if n+retried != each || retried > 10 {
			t.Errorf("%d of %d are delivered, %d have a retry of their own", n, each, retried)
		}
		if n > 0 {
			t.Logf("delivered within %v, %v after the first", s.succeededAt[n-1].Sub(recovered),
				s.succeededAt[n-1].Sub(s.succeededAt[0]))
		}
		s.seen.Unlock()
		t.Logf("%.0f retry passes a second since", s.passRate(recovered))
		s.memory("at the end")
	})
}

// What is parked for a paused endpoint costs few retry passes. When it is resumed, everything is delivered
// at RecoveredPace.
func TestPausedWorkCostsLittleUntilItIsResumed(t *testing.T) {
	const events = 5_000
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Paused = true
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		s.answer = func(string, time.Time) (time.Duration, int) { return time.Millisecond, 200 }
		for i := range events {
			s.accept(endpoint)
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(20 * time.Second)
		began := time.Now()
		time.Sleep(20 * time.Second)
		if rate := s.passRate(began); rate > 1.1*lane.HungRecheckBudget {
			t.Errorf("%.0f retry passes a second while it is paused", rate)
		}
		s.view.change("ep_1", func(endpoint *config.Endpoint) { endpoint.Paused = false })
		time.Sleep(time.Second + events*time.Second/lane.RecheckBudget)
		is.Equal(t, s.statuses()["delivered"], events, "of %d are delivered after it was resumed", events)
	})
}

// Re-checks are minutes apart, because 400 lanes have parked deliveries. When a destination has recovered, everything
// for it arrives within seconds: also what was being parked at that moment, which the log has a little later.
func TestWhatIsBeingParkedAtTheRecoveryIsRechecked(t *testing.T) {
	down := simEndpoint("ep_0", "dst_0")
	endpoints := []*config.Endpoint{down}
	for i := range 400 {
		paused := simEndpoint(fmt.Sprint("ep_", i+1), fmt.Sprint("dst_", i+1))
		paused.Paused = true
		endpoints = append(endpoints, paused)
	}
	simulate(t, simConfig(), endpoints, func(s *sim) {
		recordProduced := s.produced
		s.produced = func(topic string, record *stream.Record) time.Duration {
			late := recordProduced(topic, record)
			if strings.HasPrefix(topic, "retry.") {
				late += 300 * time.Millisecond
				record.Timestamp = time.Now().Add(late) // the broker sets it
			}
			return late
		}
		var up atomic.Bool
		s.answer = func(string, time.Time) (time.Duration, int) {
			if up.Load() {
				return 50 * time.Millisecond, 200
			}
			return 0, 0
		}
		for _, endpoint := range endpoints[1:] {
			s.accept(endpoint)
		}
		for i := 0; s.statuses()["delivered"] == 0 && i < 1200; i++ {
			up.Store(i > 450) // its circuit breaker is open since the 30th second
			s.accept(down)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(8 * time.Second)
		if n := s.statuses()["held breaker_open"]; n > 0 {
			t.Errorf("%d deliveries wait for a destination that has recovered", n)
		}
	})
}

// A destination that recovers and is slow has no room for most of what is parked for it. That is parked again, and
// re-checked once, although its new records seem to be from the recovery.
func TestWhatIsParkedAgainAfterTheRecoveryIsNotRechecked(t *testing.T) {
	const events = 2000
	slow := simEndpoint("ep_0", "dst_0")
	endpoints := []*config.Endpoint{slow}
	for i := range 400 { // they make re-checks rare
		endpoints = append(endpoints, simEndpoint(fmt.Sprint("ep_", i+1), fmt.Sprint("dst_", i+1)))
	}
	for _, endpoint := range endpoints {
		endpoint.Paused = true
	}
	simulate(t, simConfig(), endpoints, func(s *sim) {
		s.answer = func(string, time.Time) (time.Duration, int) { return 10 * time.Second, 200 }
		for _, endpoint := range endpoints[1:] {
			s.accept(endpoint)
		}
		for i := range events {
			s.accept(slow)
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(5 * time.Minute)
		before := s.passesInAll()
		s.view.change("ep_0", func(endpoint *config.Endpoint) { endpoint.Paused = false })
		time.Sleep(time.Second + readLag)
		if passes := s.passesInAll() - before; passes == 0 || passes > 1.2*events {
			t.Errorf("%d retry passes for %d deliveries", passes, events)
		}
	})
}

// If the clock is set back during a pass over all parked deliveries, the pass ends in a minute all the same.
func TestPassEndsAfterTheClockIsSetBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	d := &Dispatcher{
		now: func() time.Time { return now }, assignment: newAssignment(),
		lanes: lane.New(lane.Config{}, lane.Deps{Now: func() time.Time { return now }}),
	}
	d.tiersAssigned.Store(true)
	d.recheckRecovered()
	if d.recheck.from.IsZero() {
		t.Fatal("no pass has begun")
	}
	now = now.Add(-30 * 24 * time.Hour)
	for range 3 {
		d.recheckRecovered()
		now = now.Add(minRecheckSpan)
	}
	if !d.recheck.from.IsZero() {
		t.Error("the pass goes on")
	}
}

// What was parked in the very millisecond in which its lane recovered is re-checked with the rest: records carry
// milliseconds. What was parked later is not, nor are retries and deliveries that wait for their rate.
func TestWhatIsRecheckedOnRecovery(t *testing.T) {
	p, _ := testPartition(t, "retry.1h", time.Hour)
	recovered := time.UnixMilli(1_800_000_000_000)
	for o, work := range []struct {
		parked event.Reason
		after  time.Duration
	}{
		{event.BreakerOpen, -time.Minute}, {event.LaneFull, 0}, {event.LaneFull, time.Millisecond},
		{event.Paced, -time.Minute}, {"", -time.Minute},
	} {
		p.addWaiting(&lane.Delivery{
			Slot: p.beginRecord(int64(o), 1), Work: &event.Work{Parked: work.parked}, Size: 1,
			ParkedAt: recovered.Add(work.after), ReadyAt: recovered.Add(time.Hour),
		})
	}
	taken := p.takeParked(recovered, 10, func(*lane.Delivery) bool { return true })
	if len(taken) != 2 || len(p.waiting) != 3 || taken[0].ParkedAt.After(recovered) || taken[1].ParkedAt.After(recovered) {
		t.Errorf("%d taken, %d wait on", len(taken), len(p.waiting))
	}
}
