package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// oneDrain is a drain as the API shows it before its first line.
const oneDrain = `{"id":"drn_1","name":"production","status":"active","url":"https://relay.example.com/drain/drn_1/tok",
"platform":"generic","detected_platform":null,"last_received_at":null,"requests_24h":0,"lines_24h":0,"bytes_24h":0,
"hits_24h":0,"rejected_24h":0,"last_error":null,"version":1,"created_at":"2026-08-21T20:00:00.000Z"}`

// A person creates a drain and opens its page, which has its URL, a test key to try it with, and the proof of life.
func TestSetUpADrain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/drains", http.StatusOK, `{"data":[]}`)
	page := b.get("/app/drains").want(200, "No drain yet", "New drain")
	r.api.on("POST /v1/drains", http.StatusCreated, oneDrain)
	nonce := page.nonce()
	b.post("/app/drains", url.Values{"nonce": {nonce}, "name": {" production "}}).wantRedirect("/app/drains/drn_1")
	call := r.api.calls[len(r.api.calls)-1]
	if call.Key != nonce || call.Body != `{"name":"production"}` {
		t.Errorf("%s with the key %s", call.Body, call.Key)
	}
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, oneDrain)
	page = b.get("/app/drains/drn_1").want(200, "https://relay.example.com/drain/drn_1/tok", "Waiting for the first line",
		`data-live="/app/drains/drn_1"`, `<a href="/app/drains/drn_1">Reload this page</a>`,
		"the current URL then answers 404 immediately")
	is.Lacks(t, page.body, "Only programs on this machine",
		"the page says of a public host name that nobody reaches it")
	_, key, _ := strings.Cut(page.body, "key=rly_test_")
	if !apikey.IsTestKey("rly_test_" + key[:38]) {
		t.Errorf("the page has no test key: %s", page.main())
	}
	local := strings.Replace(oneDrain, "https://relay.example.com", "http://127.0.0.1:8080", 1)
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, local)
	b.get("/app/drains/drn_1").want(200, "Only programs on this machine reach this URL. For a platform")
	received := strings.NewReplacer(`"last_received_at":null`, `"last_received_at":"2026-08-21T22:24:30.000Z"`,
		`"lines_24h":0`, `"lines_24h":1`, `"hits_24h":0`, `"hits_24h":2`, `"last_error":null`, `"last_error":"too_large"`,
		`"detected_platform":null`, `"detected_platform":"vercel"`).Replace(oneDrain)
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, received)
	b.get("/app/drains/drn_1").want(200, "Lines arrive", "1\u00a0line,", `<a href="/app/drains">Log drains</a>`,
		"secrets seen 2\u00a0times", ", from Vercel",
		"It was too large")
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, strings.ReplaceAll(received, "vercel", "generic"))
	is.Lacks(t, b.get("/app/drains/drn_1").want(200, "Lines arrive").body, ", from ",
		"the page names the format that every drain takes")
	r.api.on("GET /v1/drains", http.StatusOK, `{"data":[`+received+`]}`)
	body := b.get("/app/drains").want(200, `href="/app/drains/drn_1"`, "production").body
	is.Lacks(t, body, "drn_1/tok", "the list shows the token of a drain, which only its page needs")
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, strings.ReplaceAll(oneDrain, `_24h":0`, `_24h":null`))
	b.get("/app/drains/drn_1").want(200, "cannot be read at the moment")
}

