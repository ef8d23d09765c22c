package dispatcher

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Waiting deliveries end when they must, wherever they wait: each re-check evaluates the configuration.
func TestParkedDeliveriesEndByPolicy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		w.endpoint("http://localhost:80/hook")
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Paused = true })
		cfg := testConfig()
		cfg.RetentionDays = 1
		w.start(cfg)
		now := time.Now()
		work := func(age, deadline time.Duration) {
			ev := w.newEvent(`{}`)
			old := must.Get(w.idsAt(now.Add(-age)))(t)
			ev.ID = old
			work := &event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2}
			if deadline > 0 {
				work.Deadline = now.Add(deadline)
			}
			w.command(work)
		}
		work(23*time.Hour+59*time.Minute, 0)
		work(0, time.Minute)
		work(0, 0)
		time.Sleep(2 * time.Minute)
		got := statuses(w.outcomes(count(4)))
		want := []string{"failed payload_expired", "held manual", "held manual", "held manual"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("outcomes %q", got)
		}
		w.view.remove(testEndpoint)
		ended := []string{"skipped endpoint_deleted", "skipped endpoint_deleted"}
		is.List(t, statuses(w.outcomes(count(6)))[4:], ended, "outcomes")
	})
}

// A delivery that has failed waits as long as its endpoint is paused, and has all of its attempts afterwards.
func TestPauseTakesNoAttempts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { return http.StatusServiceUnavailable }}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 5, MaxAttempts: 3}
		endpoint.Paused = true
		w.start(testConfig())
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2,
			Deadline: time.Now().Add(time.Minute)})
		time.Sleep(2 * time.Minute)
		must.Equal(t, len(s.all()), 0, "requests while the endpoint is paused")
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Paused = false })
		want := []string{"held manual", "retrying", "failed attempts_exhausted"}
		is.List(t, statuses(w.outcomes(count(3))), want, "outcomes")
	})
}
