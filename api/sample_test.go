package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

func TestTestEvents(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	ep := c.endpoint(map[string]any{"provider": "stripe"}).text("id")
	target := "/v1/endpoints/" + ep + "/test"
	for body, want := range map[string]string{
		"": "stripe", "{}": "stripe", `{"provider":null,"type":null}`: "stripe", `{"provider":"slack"}`: "slack",
		`{"provider":"shopify","type":"orders/create"}`: "orders/create", `{"type":"` + strings.Repeat("a", 128) +
			`"}`: strings.Repeat("a", 128),
	} {
		a := c.do("POST", target, body).want(202)
		if a.text("source") != "test" || a.text("status") != "pending" || a.text("type") != want ||
			a.text("endpoint_id") != ep {
			t.Errorf("%s: %s", body, a.raw)
		}
		if d := c.do("GET", "/v1/events/"+a.text("id"), nil).want(200); d.get("data") != nil ||
			!strings.Contains(d.text("body"), `"data":{`) {
			t.Errorf("%s", d.raw)
		}
	}
	if a := c.do("POST", target, `{"provder":"slack"}`).want(202); !strings.Contains(
		a.text("warnings.0.message"), "did you mean provider") {
		t.Errorf("%s", a.raw)
	}
	for body, param := range map[string]string{
		`{"provider":"nobody"}`: "provider", `{"provider":7}`: "provider", `{"provider":""}`: "provider",
		`{"type":""}`: "type", `{"type":7}`: "type",
		`{"type":"a b"}`: "type", `{"type":"` + strings.Repeat("a", 129) + `"}`: "type", `[]`: "", `{`: "",
	} {
		c.do("POST", target, body).wantError(400, "invalid_request", param)
	}
	add := func(enabled bool) string {
		return c.do("POST", "/v1/endpoints/"+ep+"/destinations",
			map[string]any{"url": "https://x.example/", "enabled": enabled}).want(201).text("id")
	}
	dest, off := add(true), add(false)
	a := c.do("POST", target, map[string]any{"destination_id": dest}).want(202)
	if a.text("deliveries.0.destination_id") != dest || a.get("destinations.total") != 1.0 {
		t.Errorf("%s", a.raw)
	}
	for _, x := range []any{off, "dst_nope", "", 7} {
		c.do("POST", target, map[string]any{"destination_id": x}).wantError(400, "invalid_request", "destination_id")
	}
	first := c.sendOnce(target, "k", `{}`).want(202).replayed(false)
	if again := c.sendOnce(target, "k", `{}`).want(202).replayed(true); again.text("id") != first.text("id") {
		t.Errorf("%s", again.raw)
	}
	c.sendOnce(target, "k", `{"provider":"slack"}`).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	c.as(readKey).do("POST", target, nil).wantError(403, "insufficient_scope", "")
	c.do("POST", "/v1/endpoints/ep_nope/test", nil).wantError(404, "not_found", "")
	c.do("POST", "/v1/endpoints/"+c.endpoint(map[string]any{"enabled": false}).text("id")+"/test", nil).wantError(
		400, "invalid_state", "")
	c.fake.AcceptFunc = func(context.Context, *event.Event) error { return stream.ErrBufferFull }
	c.do("POST", target, nil).wantError(503, "unavailable", "")
	d, _ := id.Parse(id.Event, first.text("id"))
	if c.fake.events[d].IdempotencyKey != "k" {
		t.Errorf("%+v", c.fake.events[d])
	}
}