// The actions of a drain make one call each and say what they did.
func TestActionsOfADrain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, oneDrain)
	for _, route := range []string{"PATCH /v1/drains/drn_1", "POST /v1/drains/drn_1/rotate", "DELETE /v1/drains/drn_1"} {
		r.api.on(route, http.StatusOK, oneDrain)
	}
	nonce := b.get("/app/drains/drn_1").nonce()
	for _, x := range []struct{ action, call, body, to string }{
		{"/pause", "PATCH /v1/drains/drn_1", `{"status":"paused"}`, "/app/drains/drn_1"},
		{"/unpause", "PATCH /v1/drains/drn_1", `{"status":"active"}`, "/app/drains/drn_1"},
		{"/rotate", "POST /v1/drains/drn_1/rotate", `{}`, "/app/drains/drn_1"},
		{"", "PATCH /v1/drains/drn_1", `{"name":"staging"}`, "/app/drains/drn_1"},
		{"/delete", "DELETE /v1/drains/drn_1", ``, "/app/drains"},
	} {
		b.post("/app/drains/drn_1"+x.action, url.Values{"nonce": {nonce}, "name": {"staging"}}).wantRedirect(x.to)
		call := r.api.calls[len(r.api.calls)-1]
		if call.Method+" "+call.Path != x.call || call.Body != x.body {
			t.Errorf("%s: %s %s %s", x.action, call.Method, call.Path, call.Body)
		}
	}
	r.api.on("PATCH /v1/drains/drn_1", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"name: must not be empty","param":"name"}}`)
	b.post("/app/drains/drn_1", url.Values{"nonce": {nonce}}).want(400, "Must not be empty")
	b.get("/app/drains/drn_2").want(404, "no such drain")
	r.people.person.Scope = config.Read
	b.get("/app/drains/drn_1").want(200)
	is.Lacks(t, b.get("/app/drains/drn_1").body, "Rotate URL", "a read person sees an action")
}

// The page of a drain has the text to paste for each platform; who may only read sees no token. What a platform gives
// its customer is saved, left as it is, or removed.
func TestPlatformsOfADrain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	shown := strings.Replace(oneDrain, `"platform":"generic"`, `"platform":"auto","signing_secret_set":true`, 1)
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, shown)
	r.api.on("PATCH /v1/drains/drn_1", http.StatusOK, shown)
	const base = "https://relay.example.com/drain/drn_1"
	page := b.get("/app/drains/drn_1").want(200, "heroku drains:add &#39;"+base+"/tok&#39; -a YOUR_APP",
		`<code class="pick">`+base+`</code>`, `<code class="pick">tok</code>`,
		`<code class="pick">`+base+"?header_Authorization=Bearer%20tok</code>", "One is set", "Remove the secret that is set",
		"x-vercel-verify", "api.cloudflare.com", "http(url(&#34;"+base+"/tok&#34;)", `restpath=&#34;drain/drn_1/tok&#34;`,
		"uri = &#34;"+base+"/tok&#34;", "Host relay.example.com", "Port 443", "tls On")
	is.Lacks(t, page.body, "<details open", "a platform is open that nobody uses")
	r.api.on("GET /v1/drains/drn_1", http.StatusOK, strings.Replace(shown, `"detected_platform":null`,
		`"detected_platform":"heroku"`, 1))
	if body := b.get("/app/drains/drn_1").body; strings.Count(body, "<details open") != 1 {
		t.Error("the platform that was recognised is not open")
	}
	for _, x := range []struct {
		form url.Values
		want string
	}{
		{url.Values{"platform": {"vercel"}, "signing_secret": {" s3cr "}, "verify_code": {"code"}},
			`{"name":"n","platform":"vercel","signing_secret":"s3cr","verify_code":"code"}`},
		{url.Values{"signing_secret": {""}, "verify_code": {""}}, `{"name":"n"}`},
		{url.Values{"remove_signing_secret": {"true"}, "remove_verify_code": {"true"}},
			`{"name":"n","signing_secret":null,"verify_code":null}`},
	} {
		x.form["nonce"], x.form["name"] = []string{page.nonce()}, []string{"n"}
		b.post("/app/drains/drn_1", x.form).wantRedirect("/app/drains/drn_1")
		if call := r.api.calls[len(r.api.calls)-1]; call.Body != x.want {
			t.Errorf("sent %s, want %s", call.Body, x.want)
		}
	}
	r.api.on("PATCH /v1/drains/drn_1", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"signing_secret: must be printable","param":"signing_secret"}}`)
	body := b.post("/app/drains/drn_1", url.Values{"nonce": {page.nonce()}, "name": {"n"}, "signing_secret": {"s3 cr"}}).
		want(400, "Must be printable").body
	is.Lacks(t, body, "s3 cr", "the page shows a secret again")
}

// Settings that somebody else has changed since the page was opened are not overwritten: the page shows both.
func TestStaleSettingsOfADrainAndAnApplication(t *testing.T) {
	const conflict = `{"error":{"type":"conflict","message":"version: is another","param":"version"}}`
	r := newRig(t)
	b := r.signedIn()
	for _, x := range []struct{ path, api, before string }{
		{"/app/drains/drn_1", "/v1/drains/drn_1", oneDrain},
		{"/app/applications/dsn_1", "/v1/dsns/dsn_1", browserDSN},
	} {
		r.api.on("GET "+x.api, http.StatusOK, x.before)
		form := b.get(x.path).want(200).fields(x.path)
		form.Set("name", "mine")
		var shown struct{ Name string }
		must.Do(t, json.Unmarshal([]byte(x.before), &shown))
		now := strings.Replace(x.before, `"name":"`+shown.Name, `"name":"theirs`, 1)
		r.api.on("GET "+x.api, http.StatusOK, strings.Replace(now, `"version":1`, `"version":2`, 1))
		r.api.on("PATCH "+x.api, http.StatusBadRequest, conflict)
		page := b.post(x.path, form).want(400, "Somebody changed this", "<code>theirs</code>", `value="mine"`)
		if n := strings.Count(page.body, "Stored now"); !strings.Contains(r.sent(), `"version":1`) || n != 1 {
			t.Errorf("sent %s, %d fields differ", r.sent(), n)
		}
		r.api.on("PATCH "+x.api, http.StatusOK, now)
		b.post(x.path, page.fields(x.path)).wantRedirect(x.path)
		is.Has(t, r.sent(), `"version":2`, "then sent")
	}
}

// oneDomain is a domain as the API shows it before its first check.
const oneDomain = `{"id":"dom_1","hostname":"shop.example.com","status":"pending","method":null,"token":"rvf_1",
"dns_record":"_relay-challenge.shop.example.com TXT relay-verify=rvf_1",
"http_url":"https://shop.example.com/.well-known/relay-verify.txt","verified_at":null,"checked_at":null,
"last_method":null,"last_error":null,"seen":null,"advice":null,"expires_at":"2026-08-28T20:00:00.000Z",
"created_at":"2026-08-21T20:00:00.000Z"}`

// A person adds a domain; its page has the exact record and file, and after a check says what was found instead.
func TestProveADomain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/domains", http.StatusOK, `{"data":[]}`)
	nonce := b.get("/app/domains").want(200, "No domain yet", "New domain").nonce()
	r.api.on("POST /v1/domains", http.StatusCreated, oneDomain)
	b.post("/app/domains", url.Values{"nonce": {nonce}, "hostname": {" shop.example.com "}}).wantRedirect(
		"/app/domains/dom_1")
	call := r.api.calls[len(r.api.calls)-1]
	if call.Key != nonce || call.Body != `{"hostname":"shop.example.com"}` {
		t.Errorf("%s with the key %s", call.Body, call.Key)
	}
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, oneDomain)
	nonce = b.get("/app/domains/dom_1").want(200, "Not proven yet",
		`<code class="pick">_relay-challenge.shop.example.com</code>`, `<code class="pick">relay-verify=rvf_1</code>`,
		`<code class="pick">https://shop.example.com/.well-known/relay-verify.txt</code>`, `<code class="pick">rvf_1</code>`,
		"Wait for the TTL").nonce()
	missed := strings.NewReplacer(`"last_method":null`, `"last_method":"dns"`, `"last_error":null`,
		`"last_error":"mismatch"`, `"seen":null`, `"seen":"<b>v=spf1"`, `"advice":null`, `"advice":"Add another one."`,
		`"checked_at":null`, `"checked_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain)
	r.api.on("POST /v1/domains/dom_1/verify", http.StatusOK, missed)
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, missed)
	b.post("/app/domains/dom_1/verify", url.Values{"nonce": {nonce}, "method": {"dns"}}).wantRedirect("/app/domains/dom_1")
	call = r.api.calls[len(r.api.calls)-1]
	if call.Path != "/v1/domains/dom_1/verify" || call.Body != `{"method":"dns"}` || call.Key != nonce {
		t.Errorf("%+v", call)
	}
	b.get("/app/domains/dom_1").want(200, "found no proof", "Add another one.", "&lt;b&gt;v=spf1")
	verified := strings.NewReplacer(`"pending"`, `"verified"`, `"method":null,"token"`, `"method":"http","token"`,
		`"verified_at":null`, `"verified_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain)
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, verified)
	r.api.on("GET /v1/tripwires", http.StatusOK, emptyList)
	page := b.get("/app/domains/dom_1").want(200, "Verified since", "by the file on the website").main()
	folded := strings.Index(page, "<details")
	if at := strings.Index(page, "By a file</h2>"); at < 0 || at > folded || strings.Index(page, "By DNS</h2>") < folded {
		t.Error("the proof that was not used is not folded, or the other one is")
	}
	r.api.on("GET /v1/domains", http.StatusOK, `{"data":[`+verified+`,`+missed+`]}`)
	b.get("/app/domains").want(200, `href="/app/domains/dom_1"`, " verified", "waits for its proof", "no proof found")
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, strings.Replace(oneDomain, `"pending"`, `"expired"`, 1))
	is.Lacks(t, b.get("/app/domains/dom_1").want(200, "no proof was found in seven days").body, "Verify by DNS",
		"a domain that can only be deleted has another action")
}

