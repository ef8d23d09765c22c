package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

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
