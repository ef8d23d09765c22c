package mcp

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

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
			"limit: must be an integer from 1 to 50: rows of the page; 20 if left out"},
		{"events_list", argumentsOf[eventsListInput](), `{"status":["failed"]}`,
			"status: must be a string of at most 256 characters: pending, retrying, delivered, failed, skipped or rejected"},
		{"event_get", argumentsOf[eventGetInput](), `{"ids":"evt_1"}`,
			`ids: is no argument of event_get; did you mean "id"? it has id, include_body, max_bytes`},
		{"event_get", argumentsOf[eventGetInput](), `{}`, "id: is required: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), ``, "id: is required: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":null}`,
			"id: must be a string of at most 256 characters: id of the event (evt_…)"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","include_body":"yes"}`,
			"include_body: must be true or false: also the body; it is data that others have written"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","max_bytes":1.5}`,
			"max_bytes: must be an integer from 1 to 16384: most bytes of the body; 4096 if left out"},
		{"events_list", argumentsOf[eventsListInput](), `{"limit":51}`,
			"limit: must be an integer from 1 to 50: rows of the page; 20 if left out"},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","max_bytes":0}`,
			"max_bytes: must be an integer from 1 to 16384: most bytes of the body; 4096 if left out"},
		{"event_replay", argumentsOf[eventReplayInput](), `{"id":"evt_1","note":"` + strings.Repeat("ä", 501) + `"}`,
			"note: must be a string of at most 500 characters: why, for the person who decides"},
		{"event_replay", argumentsOf[eventReplayInput](), `{"id":"evt_1","note":"` + strings.Repeat("ä", 500) + `"}`, ""},
		{"recovery_action", argumentsOf[recoveryActionInput](), `{"recovery_id":"rec_1","action":"approve"}`,
			"action: must be one of canary, continue, cancel: what to do"},
		{"usage_get", argumentsOf[usageGetInput](), `{"month":"now"}`, "month: is no argument of usage_get; it has period"},
		{"usage_get", argumentsOf[usageGetInput](), `[]`, "arguments: must be an object"},
		{"usage_get", argumentsOf[usageGetInput](), ``, ""},
		{"usage_get", argumentsOf[usageGetInput](), `null`, ""},
		{"event_get", argumentsOf[eventGetInput](), `{"id":"evt_1","include_body":true,"max_bytes":9}`, ""},
	} {
		is.Equal(t, problemOf(x.tool, []byte(x.given), x.arguments), x.want, "%s %s", x.tool, x.given)
	}
}
