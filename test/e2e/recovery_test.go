package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
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

// The deliveries of a replay are not faster than the requested rate however long the request takes, each event is
// delivered once, and the run counts the deliveries.
func TestReplayIsPaced(t *testing.T) {
	t.Parallel()
	n, rate := rounds(200, 200, 3000), 100
	dest := newSink(t, nil)
	p := sharedDev(t)
	endpoint := p.undeliveredEvents(dest, n)
	status, answer, err := p.replay("paced "+endpoint, endpoint, anHourAgo(), rate)
	if err != nil || status != http.StatusOK || answer["events"] != float64(n) || answer["queued"] != float64(n) ||
		answer["truncated"] != false {
		t.Fatalf("%d %v, %v", status, answer, err)
	}
	got := dest.wait(t, n, time.Duration(n/rate)*time.Second+time.Minute)
	took := got[n-1].at.Sub(got[0].at)
	perSecond := float64(n-1) / took.Seconds()
	t.Logf("%d deliveries in %v: %.1f a second, requested %d", n, took.Round(time.Millisecond), perSecond, rate)
	// On a busy machine any delivery may be late, the first too.
	if due := time.Duration(n-1) * time.Second / time.Duration(rate); took < due/2 {
		t.Errorf("%.1f deliveries a second, requested %d", perSecond, rate)
	}
	run := answer["run_id"].(string)
	eventually(t, time.Minute, func() string {
		now := p.must(http.StatusOK, "GET", "/v1/replays/"+run, nil)
		if now["state"] == "queued" && now["delivered"] == float64(n) && now["failed"] == 0.0 && now["skipped"] == 0.0 {
			return ""
		}
		return fmt.Sprintf("the run is %v", now)
	})
	if rows := p.list("&run_id="+run, 100); len(rows) != n || rows[0]["status"] != "delivered" {
		t.Errorf("%d events are listed by their run", len(rows))
	}
	is.Equal(t, len(dest.received()), n, "requests for %d events", n)
}

// A relay that is killed while it queues a replay marks the run as interrupted, with the number of deliveries in the
// log. A repeat with the same Idempotency-Key gets that number and queues nothing. A delivery that was scheduled before
// the kill is not made again after it when a replay made it meanwhile.
func TestReplaySurvivesAKill(t *testing.T) {
	skipShort(t)
	t.Parallel()
	const n = 15_000
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), shortWaits+"=1")
	endpoint := p.undeliveredEvents(dest, n)
	early, due := newSink(t, nil), time.Now().Add(20*time.Second)
	other, _, _ := p.endpoint(map[string]any{"destinations": []any{early.URL}})
	scheduled := p.must(http.StatusAccepted, "POST", "/v1/endpoints/"+other+"/events",
		map[string]any{"type": "order.paid", "data": map[string]any{}, "deliver_at": due})
	p.must(http.StatusOK, "POST", "/v1/events/"+scheduled["id"].(string)+"/replay", nil)
	early.wait(t, 1, arrival)
	since := anHourAgo()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			status, answer, err := p.replay("killed", endpoint, since, 1)
			if status == http.StatusServiceUnavailable { // a busy machine selects so many events too slowly at first
				continue
			}
			if err == nil {
				t.Errorf("answered %d %v before it was killed", status, answer)
			}
			return
		}
	})
	eventually(t, 3*time.Minute, func() string {
		page := p.must(http.StatusOK, "GET", "/v1/replays?state=queueing&endpoint_id="+endpoint, nil)["data"].([]any)
		if len(page) == 1 && page[0].(map[string]any)["queued"].(float64) >= 500 {
			return ""
		}
		return fmt.Sprintf("queueing: %v", page)
	})
	p.kill()
	wg.Wait()
	p.start()
	var run map[string]any
	eventually(t, 90*time.Second, func() string {
		page := p.must(http.StatusOK, "GET", "/v1/replays?endpoint_id="+endpoint, nil)["data"].([]any)
		must.Equal(t, len(page), 1, "runs %v", page)
		if run = page[0].(map[string]any); run["state"] == "interrupted" {
			return ""
		}
		return fmt.Sprintf("the run is %v", run)
	})
	queued := func() float64 { return float64(len(p.list("&run_id="+run["run_id"].(string), 100))) }
	t.Logf("%v of %d were queued", run["queued"], n)
	if have := queued(); run["queued"] != have || have < 500 || have >= n || run["events"] != float64(n) {
		t.Fatalf("the log has %v deliveries of %v", have, run)
	}
	for range 2 {
		status, answer, err := p.replay("killed", endpoint, since, 1)
		must.Do(t, err)
		failure, _ := answer["error"].(map[string]any)
		if status/100 != 5 || failure["run_id"] != run["run_id"] || failure["queued"] != run["queued"] {
			t.Fatalf("the repeated request is answered %d %v", status, answer)
		}
	}
	if have := queued(); have != run["queued"] {
		t.Errorf("%v deliveries after the repeat", have)
	}
	time.Sleep(time.Until(due.Add(3 * time.Second)))
	is.Equal(t, len(early.received()), 1, "deliveries of the event that was replayed before its time")
}

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
