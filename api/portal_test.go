package api_test

import (
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/features/agents/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const owner = "https://app.example.com"

// portal is the portal over the API of a client.
type portal struct {
	*pages
	tenant *tenant
}

// newPortal returns the portal of a new tenant, without a session.
func newPortal(t *testing.T) *portal {
	t.Helper()
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) {
		cfg.Portal = api.Portal{URL: baseURL + dashboard.PortalPath, Origins: []string{owner}}
	})
	actions := must.Get(confirm.New(confirm.Deps{Log: slog.New(slog.DiscardHandler), Actions: configuration,
		API: c.api, Now: time.Now}))(t)
	return &portal{openPages(c, dashboard.Config{BaseURL: baseURL, Version: "test", PortalOrigins: []string{owner}},
		actions), newTenant(c, t)}
}

// link creates a link and returns its path; body has its members but can.
func (p *portal) link(body string, can ...string) (path string, created *answer) {
	p.t.Helper()
	text := `"` + strings.Join(can, `","`) + `"`
	if len(can) == 0 {
		text = ""
	}
	created = p.client.do("POST", "/v1/tenants/"+p.tenant.name+"/portal_links", `{"can":[`+text+`]`+body+`}`).want(201)
	path, ok := strings.CutPrefix(created.text("url"), baseURL)
	if !ok {
		p.t.Fatalf("%s", created.raw)
	}
	return path, created
}

// enter begins a session with these rights.
func (p *portal) enter(can ...string) (session string) {
	p.t.Helper()
	path, created := p.link(`,"return_url":"`+owner+`/back","refresh_url":"`+owner+`/refresh"`, can...)
	p.open("POST", path, http.StatusSeeOther)
	return created.text("id")
}

// post sends a form and returns the text of the page: a signing secret may have a "+", which HTML may write "&#43;".
func (p *portal) post(path string, want int, values ...string) string {
	p.t.Helper()
	form := url.Values{"nonce": {strings.Repeat("n", 14) + id.Random("")[:8]}}
	for i := 0; i < len(values); i += 2 {
		form.Add(values[i], values[i+1])
	}
	return html.UnescapeString(p.open("POST", path, want, form.Encode()))
}

func (p *portal) destination() string {
	return "/portal/endpoints/" + p.tenant.of["endpoint"] + "/destinations/" + p.tenant.of["destination"]
}

