package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/endpoints"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// hostile is a text that must stay text on every page.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`

// sampleEndpoint is an endpoint of the API with a value in every member.
const sampleEndpoint = `{"id":"ep_1","object":"endpoint","name":"orders","description":"of the shop",
"provider":"shopify",
"verification":{"type":"shopify","mode":"enforce","tolerance_seconds":300,"secret_set":true,"secret_last4":"c41e"},
"type_source":"header:X-Shopify-Topic","dedup":{"key":"body:$.id","window_seconds":3600},
"ingest_limit":{"events_per_second":10,"bytes_per_second":null},
"destinations":[{"id":"dst_1","name":"billing","url":"https://billing.example.com/hooks","enabled":true,"paused":false,
"timeout_seconds":15,"format":"standard","headers":{"Authorization":"****1234","X-Team":"billing"},
"auth":{"type":"basic","username":"relay","password":"****word"},"rate_limit":{"per_second":5,"burst":5},
"max_in_flight":64,"filter":{"types":["order.*"],"body":{"data.paid":true}},
"signing":{"scheme":"standard_webhooks","secret_last4":"JCo=","schemes":[{"type":"standard_webhooks"}]},
"state":"active","state_reason":null},
{"id":"dst_2","name":null,"url":"https://archive.example.net/put","enabled":false,"paused":false,"timeout_seconds":15,
"format":"standard","headers":{},"rate_limit":null,"max_in_flight":64,"filter":null,
"signing":{"scheme":"standard_webhooks","secret_last4":"AAA="},"state":"disabled","state_reason":"gone_410"}],
"retry_policy":{"strategy":"schedule","schedule_seconds":[5,300],"max_attempts":3,"jitter":0.1,
"respect_retry_after":true,"max_retry_after_seconds":86400,"retry_on":["3xx","4xx"]},
"alerts":{"enabled":true,"channels":null,"consecutive_failures":null,"failure_rate_percent":null,"muted_until":null},
"transformation":null,"response":{"status":200,"content_type":"application/json","body":"a\nb"},
"enabled":true,"paused":false,"scan_payloads":false,"metadata":{"team":"billing"},
"ingest_url":"http://relay.example.com/in/token","created_at":"2026-08-21T22:00:00.000Z",
"updated_at":"2026-08-21T22:00:00.000Z"}`

// emptyList is a list of the API without an element.
const emptyList = `{"data":[]}`

// newEndpointRig is a dashboard with the sample endpoint.
func newEndpointRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.api.on("GET /v1/endpoints", 200, `{"data":[`+sampleEndpoint+`],"next_cursor":"abc"}`)
	r.api.on("GET /v1/endpoints/ep_1", 200, sampleEndpoint)
	r.api.on("POST /v1/endpoints/ep_1/filter/preview", 200, `{"data":[{"event_id":"evt_1","type":"a<b>","passes":true,
		"received_at":"2026-08-21T22:00:00.000Z","error":null},{"event_id":"evt_2","type":null,"passes":false,
		"received_at":"2026-08-21T22:00:00.000Z","error":"line 1, column 6: no such overload"}],"passed":1,"failed":1}`)
	r.api.on("GET /v1/events", 200, emptyList)
	r.api.on("GET /v1/endpoints/ep_1/traffic", 200, trafficJSON)
	r.api.on("GET /v1/alerts/history", 200, emptyList)
	return r
}

// endpointPaths are all pages of endpoints that a GET shows.
var endpointPaths = []string{
	"/app/endpoints", "/app/endpoints/new", "/app/endpoints/new?provider=stripe", "/app/endpoints/new?provider=hmac",
	"/app/endpoints/new?provider=generic", "/app/endpoints/ep_1", "/app/endpoints/ep_1/wait",
	"/app/endpoints/ep_1/settings", "/app/endpoints/ep_1/retries", "/app/endpoints/ep_1/workbench",
	"/app/endpoints/ep_1/destinations/new",
	"/app/endpoints/ep_1/destinations/dst_1", "/app/endpoints/ep_1/destinations/dst_1/settings",
	"/app/endpoints/ep_1/destinations/dst_2/settings", "/app/endpoints/ep_1/destinations/dst_1/signing",
}

// lastBody is the body of the last changing call of the API.
func (r *rig) lastBody(method, path string) map[string]any {
	r.t.Helper()
	for i := len(r.api.calls) - 1; i >= 0; i-- {
		if c := r.api.calls[i]; c.Method == method && c.Path == path {
			var body map[string]any
			must.Do(r.t, json.Unmarshal([]byte(c.Body), &body))
			return body
		}
	}
	r.t.Fatalf("%s %s was not called: %+v", method, path, r.api.calls)
	return nil
}

