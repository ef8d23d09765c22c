package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// clockApart: one of three nodes has a clock that is an hour off. It takes no events and says so, delivers
// what its partitions hold, and what it left behind when it was killed is delivered by the others: no retry
// early, none late.
func clockApart(t *testing.T, c *cluster, seed uint64, offset string) {
	nodes := c.start("a", "b")
	odd := c.node("odd")
	odd.binary, odd.env = buildRelay(t, "faults"), append(odd.env, "RELAY_FAULT_CLOCK="+offset)
	odd.start()
	c.balanced(3)
	dest := newTally(t, func(h hit) int {
		if h.number%4 == 0 && h.attempt == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	f := fire(t, seed, nodes, dest, rounds(100, 100, 200), nil)
	endpoint, in, _ := odd.in(t).endpoint(map[string]any{"destinations": []any{"https://example.com/h"}})
	for path, body := range map[string]string{
		in: `{}`, odd.url + "/v1/endpoints/" + endpoint + "/events": `{"type":"a","data":{}}`} {
		if resp := odd.in(t).post(path, map[string]string{"Authorization": "Bearer " + testKey},
			[]byte(body)); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a node whose clock is off by %s answered %s to %s", offset, resp.Status, path)
		}
	}
	if status, answer, _ := odd.in(t).call("GET", "/readyz", nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(fmt.Sprint(answer), "clock") {
		t.Errorf("a node whose clock is off by %s says it is ready: %d %v", offset, status, answer)
	}
	for range rounds(1, 1, 4) {
		f.calm(2 * time.Second)
		from := time.Now()
		odd.kill()
		c.balanced(2)
		f.accepts(100)
		odd.start()
		c.balanced(3)
		f.broke(from)
	}
	f.accepts(100)
	f.account()
	early, earliest, latest := dest.punctuality(time.Second)
	t.Logf("clock %s: of the retries of 1 s %d came early, by %v at most, the latest %v after its time",
		offset, early, earliest.Round(time.Millisecond), latest.Round(time.Millisecond))
	// Clocks agree as well as a heartbeat tells the time, which takes a while on a busy machine.
	if limit := 300 * time.Millisecond; earliest > limit {
		t.Errorf("a retry came %v early", earliest)
	}
	if limit := 2 * time.Minute; latest > limit {
		t.Errorf("a retry came %v late, at most %v: the hour of the clock must not count", latest, limit)
	}
}

// punctuality counts second attempts that came sooner after the first one than they may, and tells by how much
// at most, and how late the latest was.
func (s *tally) punctuality(wait time.Duration) (early int, earliest, latest time.Duration) {
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