var signingSecret = regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`)

func TestPortalLinks(t *testing.T) {
	p := newPortal(t)
	links := "/v1/tenants/" + p.tenant.name + "/portal_links"
	for body, param := range map[string]string{
		`{"return_url":"https://app.example.com.evil.example"}`:   "return_url",
		`{"return_url":"https://app.example.com@evil.example"}`:   "return_url",
		`{"refresh_url":"javascript:alert(1)"}`:                   "refresh_url",
		`{"return_url":"https://app.example.com\\@evil.example"}`: "return_url",
		`{"can":["everything"]}`:                                  "can[0]",
		`{"can":["view","view"]}`:                                 "can[1]",
		`{"expires_seconds":86401}`:                               "expires_seconds",
		`{"session_seconds":1}`:                                   "session_seconds",
		`{"rights":[]}`:                                           "rights",
		`{"lang":"tlh"}`:                                          "lang",
		`{"theme":"pink"}`:                                        "theme",
	} {
		p.client.do("POST", links, body).wantError(400, "invalid_request", param)
	}
	p.client.do("POST", "/v1/tenants/nobody/portal_links", nil).wantError(404, "not_found", "")
	p.tenant.do("POST", links, nil).wantError(403, "insufficient_scope", "")

	path, created := p.link("")
	if created.get("can.0") != "view" || created.get("opened_at") != nil {
		t.Errorf("%s", created.raw)
	}
	for range 2 { // a program that previews links opens them, too
		is.Lacks(t, p.open("GET", path, http.StatusOK), "data-open", "a preview would open the link")
	}
	for from, opens := range map[string]bool{owner + "/webhooks": true, "https://evil.example/": false} {
		r := p.request("GET", path)
		r.Header.Set("Referer", from)
		r.Header.Set("Sec-Fetch-User", "?1")
		w := httptest.NewRecorder()
		if p.handler.ServeHTTP(w, r); strings.Contains(w.Body.String(), "data-open") != opens {
			t.Errorf("followed at %s: opens by itself %v", from, !opens)
		}
	}
	r := p.request("GET", path)
	r.Header.Set("Sec-Fetch-Dest", "iframe")
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	if h := w.Header(); !strings.Contains(w.Body.String(), "data-open") || h.Get("X-Frame-Options") != "" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors "+owner+";") {
		t.Errorf("in a frame: %v %s", h, w.Body)
	}
	is.Lacks(t, p.open("GET", "/portal", http.StatusUnauthorized), `"/app`, "the page leads to the dashboard")
	foreign := p.request("POST", path)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	w = httptest.NewRecorder()
	if p.handler.ServeHTTP(w, foreign); w.Code != http.StatusForbidden {
		t.Errorf("opened by another site: %d", w.Code)
	}
	p.open("POST", path, http.StatusSeeOther)
	for _, c := range p.cookies {
		if c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.Partitioned || !c.HttpOnly {
			t.Errorf("cookie %v", c)
		}
	}
	p.open("POST", path, http.StatusNotFound) // it works once
	p.open("POST", "/portal/link/nope", http.StatusNotFound)
	p.open("GET", "/portal", http.StatusOK)
	p.open("GET", "/app/events", http.StatusSeeOther) // to sign in

	list := p.client.do("GET", links, nil).want(200)
	if list.text("data.0.id") != created.text("id") || list.get("data.0.opened_at") == nil ||
		strings.Contains(string(list.raw), "/portal/link/") {
		t.Errorf("%s", list.raw)
	}
	other := newTenant(p.client, t)
	p.client.do("DELETE", "/v1/tenants/"+other.name+"/portal_links/"+created.text("id"), nil).
		wantError(404, "not_found", "")
	p.client.do("DELETE", links+"/"+created.text("id"), nil).want(200)
	p.open("GET", "/portal", http.StatusUnauthorized)

	// An ended session leads to the application for another link, and a left one back to it.
	session := p.enter()
	p.client.do("DELETE", links+"/"+session, nil).want(200)
	p.leadsTo("GET", "/portal/events", owner+"/refresh")
	p.open("POST", p.destination()+"/test", http.StatusUnauthorized)
	p.enter()
	p.leadsTo("POST", "/portal/leave", owner+"/back")
	p.open("GET", "/portal", http.StatusUnauthorized)

	// A tenant with the name of another one does not get its sessions.
	p.enter()
	waiting, _ := p.link("")
	p.client.do("DELETE", "/v1/tenants/"+p.tenant.name, nil).want(200)
	p.client.do("PUT", "/v1/tenants/"+p.tenant.name, nil).want(200)
	p.leadsTo("GET", "/portal", owner+"/refresh")
	p.open("POST", waiting, http.StatusNotFound)
}

// leadsTo sends a request that is answered by a redirect to another page.
func (p *portal) leadsTo(method, path, want string) {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, p.request(method, path))
	for _, c := range w.Result().Cookies() {
		p.cookies[c.Name] = c
	}
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != want {
		p.t.Errorf("%s %s: %d to %s", method, path, w.Code, got)
	}
}