// changes counts the calls that are not GET.
func (r *rig) changes() (n int) {
	for _, c := range r.api.calls {
		if c.Method != http.MethodGet && !strings.HasSuffix(c.Path, "/preview") {
			n++
		}
	}
	return n
}

var (
	inputTag  = regexp.MustCompile(`<(input|select|textarea)([^>]*)>`)
	nameOf    = regexp.MustCompile(` name="([^"]*)"`)
	valueOf   = regexp.MustCompile(` value="([^"]*)"`)
	labelText = regexp.MustCompile(`(?s)<label[^>]*>.*?</label>`)
	idOf      = regexp.MustCompile(` id="([^"]*)"`)
)

// Every page of endpoints opens, its controls have labels and its posts have nonces.
func TestEndpointPagesHaveLabelsAndNonces(t *testing.T) {
	b := newEndpointRig(t).signedIn()
	for _, path := range endpointPaths {
		a := b.get(path).want(200, "<h1>")
		unlabelled := labelText.ReplaceAllString(a.body, "")
		for _, tag := range inputTag.FindAllString(unlabelled, -1) {
			id := idOf.FindStringSubmatch(tag)
			labelled := id != nil && strings.Contains(a.body, `<label for="`+id[1]+`">`)
			if !labelled && !strings.Contains(tag, "hidden") && !strings.Contains(tag, "aria-label") {
				t.Errorf("%s: %s has no label", path, tag)
			}
		}
		for _, label := range labelText.FindAllString(a.body, -1) { // it would be read twice
			if strings.Contains(label, "<small") && !strings.Contains(label, `class="opt"`) {
				t.Errorf("%s: the notes of a field are in its label: %s", path, label)
			}
		}
		for _, id := range regexp.MustCompile(`[\w.\[\]-]+-(hint|err|now)\b`).FindAllString(
			strings.Join(regexp.MustCompile(`aria-describedby="[^"]*"`).FindAllString(a.body, -1), " "), -1) {
			is.Has(t, a.body, ` id="`+id+`"`, "%s: the description %s is missing", path, id)
		}
		if strings.Contains(a.body, " \\\n") { // alone on a line of a narrow window it looks like a mistake
			t.Errorf("%s: a line of a command can end with a lone backslash", path)
		}
		for _, form := range strings.Split(a.body, "<form")[1:] {
			if strings.Contains(form, `method="post"`) && !strings.Contains(form, `action="/app/sign-out`) &&
				!strings.Contains(strings.SplitN(form, "</form>", 2)[0], `name="nonce"`) {
				t.Errorf("%s: a form has no nonce: %.100s", path, form)
			}
		}
	}
}

