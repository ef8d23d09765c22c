package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
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
			old, err := w.idsAt(now.Add(-age))
			if err != nil {
				t.Fatal(err)
			}
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
		got := statuses(w.outcomes(count(5)))
		want := []string{"failed attempts_exhausted", "failed payload_expired", "held manual", "held manual", "held manual"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("outcomes %q", got)
		}
		w.view.remove(testEndpoint)
		if got := statuses(w.outcomes(count(6))); got[5] != "skipped endpoint_deleted" {
			t.Errorf("outcomes %q", got)
		}
	})
}
