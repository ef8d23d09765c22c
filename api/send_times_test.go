package api_test

import (
	"testing"
	"time"
)

// deliver_at and expires_at of sends, single and in batches.
func TestTimesOfASend(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	send := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	day := 24 * time.Hour
	f := func(deliver, expires any, param string) {
		t.Helper()
		item := map[string]any{"type": "a.b", "data": map[string]any{}, "deliver_at": deliver, "expires_at": expires}
		c.do("POST", send, item).wantError(400, "invalid_request", param)
		batch := c.do("POST", send+"/batch", map[string]any{"events": []any{item}}).want(202)
		if got := batch.text("data.0.error.param"); got != "events[0]."+param {
			t.Errorf("the batch has the parameter %q, want %q", got, param)
		}
	}
	f(in(31*day), nil, "deliver_at")
	const later = `{"type":"a.b","data":{},"deliver_at":"2126-01-01T00:00:00Z"}` // it may be valid at a repeat
	for range 2 {
		c.sendOnce(send, "later", later).replayed(false).wantError(400, "invalid_request", "deliver_at")
	}
	f("tomorrow", nil, "deliver_at")
	f(17, nil, "deliver_at")
	f(nil, in(-time.Hour), "expires_at")
	f(in(2*day), in(day), "expires_at")
	f(nil, "2026-13-01T00:00:00Z", "expires_at")
	at := in(day)
	sent := c.do("POST", send, map[string]any{"type": "a.b", "data": map[string]any{},
		"deliver_at": at, "expires_at": in(2 * day)}, "Idempotency-Key", "one").want(202)
	if sent.text("next_attempt_at")[:19] != at[:19] || sent.text("reason") != "scheduled" {
		t.Errorf("%s", sent.raw)
	}
	c.do("POST", send, map[string]any{"type": "a.b", "data": map[string]any{},
		"deliver_at": in(2 * day), "expires_at": in(3 * day)}, "Idempotency-Key", "one").
		wantError(400, "idempotency_mismatch", "Idempotency-Key")
}
