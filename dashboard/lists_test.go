package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/test/is"
)

// lastRange is the range of the last call of a path of the API.
func (r *rig) lastRange(path string) (name string) {
	for _, c := range r.api.calls {
		if c.Path == path {
			name = c.Query.Get("range")
		}
	}
	return name
}

// A chart of a young endpoint begins with the shortest range that has all of it, and at most with a day.
func TestRangeFollowsTheAge(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	for created, want := range map[string]string{"22:10": "15m", "22:00": "1h", "18:00": "6h", "10:00": "24h"} {
		r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"created_at":"2026-08-21T22:00`,
			`"created_at":"2026-08-21T`+created, 1))
		for _, page := range []string{"/app/endpoints/ep_1", "/app/endpoints/ep_1/destinations/dst_1"} {
			b.get(page).want(200, page+"?range="+want+`" data-every`)
			is.Equal(t, r.lastRange("/v1/endpoints/ep_1/traffic"), want, created)
		}
	}
}

// Ticked events are replayed and erased one by one, each with a key of its own that a second submit has too. What the
// API refuses is counted. Erasing asks first.
func TestTickedEvents(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	page := b.get("/app/events?type=a.*").want(200, `name="row" value="evt_`, `form="ticked"`,
		`formaction="/app/events/erase"`)
	form := url.Values{"nonce": {page.nonce()}, "row": {"evt_1", "evt_2", "evt/3"}, "query": {"type=a.*"}}
	r.api.on("POST /v1/events/evt_1/replay", 200, `{"queued":2}`)
	r.api.on("POST /v1/events/evt_2/replay", 200, `{"queued":0}`)
	r.api.on("POST /v1/events/evt%2F3/replay", 404, `{"error":{"type":"not_found","message":"there is no such event"}}`)
	sent := func(method string) (calls []string) {
		for _, c := range r.api.calls {
			if c.Method == method {
				calls = append(calls, c.Path+" "+c.Body+" "+c.Key)
			}
		}
		r.api.calls = nil
		return calls
	}
	r.api.calls = nil
	b.post("/app/events/replay", form).wantRedirect("/app/events?type=a.%2A")
	first := sent("POST")
	if len(first) != 3 || !strings.HasPrefix(first[0], `/v1/events/evt_1/replay {"only_undelivered":true} `) ||
		first[0][len(first[0])-22:] == first[1][len(first[1])-22:] {
		t.Errorf("%q", first)
	}
	b.get("/app/events").want(200, "Queued 2\u00a0deliveries of 2\u00a0events. "+
		"1\u00a0row was refused: There is no such event.")
	r.api.calls = nil
	b.post("/app/events/replay", form)
	is.Same(t, sent("POST"), first)

	b.post("/app/events/erase", form).want(200, "Erase 3\u00a0payloads?", `name="row" value="evt_2"`)
	form.Set("confirm", "yes")
	b.post("/app/events/erase", form).want(400, "Nothing was erased")
	is.Equal(t, len(sent("DELETE")), 0, "nothing is erased without the word")
	form.Set("confirm", "erase")
	form["row"] = []string{"evt_1"}
	r.api.on("DELETE /v1/events/evt_1/payload", http.StatusNoContent, "")
	b.post("/app/events/erase", form).wantRedirect("/app/events?type=a.%2A")
	is.Equal(t, len(sent("DELETE")), 1, "erased payloads")
	form["row"] = nil
	b.post("/app/events/replay", form).want(400, "tick one to 100 rows")
	r.people.person.Scope = "read"
	is.Lacks(t, r.signedIn().get("/app/events").want(200).main(), `form="ticked"`,
		"a person who may only read can tick rows")
}

// A view is a name for filters, for this person in this browser. Their number and size are bounded.
func TestViewsAndColumnsOfEvents(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	save := func(query, name string) *answer {
		return b.post("/app/events/choices", url.Values{"nonce": {newNonce()}, "query": {query}, "name": {name}})
	}
	save("status=failed&cursor=x&type=a.*", "<failed>").wantRedirect("/app/events?cursor=x&status=failed&type=a.%2A")
	b.get("/app/events").want(200, `href="/app/events?status=failed&amp;type=a.%2A">&lt;failed&gt;</a>`)
	is.Lacks(t, b.get("/app/events?status=failed&type=a.*").want(200).main(), "Save view", "a view can be saved twice")
	save("", "all").want(400, "a name and one filter")
	save("q="+strings.Repeat("x", 200), "long").want(400, "at most 200 characters")
	for i := range 7 {
		save(fmt.Sprint("type=t", i), strings.Repeat("ä", 100))
	}
	save("type=more", "more").want(400, "at most 8 views")
	is.Lacks(t, b.get("/app/events").main(), "<th>HTTP</th>")
	b.post("/app/events/choices", url.Values{"nonce": {newNonce()}, "do": {"columns"}, "http": {"true"}})
	b.get("/app/events").want(200, "<th>HTTP</th>", "&lt;failed&gt;")
	b.post("/app/events/choices", url.Values{"nonce": {newNonce()}, "do": {"remove"},
		"query": {"status=failed&type=a.%2A"}})
	is.Lacks(t, b.get("/app/events").main(), "&lt;failed&gt;")
	for _, c := range b.cookies {
		if len(c.Value) > 3900 {
			t.Errorf("the cookie %s has %d bytes", c.Name, len(c.Value))
		}
	}
}

