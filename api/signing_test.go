package api_test

import (
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// A format without headers of its own is refused where an event has none, whichever of the two is changed.
func TestFormatOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	base := "/v1/endpoints/" + created.text("id") + "/destinations"
	first := base + "/" + created.text("destinations.0.id")
	is.Equal(t, created.text("destinations.0.format"), "standard", "default")
	is.Equal(t, c.do("PATCH", first, `{"format":"raw"}`).want(200).text("format"), "raw", "format")
	c.do("PATCH", first, `{"format":"xml"}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"format":null}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"format":"cloudevents_binary"}`).want(200)
	c.do("PATCH", first, `{"http_batch":{}}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"http_batch":{},"format":"cloudevents"}`).want(200)
	c.do("PATCH", first, `{"format":"cloudevents_binary"}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", "/v1/endpoints/"+created.text("id"), `{"destinations":[{"url":"https://a.example","sqs":null,
		"http_batch":{},"format":"cloudevents_binary"}]}`).wantError(400, "invalid_request", "destinations[0].format")
}
