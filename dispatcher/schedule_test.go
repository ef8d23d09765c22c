package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// An event with a deliver_at waits in the retry topics, also through a restart, and is delivered once, not before.
func TestDeliverAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		_, stop := w.start(testConfig())
		ev := w.newEvent(`{}`)
		ev.DeliverAt = time.Now().Add(150*time.Minute + 123*time.Millisecond)
		w.accept(ev)
		scheduled := w.outcomes(count(1))[0]
		if scheduled.Status != event.Pending || scheduled.Reason != event.Scheduled ||
			scheduled.NextAt.Sub(ev.DeliverAt).Abs() > time.Millisecond {
			t.Errorf("the outcome is %+v", scheduled)
		}
		time.Sleep(time.Hour)
		stop()
		time.Sleep(time.Minute)
		w.start(testConfig())
		w.outcomes(count(1, event.Delivered))
		time.Sleep(time.Minute)
		got := s.all()
		if late := got[0].at.Sub(ev.DeliverAt); len(got) != 1 || late < 0 || late > 2*time.Second {
			t.Errorf("%d requests, the first %v late", len(got), late)
		}
	})
}

// From its expires_at on no attempt is made: none that waits, and no retry. The delivery ends as skipped.
func TestExpiresAt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var requests atomic.Int64
		s := &sink{answer: func(int, received) int { requests.Add(1); return 503 }}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy.IntervalSeconds = 20
		w.start(testConfig())
		f := func(inform func(*event.Event), attempts int64, within time.Duration) {
			t.Helper()
			requests.Store(0)
			ev := w.newEvent(`{}`)
			ev.ExpiresAt = time.Now().Add(time.Minute)
			inform(ev)
			w.accept(ev)
			time.Sleep(within)
			last := newestOutcomes(t, w.outcomes(func(all []*event.Outcome) bool {
				return all[len(all)-1].Event == ev.ID && all[len(all)-1].Status.Terminal()
			}))[ev.ID]
			if last.Status != event.Skipped || last.Reason != event.Expired || requests.Load() != attempts {
				t.Errorf("%s %s after %d requests", last.Status, last.Reason, requests.Load())
			}
		}
		f(func(*event.Event) {}, 3, 50*time.Second) // after 0, 20, 40 s; the next one would come at the end
		f(func(ev *event.Event) { ev.DeliverAt = ev.ExpiresAt.Add(-time.Second) }, 1, 70*time.Second)
		paused := *endpoint
		paused.Paused = true
		w.view.put(&paused)
		f(func(*event.Event) {}, 0, 70*time.Second)
	})
}