// Text of the API stays text on every page of endpoints.
func TestEndpointTextIsEscaped(t *testing.T) {
	r := newEndpointRig(t)
	quoted := must.Get(json.Marshal(hostile))(t)
	inner := strings.Trim(string(quoted), `"`)
	text := sampleEndpoint
	for _, word := range []string{"of the shop", `"orders"`, "billing", "order.*", "gone_410", "c41e", "JCo=", "body:$.id",
		"https://archive.example.net/put", "header:X-Shopify-Topic", "in/token", `a\nb`} {
		to := inner
		if strings.HasPrefix(word, `"`) {
			to = `"` + inner + `"`
		}
		text = strings.ReplaceAll(text, word, to)
	}
	r.api.on("GET /v1/endpoints", 200, `{"data":[`+text+`]}`)
	r.api.on("GET /v1/endpoints/ep_1", 200, text)
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","type":`+string(quoted)+`,"status":"rejected","why":`+
		string(quoted)+`,"reason":"signature_mismatch","received_at":"2026-08-21T22:00:00.000Z"}]}`)
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"findings":[{"code":"x","message":`+string(quoted)+`}]}`)
	b := r.signedIn()
	for _, path := range endpointPaths {
		if a := b.get(path).want(200); strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img src=x") {
			t.Errorf("%s: a script runs: %s", path, a.main())
		}
	}
}

// A person who may only read sees no control that would be refused, and no action is done.
func TestReadersSeeNoControlsOfEndpoints(t *testing.T) {
	r := newEndpointRig(t)
	r.people.person.Scope = config.Read
	b := r.signedIn()
	for _, path := range endpointPaths {
		if strings.HasSuffix(strings.SplitN(path, "?", 2)[0], "/new") {
			b.get(path).want(403)
			continue
		}
		if path == workbenchOf { // a reader may preview: TestWorkbenchOfAReader
			continue
		}
		if a := b.get(path).want(200); strings.Contains(a.main(), `method="post"`) || strings.Contains(a.main(), "/new\"") {
			t.Errorf("%s has a form: %s", path, a.main())
		}
	}
	for _, x := range endpoints.Area().Routes {
		if x.Method == http.MethodPost && x.Access == ui.Writer {
			path := strings.NewReplacer("{endpoint}", "ep_1", "{destination}", "dst_1").Replace(x.Path)
			b.post(path, url.Values{"nonce": {newNonce()}}).want(403)
		}
	}
	if n := r.changes(); n > 0 {
		t.Errorf("%d changes were made", n)
	}
	b.get("/app/endpoints/ep_1/settings").want(200, "enforced: a wrong one gets 401", "ends with c41e", "body:$.id")
}

func TestEmptyAndUnavailableLists(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", 200, emptyList)
	b := r.signedIn()
	b.get("/app/endpoints").want(200, "No endpoints yet", "Create an endpoint", "curl "+origin+"/v1/endpo")
	r.api.on("GET /v1/endpoints", 503, `{"error":{"type":"unavailable","message":"the log is away"}}`)
	b.get("/app/endpoints").want(503, "The log is away.", "Reload the page")
	r.api.on("GET /v1/endpoints", 200, `{"data":[`+sampleEndpoint+`],"next_cursor":"a b"}`)
	b.get("/app/endpoints").want(200, `href="/app/endpoints?cursor=a&#43;b"`, "Delivers to 1 of 2",
		"archive.example.net/put", `name="q"`)
	r.api.on("GET /v1/endpoints", 200, `{"data":[`+sampleEndpoint+`],"next_cursor":"c2"}`)
	b.get("/app/endpoints?q=zebra").want(200, `value="zebra"`, `href="/app/endpoints?cursor=c2&amp;q=zebra"`)
	if !slices.ContainsFunc(r.api.calls, func(c apiCall) bool {
		return c.Path == "/v1/endpoints" && c.Query.Encode() == "limit=50&q=zebra"
	}) {
		t.Error("the page does not ask for what was looked for")
	}
	b.get("/app/endpoints?q=zebra&cursor=c2").want(200, `href="/app/endpoints?q=zebra">First page`)
	r.api.on("GET /v1/endpoints", 200, emptyList)
	b.get("/app/endpoints?q=zebra&cursor=c2").want(200, `href="/app/endpoints?q=zebra">Back to the first page`)
	b.get("/app/endpoints?q=zebra").want(200, "None match", `href="/app/endpoints"`, `value="zebra"`, "New endpoint")
	r.api.on("GET /v1/endpoints", 400,
		`{"error":{"type":"invalid_request","message":"q: must be shorter","param":"q"}}`)
	b.get("/app/endpoints?q=zebra").want(400, "Must be shorter", `href="#f-q"`)
}

// An endpoint that was deleted in another tab gives a page that says so, for reads and for changes.
func TestDeletedEndpointsSayThatNothingWasChanged(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	b.get("/app/endpoints/ep_9").want(404, "There is no such endpoint", "nothing was changed")
	b.post("/app/endpoints/ep_9/settings", url.Values{"nonce": {newNonce()}}).want(404, "There is no such endpoint")
	r.api.on("GET /v1/endpoints/ep_1", 200, sampleEndpoint)
	b.post("/app/endpoints/ep_1/destinations/dst_9/purge", url.Values{"nonce": {newNonce()}}).
		want(404, "no such destination")
	if n := r.changes(); n > 0 {
		t.Errorf("%d changes were made", n)
	}
}

// A new endpoint is made once, with the nonce of its form, and its secrets are shown once.
func TestCreateEndpoint(t *testing.T) {
	r := newEndpointRig(t)
	secret := strings.Replace(sampleEndpoint, `"secret_last4":"JCo="`, `"secret":"whsec_shown","secret_last4":"JCo="`, 1)
	r.api.on("POST /v1/endpoints", 201, secret)
	b := r.signedIn()
	const path = "/app/endpoints/new"
	form := b.get(path+"?provider=stripe").want(200, "whsec_", "Workbench").fields(path)
	form.Set("destinations", "https://a.example.com\r\n\r\n https://b.example.com ")
	form.Set("verification.mode", "off")
	a := b.post(path, form).want(200, "whsec_shown", "/app/endpoints/ep_1/wait")
	for example, code := range map[string]string{ // as the tested examples verify
		"javascript/receive.mjs": "verify(body, request.headers)",
		"python/receive.py":      "from standardwebhooks.webhooks import Webhook",
		"go/receive/main.go":     "webhook, err := standardwebhooks.NewWebhook(",
	} {
		if a.want(200, code); !strings.Contains(string(must.Get(os.ReadFile("../sdk/examples/"+example))(t)), code) {
			t.Errorf("%s does not verify with %s", example, code)
		}
	}
	is.Equal(t, a.header.Get("Cache-Control"), "no-store", "Cache-Control")
	want := map[string]any{"provider": "stripe", "destinations": []any{"https://a.example.com", "https://b.example.com"}}
	if got := r.lastBody("POST", "/v1/endpoints"); !reflect.DeepEqual(got, want) {
		t.Errorf("the body is %v", got)
	}
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Key, form.Get("nonce"), "the Idempotency-Key")
	r.api.responses["POST /v1/endpoints"] = func(apiCall) (int, http.Header, string) {
		return 201, http.Header{"Idempotent-Replayed": {"true"}}, secret
	}
	if a := b.post(path, form).want(200, "sent before"); strings.Contains(a.body, "whsec_shown") {
		t.Error("a repeat shows the secret again")
	}
	form.Set("store_only", "true")
	b.post(path, form).want(200)
	want["destinations"] = []any{map[string]any{"url": "https://a.example.com", "enabled": false},
		map[string]any{"url": "https://b.example.com", "enabled": false}}
	if got := r.lastBody("POST", "/v1/endpoints"); !reflect.DeepEqual(got, want) {
		t.Errorf("an endpoint that only stores events is created with %v", got)
	}
	form.Set("verification.secret", "whsec_mine")
	form.Set("verification.mode", "enforce")
	form.Set("dedup.key", "body:$.data.object.id")
	r.api.on("POST /v1/endpoints", 400, `{"error":{"type":"invalid_request","param":"destinations[1].url","message":`+
		`"destinations[1].url: must be https"}}`)
	if a := b.post(path, form).want(400, "Line 2: must be https", `id="f-destinations-err"`); strings.Contains(
		a.body, "whsec_mine") {
		t.Error("the page shows the secret that was entered")
	}
	body := r.lastBody("POST", "/v1/endpoints")
	if v := body["verification"].(map[string]any); v["secret"] != "whsec_mine" || v["mode"] != "enforce" ||
		body["dedup"] == nil {
		t.Errorf("the body is %v", body)
	}
	b.get(path+"?provider=nobody").want(404, "no such provider")
}

// An endpoint of a provider that signs is not created without its secret by accident: a form that was refused has lost
// the secret, says so, and is refused again without it. Only the choice not to verify creates one.
func TestNewEndpointIsNotUnverifiedByAccident(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("POST /v1/endpoints", 400, `{"error":{"type":"invalid_request","param":"name","message":"name: is bad"}}`)
	b := r.signedIn()
	const path, again = "/app/endpoints/new", `id="f-verification.secret-again"`
	form := b.get(path+"?provider=stripe").want(200, "Do not verify yet").fields(path)
	is.Equal(t, form.Get("verification.mode"), "off",
		"the form asks for a secret that Stripe shows only once it has the ingest URL")
	form.Set("destinations", "https://a.example.com")
	form.Set("verification.secret", "whsec_mine")
	form.Set("verification.mode", "enforce")
	a := b.post(path, form).want(400, again, "Enter it again")
	if form = a.fields(path); form.Get("verification.secret") != "" || r.changes() != 1 {
		t.Fatalf("the page holds the secret, or there were %d calls, want 1", r.changes())
	}
	a = b.post(path, form).want(400, `id="f-verification.secret-err"`, "The secret is missing")
	if strings.Contains(a.body, again) || r.changes() != 1 {
		t.Errorf("nothing was entered, or %d calls were made, want 1", r.changes())
	}
	form.Set("verification.secret", "whsec_mine")
	form.Set("verification.mode", "off")
	if b.post(path, form).want(400, `id="f-verification.mode-err"`); r.changes() != 1 {
		t.Error("a secret that nothing uses was taken")
	}
	form.Del("verification.secret")
	r.api.on("POST /v1/endpoints", 201, sampleEndpoint)
	if b.post(path, form).want(200); r.lastBody("POST", "/v1/endpoints")["verification"] != nil {
		t.Error("the endpoint verifies signatures")
	}
}

// Where people choose the provider's secret, a form makes a random one if they ask for that, and shows it once: a form
// that is sent again sends the same.
func TestSecretOfAProviderIsGenerated(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("POST /v1/endpoints", 201, sampleEndpoint)
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.NewReplacer(`"provider":"shopify"`, `"provider":"github"`,
		`"verification":{`, `"verification":null,"was":{`).Replace(sampleEndpoint))
	b := r.signedIn()
	for _, x := range []struct{ page, path, call string }{
		{"/app/endpoints/new?provider=github", "/app/endpoints/new", "POST /v1/endpoints"},
		{"/app/endpoints/ep_1/wait", "/app/endpoints/ep_1/secret", "PATCH /v1/endpoints/ep_1"},
	} {
		method, call, _ := strings.Cut(x.call, " ")
		r.api.on(x.call, 200, sampleEndpoint)
		form := b.get(x.page).want(200, "Generate a secret").fields(x.path)
		secret := form.Get("generated")
		if other := b.get(x.page).fields(x.path).Get("generated"); len(secret) != 64 || other == secret {
			t.Fatalf("%s offers %q, then %q", x.page, secret, other)
		}
		form.Set("destinations", "https://a.example.com")
		form.Set("generate", "true")
		for range 2 {
			b.post(x.path, form).want(200, secret, "Secret for GitHub")
			if v := r.lastBody(method, call)["verification"].(map[string]any); v["secret"] != secret || v["mode"] != "enforce" {
				t.Errorf("%s sends %v", x.page, v)
			}
		}
	}
}

// A generated secret whose answer was lost is shown when its form is sent again, and no other.
func TestGeneratedSecretIsShownAfterALostAnswer(t *testing.T) {
	r := newEndpointRig(t) // its endpoint has a secret that ends with c41e
	b := r.signedIn()
	for secret, shown := range map[string]bool{strings.Repeat("0", 60) + "c41e": true, strings.Repeat("0", 64): false} {
		a := b.post("/app/endpoints/ep_1/secret",
			url.Values{"nonce": {newNonce()}, "generate": {"true"}, "generated": {secret}})
		if strings.Contains(a.body, secret) != shown || r.changes() > 0 {
			t.Errorf("%s: shown %v, want %v; %d changes", secret, !shown, shown, r.changes())
		}
	}
}

// An ingest URL that names this machine is not for a provider, and its pages say what to do.
func TestURLOfThisMachineIsNotForAProvider(t *testing.T) {
	const give, local = "Give this to the provider", "Only programs on this machine reach this URL"
	for _, host := range []string{"relay.example.com", "localhost:8080", "127.0.0.1:8080", "relay.localhost"} {
		shown, hidden := local, give
		if host == "relay.example.com" {
			shown, hidden = give, local
		}
		r := newEndpointRig(t)
		r.api.on("GET /v1/endpoints/ep_1", 200, strings.ReplaceAll(sampleEndpoint, "relay.example.com", host))
		b := r.signedIn()
		for _, path := range []string{"/app/endpoints/ep_1", "/app/endpoints/ep_1/wait"} {
			if a := b.get(path).want(200, shown); strings.Contains(a.body, hidden) {
				t.Errorf("%s with %s says: %s", path, host, hidden)
			}
		}
	}
}

// The page that waits says what came, what is wrong with its signature, and what to do.
func TestWaitForTheFirstRequest(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/wait"
	b.get(path).want(200, "Waiting for the first request", `data-live="`+path+`"`,
		`<a href="`+path+`">Reload this page</a>`)
	if a := b.get(path, "Relay-Part", "first").want(200); !strings.HasPrefix(a.body, "<section") ||
		strings.Contains(a.body, "refresh") {
		t.Errorf("the part is %s", a.body)
	}
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","type":"orders/paid","status":"rejected","source":"provider",
		"received_at":"2026-08-21T22:24:35.000Z","reason":"signature_mismatch",
		"why":"rejected: the signature matches none of the endpoint's secrets",
		"why_details":{"code":"signature_mismatch"},
		"destinations":{"total":0}}]}`)
	b.get(path).want(200, "It arrived and was rejected: the signature matches none of the endpoint&#39;s secrets.",
		"signed with another secret",
		"the secret of an app is used")
	r.api.on("GET /v1/events/evt_1/signature", 200, `{"findings":[{"code":"trailing_newline","message":"the secret ends `+
		`with a new line"}]}`)
	b.get(path).want(200, "The secret ends with a new line.")
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","status":"delivered","source":"test","why":"delivered",
		"received_at":"2026-08-21T22:24:35.000Z","reason":null,"destinations":{"total":1,"delivered":1}}]}`)
	b.get(path).want(200, "It arrived and was delivered.", "Test event", "delivered to 1 of 1\u00a0destination")
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","type":null,"status":"skipped","source":"provider",
		"received_at":"2026-08-21T22:24:35.000Z","reason":"no_destination","why":"skipped: the endpoint had no enabled `+
		`destination","destinations":{"total":0}}]}`)
	if page := b.get(path).want(200, "It arrived and was captured.", "captured: no destinations").main(); strings.Contains(
		page, "delivered to no") || strings.Contains(page, "<code></code>") {
		t.Error("a captured event is called undelivered, or its missing type leaves a hole")
	}
	r.api.on("GET /v1/events", 503, `{"error":{"type":"unavailable","message":"the store is away"}}`)
	b.get(path).want(200, "The store is away.", "still accepted")
	last := r.api.calls[len(r.api.calls)-1]
	if last.Query.Get("endpoint_id") != "ep_1" || last.Query.Get("limit") != "1" {
		t.Errorf("the call is %+v", last)
	}
}

