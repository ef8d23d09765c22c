package api_test

import (
	"testing"

	"github.com/eventrelay/relay/api"
)

// What is read of the configuration is as new as what any node has answered before: a request catches up with the log.
// Later pages of a list only follow what the first one showed.
func TestReadsCatchUp(t *testing.T) {
	lagging := &laggingConfiguration{Control: configuration}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Config = lagging })
	c.endpoint(nil)
	ep := c.endpoint(nil).text("id")
	run := c.do("POST", "/v1/events/"+c.send(ep)+"/replay", nil).want(200).text("run_id")
	for _, path := range []string{
		"endpoints", "replays", "recoveries", "alerts/history", "drains", "dsns", "domains", "tripwires", "scans", "fixtures",
		"findings", "endpoints/" + ep, "endpoints/" + ep + "/transformation/versions", "findings/" + c.finding(),
		"replays/" + run, "alerts", "settings/detection",
	} {
		lagging.caughtUp = false
		if c.do("GET", "/v1/"+path, nil).want(200); !lagging.caughtUp {
			t.Errorf("GET /v1/%s does not catch up", path)
		}
	}
	lagging.caughtUp = false
	update := map[string]any{"ids": []string{c.finding()}, "status": "acknowledged"}
	if c.do("POST", "/v1/findings/update", update).want(200); !lagging.caughtUp {
		t.Error("an update of findings by their ids does not catch up")
	}
	first := c.do("GET", "/v1/endpoints?limit=1", nil).want(200)
	lagging.caughtUp = false
	if c.do("GET", "/v1/endpoints?limit=1&cursor="+first.text("next_cursor"), nil).want(200); lagging.caughtUp {
		t.Error("a later page catches up")
	}
}
