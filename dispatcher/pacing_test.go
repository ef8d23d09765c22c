package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// paced gives the dispatcher the real limiter, without Redis, on fake time.
func paced(t *testing.T) func(*Deps) {
	t.Helper()
	l := must.Get(limit.New(limit.DefaultConfig(), limit.Deps{Log: testLog(), Now: time.Now}))(t)
	return func(d *Deps) { d.Limiter = l }
}

func (w *world) setRate(perSecond float64, burst int) {
	w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
		endpoint.Destinations[0].RateLimit = &config.RateLimit{PerSecond: perSecond, Burst: burst}
	})
}

// passes counts the records in the retry topics of partition 0.
func (w *bubbleWorld) passes() (n int64) {
	for _, t := range tierTopics() {
		n += w.cluster.PartitionInfo("t."+t, 0).HighWatermark
	}
	return n
}

// The rate is neither exceeded nor left unused as long as there are deliveries, with failures and retries among them.
// What waits long is parked and reported once.
func TestRateIsHeld(t *testing.T) {
	f := func(perSecond float64, burst, events int, seconds time.Duration) {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(n int, _ received) int {
					time.Sleep(50 * time.Millisecond)
					return []int{200, 500, 200}[n%3]
				}}
				url, _ := w.serve(80, s)
				w.endpoint(url).RetryPolicy.IntervalSeconds = 7
				w.setRate(perSecond, burst)
				w.start(testConfig(), paced(t))
				for range events {
					w.accept(w.newEvent(`{}`))
				}
				begin := time.Now()
				time.Sleep(seconds * time.Second)
				var at []float64 // seconds since the start
				for _, r := range s.all() {
					at = append(at, r.at.Sub(begin).Seconds())
				}
				n, want := len(at), perSecond*float64(seconds)+float64(burst)
				if float64(n) > want+1 || float64(n) < 0.95*want-1 {
					t.Errorf("%d requests in %d s, want %v", n, seconds, want)
				}
				for i := range at {
					for k := i + 1; k < len(at) && at[k]-at[i] < 5; k++ {
						most := float64(burst) + 1 + perSecond*(at[k]-at[i]+lane.MinBurst.Seconds())
						if float64(k-i+1) > most {
							t.Fatalf("%d requests within %v s of second %v", k-i+1, at[k]-at[i], at[i])
						}
					}
				}
				reported := map[string]int{}
				for _, outcome := range w.outcomes(count(events)) {
					if outcome.Reason != event.Paced {
						continue
					}
					if reported[outcome.Event.String()]++; !outcome.NextAt.After(outcome.At) || outcome.Status != event.Pending &&
						outcome.Status != event.Retrying {
						t.Fatalf("paced: %+v", outcome)
					}
				}
				if len(reported) < events/3 {
					t.Errorf("%d were reported as waiting for the rate", len(reported))
				}
			})
		})
	}
	f(20, 1, 750, 30)
	f(200, 20, 3000, 7)
	f(1.5, 1, 100, 60)
}

// The rate continues while its partition moves to another node.
func TestRateIsHeldThroughARebalance(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.setRate(20, 1)
		_, stop := w.start(DefaultConfig(), paced(t))
		for range 2000 {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(30 * time.Second)
		w.start(DefaultConfig(), paced(t))
		time.Sleep(time.Second)
		stop()
		time.Sleep(29 * time.Second)
		if n := len(s.all()); n < 1140 || n > 1260 {
			t.Errorf("%d requests in 60 s, want 1,200 ± 5 %%", n)
		}
	})
}

// At one delivery every ten seconds, a delivery arrives every ten seconds, and waiting ones are re-checked as seldom
// as other parked deliveries.
func TestSlowRate(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.setRate(0.1, 1)
		w.start(testConfig(), paced(t))
		const events = 12
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		begin := time.Now()
		time.Sleep((events*10 + 5) * time.Second)
		got := s.all()
		must.Equal(t, len(got), events, "of %d were delivered", events)
		for i, r := range got {
			if off := r.at.Sub(begin) - time.Duration(i)*10*time.Second; off < -time.Second || off > time.Second {
				t.Errorf("delivery %d was %v off", i, off)
			}
		}
		most := int64(0)
		for i := range int64(events) {
			most += 3 + i*10/5 // three retry passes at first, then one per interval
		}
		if n := w.passes(); n > most {
			t.Errorf("%d retry passes, want at most %d", n, most)
		}
	})
}

// A changed rate applies at once, also for a lane that waits for a token of the old one.
func TestRateChanges(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.setRate(0.1, 1)
		w.start(testConfig(), paced(t))
		const events = 60
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(11 * time.Second)
		must.Equal(t, len(s.all()), 2, "requests at the slow rate")
		w.setRate(1000, 1)
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		is.Equal(t, len(s.all()), events, "of %d were delivered at the new rate", events)
		w.setRate(0.5, 1)
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(20 * time.Second)
		if n := len(s.all()) - events; n < 10 || n > 12 {
			t.Errorf("%d requests in 20 s at 0.5 a second", n)
		}
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].RateLimit = nil })
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		if n := len(s.all()); n != 2*events {
			t.Errorf("%d of %d were delivered without a rate", n, 2*events)
		}
	})
}
