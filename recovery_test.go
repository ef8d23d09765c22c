package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// recoverable makes an endpoint whose destination fails until it is mended, and so many events that failed for good.
func (c client) recoverable(t *testing.T, n int) (endpoint string, dest *sink, mend func()) {
	t.Helper()
	var mended atomic.Bool
	dest = newSink(t, func(received) int {
		if mended.Load() {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	})
	endpoint, _, _ = c.endpoint(map[string]any{
		"destinations": []any{dest.URL}, "retry_policy": map[string]any{"strategy": "none", "max_attempts": 1},
	})
	c.sendMany(endpoint, n)
	eventually(t, time.Minute, func() string {
		if failed := len(c.list("&status=failed&endpoint_id="+endpoint, 100)); failed < n {
			return fmt.Sprintf("%d of %d events have failed", failed, n)
		}
		return ""
	})
	return endpoint, dest, func() { mended.Store(true) }
}

// sendMany sends events in batches.
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

// recover makes a recovery job and waits until it is ready.
func (c client) recover(t *testing.T, endpoint string, rate int) (job map[string]any) {
	t.Helper()
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	job = c.must(http.StatusCreated, "POST", "/v1/recoveries", map[string]any{"endpoint_id": endpoint, "since": since, "rate_per_second": rate})
	return c.job(t, job, time.Minute, "ready")
}

// job polls a job until it has one of the states and nothing of an ended one is queued. At every poll its counters add up.
func (c client) job(t *testing.T, job map[string]any, limit time.Duration, states ...string) map[string]any {
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

// act takes an action on a job.
func (c client) act(job map[string]any, action string) map[string]any {
	c.t.Helper()
	return c.must(http.StatusOK, "POST", "/v1/recoveries/"+job["id"].(string), map[string]any{"action": action})
}

// Failed deliveries are selected, tested with a canary, and sent once somebody agrees.
func TestRecovery(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	endpoint, dest, mend := p.recoverable(t, 12)
	job := p.recover(t, endpoint, 100)
	if n := len(dest.received()); n != 12 || job["total"] != 12.0 || job["pending"] != 12.0 {
		t.Fatalf("after the preparation the destination has had %d requests, and the job is %v", n, job)
	}
	mend()
	p.act(job, "canary")
	job = p.job(t, job, 20*time.Second, "awaiting_approval")
	if n := len(dest.received()); n != 17 || job["delivered"] != 5.0 || job["pending"] != 7.0 {
		t.Fatalf("after the canary the destination has had %d requests, and the job is %v", n, job)
	}
	p.act(job, "continue")
	job = p.job(t, job, 20*time.Second, "completed")
	if n := len(dest.received()); n != 24 || job["delivered"] != 12.0 {
		t.Fatalf("at the end the destination has had %d requests, and the job is %v", n, job)
	}
	triggers := map[any]int{}
	for _, row := range p.list("&endpoint_id="+endpoint, 100) {
		e := p.must(http.StatusOK, "GET", "/v1/events/"+row["id"].(string), nil)
		last := e["attempts"].([]any)[1].(map[string]any)
		if e["status"] != "delivered" || last["recovery_id"] != job["id"] || last["run_id"] != nil {
			t.Fatalf("an event of the job is %v", e)
		}
		triggers[last["trigger"]]++
	}
	if triggers["canary"] != 5 || triggers["recovery"] != 7 {
		t.Errorf("triggers of the attempts: %v", triggers)
	}
	nothingLost(t, p.topics())
}
