package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

// oneFixture is a fixture as the API shows it.
const oneFixture = `{"id":"fix_1","name":"invoice paid","source_event_id":"evt_1","event_type":"invoice.paid",
"method":"POST","expected_status":200,"size_bytes":81,"removed":3,"edited":false,
"expires_at":"2026-09-04T20:00:00.000Z","version":1,
"body":{"email":"user1@example.com","note":"see redacted-secret-1","redacted-2":1,"n":[10]},
"redactions":[{"pointer":"/email","reason":"named"},{"pointer":"/note","reason":"secret"},
{"pointer":"/note","reason":"email"},{"pointer":"/redacted-2","reason":"member_name"},
{"pointer":"/n/0","reason":"card"}],
"keep":["/n/0"],"required":[{"pointer":"/ok","equals":true},{"pointer":"/id","type":"string"},{"pointer":"/x"}]}`

// storedFixture returns what the form of oneFixture sends if nothing is changed in it.
func storedFixture(nonce string) url.Values {
	return url.Values{"nonce": {nonce}, "version": {"1"}, "name": {"invoice paid"}, "expected_status": {"200"},
		"expires_at": {""}, "required": {"/ok = true\r\n/id : string\r\n/x"}, "keep": {"/n/0"}}
}

// A person makes a fixture of an event, sees field by field what was redacted, edits it, and exports it.
func TestMakeAFixture(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("POST /v1/fixtures", http.StatusCreated, oneFixture)
	r.api.on("GET /v1/fixtures/fix_1", http.StatusOK, oneFixture)
	r.api.on("GET /v1/fixtures", http.StatusOK, `{"data":[`+oneFixture+`]}`)
	nonce := newNonce()
	b.post("/app/events/evt_1/fixture", url.Values{"nonce": {nonce}}).
		wantRedirect("/app/fixtures/fix_1")
	call := r.api.calls[len(r.api.calls)-1]
	if call.Key != nonce || call.Body != `{"event_id":"evt_1"}` {
		t.Errorf("%s with the key %s", call.Body, call.Key)
	}
	page := b.get("/app/fixtures/fix_1").want(200, "invoice paid", "user1@example.com", "the name of its field",
		"a secret, an email address", "a card number", `href="/app/fixtures/export?ids=fix_1"`, "/ok = true", "/id : string",
		"relay-fixture-run.mjs")
	for pointer, want := range map[string]bool{"/email": true, "/n/0": true, "/note": false, "/redacted-2": false} {
		is.Equal(t, strings.Contains(page.body, `name="keep" value="`+pointer+`"`), want, "%s can be kept", pointer)
	}
	b.get("/app/fixtures").want(200, `href="/app/fixtures/fix_1"`, `name="ids" value="fix_1"`)

	r.api.on("GET /v1/fixtures/export", http.StatusOK, `{"format":"relay.fixture-suite"}`)
	file := b.get("/app/fixtures/export?ids=fix_1&ids=fix_2").want(200)
	if file.body != `{"format":"relay.fixture-suite"}` ||
		file.header.Get("Content-Disposition") != `attachment; filename="fixtures.json"` {
		t.Errorf("%v %s", file.header, file.body)
	}
	if call := r.api.calls[len(r.api.calls)-1]; call.Query.Encode() != "ids=fix_1&ids=fix_2" {
		t.Errorf("%v", call.Query)
	}
	r.api.on("GET /v1/fixtures/export", http.StatusNotFound,
		`{"error":{"type":"not_found","message":"ids: must name fixtures that exist, but fix_2 does not","param":"ids"}}`)
	b.get("/app/fixtures/export?ids=fix_2").want(404, "Not exported: Must name fixtures that exist")
	r.api.on("GET /v1/fixtures/export", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"ids: must name","param":"ids"}}`)
	b.get("/app/fixtures/export").want(400, "Choose the fixtures of the file first")
}

// The form sends what it changes and nothing else, and shows errors at their field.
func TestEditAFixture(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/fixtures/fix_1", http.StatusOK, oneFixture)
	r.api.on("PATCH /v1/fixtures/fix_1", http.StatusOK, strings.Replace(oneFixture, `"version":1`, `"version":2`, 1))
	nonce := b.get("/app/fixtures/fix_1").nonce()
	f := func(change url.Values, want string) {
		t.Helper()
		values := storedFixture(nonce)
		for name, value := range change {
			values[name] = value
		}
		before := len(r.api.calls)
		b.post("/app/fixtures/fix_1", values).wantRedirect("/app/fixtures/fix_1")
		got := ""
		for _, call := range r.api.calls[before:] {
			if call.Method == "PATCH" {
				got = call.Body
			}
		}
		is.Equal(t, got, want, change)
	}
	f(nil, "")
	f(url.Values{"name": {" paid "}}, `{"name":"paid","version":1}`)
	f(url.Values{"expected_status": {"422"}}, `{"expected_status":422,"version":1}`)
	f(url.Values{"required": {"/a = {\"b\":1}\r\n\r\n/c d"}},
		`{"required":[{"pointer":"/a","equals":{"b":1}},{"pointer":"/c d"}],"version":1}`)
	f(url.Values{"required": {""}}, `{"required":[],"version":1}`)
	f(url.Values{"keep": {"/n/0", "/email"}}, `{"keep":["/email","/n/0"],"version":1}`)
	f(url.Values{"keep": nil}, `{"keep":[],"version":1}`)
	f(url.Values{"body": {"{\r\n \"a\": 1.50}"}}, `{"body":{"a":1.50},"version":1}`)
	f(url.Values{"expires_at": {"7"}}, `{"expires_at":"`+r.now.UTC().AddDate(0, 0, 7).Format("2006-01-02T15:04:05Z")+
		`","version":1}`)

	refused := func(change url.Values, texts ...string) {
		t.Helper()
		values := storedFixture(nonce)
		for name, value := range change {
			values[name] = value
		}
		b.post("/app/fixtures/fix_1", values).want(400, texts...)
	}
	refused(url.Values{"body": {"{"}}, `href="#f-body"`, "Must be JSON")
	refused(url.Values{"expected_status": {"ok"}}, `href="#f-expected_status"`, "Must be a number")
	refused(url.Values{"required": {"/a\n/b = x"}}, `href="#f-required"`, "Line 2")
	for param, field := range map[string]string{"required[1].equals": "required", "/a/b": "body", "keep[0]": "keep",
		"name": "name", "expires_at": "expires_at"} {
		r.api.on("PATCH /v1/fixtures/fix_1", http.StatusBadRequest,
			`{"error":{"type":"invalid_request","message":"`+param+`: is wrong","param":"`+param+`"}}`)
		refused(url.Values{"name": {"y"}}, `href="#f-`+field+`"`, "s wrong")
	}
	r.api.on("PATCH /v1/fixtures/fix_1", http.StatusBadRequest,
		`{"error":{"type":"conflict","message":"version: is not that of the fixture","param":"version"}}`)
	refused(url.Values{"name": {"mine"}}, "Somebody changed this", "mine")
}

