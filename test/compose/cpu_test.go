package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// scaleByCPU gives "ingest" an autoscaler. It adds a pod while many events come in, and removes it when they are few
// again.
func (k *kubernetes) scaleByCPU(t *testing.T) {
	// A pod with few events uses a third of this CPU request.
	k.upgrade("ingest.autoscaling.enabled=true", "ingest.autoscaling.maxReplicas=3",
		"ingest.resources.requests.cpu=50m")
	k.awaitPods(t, 3*time.Minute, func(pods, percent int) bool { return pods == 2 && percent < 60 })
	few := k.countAccepted()

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				k.send()
			}
		})
	}
	began := time.Now()
	k.awaitPods(t, 5*time.Minute, func(pods, _ int) bool { return pods == 3 })
	t.Logf("3 pods instead of 2 after %.0f s with %.0f events a second", time.Since(began).Seconds(),
		float64(k.countAccepted()-few)/time.Since(began).Seconds())
	k.kubectl("rollout", "status", "deployment/eventrelay-ingest", "--timeout", "2m")
	stop()
	wg.Wait()
	began = time.Now()
	k.awaitPods(t, 10*time.Minute, func(pods, _ int) bool { return pods == 2 })
	t.Logf("2 pods again %.0f s after the load", time.Since(began).Seconds())
	k.upgrade()
}

// awaitPods waits until wanted accepts what the autoscaler of "ingest" reports: its pods, and their CPU use in percent
// of their requests.
func (k *kubernetes) awaitPods(t *testing.T, within time.Duration, wanted func(pods, percent int) bool) {
	t.Helper()
	kit.Eventually(t, within, func() string {
		var scaler struct {
			Status struct {
				CurrentReplicas int
				CurrentMetrics  []struct {
					Resource struct {
						Current struct{ AverageUtilization *int }
					}
				}
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
		out := k.kubectl("get", "hpa", "eventrelay-ingest", "-o", "json")
		must.Do(t, json.Unmarshal([]byte(out), &scaler))
		percent := -1 // not known yet
		for _, m := range scaler.Status.CurrentMetrics {
			if u := m.Resource.Current.AverageUtilization; u != nil {
				percent = *u
			}
		}
		if percent >= 0 && wanted(scaler.Status.CurrentReplicas, percent) {
			return ""
		}
		return fmt.Sprintf("%d %% of the CPU: %+v", percent, scaler.Status)
	})
}
