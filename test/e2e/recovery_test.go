package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// failedEvents creates an endpoint with n events that failed finally. Its destination fails until repair is called.
func (c client) failedEvents(t *testing.T, n int) (endpoint string, dest *sink, repair func()) {
	t.Helper()
	var repaired atomic.Bool
	dest = newSink(t, func(received) int {
		if repaired.Load() {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	})
	endpoint, _, _ = c.endpoint(map[string]any{
		"destinations": []any{dest.URL}, "retry_policy": map[string]any{"strategy": "none", "max_attempts": 1},
	})
	c.sendMany(endpoint, n)
	// A destination that only fails has a small in-flight window, so this takes a while.
	dest.wait(t, n, time.Minute+time.Duration(n)*20*time.Millisecond)
	eventually(t, time.Minute, func() string {
		if failed := len(c.list("&status=failed&endpoint_id="+endpoint, 100)); failed < n {
			return fmt.Sprintf("%d of %d events have failed", failed, n)
		}
		return ""
	})
	return endpoint, dest, func() { repaired.Store(true) }
}

// sendMany sends n events in batches.
func (c client) sendMany(endpoint string, n int) {
	c.t.Helper()
	for sent := 0; sent < n; {
		var events []any
		for ; sent < n && len(events) < 1000; sent++ {
			events = append(events, map[string]any{"type": "order.paid", "data": map[string]any{"n": sent}})
		}
		c.must(http.StatusAccepted, "POST", "/v1/endpoints/"+endpoint+"/events/batch", map[string]any{"events": events})
	}
}

// prepareRecovery creates a recovery job and waits until it is ready.
func (c client) prepareRecovery(t *testing.T, endpoint string, rate int) (job map[string]any) {
	t.Helper()
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	job = c.must(http.StatusCreated, "POST", "/v1/recoveries",
		map[string]any{"endpoint_id": endpoint, "since": since, "rate_per_second": rate})
	return c.awaitJob(t, job, time.Minute, "ready")
}

// awaitJob polls a job until it has one of the states; an ended job must also have nothing queued. At every poll its
// counters must add up.
func (c client) awaitJob(t *testing.T, job map[string]any, limit time.Duration, states ...string) map[string]any {
	t.Helper()
	eventually(t, limit, func() string {
		status, now, _ := c.call("GET", "/v1/recoveries/"+job["id"].(string), nil)
		if status != http.StatusOK {
			return fmt.Sprintf("the job is answered %d %v", status, now)
		}
		job = now
		sum := 0.0
		for _, name := range []string{"pending", "queued", "delivered", "failed", "skipped"} {
			if job[name].(float64) < 0 {
				t.Errorf("a counter is negative: %v", job)
			}
			sum += job[name].(float64)
		}
		if sum != job["total"] {
			t.Errorf("the counters add up to %v: %v", sum, job)
		}
		for _, s := range states {
			if job["state"] == s && (job["finished_at"] == nil || job["queued"] == 0.0) {
				return ""
			}
		}
		return fmt.Sprintf("the job is not %v: %v\n%s", states, job, c.logs)
	})
	return job
}

// doAction sends an action, such as canary, to a job.
func (c client) doAction(job map[string]any, action string) map[string]any {
	c.t.Helper()
	return c.must(http.StatusOK, "POST", "/v1/recoveries/"+job["id"].(string), map[string]any{"action": action})
}

// items lists the items of a job, with a query as the filter.
func (c client) items(job map[string]any, query string) (all []map[string]any) {
	c.t.Helper()
	for cursor := ""; ; {
		page := c.must(http.StatusOK, "GET", "/v1/recoveries/"+job["id"].(string)+"/items?limit=100"+query+cursor, nil)
		for _, row := range page["data"].([]any) {
			all = append(all, row.(map[string]any))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// undeliveredEvents creates an endpoint with n events that were skipped, and then enables its destination.
func (c client) undeliveredEvents(dest *sink, n int) (endpoint string) {
	c.t.Helper()
	destination := map[string]any{"url": dest.URL, "enabled": false}
	endpoint, _, _ = c.endpoint(map[string]any{"destinations": []any{destination}})
	c.sendMany(endpoint, n)
	destination["enabled"] = true
	c.must(http.StatusOK, "PATCH", "/v1/endpoints/"+endpoint, map[string]any{"destinations": []any{destination}})
	return endpoint
}

// replay requests a replay of an endpoint's events with an Idempotency-Key. The relay may be killed meanwhile.
func (c client) replay(key, endpoint, since string, rate int) (status int, answer map[string]any, err error) {
	body := fmt.Sprintf(`{"endpoint_id":%q,"since":%q,"rate_per_second":%d}`, endpoint, since, rate)
	req, err := http.NewRequest("POST", c.url+"/v1/replays", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer, err
}

func anHourAgo() string { return time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) }

// The largest selection of one request: measures its time and the additional memory of the relay and its engines. Runs
// with RELAY_TORTURE=1 only.
func TestLargestReplay(t *testing.T) {
	n := rounds(0, 0, 100_000)
	if n == 0 {
		t.Skip("needs RELAY_TORTURE=1")
	}
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	endpoint := p.undeliveredEvents(dest, n)
	time.Sleep(5 * time.Second) // the store catches up
	before := p.rss()
	ended, most := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
				most = max(most, p.rss())
			}
		}
	})
	began := time.Now()
	dry := p.must(http.StatusOK, "POST", "/v1/replays",
		map[string]any{"endpoint_id": endpoint, "since": anHourAgo(), "dry_run": true})
	counted := time.Since(began)
	began = time.Now()
	status, answer, err := p.replay("many", endpoint, anHourAgo(), 100)
	took := time.Since(began)
	close(ended)
	wg.Wait()
	if err != nil || status != http.StatusOK || answer["queued"] != float64(n) || dry["queued"] != float64(n) {
		t.Fatalf("%d %v, %v; dry %v", status, answer, err, dry)
	}
	t.Logf("%d deliveries: counted in %v, queued in %v; RSS %d MB before, %d MB at most", n,
		counted.Round(time.Millisecond), took.Round(time.Millisecond), before>>20, most>>20)
	if more := most - before; more > 300<<20 {
		t.Errorf("%d MB more while queueing", more>>20)
	}
	p.send(endpoint, n)
	if status, _, _ := p.replay("too many", endpoint, anHourAgo(), 100); status != http.StatusBadRequest {
		t.Errorf("%d deliveries are answered %d", n+1, status)
	}
}