// Each right opens its pages and no others, and nothing of another tenant or of the account is there.
func TestPortalRights(t *testing.T) {
	p := newPortal(t)
	other := newTenant(p.client, t)
	of := p.client.endpoint(nil)
	account := p.client.send(of.text("id"))
	event := "/portal/events/" + p.tenant.of["event"]
	needs := map[string]string{
		"GET /portal": "view", "GET " + p.destination(): "view", "GET /portal/events": "view", "GET " + event: "view",
		"GET /portal/requests": "view", "GET /portal/event-types": "view", "GET /portal/destinations/new": "destinations",
		"POST /portal/destinations/new": "destinations", "POST " + p.destination(): "destinations",
		"POST " + p.destination() + "/enable": "destinations", "POST " + p.destination() + "/remove": "destinations",
		"POST " + p.destination() + "/secret": "secrets", "POST " + p.destination() + "/rotate": "secrets",
		"POST " + p.destination() + "/again": "replay",
		"POST " + p.destination() + "/test":  "test", "POST " + event + "/replay": "replay",
	}
	before := p.client.do("GET", "/v1/endpoints/"+p.tenant.of["endpoint"], nil).want(200)
	for _, can := range []string{"view", "destinations", "secrets", "replay", "test"} {
		p.enter(can)
		for operation, right := range needs {
			method, path, _ := strings.Cut(operation, " ")
			switch {
			case right != can && right != "view":
				p.open(method, path, http.StatusForbidden)
			case method == http.MethodGet:
				is.Lacks(t, p.open(method, path, http.StatusOK), `"/app`, "%s leads to the dashboard", operation)
			}
		}
		for _, page := range []string{"/portal/events/" + other.of["event"], "/portal/events/" + account,
			"/portal/endpoints/" + other.of["endpoint"] + "/destinations/" + other.of["destination"],
			"/portal/endpoints/" + p.tenant.of["endpoint"] + "/destinations/" + other.of["destination"],
			"/portal/endpoints/" + of.text("id") + "/destinations/" + of.text("destinations.0.id"),
			"/portal/requests/act_nope", "/portal/endpoints/" + other.of["endpoint"] + "/destinations/x"} {
			is.Lacks(t, p.open("GET", page, http.StatusNotFound), other.name, "%s names what belongs to others", page)
		}
		for _, list := range []string{"/portal", "/portal/events", "/portal/requests"} {
			if text := p.open("GET", list, http.StatusOK); strings.Contains(text, other.name) ||
				strings.Contains(text, account) {
				t.Errorf("%s shows what belongs to others", list)
			}
		}
	}
	after := p.client.do("GET", "/v1/endpoints/"+p.tenant.of["endpoint"], nil).want(200)
	is.Equal(t, before.text("updated_at"), after.text("updated_at"), "a refused form has changed the endpoint")
	p.enter("secrets")
	p.client.do("PATCH", "/v1/endpoints/"+p.tenant.of["endpoint"]+"/destinations/"+p.tenant.of["destination"],
		`{"url":"https://example.com/h?token=0123456789abcdef"}`).want(200)
	if page := p.post(p.destination()+"/secret", 200); strings.Contains(page, "0123456789abcdef") ||
		!signingSecret.MatchString(page) {
		t.Error("who may see signing secrets sees the credential in the URL, or no secret")
	}
	p.post("/portal/endpoints/"+other.of["endpoint"]+"/destinations/"+other.of["destination"]+"/secret", 404)
}

