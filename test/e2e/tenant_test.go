package e2e

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A tenant that sends as fast as it can, above its limit and to a slow destination, delays another one by little: the
// time from a send to the delivery is compared with that of the same seconds before.
func TestFloodOfATenantDelaysNoOther(t *testing.T) {
	t.Parallel()
	const paced, flooders, limit = 150, 8, 100
	slow, fast := newSink(t, func(received) int {
		time.Sleep(50 * time.Millisecond)
		return http.StatusNoContent
	}), newSink(t, nil)
	c := startDevProcess(t, t.TempDir(), "RELAY_EGRESS_ALLOW_HTTP=true").forTest(t)
	event := map[string]any{"type": "order.paid", "data": map[string]any{}}
	for name, to := range map[string]string{"flood": slow.URL, "calm": fast.URL} {
		c.must(200, "PUT", "/v1/tenants/"+name, map[string]any{"limits": map[string]any{"events_per_second": limit}})
		c.must(202, "POST", "/v1/tenants/"+name+"/events", event)
		own := c.must(200, "GET", "/v1/tenants/"+name, nil)["endpoint_id"].(string)
		c.must(201, "POST", "/v1/endpoints/"+own+"/destinations", map[string]any{"url": to})
	}
	measure := func() (p99 time.Duration) {
		t.Helper()
		sent := map[string]time.Time{}
		for range paced {
			at := time.Now()
			sent[c.must(202, "POST", "/v1/tenants/calm/events", event)["id"].(string)] = at
			time.Sleep(20 * time.Millisecond)
		}
		var all []time.Duration
		eventually(t, arrival, func() string {
			all = all[:0]
			for _, x := range fast.received() {
				if at, ok := sent[x.event()]; ok {
					all = append(all, x.at.Sub(at))
				}
			}
			if len(all) < paced {
				return "not all have arrived"
			}
			return ""
		})
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	alone := measure()
	var accepted, refused atomic.Int64
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range flooders {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, _ := c.try("POST", "/v1/tenants/flood/events", event); status == http.StatusAccepted {
					accepted.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	beside := measure()
	close(stop)
	flood.Wait()
	t.Logf("p99 from send to delivery: alone %s, beside %d accepted and %d refused events of another tenant %s", alone,
		accepted.Load(), refused.Load(), beside)
	if refused.Load() == 0 {
		t.Error("nothing of the flood was refused")
	}
	if most := 10*alone + time.Second; beside > most {
		t.Errorf("p99 is %s beside a flood, alone %s", beside, alone)
	}
}