// A refused host name stands beside its reason; who may only read has no action; five domains are the most.
func TestDomainPages(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/domains", http.StatusOK, `{"data":[]}`)
	r.api.on("POST /v1/domains", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"hostname: is a public suffix","param":"hostname"}}`)
	nonce := b.get("/app/domains").nonce()
	b.post("/app/domains", url.Values{"nonce": {nonce}, "hostname": {"co.uk"}}).want(400, "Is a public suffix",
		`value="co.uk"`)
	r.api.on("GET /v1/domains", http.StatusOK,
		`{"data":[`+strings.TrimSuffix(strings.Repeat(oneDomain+",", leak.MaxDomains), ",")+`]}`)
	is.Lacks(t, b.get("/app/domains").want(200, "as many domains as there may be").body, "New domain",
		"a sixth domain is offered")
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, oneDomain)
	r.api.on("DELETE /v1/domains/dom_1", http.StatusOK, `{}`)
	b.post("/app/domains/dom_1/delete", url.Values{"nonce": {nonce}}).wantRedirect("/app/domains")
	b.get("/app/domains/dom_2").want(404, "no such domain")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/domains/dom_1").want(200).body, `action="/app/domains`, "a read person sees an action")
}

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

// oneTripwire is a tripwire as the API shows it after its creation.
const oneTripwire = `{"id":"trw_1","domain_id":"dom_1","kind":"file","path":"/.env","label":"shop backup",
"placement":"/.env <of> the shop","status":"armed","token_masked":"rly_live_****k3yZ","token":null,"url":null,
"file":null,"snippets":[],"issued_at":"2026-08-21T20:00:00.000Z","last_tripped_at":null,"trip_count":0,
"test_until":null,"finding_id":null,"test_finding_id":null,"created_at":"2026-08-21T20:00:00.000Z"}`