// A customer adds a destination, sees its secret again, changes it, tries it and removes it.
func TestPortalAtWork(t *testing.T) {
	p := newPortal(t)
	session := p.enter("destinations", "secrets", "replay", "test")
	if text := p.post("/portal/destinations/new", 400, "endpoint", p.tenant.of["endpoint"], "url", "ftp://x"); !strings.
		Contains(text, "URL") {
		t.Errorf("%s", text)
	}
	made := p.post("/portal/destinations/new", 200, "endpoint", p.tenant.of["endpoint"], "url",
		"https://new.example.com/h", "enabled", "true", "type", "order.paid", "filter.types", "invoice.*\r\n")
	secret := signingSecret.FindString(made)
	e := p.client.do("GET", "/v1/endpoints/"+p.tenant.of["endpoint"], nil).want(200)
	d := e.text("destinations.1.id")
	if secret == "" || e.get("destinations.1.filter.types.0") != "order.paid" ||
		e.get("destinations.1.filter.types.1") != "invoice.*" {
		t.Fatalf("%s %s", secret, e.raw)
	}
	path := "/portal/endpoints/" + p.tenant.of["endpoint"] + "/destinations/" + d
	is.Lacks(t, p.open("GET", path, 200), secret, "the page shows the secret unasked")
	is.Has(t, p.post(path+"/secret", 200), secret, "the secret is not shown again")
	seen := p.client.do("GET", "/v1/audit?actor="+session, nil).want(200)
	if seen.get("data.0.actor.type") != "portal" || seen.get("data.0.related_id") != d ||
		!strings.Contains(string(seen.raw), "secret_shown") {
		t.Errorf("audit: %s", seen.raw)
	}
	own := string(p.client.do("GET", "/v1/audit?tenant="+p.tenant.name, nil).want(200).raw)
	none := string(p.client.do("GET", "/v1/audit?tenant="+newTenant(p.client, t).name+"&entity_id="+d, nil).want(200).raw)
	if !strings.Contains(own, "portal_session.updated") || strings.Contains(none, d) {
		t.Errorf("audit of the tenant: %s, of another %s", own, none)
	}
	if page := p.post(path+"/rotate", 200); signingSecret.FindString(page) == secret {
		t.Error("rotated, and the same secret")
	}
	// What the owner of the account has set stays.
	p.client.do("PATCH", "/v1/endpoints/"+p.tenant.of["endpoint"]+"/destinations/"+d,
		`{"filter":{"body":{"data.n":1}},"timeout_seconds":7}`).want(200)
	p.post(path, http.StatusSeeOther, "url", "https://new.example.com/other", "enabled", "true")
	e = p.client.do("GET", "/v1/endpoints/"+p.tenant.of["endpoint"], nil).want(200)
	if !strings.Contains(string(e.raw), `"data.n":1`) || e.get("destinations.1.timeout_seconds") != 7.0 ||
		e.text("destinations.1.url") != "https://new.example.com/other" {
		t.Errorf("%s", e.raw)
	}
	p.post(path+"/test", http.StatusSeeOther)
	p.post(path+"/again", http.StatusSeeOther)
	runs := p.client.do("GET", "/v1/replays?endpoint_id="+p.tenant.of["endpoint"], nil).want(200)
	is.Has(t, string(runs.raw), `"only_undelivered":true`, "what failed is sent again")
	p.post("/portal/events/"+p.tenant.of["event"]+"/replay", http.StatusSeeOther, "destination_id", d)
	p.post("/portal/events/"+p.tenant.of["event"]+"/replay", http.StatusSeeOther)
	is.Has(t, p.open("GET", "/portal/events/"+p.tenant.of["event"], 200), "Nothing was sent",
		"a replay without a destination says nothing")
	p.post(path+"/remove", http.StatusSeeOther)
	p.open("GET", path, http.StatusNotFound)

	p.client.do("PUT", "/v1/tenants/"+p.tenant.name,
		`{"name":"Example","portal":{"title":"Shop <b>","color":"#FFEE00",
			"logo_url":"https://cdn.example.com/l.png",
			"logo_dark_url":"https://dark.example.com/l.png"}}`).want(200)
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, p.request("GET", "/portal"))
	if text := w.Body.String(); !strings.Contains(text, "Shop &lt;b&gt;") || !strings.Contains(text, "look.css?FFEE00") ||
		!strings.Contains(w.Header().Get("Content-Security-Policy"), "img-src 'self' data: "+
			"https://cdn.example.com https://dark.example.com;") {
		t.Errorf("%v %s", w.Header(), text)
	}
	is.Has(t, p.open("GET", "/portal/look.css", 200), ":root{--solid:#ffee00;--on-solid:#000000;--link:light-dark(#")
	for _, bad := range []string{`{"color":"red"}`, `{"color":"#fff;}"}`, `{"logo_url":"http://x"}`,
		`{"logo_dark_url":"http://x"}`,
		`{"logo_url":"https://x; script-src *"}`, `{"logo_url":"https://u:p@x"}`, `{"title":"\u202e"}`} {
		if got := p.client.do("PUT", "/v1/tenants/"+p.tenant.name, `{"portal":`+bad+`}`); got.Status != 400 {
			t.Errorf("%s: %d", bad, got.Status)
		}
	}
}

// A person of the tenant decides on what an agent of the tenant asks for, with the right for it.
func TestPortalRequests(t *testing.T) {
	p := newPortal(t)
	action := func(tenant string) string {
		body := `{"endpoint_id":"` + p.tenant.of["endpoint"] + `","since":"` + since() + `"}`
		a := must.Get(configuration.CreateAction(t.Context(), &config.Action{
			Meta: entity.Meta{ID: id.Random(id.Act), Account: configuration.Account().ID}, Key: p.tenant.of["key"],
			KeyName: "agent", Tenant: tenant, Tool: "event_replay", Arguments: "{}", Summary: "Replay of " + id.Random("x"),
			Path: "/v1/replays", Body: strings.Replace(body, "}", `,"reason":"`+id.Random("x")+`"}`, 1),
			Resources: []string{"/v1/endpoints/" + p.tenant.of["endpoint"]},
			Revision:  confirm.Revision(p.client.do("GET", "/v1/endpoints/"+p.tenant.of["endpoint"], nil).raw)}))(t)
		return a.ID
	}
	mine, foreign := action(p.tenant.name), action("another")
	nonce := regexp.MustCompile(`name="nonce" value="([^"]+)"`)
	p.enter("view")
	p.open("POST", "/portal/requests/"+mine+"/approve", http.StatusForbidden)
	p.enter("replay")
	is.Has(t, p.open("GET", "/portal", 200), "Agent requests", "a request waits")
	if list := p.open("GET", "/portal/requests", 200); !strings.Contains(list, mine) || strings.Contains(list, foreign) {
		t.Errorf("%s", list)
	}
	p.open("POST", "/portal/requests/"+foreign+"/approve", http.StatusNotFound)
	p.post("/portal/requests/"+mine+"/approve", http.StatusSeeOther) // with another nonce: nothing happens
	if a, _ := configuration.Action(mine); a.State != config.ActionPending {
		t.Fatalf("approved without its page: %v", a.State)
	}
	page := p.open("GET", "/portal/requests/"+mine, 200)
	p.open("POST", "/portal/requests/"+mine+"/approve", http.StatusSeeOther, "nonce="+nonce.FindStringSubmatch(page)[1])
	a, _ := configuration.Action(mine)
	if a.State == config.ActionPending || !strings.HasPrefix(a.DecidedBy, id.PortalSession) {
		t.Errorf("%v by %s: %s", a.State, a.DecidedBy, a.Result)
	}
}

