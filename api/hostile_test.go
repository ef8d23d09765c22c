package api_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// Every URL in the table of the egress guard is checked when it is saved, in every member that takes a URL. The
// guard checks again when it connects.
func TestHostileTargetsAreNotSaved(t *testing.T) {
	text := must.Get(os.ReadFile("../pkg/egress/testdata/targets.txt"))(t)
	c := newClient(t)
	known := c.endpoint(nil)
	ep := "/v1/endpoints/" + known.text("id")
	dst := ep + "/destinations/" + known.text("destinations.0.id")
	refused := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		quoted, saved := strings.CutPrefix(line, "saved ")
		target, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		target = strings.ReplaceAll(target, "PORT", "8443")
		one := map[string]any{"url": target}
		if saved {
			c.do("POST", "/v1/endpoints", one).want(201)
			continue
		}
		refused++
		for _, call := range []struct {
			method, path, param string
			body                any
		}{
			{"POST", "/v1/endpoints", "url", one},
			{"POST", "/v1/endpoints", "destinations[0].url", map[string]any{"destinations": []any{one}}},
			{"POST", "/v1/endpoints", "destinations[0]", map[string]any{"destinations": []any{target}}},
			{"PATCH", ep, "destinations[0].url", map[string]any{"destinations": []any{one}}},
			{"POST", ep + "/destinations", "url", one},
			{"PATCH", dst, "url", one},
		} {
			a := c.do(call.method, call.path, call.body)
			if param, _ := a.get("error.param").(string); a.Status != 400 || !strings.HasPrefix(param, call.param) {
				t.Errorf("%s %s %q: %d %s, want 400 naming %s", call.method, call.path, fmt.Sprint(call.body), a.Status, a.raw,
					call.param)
			}
		}
	}
	if refused < 80 {
		t.Errorf("%d targets were tried", refused)
	}
	equalEndpoints(t, known, c.do("GET", ep, nil).want(200))
}

// An empty body is {} with any content type, as curl and fetch send one. A cookie authenticates nothing, so a form of
// another site does nothing with it.
func TestAnEmptyBodyHasNoType(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	replay := "/v1/events/" + c.send(ep) + "/replay"
	for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain;charset=UTF-8"} {
		c.do("POST", replay, nil, "Content-Type", kind).want(200)
		c.do("POST", replay, nil, "Content-Type", kind, "Idempotency-Key", kind).want(200)
		c.do("POST", "/v1/endpoints/"+ep+"/test", nil, "Content-Type", kind).want(202)
		c.do("POST", "/v1/endpoints", nil, "Content-Type", kind).wantError(400, "invalid_request", "destinations")
		c.do("POST", replay, "{}", "Content-Type", kind).wantError(400, "invalid_request", "content-type")
		c.as("").do("POST", replay, nil, "Content-Type", kind, "Cookie", "relay-0="+writeKey+"; key="+writeKey).want(401)
	}
}
