package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

const oneTenant = `{"object":"tenant","tenant":"customer:1","name":"Example <b>Ltd</b>","metadata":{"plan":"gold"},
	"limits":{"endpoints":5,"destinations":null,"events_per_second":null},"allowance_events":1000,"portal":null,
	"endpoint_id":null,"endpoints":2,"created_at":"2026-08-21T22:24:36.123Z","updated_at":"2026-08-21T22:24:36.123Z"}`

// answerTenants makes the API of a rig answer what the pages of tenants read.
func answerTenants(r *rig) *rig {
	for path, body := range map[string]string{
		"/v1/tenants":            `{"data":[` + oneTenant + `],"has_more":true,"next_cursor":"c1"}`,
		"/v1/tenants/customer:1": oneTenant,
		"/v1/tenants/customer:1/keys": `{"data":[{"id":"key_1","name":"shop","scope":"read","last4":"abcd","expires_at":null,
			"revoked_at":null},{"id":"key_2","name":"ended","revoked_at":"2026-08-21T22:24:36.123Z","expires_at":null}]}`,
		"/v1/tenants/customer:1/portal_links": `{"data":[{"id":"pls_1","can":["view","test"],"opened_at":null,
			"ends_at":"2026-08-21T22:34:36.123Z"}]}`,
	} {
		r.api.on("GET "+path, http.StatusOK, body)
	}
	return r
}

// The pages of tenants show the usage and limits of a customer. A form keeps the fields that were not edited.
func TestTenants(t *testing.T) {
	r := answerTenants(newRig(t))
	r.api.on("GET /v1/usage", http.StatusOK,
		`{"events":{"total":1250},"deliveries":3,"allowance":1000,"overage":{"events":250}}`)
	b := r.signedIn()
	list := b.get("/app/tenants").want(200, `href="/app/tenants/customer:1"`, "1,000", "cursor=c1", `href="/app/tenants"`)
	is.Lacks(t, list.body, "<b>Ltd</b>", "a name is not text")
	b.get("/app/tenants?find=customer:1").wantRedirect("/app/tenants/customer:1")
	b.get("/app/tenants/nobody").want(404)
	page := b.get("/app/tenants/customer:1").want(200, "1,250", "125 %", "250 events above", "shop", "view, test",
		"/app/events?tenant=customer%3a1", "/app/endpoints?tenant=customer%3a1", "/app/settings/keys?tenant=customer%3a1")
	is.Lacks(t, page.body, "ended", "a revoked key is shown")
	b.get(ui.KeysPath+"?tenant=customer:1").want(200, `name="tenant" value="customer:1"`)

	form := page.fields("/app/tenants/customer:1")
	form.Set("allowance_events", "2000")
	form.Set("portal.color", "#0b6e4f")
	for _, call := range []string{"PUT /v1/tenants/customer:1", "PUT /v1/tenants/new", "DELETE /v1/tenants/customer:1",
		"DELETE /v1/tenants/customer:1/portal_links/pls_1"} {
		r.api.on(call, http.StatusOK, oneTenant)
	}
	r.api.on("POST /v1/tenants/customer:1/portal_links", http.StatusCreated, `{"id":"pls_2",
		"url":"https://a.example/link/once","can":["view"],"opened_at":null,"ends_at":"2026-08-21T22:34:36.123Z"}`)
	for _, x := range []struct {
		path, call, body, to string
		form                 url.Values
	}{
		{"/app/tenants/customer:1", "PUT /v1/tenants/customer:1", `{"allowance_events":2000,"limits":{"destinations":null,` +
			`"endpoints":5,"events_per_second":null},"metadata":{"plan":"gold"},` +
			`"name":"Example \u003cb\u003eLtd\u003c/b\u003e","portal":` +
			`{"color":"#0b6e4f","logo_dark_url":"","logo_url":"","title":""}}`, "/app/tenants/customer:1", form},
		{"/app/tenants", "PUT /v1/tenants/new", `{"name":"New"}`, "/app/tenants/new",
			url.Values{"tenant": {" new "}, "name": {"New"}}},
		{"/app/tenants/customer:1/links/pls_1/end", "DELETE /v1/tenants/customer:1/portal_links/pls_1", "",
			"/app/tenants/customer:1", url.Values{}},
		{"/app/tenants/customer:1/delete", "DELETE /v1/tenants/customer:1", "", "/app/tenants",
			url.Values{"confirm": {"customer:1"}}},
	} {
		x.form.Set("nonce", page.nonce())
		b.post(x.path, x.form).wantRedirect(x.to)
		call := r.api.calls[len(r.api.calls)-1]
		is.Equal(t, call.Method+" "+call.Path+" "+call.Body, x.call+" "+x.body, "%s", x.path)
	}
	made := b.post("/app/tenants/customer:1/links", url.Values{"nonce": {page.nonce()}, "can": {"test", "replay"},
		"lang": {"de"}, "theme": {""}}).want(200, "https://a.example/link/once")
	asked := r.lastBody("POST", "/v1/tenants/customer:1/portal_links")
	is.Equal(t, string(web.Encode(asked)), `{"can":["test","replay"],"lang":"de"}`+"\n", "link")
	is.Has(t, made.body, "data-once", "the link stays in the page")
	r.api.responses["POST /v1/tenants/customer:1/portal_links"] = func(apiCall) (int, http.Header, string) {
		return 201, http.Header{"Idempotent-Replayed": {"true"}}, `{"url":"https://a.example/link/once"}`
	}
	made = b.post("/app/tenants/customer:1/links", url.Values{"nonce": {page.nonce()}}).want(200, "was sent before")
	is.Lacks(t, made.body, "/link/once", "the link is shown again")

	r.people.person.Scope = config.Read
	main := b.get("/app/tenants/customer:1").want(200, "Maximum endpoints</dt><dd>5", "plan").main()
	is.Lacks(t, main, "<form", "what a reader sees")
	r.people.person.Scope = config.ReadWrite
	before := len(r.api.calls)
	b.post("/app/tenants/customer:1/delete", url.Values{"nonce": {page.nonce()}, "confirm": {"no"}}).
		wantRedirect("/app/tenants/customer:1")
	b.post("/app/tenants", url.Values{"nonce": {page.nonce()}, "tenant": {"customer:1"}}).want(400, "Exists already")
	b.post("/app/tenants", url.Values{"nonce": {page.nonce()}, "tenant": {".."}}).want(400, "Must have 1 to 64")
	for _, call := range r.api.calls[before:] {
		is.Equal(t, call.Method, "GET", "%s %s was called", call.Method, call.Path)
	}
}