// A fixture is deleted; one that has expired gives a page that says so; a reader sees no action.
func TestFixturePagesOfOthers(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/fixtures/fix_1", http.StatusOK, oneFixture)
	r.api.on("GET /v1/fixtures", http.StatusOK, `{"data":[]}`)
	r.api.on("DELETE /v1/fixtures/fix_1", http.StatusOK, `{"deleted":true}`)
	nonce := b.get("/app/fixtures/fix_1").nonce()
	b.post("/app/fixtures/fix_1/delete", url.Values{"nonce": {nonce}}).wantRedirect("/app/fixtures")
	b.get("/app/fixtures").want(200, "No fixtures yet")
	b.get("/app/fixtures/fix_2").want(404, "It may have expired")
	r.people.person.Scope = config.Read
	page := b.get("/app/fixtures/fix_1").want(200, "readonly")
	for _, action := range []string{"Delete", ">Save<"} {
		is.Lacks(t, page.main(), action, "a read person sees %s", action)
	}
}

// A page shows a bounded number of redacted values, and keeps what is kept beyond it.
func TestManyRedactedValues(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	many := strings.Repeat(`{"pointer":"/x","reason":"named"},`, 10)
	for i := range 2 * 200 {
		many += `{"pointer":"/a/` + strings.Repeat("b", i) + `","reason":"named"},`
	}
	last := "/a/" + strings.Repeat("b", 2*200-1)
	r.api.on("GET /v1/fixtures/fix_1", http.StatusOK, strings.NewReplacer(`"redactions":[`, `"redactions":[`+many,
		`"keep":["/n/0"]`, `"keep":["`+last+`"]`).Replace(oneFixture))
	page := b.get("/app/fixtures/fix_1").want(200, "more are not shown", `type="hidden" name="keep" value="`+last+`"`)
	is.Equal(t, strings.Count(page.body, `type="checkbox"`), 200, "rows")
}
