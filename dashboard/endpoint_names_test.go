package dashboard

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
)

// Each row of a list names its endpoint, also with more endpoints than a choice shows, without a call of the API: that
// would open the secrets of each endpoint. The filter then takes an id.
func TestRowsNameEndpointsBeyondTheChoice(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1","name":"first"}],"next_cursor":"c2"}`)
	r.api.on("GET /v1/endpoints/ep_150", 200, `{"id":"ep_150","name":"the 150th"}`)
	r.api.on("GET /v1/events", 200, `{"data":[`+strings.Join([]string{`{"id":"evt_1","endpoint_id":"ep_1"}`,
		`{"id":"evt_2","endpoint_id":"ep_150"}`, `{"id":"evt_3","endpoint_id":"ep_150"}`,
		`{"id":"evt_4","endpoint_id":"ep_gone"}`}, ",")+`]}`)
	r.api.on("GET /v1/recoveries", 200, `{"data":[{"id":"rec_1","endpoint_id":"ep_150","state":"completed"}]}`)
	r.api.on("GET /v1/replays", 200,
		`{"data":[{"id":"run_1","filter":{"endpoint_id":["ep_1","ep_150"]},"state":"queued"}]}`)
	r.api.on("GET /v1/alerts/history", 200, `{"data":[{"rule":"delivery_failed","endpoint_id":"ep_150","state":"firing",
"value":"attempts_exhausted","fired_at":"2026-08-21T22:00:00.000Z"}]}`)
	r.api.on("GET /v1/alerts", 200, alertSettingsJSON)
	b := r.signedIn()
	for path, want := range map[string][]string{
		frame.EventsPath:       {"· first<", "the 150th", "ep_gone", `placeholder="ep_…"`},
		frame.RecoveriesPath:   {"the 150th", `placeholder="ep_…"`},
		frame.ReplaysPath:      {"endpoint first, the 150th", `placeholder="ep_…"`},
		frame.AlertHistoryPath: {"the 150th"},
	} {
		before := len(r.api.calls)
		b.get(path).want(200, want...)
		for _, c := range r.api.calls[before:] {
			if strings.HasPrefix(c.Path, "/v1/endpoints") {
				t.Errorf("%s calls %s", path, c.Path)
			}
		}
	}
}