// The actions of endpoints and destinations call the API as they say.
func TestEndpointActions(t *testing.T) {
	const ep, dst = "/endpoints/ep_1", "/endpoints/ep_1/destinations/dst_1"
	for _, x := range []struct {
		path, form, method, api, body string
		secret                        bool
	}{
		{ep + "/pause", "", "PATCH", ep, `{"paused":true}`, false},
		{ep + "/unpause", "", "PATCH", ep, `{"paused":false}`, false},
		{ep + "/enable", "", "PATCH", ep, `{"enabled":true}`, false},
		{ep + "/test", "", "POST", ep + "/test", `{}`, false},
		{ep + "/test", "destination_id=dst_1", "POST", ep + "/test", `{"destination_id":"dst_1"}`, false},
		{ep + "/rotate-url", "overlap_seconds=3600", "POST", ep + "/rotate-token", `{"overlap_seconds":3600}`, false},
		{dst + "/pause", "", "PATCH", dst, `{"paused":true}`, false},
		{dst + "/unpause", "", "PATCH", dst, `{"paused":false}`, false},
		{dst + "/enable", "", "PATCH", dst, `{"enabled":true}`, false},
		{dst + "/purge", "", "POST", dst + "/purge", `{}`, false},
		{dst + "/purge", "before=2026-08-21T22:24", "POST", dst + "/purge", `{"before":"2026-08-21T22:24:00Z"}`, false},
		{dst + "/rotate", "overlap_seconds=0", "POST", dst + "/rotate_secret", `{"overlap_seconds":0}`, true},
		{dst + "/rotate", "overlap_seconds=0&algorithm=ed25519", "POST", dst + "/rotate_secret",
			`{"algorithm":"ed25519","overlap_seconds":0}`, true},
		{ep + "/destinations/new", "kind=kafka&url=&enabled=true&timeout_seconds=15&max_in_flight=64" +
			"&format=standard&kafka.topic=orders" +
			"&kafka.brokers=a.example.com:9093%0D%0Ab.example.com:9093&kafka.compression=none", "POST",
			ep + "/destinations", `{"kafka":{"brokers":["a.example.com:9093","b.example.com:9093"],` +
				`"compression":"none","topic":"orders"}}`, true},
		{ep + "/destinations/new", "kind=pull&url=&enabled=true&timeout_seconds=15&max_in_flight=64" +
			"&format=standard&pull.lease_seconds=",
			"POST", ep + "/destinations", `{"pull":{}}`, true},
		{ep + "/destinations/new", "url=https://a.example.com&enabled=true&timeout_seconds=15&max_in_flight=64" +
			"&format=standard&auth.type=" +
			"&ordering.by=body:$.id&ordering.when_failed=", "POST", ep + "/destinations",
			`{"ordering":{"by":"body:$.id"},"url":"https://a.example.com"}`, true},
		{ep + "/destinations/new", "url=https://a.example.com&enabled=true&timeout_seconds=15&max_in_flight=64" +
			"&format=standard", "POST",
			ep + "/destinations", `{"url":"https://a.example.com"}`, true},
	} {
		r := newEndpointRig(t)
		r.api.on(x.method+" /v1"+x.api, 200, `{"id":"dst_1","url":"https://a.example.com","signing":{"secret":"whsec_new"}}`)
		form := must.Get(url.ParseQuery(x.form))(t)
		form.Set("nonce", newNonce())
		a := r.signedIn().post("/app"+x.path, form)
		if x.secret {
			a.want(200, "whsec_new")
		} else {
			a.want(303)
		}
		last := r.api.calls[len(r.api.calls)-1]
		if last.Method != x.method || last.Path != "/v1"+x.api || last.Body != x.body ||
			x.method == "POST" && last.Key != form.Get("nonce") {
			t.Errorf("%s?%s calls %s %s %s", x.path, x.form, last.Method, last.Path, last.Body)
		}
	}
}

