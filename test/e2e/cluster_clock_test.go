package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// nodeWithWrongClock adds a node whose clock is an hour off to a cluster. That node refuses events and is not ready,
// but delivers what its partitions hold. After it is killed the others deliver the rest. No retry is early or late.
func nodeWithWrongClock(t *testing.T, c *cluster, nodes []*process, seed uint64, offset string) {
	odd := c.node("odd")
	odd.binary, odd.env = buildRelay(t, "faults"), append(odd.env, "RELAY_FAULT_CLOCK="+offset)
	odd.start()
	c.awaitBalanced(len(nodes) + 1)
	dest := newTally(t, func(h hit) int {
		if h.number%4 == 0 && h.attempt == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	f := putUnderLoad(t, seed, nodes, dest, rounds(50, 50, 200), nil)
	endpoint, in, _ := odd.forTest(t).endpoint(map[string]any{"destinations": []any{"https://example.com/h"}})
	for path, body := range map[string]string{
		in: `{}`, odd.url + "/v1/endpoints/" + endpoint + "/events": `{"type":"a","data":{}}`} {
		if resp := odd.forTest(t).post(path, map[string]string{"Authorization": "Bearer " + testKey},
			[]byte(body)); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a node whose clock is off by %s answered %s to %s", offset, resp.Status, path)
		}
	}
	if status, answer, _ := odd.forTest(t).call("GET", "/readyz", nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(fmt.Sprint(answer), "clock") {
		t.Errorf("a node whose clock is off by %s says it is ready: %d %v", offset, status, answer)
	}
	for range rounds(1, 1, 4) {
		f.runFor(time.Second)
		from := time.Now()
		odd.kill()
		c.awaitBalanced(len(nodes))
		f.awaitAccepted(100)
		odd.start()
		c.awaitBalanced(len(nodes) + 1)
		f.addOutage(from)
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
	early, earliest, latest := dest.retryPunctuality(time.Second)
	t.Logf("clock %s: of the retries after 1 s %d were early, by %v at most, the latest %v after its time",
		offset, early, earliest.Round(time.Millisecond), latest.Round(time.Millisecond))
	// Clocks are compared by heartbeats, which are late on a busy machine. A clock that is not corrected at all makes a
	// retry early by its whole wait.
	if limit := 700 * time.Millisecond; earliest > limit {
		t.Errorf("a retry was %v early", earliest)
	}
	if limit := 2 * time.Minute; latest > limit {
		t.Errorf("a retry was %v late, at most %v: the wrong clock must not matter", latest, limit)
	}
}

// retryPunctuality compares the second attempts with their due time, wait after the first. It returns how many were
// early, by how much at most, and how late the latest was.
func (s *tally) retryPunctuality(wait time.Duration) (early int, earliest, latest time.Duration) {
	s.each(func(_ int64, hits []hit) {
		for _, h := range hits {
			if h.attempt != 2 {
				continue
			}
			gap := h.at.Sub(hits[0].at)
			if gap < wait {
				early++
			}
			earliest, latest = max(earliest, wait-gap), max(latest, gap-wait)
		}
	})
	return early, earliest, latest
}
