package api_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
)

// A receiver that sends events or replays with the headers of a delivery is recognised, as at an ingest URL: events
// are stored without a delivery, and replays are refused.
func TestDeliveryLoopThroughTheAPI(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	route := "/v1/endpoints/" + ep
	const one = `{"type":"a","data":{}}`
	for _, x := range []struct {
		header []string
		loop   bool
	}{
		{[]string{"Relay-Hops", "5"}, true}, {[]string{"Relay-Hops", "1000000"}, true}, {[]string{"Relay-Hops", "4"}, false},
		{[]string{"Relay-Hops", "2", "Relay-Path", ep + "," + ep}, true},
		{[]string{"Relay-Hops", "1", "Relay-Path", ep}, false}, {nil, false},
	} {
		for _, name := range []string{
			c.do("POST", route+"/events", one, x.header...).want(202).text("id"),
			c.do("POST", route+"/test", nil, x.header...).want(202).text("id"),
			c.do("POST", route+"/events/batch", `{"events":[`+one+`]}`, x.header...).want(202).text("data.0.id"),
		} {
			a := c.do("GET", "/v1/events/"+name, nil).want(200)
			if loop := a.text("status") == "skipped" && a.text("reason") == string(event.DeliveryLoop); loop != x.loop {
				t.Errorf("%v: %s", x.header, a.raw)
			}
			if len(x.header) > 0 && a.text("headers.Relay-Hops") != x.header[1] {
				t.Errorf("%v: the next delivery would not count on: %s", x.header, a.raw)
			}
		}
	}
	name := c.do("POST", route+"/events", one).want(202).text("id")
	for _, target := range []string{
		"/v1/events/" + name + "/replay", "/v1/replays", "/v1/recoveries", "/v1/recoveries/rec_1"} {
		c.do("POST", target, nil, "Relay-Hops", "1").wantError(400, "invalid_state", "Relay-Hops")
	}
	c.do("POST", "/v1/events/"+name+"/replay", nil, "Relay-Hops", "0").want(200)
}
