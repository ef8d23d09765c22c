package dashboard

import (
	"github.com/eventrelay/relay/test/is"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// oneFinding is a finding as the API shows it.
const oneFinding = `{"id":"fnd_1","kind":"secret","rule":"stripe-secret-live","name":"Stripe live secret key",
"provider":"stripe","docs_url":"https://docs.stripe.com/keys","severity":"high","status":"open",
"masked":"sk_live_***aB3d","fingerprint":"fpr_1","sources":["drain"],"first_seen":"2026-08-21T20:00:00.000Z",
"last_seen":"2026-08-21T22:20:00.000Z","occurrences":118,"unverified":false,"test":false,"key_id":null,
"environment":"prod","release":null,"locations":[{"source":"drain","label":"<b>checkout","drain_id":"drn_1","count":118,
"last_seen":"2026-08-21T22:20:00.000Z"}],"resolution":null,"ignore_reason":null,"ignore_until":null,
"resolved_at":null,"regressed_at":null,"note":null,"updated_by":null,"version":3}`

// Two clicks lead from the list to a resolved finding.
func TestResolveAFinding(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[`+oneFinding+`]}`)
	b.get("/app/findings").want(200, `href="/app/findings/fnd_1"`, "Stripe live secret key", "sk_live_***aB3d",
		"&lt;b&gt;checkout", "Log drain, since", "still leaking")
	if got := r.api.calls[len(r.api.calls)-1].Query.Get("status"); got != "open,acknowledged" {
		t.Errorf("the list asks for the status %q", got)
	}
	r.api.on("GET /v1/findings/fnd_1", http.StatusOK, oneFinding)
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[]}`)
	page := b.get("/app/findings/fnd_1").want(200, "Still leaking", "first seen", "Rotate it at Stripe:",
		"https://docs.stripe.com/keys", "118", "log drain", "in the log drain &lt;b&gt;checkout.",
		"is written: the log drain &lt;b&gt;checkout.",
		`href="/app/drains/drn_1"`, "Resolve as revoked", "fpr_1")
	r.api.on("PATCH /v1/findings/fnd_1", http.StatusOK, oneFinding)
	send := func(move, body string, more ...string) {
		t.Helper()
		form := url.Values{"nonce": {page.nonce()}, "version": {"3"}, "move": {move}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		b.post("/app/findings/fnd_1", form).wantRedirect("/app/findings/fnd_1")
		is.Equal(t, r.api.calls[len(r.api.calls)-1].Body, body, "%s sends", move)
	}
	send("revoked", `{"resolution":"revoked","status":"resolved","version":3}`)
	send("acknowledged", `{"status":"acknowledged","version":3}`)
	send("ignored", `{"ignore_reason":"used_in_tests","ignore_until":"2027-01-01","status":"ignored","version":3}`,
		"ignore_reason", "used_in_tests", "ignore_until", " 2027-01-01 ")
	send("note", `{"note":"rolled","version":3}`, "note", "rolled")
	b.post("/app/findings/fnd_1", url.Values{"nonce": {page.nonce()}, "move": {"other"}}).want(400)
	r.api.on("PATCH /v1/findings/fnd_1", http.StatusBadRequest,
		`{"error":{"type":"conflict","message":"it was changed","param":"version"}}`)
	b.post("/app/findings/fnd_1", url.Values{"nonce": {page.nonce()}, "version": {"2"}, "move": {"revoked"}}).
		want(400, "Somebody changed this finding", `name="version" value="3"`)
	b.get("/app/findings/fnd_2").want(404, "no such finding")
}

