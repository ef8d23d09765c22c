package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The overview counts exactly the requests that the destinations of a load have answered, in all, by minute and by
// endpoint, on both nodes: with failures, retries, and deliveries that a pause has held. With RELAY_TORTURE=1 an open
// circuit breaker holds some too.
func TestOverviewCountsTheLoad(t *testing.T) {
	t.Parallel()
	skipShort(t)
	nodes := newCluster(t, sharedEngines(t), "overview", allowHTTP).start("a", "b")
	c := nodes[0].forTest(t)
	var opened atomic.Bool // the circuit breaker of the destination that is down
	dest := newTally(t, func(h hit) int {
		switch behaviour := strings.Trim(h.path, "/0123456789"); {
		case behaviour == "broken", behaviour == "flaky" && h.attempt == 1, behaviour == "down" && !opened.Load():
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	var urls, down, paused []string
	endpoints := map[string]string{} // by the path at the destination
	for _, behaviour := range []string{"fine", "flaky", "broken", "paused", "down"} {
		attempts := 50
		if behaviour == "broken" {
			attempts = 2
		}
		for i := range 4 { // so that both nodes deliver some
			path := fmt.Sprintf("/%s%d", behaviour, i)
			made := c.must(http.StatusCreated, "POST", "/v1/endpoints", map[string]any{
				"destinations": []any{map[string]any{"url": dest.URL + path, "paused": behaviour == "paused"}},
				"retry_policy": map[string]any{
					"strategy": "linear", "interval_seconds": 1, "max_attempts": attempts, "jitter": 0}})
			id := made["id"].(string)
			endpoints[path] = id
			if behaviour == "paused" {
				paused = append(paused, fmt.Sprintf("/v1/endpoints/%s/destinations/%s", id,
					made["destinations"].([]any)[0].(map[string]any)["id"]))
			}
			if behaviour == "down" {
				down = append(down, made["ingest_url"].(string))
				continue
			}
			for _, n := range nodes {
				urls = append(urls, n.url+strings.TrimPrefix(made["ingest_url"].(string), nodes[0].url))
			}
		}
	}
	l := startLoad(t, 200, 200, urls...)
	eventually(t, time.Minute, func() string {
		if have, want := l.count(), rounds(0, 400, 4_000); have < want {
			return fmt.Sprintf("%d events were accepted, want %d", have, want)
		}
		return ""
	})
	accepted := l.finish()
	for range rounds(0, 0, 1) {
		few := startLoad(t, 1, 200, down...) // many would all be tried again every second
		eventually(t, 2*time.Minute, func() string {
			held := c.must(http.StatusOK, "GET", "/v1/overview", nil)["needs"].(map[string]any)["destinations"]
			if !strings.Contains(fmt.Sprint(held), "breaker_open") {
				return fmt.Sprintf("no circuit breaker is open: %v", held)
			}
			return ""
		})
		maps.Copy(accepted, few.finish())
		opened.Store(true)
	}
	for _, path := range paused {
		c.must(http.StatusOK, "PATCH", path, map[string]any{"paused": false})
	}
	eventually(t, 3*time.Minute, func() string {
		arrived := 0
		dest.each(func(int64, []hit) { arrived++ })
		if arrived < len(accepted) || c.hasOpen("") {
			return fmt.Sprintf("%d of %d events have arrived, and some are open", arrived, len(accepted))
		}
		return ""
	})
	want := answersOf(dest, endpoints)
	for _, n := range nodes {
		eventually(t, time.Minute, func() string { // an answer may be ten seconds old
			return cmp.Diff(want, n.forTest(t).overviewCounts())
		})
	}
	t.Logf("%d events: requests, delivered, failed, first attempts and those delivered are %v", len(accepted), want["all"])
}

// requestCounts are requests, delivered and failed ones, first attempts and those delivered.
type requestCounts [5]int

// answersOf counts what a destination has answered, in all and by endpoint.
func answersOf(dest *tally, endpoints map[string]string) map[string]requestCounts {
	counts := map[string]requestCounts{}
	dest.each(func(_ int64, hits []hit) {
		for _, h := range hits {
			delivered, first := 0, 0
			if h.status == http.StatusOK {
				delivered = 1
			}
			if h.attempt == 1 {
				first = 1
			}
			for _, name := range []string{"all", "minutes", endpoints[h.path]} {
				n := counts[name]
				for i, more := range (requestCounts{1, delivered, 1 - delivered, first, first * delivered}) {
					n[i] += more
				}
				counts[name] = n
			}
		}
	})
	return counts
}

// overviewCounts returns the requests of the last hour in the overview: in all, the sum of the minutes, by endpoint.
func (c client) overviewCounts() map[string]requestCounts {
	c.t.Helper()
	traffic, _ := c.must(http.StatusOK, "GET", "/v1/overview", nil)["traffic"].(map[string]any)
	counts := map[string]requestCounts{}
	add := func(name string, from any) {
		n := counts[name]
		for i, member := range []string{
			"requests", "delivered", "failed", "first_attempts", "first_attempts_delivered"} {
			more, _ := from.(map[string]any)[member].(float64)
			n[i] += int(more)
		}
		counts[name] = n
	}
	if traffic == nil {
		return counts
	}
	add("all", traffic["last_hour"])
	for _, minute := range traffic["minutes"].([]any) {
		add("minutes", minute)
	}
	for _, endpoint := range traffic["busiest"].([]any) {
		add(endpoint.(map[string]any)["endpoint_id"].(string), endpoint.(map[string]any)["last_hour"])
	}
	return counts
}