var (
	verifiedDomain = strings.NewReplacer(`"pending"`, `"verified"`,
		`"verified_at":null`, `"verified_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain)
	newTripwire = strings.NewReplacer(`"token":null`, `"token":"rly_live_secretk3yZ"`, `"file":null`,
		`"file":{"path":"/.env","content":"KEY=rly_live_secretk3yZ\nURL=https://relay.example.com/in/t0ken\n"}`).
		Replace(oneTripwire)
)

// A person makes a tripwire on the page of a verified domain, and sees what to plant once.
func TestPlantATripwire(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, oneDomain)
	is.Lacks(t, b.get("/app/domains/dom_1").want(200).body, "Tripwires", "a domain that is not proven has tripwires")
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, verifiedDomain)
	r.api.on("GET /v1/tripwires", http.StatusOK, emptyList)
	nonce := b.get("/app/domains/dom_1").want(200, "No tripwire yet", "New tripwire").nonce()
	r.api.on("POST /v1/tripwires", http.StatusCreated, newTripwire)
	b.post("/app/domains/dom_1/tripwires", url.Values{"nonce": {nonce}, "kind": {"file"}, "path": {"/.env"},
		"label": {" shop backup "}, "placement": {"/.env"}}).want(200, "KEY=rly_live_secretk3yZ",
		"the only time it is shown", "Serve this file at <code>/.env</code>", "/.env &lt;of&gt; the shop")
	call := r.api.calls[len(r.api.calls)-1]
	if call.Key != nonce ||
		call.Body != `{"domain_id":"dom_1","kind":"file","label":"shop backup","path":"/.env","placement":"/.env"}` {
		t.Errorf("%s with the key %s", call.Body, call.Key)
	}
	withURL := strings.NewReplacer(`"kind":"file","path":"/.env"`, `"kind":"url","path":null`, `"token":null`,
		`"token":"t0ken"`, `"url":null`, `"url":"https://relay.example.com/in/t0ken"`, `"snippets":[]`,
		`"snippets":[{"name":"shell","text":"curl -d x"}]`).Replace(oneTripwire)
	r.api.on("POST /v1/tripwires", http.StatusCreated, withURL)
	b.post("/app/domains/dom_1/tripwires", url.Values{"nonce": {nonce}, "kind": {"url"}, "path": {"/.env"}}).want(200,
		"https://relay.example.com/in/t0ken</code>", "curl -d x", "Ingest URL")
	call = r.api.calls[len(r.api.calls)-1]
	is.Equal(t, call.Body, `{"domain_id":"dom_1","kind":"url","placement":""}`, "a URL is made by")
	r.api.on("POST /v1/tripwires", http.StatusBadRequest,
		`{"error":{"type":"invalid_state","message":"domain_id: has 3 tripwires already","param":"domain_id"}}`)
	b.post("/app/domains/dom_1/tripwires", url.Values{"nonce": {nonce}, "kind": {"key"}}).want(400, "3 tripwires already")
}

// The page of a tripwire says whether it was touched and never shows its secrets; three are the most.
func TestPageOfATripwire(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/tripwires/trw_1", http.StatusOK, oneTripwire)
	b.get("/app/tripwires/trw_1").want(200, "Armed", "File /.env", "rly_live_****k3yZ", "placed: /.env &lt;of&gt;")
	tripped := strings.NewReplacer(`"armed"`, `"tripped"`, `"last_tripped_at":null`,
		`"last_tripped_at":"2026-08-21T22:24:30.000Z"`, `"trip_count":0`, `"trip_count":1234`, `"finding_id":null,`,
		`"finding_id":"fnd_1",`, `"test_until":null`, `"test_until":"2026-08-21T22:30:00.000Z"`,
		`"test_finding_id":null`, `"test_finding_id":"fnd_2"`).Replace(oneTripwire)
	r.api.on("GET /v1/tripwires/trw_1", http.StatusOK, tripped)
	b.get("/app/tripwires/trw_1").want(200, "Tripped", "1,234 times", `href="/app/findings/fnd_1"`,
		`href="/app/findings/fnd_2"`, "A test is expected")
	r.api.on("GET /v1/tripwires/trw_1", http.StatusOK, strings.Replace(tripped, "1234", "null", 1))
	b.get("/app/tripwires/trw_1").want(200, "cannot be read at the moment", "Tripped")
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, verifiedDomain)
	r.api.on("GET /v1/tripwires", http.StatusOK, `{"data":[`+tripped+`,`+oneTripwire+`,`+oneTripwire+`]}`)
	if body := b.get("/app/domains/dom_1").want(200, `href="/app/tripwires/trw_1"`, " tripped", " armed", "never",
		"as many tripwires as a domain may have").body; strings.Contains(body, "New tripwire") {
		t.Error("a fourth tripwire is offered")
	}
	b.get("/app/tripwires/trw_2").want(404, "no such tripwire")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/tripwires/trw_1").want(200).body, `action="/app/tripwires`,
		"an action is offered to a person who may only read")
}