// A purge asks with the number of deliveries that it ends: the form on the page of the destination changes nothing, and
// the page that it leads to counts within bounds. An unknown number is said to be unknown.
func TestPurgeAsksWithANumber(t *testing.T) {
	const path = "/app/endpoints/ep_1/destinations/dst_1"
	r := newEndpointRig(t)
	b := r.signedIn()
	if page := b.get(path+"/settings").want(200, `action="`+path+`/purge"><p`); strings.Contains(page.body,
		`method="post" action="`+path+`/purge"`) {
		t.Error("one click on the page of a destination purges it")
	}
	row := func(status string) string {
		return `{"id":"evt_1","deliveries":[{"destination_id":"dst_2","status":"held"},{"destination_id":"dst_1","status":"` +
			status + `"}]}`
	}
	r.api.on("GET /v1/events", 200, `{"data":[`+row("held")+`,`+row("retrying")+`,`+row("delivered")+`]}`)
	before := `value="2026-08-21T22:24:00Z"`
	b.get(path+"/purge?before=2026-08-21T22:24").want(200, "Purge 2\u00a0deliveries</button>", before, ">Cancel<")
	asked := r.api.calls[len(r.api.calls)-1].Query.Encode()
	is.Equal(t, asked, "destination_id=dst_1&limit=100&status=pending%2Cretrying&until=2026-08-21T22%3A24%3A00Z",
		"the count asks for")
	r.api.on("GET /v1/events", 200, `{"data":[`+row("held")+`],"next_cursor":"c"}`)
	calls := len(r.api.calls)
	b.get(path+"/purge").want(200, "Purge more than 10\u00a0deliveries</button>")
	is.Equal(t, len(r.api.calls)-calls, 1+10, "calls count the deliveries")
	r.api.on("GET /v1/events", 200, emptyList)
	b.get(path+"/purge").want(200, "No open delivery to it is known", "Purge open deliveries</button>")
	r.api.on("GET /v1/events", 503, storeAway)
	b.get(path+"/purge").want(200, "is not known at the moment", "Purge open deliveries</button>")
	r.api.on("GET /v1/events", 400,
		`{"error":{"type":"invalid_request","message":"until: must be a time","param":"until"}}`)
	if page := b.get(path+"/purge?before=x").want(400, "Must be a time", `id="f-before"`); strings.Contains(page.body,
		"Purge open deliveries") {
		t.Error("a time that is none can be purged with")
	}
	if n := r.changes(); n > 0 {
		t.Errorf("counting makes %d changes", n)
	}
	r.api.on("POST /v1/endpoints/ep_1/destinations/dst_1/purge", 400,
		`{"error":{"type":"invalid_request","message":"before: must not be later than now","param":"before"}}`)
	b.post(path+"/purge", url.Values{"nonce": {newNonce()}, "before": {"2030-01-01T00:00:00Z"}}).
		want(400, "Must not be later than now", `value="2030-01-01T00:00:00Z"`)
}

