package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/test/is"
)

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
	if body := b.get("/app/domains/dom_1").want(200, "no proof was found in seven days").body; strings.Contains(
		body, "Verify by DNS") {
		t.Error("a domain that can only be deleted has another action")
	}
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
	if body := b.get("/app/domains").want(200, "as many domains as there may be").body; strings.Contains(
		body, "New domain") {
		t.Error("a sixth domain is offered")
	}
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, oneDomain)
	r.api.on("DELETE /v1/domains/dom_1", http.StatusOK, `{}`)
	b.post("/app/domains/dom_1/delete", url.Values{"nonce": {nonce}}).wantRedirect("/app/domains")
	b.get("/app/domains/dom_2").want(404, "no such domain")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/domains/dom_1").want(200).body, `action="/app/domains`, "a read person sees an action")
}
