package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
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

// TestRecoverySurvivesKills kills the whole process tree in every state transition of a job. The counters add up at
// every poll, every delivery is made, and a kill repeats at most one page of deliveries.
func TestRecoverySurvivesKills(t *testing.T) {
	t.Parallel()
	skipShort(t)
	events := rounds(0, 80, 1500)
	p := startDevProcess(t, t.TempDir())
	var repaired atomic.Bool
	// Every tenth event is accepted at once: with failures alone the circuit breaker would open after 30 s, and hold what
	// a slow machine has not sent by then.
	accepted := regexp.MustCompile(`"n":\d*0\D`)
	failing := events - (events+9)/10
	answer := func(r received) int {
		if repaired.Load() || accepted.Match(r.body) {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	}
	dests := []*sink{newSink(t, answer), newSink(t, answer)}
	endpoint, _, _ := p.endpoint(map[string]any{
		"destinations": []any{dests[0].URL, dests[1].URL},
		"retry_policy": map[string]any{"strategy": "none", "max_attempts": 1},
	})
	p.sendMany(endpoint, events)
	eventually(t, 5*time.Minute, func() string { // takes seconds on an idle machine
		if failed := len(p.list("&status=failed&endpoint_id="+endpoint, 100)); failed < failing {
			return fmt.Sprintf("%d of %d events have failed", failed, failing)
		}
		return ""
	})
	time.Sleep(2 * time.Second) // offsets are committed, so no kill repeats the failed deliveries
	repaired.Store(true)
	kills := 0
	kill := func(after time.Duration) {
		time.Sleep(after)
		p.kill()
		kills++
		p.start()
	}

	prepared := make(chan struct{})
	go func() { // the process is killed before it answers
		defer close(prepared)
		body := fmt.Sprintf(`{"endpoint_id":%q,"since":"2020-01-01","rate_per_second":100}`, endpoint)
		req, err := http.NewRequest(http.MethodPost, p.url+"/v1/recoveries", strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+testKey)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	kill(30 * time.Millisecond)
	<-prepared
	var job map[string]any
	if jobs := p.must(http.StatusOK, "GET", "/v1/recoveries", nil)["data"].([]any); len(jobs) == 1 {
		job = p.awaitJob(t, jobs[0].(map[string]any), time.Minute, "ready")
	} else {
		job = p.prepareRecovery(t, endpoint, 100)
	}
	if job["total"] != float64(2*failing) {
		t.Fatalf("the job has selected %v of %d", job["total"], 2*failing)
	}
	random := kit.Rand(t)
	kill(0)
	job = p.awaitJob(t, job, time.Minute, "ready")
	p.doAction(job, "canary")
	kill(time.Duration(random.IntN(60)) * time.Millisecond)
	job = p.awaitJob(t, job, time.Minute, "awaiting_approval")
	kill(0)
	job = p.awaitJob(t, job, time.Minute, "awaiting_approval")
	p.doAction(job, "continue")
	for range rounds(0, 2, 15) {
		kill(time.Duration(random.IntN(800)) * time.Millisecond)
		p.awaitJob(t, job, time.Minute, "running", "completed")
	}
	job = p.awaitJob(t, job, 5*time.Minute, "completed")
	kill(0)
	job = p.awaitJob(t, job, time.Minute, "completed")
	is.Equal(t, job["delivered"], job["total"], "at the end the job is %v", job)
	if left := p.items(job, "&state=pending,queued,failed,skipped"); len(left) > 0 {
		t.Errorf("%d items were not delivered, such as %v", len(left), left[0])
	}
	if all := p.items(job, ""); len(all) != 2*failing {
		t.Errorf("%d items, want %d", len(all), 2*failing)
	}
	duplicates := 0
	for _, dest := range dests {
		taken := map[string]int{}
		for _, r := range dest.received() {
			if r.status == http.StatusOK {
				taken[r.event()]++
			}
		}
		is.Equal(t, len(taken), events, "a destination has accepted: of %d events", events)
		for _, n := range taken {
			duplicates += n - 1
		}
	}
	t.Logf("%d deliveries, %d kills, %d duplicates", 2*failing, kills, duplicates)
	if duplicates > 200*kills {
		t.Errorf("%d duplicates after %d kills", duplicates, kills)
	}
	for _, row := range p.list("&endpoint_id="+endpoint, 100) {
		if row["status"] != "delivered" {
			t.Errorf("an event is %v", row)
		}
	}
	checkNothingLost(t, p.streamConfig)
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

// A job of 100,000 deliveries runs at its rate to its end. The test takes about 20 minutes.
func TestRecoveryOf100000Deliveries(t *testing.T) {
	n := rounds(0, 0, 100_000)
	if n == 0 {
		t.Skip("takes 20 minutes; set RELAY_TORTURE")
	}
	p := startDevProcess(t, t.TempDir())
	endpoint, dest, repair := p.failedEvents(t, n)
	repair()
	began := time.Now()
	job := p.prepareRecovery(t, endpoint, 100)
	t.Logf("prepared after %v", time.Since(began).Round(time.Millisecond))
	p.doAction(job, "canary")
	p.awaitJob(t, job, time.Minute, "awaiting_approval")
	began = time.Now()
	p.doAction(job, "continue")
	job = p.awaitJob(t, job, time.Hour, "completed")
	took := time.Since(began)
	if job["delivered"] != float64(n) || len(dest.received()) != 2*n {
		t.Errorf("%d requests, and the job is %v", len(dest.received()), job)
	}
	t.Logf("%d deliveries in %v: %.1f a second", n, took.Round(time.Second), float64(n)/took.Seconds())
	checkNothingLost(t, p.streamConfig)
}
