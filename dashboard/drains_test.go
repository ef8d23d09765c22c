package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
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
		"the present URL then answers 404 at once")
	if strings.Contains(page.body, "Only programs on this machine") {
		t.Error("the page says of a public host name that nobody reaches it")
	}
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
	if body := b.get("/app/drains/drn_1").want(200, "Lines arrive").body; strings.Contains(body, ", from ") {
		t.Error("the page names the format that every drain takes")
	}
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