// The page that waits for a provider saves a secret while there is none. A form of an old tab replaces no secret and no
// mode that somebody has set meanwhile.
func TestSecretIsSavedOnlyWhileThereIsNone(t *testing.T) {
	const path = "/endpoints/ep_1"
	start, rest, _ := strings.Cut(sampleEndpoint, `"verification":{`)
	_, end, _ := strings.Cut(rest, "}")
	for _, x := range []struct{ endpoint, next, body string }{
		{sampleEndpoint, "/settings", ""},
		{start + `"verification":null` + end, "/wait",
			`{"verification":{"mode":"observe","secret":"abc","type":"shopify"}}`},
	} {
		r := newEndpointRig(t)
		r.api.on("GET /v1"+path, 200, x.endpoint)
		r.api.on("PATCH /v1"+path, 200, x.endpoint)
		r.signedIn().post("/app"+path+"/secret", url.Values{"verification.mode": {"observe"},
			"verification.secret": {"abc"}, "nonce": {newNonce()}}).wantRedirect("/app" + path + x.next)
		last, body := r.api.calls[len(r.api.calls)-1], ""
		if last.Method == "PATCH" {
			body = last.Body
		}
		is.Equal(t, body, x.body, "the form leads to %s and sends", x.next)
		// With the second button a test event follows, and what it meets is shown on the page.
		r.api.on("POST /v1"+path+"/test", 503, storeAway)
		r.signedIn().post("/app"+path+"/secret", url.Values{"verification.mode": {"observe"}, "then": {"test"},
			"verification.secret": {"abc"}, "nonce": {newNonce()}}).wantRedirect("/app" + path + x.next)
		if last := r.api.calls[len(r.api.calls)-1]; (last.Path == "/v1"+path+"/test") != (x.next == "/wait") {
			t.Errorf("the last call is %s", last.Path)
		}
	}
}

