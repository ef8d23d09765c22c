package dashboard

import (
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/test/is"
)

var rawTime = regexp.MustCompile(`>[^<]*\d{4}-\d{2}-\d{2}T[^<]*<`)

// No page shows a time as the API writes it: it is long, and breaks in its middle.
func TestTimesOfSentencesAreReadable(t *testing.T) {
	const why = `"why":"waiting: the rate limit delays it; next attempt at 2026-08-21T22:30:00.000Z",
		"why_details":{"code":"paced","until":"2026-08-21T22:30:00.000Z","cause":null}`
	r := eventRig(t, `"why":"next in 6 min"`, why)
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","endpoint_id":"ep_1","status":"pending","destinations":{},
		"received_at":"2026-08-21T22:20:00.000Z",`+why+`}]}`)
	b := r.signedIn()
	for _, path := range []string{frame.EventsPath, eventPath1, "/app/endpoints/ep_1/wait"} {
		a := b.get(path).want(200, ">22:30:00</time>, <time data-relative")
		is.Equal(t, rawTime.FindString(a.main()), "", "%s shows", path)
	}
}

// An event whose endpoint verifies nothing has a short note about its signature, with the way to set it up.
func TestUnverifiedEventsSaySoShortly(t *testing.T) {
	r := eventRig(t, `"verification":"verified"`, `"verification":"unverified"`)
	r.api.on("GET /v1/endpoints/ep_1", 200, `{"id":"ep_1","name":"payments","verification":null,"destinations":[]}`)
	b := r.signedIn()
	for _, path := range []string{eventPath1, eventPath1 + "?signature=1"} {
		b.get(path).want(200, "No verification is set up", `href="/app/endpoints/ep_1/settings"`)
	}
	for _, c := range r.api.calls {
		if strings.HasSuffix(c.Path, "/signature") {
			t.Error("the signature was explained")
		}
	}
}
