package dashboard

import (
	"github.com/eventrelay/relay/test/is"
	"net/http"
	"testing"
)

// A search finds endpoints, destinations, findings and pages by their names, and events by their texts. An id opens its
// page, and a shortened one, copied from a page, finds what is in memory.
func TestSearchOverEverything(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[{"id":"fnd_1","name":"Order <key>","status":"open"},
		{"id":"fnd_2","name":"other"}]}`)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","type":"a<b>","status":"delivered","why":"x"}]}`)
	b := r.signedIn()
	page := b.get("/app/search?q=ORDER").want(200, `href="/app/endpoints/ep_1"`, `href="/app/findings/fnd_1"`,
		"Order &lt;key&gt;", `href="/app/events/evt_1"`, "a&lt;b&gt;", `href="/app/events?q=ORDER"`).main()
	is.Lacks(t, page, "fnd_2", "a finding without the text is found")
	for text, want := range map[string]string{
		"bill":    `href="/app/endpoints/ep_1/destinations/dst_1">orders → billing`,
		"archive": `href="/app/endpoints/ep_1/destinations/dst_2">orders → archive.example.net`,
		"…p_1":    `href="/app/endpoints/ep_1"`,
		"audit":   `href="/app/audit"`, "": "Type an id",
	} {
		b.get("/app/search?q="+text).want(200, want)
	}
	const id = "evt_01m8f2y1ct00r01b6j0ncztkkj"
	b.get("/app/search?q=+" + id + "+").wantRedirect("/app/events/" + id)
	b.get("/app/search?q=dst_2").wantRedirect("/app/endpoints/ep_1/destinations/dst_2")
	r.api.on("GET /v1/findings", http.StatusNotFound, `{"error":{"type":"not_found","message":"no such path"}}`)
	r.api.on("GET /v1/events", http.StatusServiceUnavailable, storeAway)
	b.get("/app/search?q=order").want(200, `href="/app/endpoints/ep_1"`, "The event store is unavailable")
	r.api.on("GET /v1/events", http.StatusOK, emptyList)
	b.get("/app/search?q=zzz").want(200, "Nothing was found")
}