// Pages are in the language and the theme of the link, or else as the browser asks.
func TestPortalLanguages(t *testing.T) {
	p := newPortal(t)
	as := func(accept string) string {
		r := p.request("GET", "/portal")
		r.Header.Set("Accept-Language", accept)
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	p.enter()
	for accept, want := range map[string]string{"de-AT,de;q=0.9,en;q=0.8": `<html lang="de"`,
		"en-GB,de": `<html lang="en"`, "tlh,ja;q=0.5": `<html lang="ja"`, "": `<html lang="en"`} {
		is.Has(t, as(accept), want, accept)
	}
	is.Has(t, as("fr"), ">Événements</a>")
	is.Lacks(t, as("de"), "Anfragen von Agenten", "the tenant has no agent")
	p.client.do("POST", "/v1/tenants/"+p.tenant.name+"/keys", `{"name":"a","agent":true,"scope":"read"}`).want(201)
	p.enter("replay")
	is.Has(t, as("de"), "Anfragen von Agenten", "the tenant has an agent")
	path, _ := p.link(`,"lang":"es","theme":"dark"`, "destinations", "secrets")
	p.open("POST", path, http.StatusSeeOther)
	if page := as("de"); !strings.Contains(page, `<html lang="es"`) || !strings.Contains(page, `data-theme="dark"`) {
		t.Errorf("%s", page[:300])
	}
	path, _ = p.link(`,"theme":"dark"`)
	is.Has(t, p.open("GET", path+"?theme=light", 200), `data-theme="light"`, "the address of the frame")
	p.open("POST", path+"?theme=light", http.StatusSeeOther)
	is.Has(t, as(""), `data-theme="light"`, "the pages behind it")
	is.Has(t, p.post(p.destination()+"/test", http.StatusForbidden), "does not allow")
}

// The catalogue is shown without the event store, and a destination offers its types.
func TestPortalEventTypes(t *testing.T) {
	p := newPortal(t)
	for _, name := range []string{"portal.made", "portal.internal", "sample.created"} {
		p.client.do("PUT", "/v1/event_types/"+name, map[string]any{"internal": name == "portal.internal",
			"description": "About " + name, "schema": map[string]any{"type": "object", "title": "T of " + name},
			"example": map[string]any{"id": 4711}}).want(200)
	}
	p.enter("destinations")
	list := p.open("GET", "/portal/event-types", 200)
	is.Has(t, list, "About portal.made")
	for _, page := range []string{list, p.open("GET", "/portal/destinations/new", 200)} {
		is.Has(t, page, "portal.made")
		is.Lacks(t, page, "portal.internal")
		is.Lacks(t, page, "<code>sample.created")
	}
	one := p.open("GET", "/portal/event-types/portal.made", 200)
	is.Has(t, one, "T of portal.made")
	is.Has(t, one, "4711")
	p.open("GET", "/portal/event-types/portal.internal", 404)
	is.Has(t, p.open("GET", p.destination(), 200), "npm install standardwebhooks", "code to verify")
}

// A page of the account's application calls the API with a token of the portal: as the pages of the portal would.
func TestPortalTokens(t *testing.T) {
	p := newPortal(t)
	links := "/v1/tenants/" + p.tenant.name + "/portal_links"
	other := newTenant(p.client, t)
	made := p.client.do("POST", links, `{"use":"api","can":["destinations"],"session_seconds":60}`).want(201)
	token := made.text("token")
	if made.get("url") != nil || made.get("opened_at") == nil || !strings.HasPrefix(token, config.PortalTokenPrefix) {
		t.Fatalf("%s", made.raw)
	}
	is.Lacks(t, string(p.client.do("GET", links, nil).want(200).raw), token, "a list shows the token")
	p.open("POST", "/portal/link/"+token, http.StatusNotFound)

	page := p.client.as(token)
	from := []string{"Origin", owner, "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "cross-site"}
	destinations := "/v1/endpoints/" + p.tenant.of["endpoint"] + "/destinations"
	got := page.do("GET", "/v1/endpoints", nil, from...).want(200)
	is.Equal(t, got.Header.Get("Access-Control-Allow-Origin"), owner)
	is.Equal(t, page.do("GET", "/v1/endpoints", nil, "Origin", "https://evil.example").want(200).Header.
		Get("Access-Control-Allow-Origin"), "")
	is.Equal(t, p.client.do("GET", "/v1/endpoints", nil, from...).want(200).Header.Get("Access-Control-Allow-Origin"), "",
		"an API key is no token")
	preflight := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}
	asked := p.client.as("").do("OPTIONS", "/v1/endpoints", nil, slices.Concat(preflight, from)...).want(200)
	is.Equal(t, asked.Header.Get("Access-Control-Allow-Origin"), owner)
	is.Equal(t, asked.Header.Get("Access-Control-Allow-Credentials"), "")
	preflight = append(preflight, "Origin", "https://evil.example")
	is.Equal(t, p.client.as("").do("OPTIONS", "/v1/endpoints", nil, preflight...).want(401).Header.
		Get("Access-Control-Allow-Origin"), "")

	// Conditions of the filter are the owner's.
	for body, param := range map[string]string{`{"url":"https://a.example","filter":{"when":"true"}}`: "filter.when",
		`{"url":"https://a.example","filter":null}`: "filter"} {
		page.do("POST", destinations, body, from...).wantError(400, "invalid_request", param)
	}
	d := page.do("POST", destinations, `{"url":"https://new.example.com/h","filter":{"types":["a.b"]}}`, from...).want(201)
	for _, body := range []string{`{"headers":{"a":"b"}}`, `{"max_in_flight":100}`, `{"\u0068eaders":{}}`} {
		page.do("PATCH", destinations+"/"+d.text("id"), body).want(400)
	}
	page.do("PATCH", destinations+"/"+d.text("id"), `{"enabled":false}`).want(200)
	page.do("POST", destinations+"/"+d.text("id")+"/rotate_secret", `{}`).wantError(403, "insufficient_scope", "")
	page.do("POST", "/v1/events/"+p.tenant.of["event"]+"/replay", `{}`).wantError(403, "insufficient_scope", "")
	page.do("GET", "/v1/endpoints/"+other.of["endpoint"], nil).want(404)
	for path, methods := range api.Routes(p.client.api) {
		for _, method := range methods {
			operation := method + " " + path
			if x, ok := api.PortalOperations()[operation]; ok {
				is.Equal(t, api.TenantOperations()[operation], true, "%s is not of tenants", operation)
				is.Equal(t, x.Right != "", true, "%s needs no right", operation)
			} else if !strings.HasSuffix(path, "/stream") {
				page.do(method, filled(path, p.tenant.of), nil).want(403)
			}
		}
	}
	again := p.client.as(p.client.do("POST", links, `{"use":"api","can":["replay"]}`).want(201).text("token"))
	again.do("POST", "/v1/events/"+p.tenant.of["event"]+"/replay", `{}`).want(200)
	p.client.do("DELETE", links+"/"+made.text("id"), nil).want(200)
	is.Equal(t, page.do("GET", "/v1/endpoints", nil, from...).want(401).Header.Get("Access-Control-Allow-Origin"), owner,
		"the page sees that the session has ended")
}

// While the store is behind, its attempts may be missing: the page does not say that there were none.
func TestPortalEventWhileTheStoreIsBehind(t *testing.T) {
	p := newPortal(t)
	p.enter()
	page := "/portal/events/" + p.tenant.of["event"]
	is.Has(t, p.open("GET", page, 200), "No request was made.")
	d, _ := id.Parse(id.Event, p.tenant.of["event"])
	p.client.fake.details[d] = func(x *event.Detail) { x.AsOf = time.Now() }
	is.Lacks(t, p.open("GET", page, 200), "No request was made.")
}