// The actions of a tripwire make one call each; a rotation shows the new secrets.
func TestActionsOfATripwire(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/tripwires/trw_1", http.StatusOK, oneTripwire)
	r.api.on("POST /v1/tripwires/trw_1/rotate", http.StatusOK, newTripwire)
	r.api.on("POST /v1/tripwires/trw_1/test", http.StatusOK, oneTripwire)
	r.api.on("DELETE /v1/tripwires/trw_1", http.StatusOK, `{}`)
	nonce := b.get("/app/tripwires/trw_1").nonce()
	send := func(action, call string) *answer {
		t.Helper()
		a := b.post("/app/tripwires/trw_1"+action, url.Values{"nonce": {nonce}})
		if c := r.api.calls[len(r.api.calls)-1]; c.Method+" "+c.Path != call {
			t.Errorf("%s: %s %s", action, c.Method, c.Path)
		}
		return a
	}
	send("/rotate", "POST /v1/tripwires/trw_1/rotate").want(200, "KEY=rly_live_secretk3yZ")
	send("/test", "POST /v1/tripwires/trw_1/test").wantRedirect("/app/tripwires/trw_1")
	send("/delete", "DELETE /v1/tripwires/trw_1").wantRedirect("/app/domains/dom_1")
}

// The finding of a tripwire says what to do about a honeytoken, and from where it was used.
func TestFindingOfATripwire(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/findings/fnd_1", http.StatusOK,
		strings.Replace(oneFinding, `"kind":"secret"`, `"kind":"tripwire"`, 1))
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[{"at":"2026-08-21T22:24:30.000Z","count":1,
"location":{"source":"tripwire","label":"shop backup","tripwire_id":"trw_1"},"method":"GET","user_agent":"curl/8.5 <b>",
"remote_ip":"203.0.113.7","remote_network":"203.0.113.0/24"},{"at":"2026-07-01T22:24:30.000Z","count":1,
"location":{"source":"tripwire"},"remote_ip":null,"remote_network":"198.51.100.0/24"}]}`)
	body := b.get("/app/findings/fnd_1").want(200, "Nobody has a reason to use a tripwire", "<code>203.0.113.7</code>",
		"from <code>198.51.100.0/24</code>",
		"with <code>curl/8.5 &lt;b&gt;</code>").body
	is.Lacks(t, body, "then revoke this one", "the page asks to revoke a honeytoken")
}
