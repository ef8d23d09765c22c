package api_test

import "testing"

func TestSendListReadMe(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	name := ep.text("id")
	sent := c.do("POST", "/v1/endpoints/"+name+"/events", `{"type":"a.b","data":{"n": 1.50}}`).want(202)
	list := c.do("GET", "/v1/events?endpoint_id="+name, nil).want(200)
	if list.text("data.0.id") != sent.text("id") || list.get("next_cursor") != nil {
		t.Fatalf("%s", list.raw)
	}
	read := c.do("GET", "/v1/events/"+sent.text("id"), nil).want(200)
	t.Logf("%s\n%s\n%s\n%s", ep.raw, sent.raw, list.raw, read.raw)
	t.Logf("%s", c.do("GET", "/v1/me", nil).want(200).raw)
	t.Logf("%s", c.do("GET", "/healthz", nil).want(200).raw)
	t.Logf("%s", c.do("GET", "/readyz", nil).want(200).raw)
	t.Logf("%s", c.do("GET", "/v1/endpoints/"+name, nil).want(200).raw)
	t.Logf("%s", c.do("POST", "/v1/endpoints", `{"destinations":[{"url":"http://example.com/h"}]}`).wantError(400, "invalid_request", "destinations[0].url").raw)
}
