package api_test

import (
	"strings"
	"testing"
)

// A parameter that is not a list of alternatives in the document is refused by its name if it is sent twice, an empty
// one too: the client and a proxy might each mean another of the two.
func TestRepeatedParametersAreRefused(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	name := ep.text("id")
	in := strings.NewReplacer("{endpoint_id}", name, "{destination_id}", ep.text("destinations.0.id"),
		"{event_id}", c.send(name), "{recovery_id}", c.recovery(name).text("id"),
		"{tenant_name}", c.tenant("repeated"), "{event_type_name}", c.eventType("repeated"),
		"{issue_id}", c.issue("http_503"),
		"{finding_id}", c.finding())
	document := &contract{source: readYAML(t, documentFile(t))}
	tried := 0
	for path, item := range members(document.source["paths"]) {
		all, _ := at(item, "get", "parameters").([]any)
		for _, p := range all {
			p := document.deref(p)
			kind, name := document.deref(p["schema"])["type"], p["name"].(string)
			if p["in"] != "query" || kind == "array" || kind == "object" {
				continue
			}
			tried++
			for _, value := range []string{"", "2026-01-01"} {
				target := in.Replace(path) + "?" + name + "=&" + name + "=" + value
				c.do("GET", target, nil).wantError(400, "invalid_request", name)
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d parameters were tried", tried)
	}
}
