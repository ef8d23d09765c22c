package api_test

import (
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"strings"
	"testing"
)

// What validation accepts and refuses is what the real request does; it creates and changes nothing.
func TestValidateEndpoints(t *testing.T) {
	c := newClient(t)
	members := map[string]any{"name": "only-validated", "destinations": []any{map[string]any{
		"url": "https://example.com/h", "headers": map[string]string{"Authorization": "Bearer 0123456789"}}}}
	target := "/v1/endpoints/validate"
	if a := c.do("POST", target, members).want(200); a.text("object") != "validation" {
		t.Errorf("%s", a.raw)
	}
	c.do("POST", target, `{"url":"https://example.com","retry_policy":{"max_attempts":400}}`).wantError(
		400, "invalid_request", "retry_policy.max_attempts")
	a := c.do("POST", target, `{"url":"https://example.com","nmae":"x"}`).want(200)
	is.Equal(t, a.text("warnings.0.param"), "nmae", "%s", a.raw)
	if list := c.do("GET", "/v1/endpoints?q=only-validated", nil).want(200); len(list.get("data").([]any)) != 0 {
		t.Errorf("%s", list.raw)
	}

	ep := c.do("POST", "/v1/endpoints", members).want(201)
	read := func() *answer { return c.do("GET", "/v1/endpoints/"+ep.text("id"), nil).want(200) }
	before := read()
	target = "/v1/endpoints/" + ep.text("id") + "/validate"
	dst := ep.text("destinations.0.id")
	headers := func(value string) map[string]any {
		return map[string]any{"destinations": []any{map[string]any{"id": dst,
			"headers": map[string]string{"Authorization": value}}}}
	}
	for _, body := range []any{`{"name":"other"}`, string(before.raw), headers("Bearer 9876543210"),
		headers("Bearer 0123456789")} {
		a := c.do("POST", target, body, "If-Match", before.Header.Get("ETag")).want(200)
		if len(a.Body) != 1 { // it does not say whether a guessed secret is right
			t.Errorf("%v: %s", body, a.raw)
		}
	}
	var large []any
	for i := range 50 {
		many := map[string]string{}
		for j := range 9 {
			many[fmt.Sprint("X-", j)] = strings.Repeat("x", 2040)
		}
		large = append(large, map[string]any{"url": fmt.Sprint("https://example.com/", i), "headers": many})
	}
	for path, method := range map[string]string{"/v1/endpoints": "POST", "/v1/endpoints/" + ep.text("id"): "PATCH"} {
		body := map[string]any{"destinations": large}
		real := c.do(method, path, body).want(400).text("error.message")
		if a := c.do("POST", path+"/validate", body).want(400); a.text("error.message") != real {
			t.Errorf("%s instead of %s", a.raw, real)
		}
	}
	c.do("POST", target, `{"retry_policy":{"max_attempts":400}}`).wantError(
		400, "invalid_request", "retry_policy.max_attempts")
	c.do("POST", target, `{"name":"x"}`, "If-Match", `"0"`).wantError(400, "conflict", "if-match")
	c.do("POST", "/v1/endpoints/ep_00000000000000000000000000/validate", `{}`).wantError(404, "not_found", "")
	c.as(readKey).do("POST", target, `{"name":"x"}`).wantError(403, "insufficient_scope", "")
	if after := read(); string(after.raw) != string(before.raw) || after.Header.Get("ETag") != before.Header.Get("ETag") {
		t.Errorf("%s\n%s", before.raw, after.raw)
	}
}

// A validation remembers no Idempotency-Key: the request for the change may come with the same one.
func TestValidationRemembersNoKey(t *testing.T) {
	c := newClient(t)
	body := map[string]any{"url": "https://example.com/h"}
	for _, target := range []string{"/v1/endpoints/validate", "/v1/endpoints"} {
		a := c.do("POST", target, body, "Idempotency-Key", "one")
		if a.Header.Get("Idempotent-Replayed") != "" || a.Status >= 300 {
			t.Errorf("%s: %d %s", target, a.Status, a.raw)
		}
	}
}