// A list that the API holds in memory is sorted as a whole, by links in its head, which keep the filters.
func TestSortedLists(t *testing.T) {
	r := answerCatalogue(newEndpointRig(t))
	b := r.signedIn()
	page := 0
	r.api.responses["GET /v1/issues"] = func(c apiCall) (int, http.Header, string) {
		next := `,"next_cursor":"c"`
		if page++; c.Query.Get("cursor") == "c" {
			next = ""
		}
		return 200, nil, fmt.Sprintf(`{"data":[%s]%s}`, strings.NewReplacer(`"iss_1"`, fmt.Sprintf(`"iss_%d"`, page),
			`"count":7`, fmt.Sprintf(`"count":%d`, []int{0, 20, 100, 3}[page])).Replace(oneIssue), next)
	}
	b.get("/app/issues?status=open").want(200,
		`<th class="r"><a href="/app/issues?sort=Failures&amp;status=open">Failures</a>`)
	page = 0
	main := b.get("/app/issues?sort=-Failures&status=open").want(200,
		`aria-sort="descending"><a href="/app/issues?sort=Failures`).main()
	if strings.Index(main, "iss_2") > strings.Index(main, "iss_1") || page != 2 {
		t.Errorf("%d pages were read: %s", page, main)
	}
	r.api.on("PATCH /v1/issues/iss_1", 200, oneIssue)
	b.post(ui.IssuesPath, url.Values{"nonce": {newNonce()}, "row": {"iss_1"}, "status": {"resolved"},
		"query": {"sort=First"}}).
		wantRedirect("/app/issues?sort=First")
	is.Same(t, r.lastBody("PATCH", "/v1/issues/iss_1"), map[string]any{"status": "resolved"})
	r.api.on("GET /v1/tenants", 200, `{"data":[{"tenant":"b"},{"tenant":"a"}]}`)
	for path, head := range map[string]string{"/app/endpoints": "Created", "/app/tenants": "Events+a+month",
		"/app/event-types": "Changed"} {
		b.get(path+"?sort="+head).want(200, `aria-sort="ascending"`)
	}
}

// The map has the destinations with the most requests, as wide as they are busy, and sums up the others.
func TestMapOfTraffic(t *testing.T) {
	r := newEndpointRig(t)
	var destinations, requests []string
	for i := range 14 {
		destinations = append(destinations, fmt.Sprintf(`{"id":"dst_%d","name":"<to %d>",
			"url":"https://a.example.com"}`, i, i))
		requests = append(requests, fmt.Sprintf(`{"destination_id":"dst_%d","requests":%d,"delivered":%d,
			"failed":%d}`, i, i*100, i*90, i*10))
	}
	r.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1","name":"shop","destinations":[`+
		strings.Join(destinations, ",")+`]}]}`)
	r.api.on("GET /v1/overview", 200, `{"at":"2026-08-21T22:24:30.000Z","needs":{"destinations":{"total":1,"data":[
		{"endpoint_id":"ep_1","destination_id":"dst_9","state":"held"}]}},"traffic":{"last_hour":`+noRequestsJSON+`,
		"busiest":[{"endpoint_id":"ep_1","name":"shop","last_hour":`+noRequestsJSON+`,"destinations":[`+
		strings.Join(requests, ",")+`]}]}}`)
	main := r.signedIn().get("/app").want(200, "4\u00a0destinations more have 600 requests",
		"held; 900 requests, 10\u00a0% failed",
		`viewBox="0 0 800 440"`, `<path class="bad" d="M260 220C400 220 400 22 540 22" stroke-width="12.0"`,
		`<path class="held" d="M260 220C`, "&lt;to 13&gt;", `href="/app/endpoints/ep_1/destinations/dst_13"`).main()
	is.Lacks(t, main, "&lt;to 3&gt;", "the map has one of the idlest destinations")
}
