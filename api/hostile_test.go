package api_test

import (
	"testing"
)

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
