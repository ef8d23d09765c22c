package e2e

import (
	"bytes"
	"net/http"
	"testing"
	"time"
)

// Forty events that a destination answers with 400, in 35 s, hold up no later event. Forty answers 503 hold the
// destination.
func TestRejectedEventsHoldNothingUp(t *testing.T) {
	t.Parallel()
	dest := newSink(t, func(r received) int {
		switch {
		case bytes.Contains(r.body, []byte("bad")):
			return http.StatusBadRequest
		case r.path == "/down":
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	p := sharedDev(t)
	picky, pickyURL, _ := p.endpoint(map[string]any{"destinations": []any{map[string]any{"url": dest.URL + "/picky"}}})
	down, downURL, _ := p.endpoint(map[string]any{"destinations": []any{map[string]any{"url": dest.URL + "/down"}}})
	for range 40 {
		p.post(pickyURL, nil, []byte(`{"x":"bad"}`))
		p.post(downURL, nil, []byte(`{}`))
		time.Sleep(35 * time.Second / 40)
	}
	sent := time.Now()
	p.post(pickyURL, nil, []byte(`{"x":"good"}`))
	eventually(t, 5*time.Second, func() string {
		for _, r := range dest.received() {
			if r.path == "/picky" && bytes.Contains(r.body, []byte("good")) {
				t.Logf("the good event arrived after %v", r.at.Sub(sent))
				return ""
			}
		}
		return "the good event has not arrived"
	})
	state := func(endpoint string) any {
		answer := p.must(http.StatusOK, "GET", "/v1/endpoints/"+endpoint, nil)
		return answer["destinations"].([]any)[0].(map[string]any)["state"]
	}
	if got := state(picky); got != "active" {
		t.Errorf("a destination that rejects events is %v", got)
	}
	eventually(t, 10*time.Second, func() string {
		if got := state(down); got != "held" {
			return "a destination that fails is not held"
		}
		return ""
	})
}