// The page says what it knows: one of our own keys, a resolved finding, a flood, a finding that does not leak any more.
func TestFindingSaysWhatToDo(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	f := func(text string, changes ...string) {
		t.Helper()
		r.api.on("GET /v1/findings/fnd_1", http.StatusOK, strings.NewReplacer(changes...).Replace(oneFinding))
		r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[]}`)
		b.get("/app/findings/fnd_1").want(200, text)
	}
	f("Revoke it under API keys", `"key_id":null`, `"key_id":"key_1"`)
	f("Reopen", `"status":"open"`, `"status":"resolved"`, `"resolution":null`, `"resolution":"revoked"`,
		`"resolved_at":null`, `"resolved_at":"2026-08-21T22:21:00.000Z"`)
	f("in the application shop.", `"source":"drain","label":"<b>checkout","drain_id":"drn_1"`,
		`"source":"sdk","label":"shop","dsn_id":"dsn_1"`)
	f("in app.js.", `"drain_id":"drn_1"`, `"dsn_id":"dsn_1","file":"app.js"`)
	f("<dd>ops@example.com</dd>", `"updated_by":null`, `"updated_by":"`+r.people.person.ID+`"`)
	f("rotate the URL", "stripe-secret-live", "flood")
	f("Rotate the tripwire", `"kind":"secret"`, `"kind":"tripwire"`)
	f("This was a test of the tripwire", `"kind":"secret"`, `"kind":"tripwire"`, `"test":false`, `"test":true`)
	f("Not seen in the last hour", `22:20:00.000Z","occ`, `20:20:00.000Z","occ`)
	f("Seen again", `"regressed_at":null`, `"regressed_at":"2026-08-21T22:21:00.000Z"`)
}

// The page of a finding has a page of its occurrences: when, where and how often. It is shown without them while the
// store is away, also after a move that was refused.
func TestOccurrencesOfAFinding(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/findings/fnd_1", http.StatusOK, oneFinding)
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[{"object":"finding_occurrence",
"at":"2026-08-21T22:10:00.000Z","count":1234,"unverified":true,"environment":"prod","release":"1.2",
"location":{"source":"sdk","file":"<i>boot.js","line":7}}],"next_cursor":"abc"}`)
	page := b.get("/app/findings/fnd_1").want(200, "&lt;i&gt;boot.js line 7", "prod", "release 1.2", "1,234", "unverified",
		`datetime="2026-08-21T22:10:00.000Z"`, `href="/app/findings/fnd_1?cursor=abc#occurrences"`)
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[]}`)
	b.get("/app/findings/fnd_1?cursor=abc").want(200, "No more occurrences")
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Query.Encode(), "cursor=abc&limit=20", "the API is asked for")
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusServiceUnavailable,
		`{"error":{"type":"unavailable","message":"the event store is unavailable"}}`)
	b.get("/app/findings/fnd_1").want(200, "The event store is unavailable", "Resolve as revoked")
	r.api.on("PATCH /v1/findings/fnd_1", http.StatusBadRequest,
		`{"error":{"type":"conflict","message":"it was changed","param":"version"}}`)
	b.post("/app/findings/fnd_1", url.Values{"nonce": {page.nonce()}, "version": {"2"}, "move": {"revoked"}}).
		want(400, "Somebody changed this finding")
}

// Filters become those of the API and stay in the form and in the link to the next page.
// A finding in a stored event leads to the newest event that had it.
func TestFindingOfAnEventLeadsToIt(t *testing.T) {
	r := newRig(t)
	ofEvent := strings.Replace(oneFinding, `"source":"drain","label":"<b>checkout","drain_id":"drn_1"`,
		`"source":"event","label":"orders","endpoint_id":"ep_1","event_id":"evt_1"`, 1)
	r.api.on("GET /v1/findings/fnd_1", http.StatusOK, ofEvent)
	r.api.on("GET /v1/findings/fnd_1/occurrences", http.StatusOK, `{"data":[]}`)
	r.signedIn().get("/app/findings/fnd_1").want(200, `<a href="/app/events/evt_1">event</a>`)
}

func TestFindingFilters(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[`+oneFinding+`],"next_cursor":"abc"}`)
	page := b.get("/app/findings?status=any&severity=high&source=drain&since=2026-08-01")
	page.want(200, `value="any" selected`, `value="high" selected`, `value="drain" selected`, `value="2026-08-01"`,
		"cursor=abc&amp;severity=high&amp;since=2026-08-01&amp;source=drain&amp;status=any")
	got := r.api.calls[len(r.api.calls)-1].Query.Encode()
	is.Equal(t, got, "limit=50&severity=high&since=2026-08-01&source=drain", "the API is asked for")
	r.api.on("GET /v1/findings", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"since: must be a time","param":"since"}}`)
	refused := b.get("/app/findings?since=x").want(400, `href="#f-since">Seen since</a>: Must be a time`,
		"Nothing was searched")
	is.Lacks(t, refused.main(), "saved", "a filter is said to be not saved")
	if form, _, _ := strings.Cut(refused.body, `<form class="filter"`); !strings.Contains(form, `role="alert"`) {
		t.Error("the error is in the filter, which is closed in a narrow window")
	}
	r.api.on("GET /v1/findings", http.StatusServiceUnavailable,
		`{"error":{"type":"unavailable","message":"the event store is unavailable"}}`)
	b.get("/app/findings").want(503, "The event store is unavailable")
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[]}`)
	b.get("/app/findings").want(200, "Set up a log drain")
	b.get("/app/findings?source=sdk").want(200, "Remove the filters")
}
