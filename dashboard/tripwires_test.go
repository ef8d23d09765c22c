package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

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
	if body := b.get("/app/tripwires/trw_1").want(200).body; strings.Contains(body, `action="/app/tripwires`) {
		t.Error("an action is offered to a person who may only read")
	}
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

// The finding of a tripwire says what to do about a decoy, and from where it was used.
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
	is.Lacks(t, body, "then revoke this one", "the page asks to revoke a decoy")
}
