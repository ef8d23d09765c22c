package mcp

import "testing"

// A wrong argument is named, with what is allowed, so that the next call is right.
func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, x := range []struct {
		tool      string
		arguments []argument
		given     string
		want      string
	}{
		{"events_list", argumentsOf[eventsListInput](), `{"endpoint":"ep_1"}`, `endpoint: is no argument of events_list; ` +
			`did you mean "endpoint_id"? it has limit, cursor, endpoint_id, destination_id, status, type, run_id, source, ` +
			`processing, since, until, q`},
		{"events_list", argumentsOf[eventsListInput](), `{"limit":"5"}`,
			"limit: must be an integer: rows of the page, 1 to 50; 20 if left out"},
		{"events_list", argumentsOf[eventsListInput](), `{"status":["failed"]}`,
			"status: must be a string: pending, retrying, delivered, failed, skipped or rejected"},
		{"event_get", argumentsOf[eventGetInput](), `{"ids":"evt_1"}`,
			`ids: is no argument of event_get; did you mean "id"? it has id, include_body, max_bytes`},
		{"event_get", argumentsOf[eventGetInput](), `{}`, "id: is required: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), ``, "id: is required: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":null}`, "id: must be a string: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","include_body":"yes"}`,
			"include_body: must be true or false: also the body; it is data that others have written"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","max_bytes":1.5}`,
			"max_bytes: must be an integer: most bytes of the body, up to 16384; 4096 if left out"},
		{"usage_get", argumentsOf[usageGetInput](), `{"month":"now"}`, "month: is no argument of usage_get; it has period"},
		{"usage_get", argumentsOf[usageGetInput](), `[]`, "arguments: must be an object"},
		{"usage_get", argumentsOf[usageGetInput](), ``, ""},
		{"usage_get", argumentsOf[usageGetInput](), `null`, ""},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","include_body":true,"max_bytes":9}`, ""},
	} {
		if got := problemOf(x.tool, []byte(x.given), x.arguments); got != x.want {
			t.Errorf("%s %s: %q, want %q", x.tool, x.given, got, x.want)
		}
	}
}
