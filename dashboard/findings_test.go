package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
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
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Query.Get("status"), "open,acknowledged",
		"the list asks for the status")
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
"location":{"source":"sdk","file":"<i>boot.js","line":7}},
{"at":"2026-08-21T22:10:00.000Z","count":1,"location":{"source":"payload","label":"orders","pointer":"/token",
"event_id":"evt_7"}}],"next_cursor":"abc"}`)
	page := b.get("/app/findings/fnd_1").want(200, "&lt;i&gt;boot.js line 7", "prod", "release 1.2", "1,234", "unverified",
		`datetime="2026-08-21T22:10:00.000Z"`, `href="/app/findings/fnd_1?cursor=abc#occurrences"`,
		`orders /token <a class="nb" href="/app/events/evt_7">its event</a>`)
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

const oneScan = `{"id":"scn_1","domain_id":"dom_1","hostname":"shop.example.com","status":"running","trigger":"manual",
"pages":3,"resources":20,"bytes":4096,"findings_new":0,"findings_seen":0,"skipped":[],"skipped_more":0,"third_party":[],
"catch_all":false,"budget_exhausted":null,"error":null,"created_at":"2026-08-21T20:00:00.000Z","finished_at":null}`

// A person starts a scan on the page of a verified domain. Its page shows the progress, then what was found and what
// was not looked at.
func TestScanADomain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	verified := strings.NewReplacer(`"pending"`, `"verified"`, `"verified_at":null`,
		`"verified_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain)
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, verified)
	r.api.on("GET /v1/tripwires", http.StatusOK, emptyList)
	r.api.on("POST /v1/scans", http.StatusCreated, oneScan)
	nonce := b.get("/app/domains/dom_1").want(200, "Scan now").nonce()
	b.post("/app/domains/dom_1/scan", url.Values{"nonce": {nonce}}).wantRedirect("/app/scans/scn_1")
	if call := r.api.calls[len(r.api.calls)-1]; call.Body != `{"domain_id":"dom_1"}` || call.Key != nonce {
		t.Errorf("%+v", call)
	}
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, oneScan)
	b.get("/app/scans/scn_1").want(200, "Running: 3 pages", `data-live="/app/scans/scn_1"`)
	done := strings.NewReplacer(`"running"`, `"completed"`, `"findings_new":0`, `"findings_new":2`, `"findings_seen":0`,
		`"findings_seen":1`, `"skipped":[]`, `"skipped":[{"path":"/<b>","reason":"query"},{"path":"/c","reason":"new"}]`,
		`"third_party":[]`, `"third_party":["cdn.example.com"]`, `"budget_exhausted":null`, `"budget_exhausted":"pages"`,
		`"skipped_more":0`, `"skipped_more":7`, `"catch_all":false`, `"catch_all":true`).Replace(oneScan)
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, done)
	body := b.get("/app/scans/scn_1").want(200, "2 new findings, and 1 that were known", "/&lt;b&gt;",
		"may change something", "cdn.example.com",
		"budget of pages", "and 7 more", "answers to every path", "new: <code>/c</code>").body
	is.Lacks(t, body, "data-live", "the page of a scan that has ended goes on asking")
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, strings.Replace(strings.Replace(oneScan, `"running"`, `"failed"`, 1),
		`"error":null`, `"error":"verification_expired"`, 1))
	b.get("/app/scans/scn_1").want(200, "Failed. The proof of the domain is missing")
	r.api.on("GET /v1/scans", http.StatusOK, `{"data":[`+oneScan+`,`+done+`],"next_cursor":"x"}`)
	b.get("/app/scans").want(200, `href="/app/scans/scn_1"`, "running", "completed", "cursor=x")
	r.api.on("GET /v1/scans", http.StatusOK, `{"data":[]}`)
	b.get("/app/scans").want(200, "No scan yet")
	b.get("/app/scans/scn_2").want(404, "no such scan")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/domains/dom_1").want(200).body, "Scan now", "a read person sees an action")
}

// twoRules are detection settings as the API shows them.
const twoRules = `{"object":"detection_settings","version":4,"rules":[{"id":"custom:inv","name":"Key of inventory",
"prefixes":["inv_live_","inv_test_"],"charset":"alnum","min":32,"max":32,"left":"word","right":"word","entropy":0,
"severity":"medium","docs_url":"https://wiki.example.com/keys"},{"id":"custom:crm","name":"Key of the CRM","prefixes":
["crm-"],"charset":"hex","min":16,"max":64,"left":"word","right":"any","entropy":2.5,"severity":"high",
"docs_url":null}]}`

