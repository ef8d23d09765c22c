package dispatcher

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// A burst to a new destination: starting with a small window costs it four round trips.
func TestBurstToANewLane(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		const events, trip = 1000, 20 * time.Millisecond
		s := &sink{answer: func(int, received) int { time.Sleep(trip); return 200 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		w.start(testConfig())
		all := w.outcomes(count(events, event.Delivered))
		is.Equal(t, len(all), events, "outcomes: some were parked")
		got := s.all()
		took := got[len(got)-1].at.Sub(got[0].at)
		full := events / 64 * trip // with 64 in flight all the time
		t.Logf("%d events in %v; %v with all requests from the start", events, took, full)
		if took > full+8*trip {
			t.Errorf("the burst took %v, %v would be without adapting", took, full)
		}
	})
}

// A hanging destination gets four requests, then one or two at a time. When it answers again, it gets as many as
// max_in_flight allows.
func TestHungDestinationGetsFewRequests(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var hangs atomic.Bool
		var flying, most, total atomic.Int64
		hangs.Store(true)
		url, _ := w.serve(80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			total.Add(1)
			most.Store(max(most.Load(), flying.Add(1)))
			defer flying.Add(-1)
			if io.Copy(io.Discard, r.Body); hangs.Load() {
				<-r.Context().Done()
				return
			}
			time.Sleep(100 * time.Millisecond)
		}))
		w.endpoint(url).RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 1, MaxAttempts: 50}
		w.start(testConfig())
		const events = 300
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(time.Second)
		is.Equal(t, most.Load(), lane.InitialWindow, "requests at first")
		time.Sleep(15 * time.Second)
		most.Store(0)
		time.Sleep(29 * time.Second)
		if n := most.Load(); n > lane.FailingWindow {
			t.Errorf("%d requests to a destination that does not answer", n)
		}
		if w.metric("relay_dispatch_lanes", "window_reduced") != 1 {
			t.Error("the metrics do not count the lane with a reduced window")
		}
		hangs.Store(false)
		w.outcomes(count(events, event.Delivered))
		if n := most.Load(); n < 32 {
			t.Errorf("%d requests at once after it answers again", n)
		}
	})
}