// A form of a destination that is sent twice shows its secret in the first answer only.
func TestRepeatedFormsShowNoSecretOfADestination(t *testing.T) {
	r := newEndpointRig(t)
	respond := func(apiCall) (int, http.Header, string) {
		return 200, http.Header{"Idempotent-Replayed": {"true"}}, `{"id":"dst_1","signing":{"secret":"whsec_new"}}`
	}
	r.api.responses["POST /v1/endpoints/ep_1/destinations"] = respond
	r.api.responses["POST /v1/endpoints/ep_1/destinations/dst_1/rotate_secret"] = respond
	b := r.signedIn()
	for _, path := range []string{"/destinations/new", "/destinations/dst_1/rotate"} {
		form := url.Values{"nonce": {newNonce()}, "overlap_seconds": {"0"}, "url": {"https://a.example.com"}}
		if a := b.post("/app/endpoints/ep_1"+path, form).want(200, "sent before"); strings.Contains(a.body, "whsec_new") {
			t.Errorf("%s shows the secret again", path)
		}
	}
}

// An endpoint is deleted only if its name was typed.
func TestDeleteNeedsTheName(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("DELETE /v1/endpoints/ep_1", 200, `{"id":"ep_1","deleted":true}`)
	r.api.on("DELETE /v1/endpoints/ep_1/destinations/dst_1", 200, `{"id":"dst_1","deleted":true}`)
	b := r.signedIn()
	form := url.Values{"nonce": {newNonce()}, "confirm": {"order"}}
	b.post("/app/endpoints/ep_1/delete", form).want(400, "was not deleted", `id="f-confirm-err"`)
	if r.changes() > 0 {
		t.Fatal("it was deleted")
	}
	form.Set("confirm", "orders ")
	b.post("/app/endpoints/ep_1/delete", form).wantRedirect("/app/endpoints")
	b.post("/app/endpoints/ep_1/destinations/dst_1/remove", form).wantRedirect("/app/endpoints/ep_1")
	is.Equal(t, r.changes(), 2, "changes")
}

