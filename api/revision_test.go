package api_test

import (
	"testing"
)

// A change with If-Match is made only if nobody has changed the endpoint since it was read.
func TestIfMatchRefusesAStaleRevision(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{})
	target := "/v1/endpoints/" + created.text("id")
	read := c.do("GET", target, nil).want(200)
	tag := read.Header.Get("ETag")
	if tag == "" || tag != created.Header.Get("ETag") {
		t.Fatalf("ETag %q, and %q when it was created", tag, created.Header.Get("ETag"))
	}
	c.do("PATCH", target, `{"name":"first"}`, "If-Match", `"0", `+tag).want(200)
	for _, method := range []string{"PATCH", "DELETE"} {
		c.do(method, target, `{"name":"second"}`, "If-Match", tag).wantError(400, "conflict", "if-match")
	}
	c.do("PATCH", target, `{"name":"third"}`, "If-Match", "*").want(200)
	now := c.do("GET", target, nil).want(200)
	if now.text("name") != "third" || now.Header.Get("ETag") == tag {
		t.Errorf("%s, ETag %s", now.raw, now.Header.Get("ETag"))
	}
	c.do("DELETE", target, nil, "If-Match", now.Header.Get("ETag")).want(200)
}

// A destination has no ETag of its own: its endpoint's counts.
func TestIfMatchOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []string{"https://example.com/a", "https://example.com/b"}})
	target := "/v1/endpoints/" + created.text("id")
	destination := target + "/destinations/" + created.text("destinations.0.id")
	stale := created.Header.Get("ETag")
	c.do("PATCH", destination, `{"timeout_seconds":20}`, "If-Match", stale).want(200)
	for _, method := range []string{"PATCH", "DELETE"} {
		c.do(method, destination, `{"timeout_seconds":30}`, "If-Match", stale).wantError(400, "conflict", "if-match")
	}
	now := c.do("GET", target, nil).want(200)
	if now.get("destinations.0.timeout_seconds") != 20.0 {
		t.Errorf("%s", now.raw)
	}
	c.do("DELETE", destination, nil, "If-Match", now.Header.Get("ETag")).want(200)
}
