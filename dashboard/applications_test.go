package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

// oneDSN is a DSN of a server as the API shows it before its first report.
const oneDSN = `{"id":"dsn_1","name":"<b>shop","platform":"server","dsn":"https://pk12@relay.example.com/dsn_1",
"allowed_origins":[],"daily_quota":null,"sdk":null,"last_received_at":null,"requests_24h":0,"reports_24h":0,
"hits_24h":0,"rejected_24h":0,"last_error":null,"version":1,"created_at":"2026-08-21T20:00:00.000Z"}`

// browserDSN is one of browsers.
var browserDSN = strings.NewReplacer(`"server"`, `"browser"`, `"allowed_origins":[]`,
	`"allowed_origins":["https://a.example","https://*.b.example"]`, `"daily_quota":null`, `"daily_quota":1000`).
	Replace(oneDSN)

// A person connects an application: its page has the lines to paste for its platform, and the proof of life.
func TestConnectAnApplication(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/dsns", http.StatusOK, `{"data":[]}`)
	page := b.get("/app/applications").want(200, "No application yet", "Connect your application")
	r.api.on("POST /v1/dsns", http.StatusCreated, oneDSN)
	b.post("/app/applications", url.Values{"nonce": {page.nonce()}, "name": {" shop "}, "platform": {"server"}}).
		wantRedirect("/app/applications/dsn_1")
	call := r.api.calls[len(r.api.calls)-1]
	if call.Key != page.nonce() || call.Body != `{"name":"shop","platform":"server"}` {
		t.Errorf("%s with the key %s", call.Body, call.Key)
	}
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, oneDSN)
	body := b.get("/app/applications/dsn_1").want(200, "Waiting for the first report", "&lt;b&gt;shop",
		`data-live="/app/applications/dsn_1"`, `<a href="/app/applications/dsn_1">Reload this page</a>`,
		"https://pk12@relay.example.com/dsn_1",
		"npm install ./vendor/eventrelay-sdk-", "/tools/eventrelay-sdk-", "node --import @eventrelay/sdk/register app.js",
		"instrumentation.js", "sendTest()", "node try.mjs").body
	if strings.Contains(body, "Origins of the pages") || strings.Contains(body, "first module") {
		t.Error("the page of a server has what is for browsers")
	}
	const local = "Only programs on this machine reach this URL. For applications"
	is.Lacks(t, body, local, "the page says of a public host name that nobody reaches it")
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, strings.Replace(oneDSN, "relay.example.com", "localhost:8080", 1))
	b.get("/app/applications/dsn_1").want(200, local)
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, browserDSN)
	body = b.get("/app/applications/dsn_1").want(200, "first module", "connect-src https://relay.example.com",
		"https://a.example\nhttps://*.b.example", `value="1000"`, "importmap", "dist/browser.js", "open a page",
		"sendTest()").body
	is.Lacks(t, body, "try.mjs", "the page of a browser application tests a program of Node.js")
	received := strings.NewReplacer(`"last_received_at":null`, `"last_received_at":"2026-08-21T22:24:30.000Z"`,
		`"reports_24h":0`, `"reports_24h":1234`, `"hits_24h":0`, `"hits_24h":2`, `"last_error":null`,
		`"last_error":"wrong_origin"`, `"sdk":null`, `"sdk":"relay.javascript 0.1.0"`).Replace(oneDSN)
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, received)
	b.get("/app/applications/dsn_1").want(200, "Reports arrive", "secrets seen 2\u00a0times",
		"from relay.javascript 0.1.0",
		"its page is of an origin that is not allowed")
	r.api.on("GET /v1/dsns", http.StatusOK, `{"data":[`+received+`]}`)
	b.get("/app/applications").want(200, `href="/app/applications/dsn_1"`, "&lt;b&gt;shop", "1,234")
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, strings.ReplaceAll(oneDSN, `_24h":0`, `_24h":null`))
	b.get("/app/applications/dsn_1").want(200, "cannot be read at the moment")
}

// The actions of an application make one call each.
func TestActionsOfAnApplication(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/dsns/dsn_1", http.StatusOK, browserDSN)
	for _, route := range []string{"PATCH /v1/dsns/dsn_1", "POST /v1/dsns/dsn_1/rotate", "DELETE /v1/dsns/dsn_1"} {
		r.api.on(route, http.StatusOK, oneDSN)
	}
	nonce := b.get("/app/applications/dsn_1").nonce()
	for _, x := range []struct{ action, quota, call, body, to string }{
		{"/rotate", "", "POST /v1/dsns/dsn_1/rotate", `{}`, "/app/applications/dsn_1"},
		{"", " 50 ", "PATCH /v1/dsns/dsn_1",
			`{"allowed_origins":["https://a.example","https://b.example"],"daily_quota":50,"name":"web"}`,
			"/app/applications/dsn_1"},
		{"", "", "PATCH /v1/dsns/dsn_1",
			`{"allowed_origins":["https://a.example","https://b.example"],"daily_quota":null,"name":"web"}`,
			"/app/applications/dsn_1"},
		{"/delete", "", "DELETE /v1/dsns/dsn_1", ``, "/app/applications"},
	} {
		b.post("/app/applications/dsn_1"+x.action, url.Values{"nonce": {nonce}, "name": {" web "}, "daily_quota": {x.quota},
			"allowed_origins": {"https://a.example\r\n\r\n https://b.example"}}).wantRedirect(x.to)
		call := r.api.calls[len(r.api.calls)-1]
		if call.Method+" "+call.Path != x.call || call.Body != x.body {
			t.Errorf("%s: %s %s %s", x.action, call.Method, call.Path, call.Body)
		}
	}
	r.api.on("PATCH /v1/dsns/dsn_1", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"allowed_origins[0]: must be an origin","param":"allowed_origins[0]"}}`)
	b.post("/app/applications/dsn_1", url.Values{"nonce": {nonce}, "name": {"web"}, "allowed_origins": {"<i>x"}}).
		want(400, "Must be an origin", "&lt;i&gt;x")
	b.get("/app/applications/dsn_2").want(404, "no such application")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/applications/dsn_1").want(200).body, "Rotate DSN", "a read person sees an action")
}

// The page of a finding shows file, line and function of a report as text, and links to the application.
func TestFindingOfAnApplication(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	location := `{"source":"sdk","label":"<b>shop","file":"<script>x</script>.js","line":41,"lines":[3,9,41],` +
		`"function":"<img src=x>","dsn_id":"dsn_1","count":3,"last_seen":"2026-08-21T22:24:30.000Z"}`
	one := strings.Replace(oneFinding, `"locations":[`, `"locations":[`+location+`,`, 1)
	r.api.on("GET /v1/findings/fnd_1", http.StatusOK, one)
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[]}`)
	body := b.get("/app/findings/fnd_1").want(200, `href="/app/applications/dsn_1"`,
		"&lt;script&gt;x&lt;/script&gt;.js lines 3, 9, 41",
		"&lt;img src=x&gt;", "&lt;b&gt;shop").body
	if strings.Contains(body, "<script>x") || strings.Contains(body, "<img src=x>") {
		t.Error("text of a report is markup")
	}
}