// The scan of stored events is switched on the page of settings, on its own.
func TestScanOfStoredEventsIsSwitched(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, sampleEndpoint)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/settings"
	form := b.get(path).want(200, "Look for leaked keys in stored events").fields(path)
	if form.Has("scan_payloads") {
		t.Fatalf("it is on: %v", form)
	}
	form.Set("scan_payloads", "true")
	b.post(path, form).wantRedirect(path)
	if c := r.api.calls[len(r.api.calls)-1]; c.Method != "PATCH" || c.Body != `{"scan_payloads":true}` {
		t.Errorf("%s %s", c.Method, c.Body)
	}
}

// What was saved with warnings says so on the page.
func TestWarningsAreShown(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, strings.TrimSuffix(sampleEndpoint, "}")+
		`,"warnings":[{"param":"verification.secret","message":"has fewer than 16 characters"}]}`)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/settings"
	form := b.get(path).fields(path)
	form.Set("name", "x")
	b.post(path, form).want(200, "The secret of the provider: has fewer than 16 characters.")
}

// The form says what disabling an endpoint does not end, because disabling a destination does.
func TestDisablingAnEndpointKeepsDeliveries(t *testing.T) {
	newEndpointRig(t).signedIn().get("/app/endpoints/ep_1/settings").want(200,
		"waiting deliveries go on: pause the endpoint to hold them")
}

// A destination without authentication and order is saved without them: their selects have an empty choice.
func TestSettingsMayBeNone(t *testing.T) {
	page := newEndpointRig(t).signedIn().get("/app/endpoints/ep_1/destinations/dst_2/settings").body
	for _, name := range []string{"auth.type", "ordering.when_failed"} {
		_, after, found := strings.Cut(page, `name="`+name+`"`)
		if _, after, _ = strings.Cut(after, ">"); !found || !strings.HasPrefix(after, `<option value="">None</option>`) {
			t.Errorf("%s has no empty choice", name)
		}
	}
}

// The page of a destination that is pulled shows who pulls it.
func TestConsumers(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"id":"dst_1",`,
		`"id":"dst_1","pull":{"lease_seconds":60},`, 1))
	r.api.on("GET /v1/endpoints/ep_1/destinations/dst_1/consumers", 200,
		`{"data":[{"consumer":"worker<1>","last_pull_at":"2026-08-21T22:24:06Z","pulling":true,"leases":7}]}`)
	b := r.signedIn()
	b.get("/app/endpoints/ep_1/destinations/dst_1").want(200, "<code>worker&lt;1&gt;</code>", "waits for events",
		"<td>7</td>")
	r.api.on("GET /v1/endpoints/ep_1/destinations/dst_1/consumers", 503, `{"error":{"type":"unavailable"}}`)
	b.get("/app/endpoints/ep_1/destinations/dst_1").want(200, "Nobody has pulled")
}

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
		ui.EventsPath:       {"· first<", "the 150th", "ep_gone", `placeholder="ep_…"`},
		ui.RecoveriesPath:   {"the 150th", `placeholder="ep_…"`},
		ui.ReplaysPath:      {"endpoint first, the 150th", `placeholder="ep_…"`},
		ui.AlertHistoryPath: {"the 150th"},
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
