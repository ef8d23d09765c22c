package e2e

import (
	"encoding/json"
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

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
// log. A repeat with the same Idempotency-Key gets that number and queues nothing.
func TestReplaySurvivesAKill(t *testing.T) {
	skipShort(t)
	t.Parallel()
	const n = 15_000
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), shortWaits+"=1")
	endpoint := p.undeliveredEvents(dest, n)
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
