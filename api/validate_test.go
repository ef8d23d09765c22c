package api_test

import "testing"

// What validation accepts and refuses is what the real request does; it creates and changes nothing.
func TestValidateEndpoints(t *testing.T) {
	c := newClient(t)
	members := map[string]any{"name": "only-validated", "destinations": []any{map[string]any{
		"url": "https://example.com/h", "headers": map[string]string{"Authorization": "Bearer 0123456789"}}}}
	target := "/v1/endpoints/validate"
	if a := c.do("POST", target, members).want(200); a.text("object") != "validation" || a.get("changes") != true {
		t.Errorf("%s", a.raw)
	}
	c.do("POST", target, `{"url":"https://example.com","retry_policy":{"max_attempts":400}}`).wantError(
		400, "invalid_request", "retry_policy.max_attempts")
	a := c.do("POST", target, `{"url":"https://example.com","nmae":"x"}`).want(200)
	if a.text("warnings.0.param") != "nmae" {
		t.Errorf("%s", a.raw)
	}
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
	for _, x := range []struct {
		body any
		want bool
	}{
		{`{"name":"only-validated"}`, false}, {string(before.raw), false}, {headers("Bearer 0123456789"), false},
		{`{"name":"other"}`, true}, {headers("Bearer 9876543210"), true},
		{`{"destinations":["https://example.com/other"]}`, true},
	} {
		a := c.do("POST", target, x.body, "If-Match", before.Header.Get("ETag")).want(200)
		if a.get("changes") != x.want {
			t.Errorf("%v: %s", x.body, a.raw)
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