// A person adds a rule, changes one and removes one; each call has all rules and the version that was read.
func TestDetectionRules(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/settings/detection", http.StatusOK, `{"rules":[],"version":0}`)
	r.api.on("PATCH /v1/settings/detection", http.StatusOK, twoRules)
	page := b.get("/app/settings/detection").want(200, "None yet", "Built-in rules", "RubyGems API key",
		"<code>rubygems_</code>", "New rule", "Try a line",
		`href="/app/settings/detection"`)
	form := url.Values{"nonce": {page.nonce()}, "id": {"crm"}, "name": {" Key of the CRM "}, "prefixes": {"crm-\r\ncrm2-"},
		"charset": {"hex"}, "min": {"16"}, "max": {"sixty"}, "left": {"word"}, "right": {"any"}, "entropy": {"2.5"},
		"severity": {"high"}, "docs_url": {""}}
	b.post("/app/settings/detection", form).wantRedirect("/app/settings/detection")
	body := r.lastCall()
	want := `{"rules":[{"charset":"hex","docs_url":null,"entropy":2.5,"id":"custom:crm","left":"word","max":"sixty",` +
		`"min":16,"name":"Key of the CRM","prefixes":["crm-","crm2-"],"right":"any","severity":"high"}],"version":0}`
	is.Equal(t, body, want, "sent")
	r.api.on("PATCH /v1/settings/detection", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"rules[0].prefixes[1]: must have 3 to 40 characters",
"param":"rules[0].prefixes[1]"}}`)
	b.post("/app/settings/detection", form).want(400, "must have 3 to 40 characters", `href="#f-prefixes"`, "crm2-")

	r.api.on("GET /v1/settings/detection", http.StatusOK, twoRules)
	r.api.on("PATCH /v1/settings/detection", http.StatusOK, twoRules)
	b.get("/app/settings/detection").want(200, "inv_live_ or inv_test_, then 32 characters of alnum",
		"crm-, then 16 to 64 characters of hex", "https://wiki.example.com/keys")
	page = b.get("/app/settings/detection?rule=custom:crm").want(200, "Change Key of the CRM", `value="2.5"`)
	version := strings.SplitN(strings.SplitN(page.body, `name="version" value="`, 2)[1], `"`, 2)[0]
	form.Set("max", "64")
	form.Set("rule", "custom:crm")
	b.post("/app/settings/detection", form).want(400, "Somebody changed this") // drawn from another state
	form.Set("version", version)
	b.post("/app/settings/detection", form).wantRedirect("/app/settings/detection")
	body = r.lastCall()
	if !strings.Contains(body, `"id":"custom:inv"`) || !strings.Contains(body, `"docs_url":"https://wiki`) ||
		!strings.Contains(body, `"crm2-"`) || !strings.HasSuffix(body, `"version":4}`) || strings.Count(body, `"id"`) != 2 {
		t.Errorf("sent %s", body)
	}
	b.get("/app/settings/detection?rule=custom:gone").want(404, "no such rule")

	b.post("/app/settings/detection/remove", url.Values{"nonce": {page.nonce()}, "rule": {"custom:inv"}}).
		wantRedirect("/app/settings/detection")
	if body = r.lastCall(); strings.Contains(body, "custom:inv") ||
		!strings.Contains(body, "custom:crm") {
		t.Errorf("sent %s", body)
	}
}

// What was found in a text is shown with masks; the text itself is not. A reader sees no form.
func TestTryDetectionRules(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/settings/detection", http.StatusOK, twoRules)
	r.people.person.Scope = config.Read
	if page := b.get("/app/settings/detection").want(200, "Key of inventory"); strings.Contains(page.body, "New rule") ||
		strings.Contains(page.body, "Remove") || strings.Contains(page.body, "Try a line") {
		t.Error("a reader sees an action")
	}
	r.people.person.Scope = config.ReadWrite
	r.api.on("POST /v1/settings/detection/try", http.StatusOK, `{"matches":[{"rule":"custom:inv","name":"Key of inventory",
"severity":"medium","masked":"inv_live***","line":2}],"total":1,"masked":"a\nkey=inv_live***"}`)
	page := b.get("/app/settings/detection").want(200, "Try a line")
	pasted := url.Values{"nonce": {page.nonce()}, "text": {"a\r\nkey=inv_live_secret"}}
	page = b.post("/app/settings/detection/try", pasted).want(200,
		"Found in your text: 1", "Key of inventory", "key=inv_live***")
	is.Lacks(t, page.body, "inv_live_secret", "the page has the text")
	is.Equal(t, r.lastCall(), `{"text":"a\nkey=inv_live_secret"}`, "sent")
	r.api.on("POST /v1/settings/detection/try", http.StatusOK, `{"matches":[],"total":0,"masked":"a"}`)
	b.post("/app/settings/detection/try", url.Values{"nonce": {page.nonce()}, "text": {"a"}}).want(200, "Nothing is found")
	r.api.on("POST /v1/settings/detection/try", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"text: must have 1 to 16384 characters","param":"text"}}`)
	b.post("/app/settings/detection/try", url.Values{"nonce": {page.nonce()}, "text": {"a"}}).want(400, "Not tried")
}

// lastCall is the text of the body of the last call of the API.
func (r *rig) lastCall() string { return r.api.calls[len(r.api.calls)-1].Body }
