package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

const oneType = `{"object":"event_type","name":"orders/paid","description":"An <b>order</b>","group":"Orders",
	"deprecated":true,"internal":false,"version":2,"schema":{"type":"object"},"example":{"a":1},"versions":[
	{"version":1,"schema":true,"example":null,"created_at":"2026-08-21T22:24:36.123Z"},{"version":2,
	"schema":{"type":"object"},"example":{"a":1},"created_at":"2026-08-21T22:24:36.123Z"}],
	"created_at":"2026-08-21T22:24:36.123Z","updated_at":"2026-08-21T22:24:36.123Z"}`

const oneIssue = `{"id":"iss_1","object":"issue","endpoint_id":"ep_1","endpoint_name":"orders","destination_id":"dst_1",
	"destination_name":"shop","cause":"http_503","status":"open","first_seen_at":"2026-08-21T22:24:36.123Z",
	"last_seen_at":"2026-08-21T22:24:36.123Z","count":7,"events":["evt_1"],"reopened":1,"resolved_at":null,"assignee":"",
	"note":"","created_at":"2026-08-21T22:24:36.123Z","updated_at":"2026-08-21T22:24:36.123Z"}`

// catalogueAnswers are what the pages of event types and issues read.
var catalogueAnswers = map[string]string{
	"/v1/event_types": `{"data":[` + oneType + `]}`, "/v1/event_types/orders%2Fpaid": oneType,
	"/v1/event_types/seen": `{"types":[{"name":"other.one","events":3,"known":false},{"name":"orders/paid","events":1,
		"known":true}]}`,
	"/v1/settings/catalogue": `{"public":true,"title":"Webhooks"}`,
	"/v1/issues":             `{"data":[` + oneIssue + `]}`, "/v1/issues/iss_1": oneIssue,
}

// answerCatalogue makes the API of a rig answer that.
func answerCatalogue(r *rig) *rig {
	for path, body := range catalogueAnswers {
		r.api.on("GET "+path, http.StatusOK, body)
	}
	return r
}

// The catalogue lists its types and those that are only seen; a form changes what was edited, whatever the name is.
func TestEventTypes(t *testing.T) {
	r := answerCatalogue(newRig(t))
	b := r.signedIn()
	page := b.get("/app/event-types").want(200, `href="/app/event-types/orders%2Fpaid"`, "Orders", "deprecated",
		"other.one", `href="/catalogue"`)
	is.Lacks(t, page.body, "<b>order</b>", "a description is not text")
	nonce := b.get("/app/event-types/orders%2Fpaid").want(200, "Version 2", "&#34;type&#34;: &#34;object&#34;",
		"Version 1").nonce()
	for _, call := range []string{"POST /v1/event_types", "PATCH /v1/event_types/orders%2Fpaid",
		"DELETE /v1/event_types/orders%2Fpaid", "PATCH /v1/settings/catalogue"} {
		r.api.on(call, http.StatusOK, oneType)
	}
	for _, x := range []struct {
		path, call, body, to string
		form                 url.Values
	}{
		{"/app/event-types", "POST /v1/event_types", `{"name":"other.one"}`, "/app/event-types/other.one",
			url.Values{"name": {"other.one"}}},
		{"/app/event-types/orders%2Fpaid", "PATCH /v1/event_types/orders%2Fpaid",
			`{"deprecated":false,"schema":{"type":"array"}}`, "/app/event-types/orders%2Fpaid",
			url.Values{"description": {"An <b>order</b>"}, "group": {"Orders"}, "schema": {`{"type":"array"}`},
				"example": {"{\r\n  \"a\": 1\r\n}"}}},
		{"/app/event-types/orders%2Fpaid/delete", "DELETE /v1/event_types/orders%2Fpaid", "", "/app/event-types",
			url.Values{}},
		{"/app/settings/catalogue", "PATCH /v1/settings/catalogue", `{"public":true,"title":"T"}`, "/app/event-types",
			url.Values{"title": {"T"}, "public": {"true"}}},
	} {
		x.form.Set("nonce", nonce)
		b.post(x.path, x.form).wantRedirect(x.to)
		call := r.api.calls[len(r.api.calls)-1]
		if call.Method+" "+call.Path != x.call || call.Body != x.body {
			t.Errorf("%s: %s %s %s", x.path, call.Method, call.Path, call.Body)
		}
	}
	r.api.on("GET /v1/events", http.StatusOK, emptyList)
	b.get("/app/events").want(200, `list="types"`, `<datalist id="types"><option value="orders/paid"></datalist>`)
	r.api.on("PATCH /v1/event_types/orders%2Fpaid", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"schema: is not valid JSON","param":"schema"}}`)
	b.post("/app/event-types/orders%2Fpaid", url.Values{"nonce": {nonce}, "schema": {"{"}}).want(400, "Is not valid JSON")
	r.api.on("POST /v1/event_types/import", http.StatusOK, `{"created":1,"updated":2,"unchanged":3}`)
	document := `{"openapi":"3.1.0","webhooks":{"a":{"post":{"x-big":12345678901234567890}}}}`
	b.post("/app/event-types/import", url.Values{"nonce": {nonce}, "document": {document}}).
		wantRedirect("/app/event-types")
	if call := r.api.calls[len(r.api.calls)-1]; call.Path != "/v1/event_types/import" || call.Body != document {
		t.Errorf("%s %s", call.Path, call.Body)
	}
	b.post("/app/event-types/import", url.Values{"nonce": {nonce}, "document": {"openapi: 3.1.0"}}).
		want(400, "Is not a JSON object", "openapi: 3.1.0")
	r.api.on("POST /v1/event_types/import", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"webhooks: has no operation","param":"webhooks"}}`)
	b.post("/app/event-types/import", url.Values{"nonce": {nonce}, "document": {"{}"}}).
		want(400, "Webhooks has no operation")
	b.get("/app/event-types/nope").want(404, "no such event type")
}

// An issue says what failed how often, and takes who cares for it. On the overview it stands in place of alerts.
func TestIssues(t *testing.T) {
	r := answerCatalogue(newEndpointRig(t))
	b := r.signedIn()
	b.get("/app/issues").want(200, `href="/app/issues/iss_1"`, "answers 503", "orders → shop", ">7<")
	nonce := b.get("/app/issues/iss_1").want(200, `href="/app/events/evt_1"`, "Opened again").nonce()
	r.api.on("PATCH /v1/issues/iss_1", http.StatusOK, oneIssue)
	b.post("/app/issues/iss_1", url.Values{"nonce": {nonce}, "status": {"acknowledged"}, "assignee": {" Ada "}}).
		wantRedirect("/app/issues/iss_1")
	if call := r.api.calls[len(r.api.calls)-1]; call.Body != `{"assignee":"Ada","status":"acknowledged"}` {
		t.Errorf("%s", call.Body)
	}
	b.get("/app/issues/iss_2").want(404, "no such issue")
	r.api.on("GET /v1/overview", 200, `{"at":"2026-08-21T22:24:30.000Z","needs":{"issues":{"total":1,"data":[`+
		oneIssue+`]},
		"alerts":{"total":1,"data":[{"rule":"delivery_failed","endpoint_id":"ep_1","destination_id":"dst_1",
		"state":"firing","value":"attempts_exhausted","fired_at":"2026-08-21T22:24:36.123Z"}]}}}`)
	start := b.get("/app").want(200, "answers 503, 7\u00a0times", `href="/app/issues/iss_1"`)
	if strings.Contains(start.body, "attempts") {
		t.Errorf("an alert says the same: %s", start.main())
	}
}
