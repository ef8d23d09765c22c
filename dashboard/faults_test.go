package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

const (
	storeAway = `{"error":{"type":"unavailable","message":"the event store is unavailable at the moment"}}`
	logAway   = `{"error":{"type":"unavailable","message":"the configuration log is unavailable at the moment"}}`
)

// Without the event store, lists say so and go on by themselves, and all that needs no events works.
func TestPagesWithoutTheEventStore(t *testing.T) {
	r := newEndpointRig(t)
	for _, path := range []string{"/v1/events", "/v1/events/evt_1", "/v1/events/evt_1/attempts"} {
		r.api.on("GET "+path, http.StatusServiceUnavailable, storeAway)
	}
	r.account.usesErr = errors.New("no store")
	r.account.keys = []*config.Key{{ID: "key_1", Name: "orders", Scope: config.Read}}
	b := r.signedIn()
	b.get(ui.EventsPath+"?tail=1").want(503, "The event store is unavailable", "Endpoints and settings can be used",
		`http-equiv="refresh"`, `data-live="/app/events?tail=1"`)
	for _, path := range []string{eventPath1, eventPath1 + "/attempts"} {
		b.get(path).want(503, "Unavailable at the moment", "The event store is unavailable", "Reload the page",
			`class="b" href="/app/events"`)
	}
	b.get("/app/endpoints/ep_1/wait").want(200, "Requests are still accepted")
	b.get(ui.KeysPath).want(200, "The last uses cannot be read", "Create key")
	for _, path := range append(endpointPaths, "/app", "/app/settings/people", "/app/settings/about") {
		b.get(path).want(200)
	}
	const path = "/app/endpoints/ep_1/settings"
	r.api.on("PATCH /v1/endpoints/ep_1", 200, sampleEndpoint)
	form := b.get(path).fields(path)
	form.Set("name", "renamed")
	b.post(path, form).wantRedirect(path)
}

// While the store is behind, lists and events say as of when they are.
func TestOldDataSaysSo(t *testing.T) {
	r := eventRig(t)
	behind := func(body string) func(apiCall) (int, http.Header, string) {
		return func(apiCall) (int, http.Header, string) {
			return 200, http.Header{"Relay-Data-As-Of": {"2026-08-21T22:20:36.000Z"}}, body
		}
	}
	r.api.responses["GET /v1/events"] = behind(emptyList)
	r.api.responses["GET /v1/events/evt_1"] = behind(eventJSON)
	r.api.responses["GET /v1/events/evt_1/attempts"] = behind(emptyList)
	b := r.signedIn()
	for _, path := range []string{ui.EventsPath, eventPath1, eventPath1 + "/attempts"} {
		b.get(path).want(200, `Data as of <time datetime="2026-08-21T22:20:36.000Z">`)
	}
}

// While the store is behind, an event can be read from the log alone. The API then returns all deliveries as pending.
// The page does not say so: they may have been delivered. A current answer means what it says.
func TestOutcomesThatAreNotKnown(t *testing.T) {
	r := newRig(t)
	const body = `{"id":"evt_1","endpoint_id":"ep_1","status":"pending","why":"waiting for its first attempt",
		"source":"api","attempts":[],"deliveries":[{"id":"dlv_1","destination_id":"dst_1","status":"pending",
		"reason":"queued","why":"waiting for its first attempt","attempts":0}]}`
	header := http.Header{"Relay-Data-As-Of": {"2026-08-21T22:20:36.000Z"}}
	r.api.responses["GET /v1/events/evt_1"] = func(apiCall) (int, http.Header, string) { return 200, header, body }
	b := r.signedIn()
	const asserted = "aiting for its first attempt|0 attempts|No request was made|class=\"sched"
	page := b.get(eventPath1).want(200, "Its status is not known at the moment", "<b>dst_1</b>", "data-live=")
	for text := range strings.SplitSeq(asserted, "|") {
		is.Lacks(t, page.main(), text, "the page says %q of what it does not know", text)
	}
	header.Del("Relay-Data-As-Of")
	b.get(eventPath1).want(200, strings.Split(asserted, "|")...)
}

// A save that the log does not confirm is not shown as done. The entries stay, and sending them again does nothing
// twice: the nonce stays too.
func TestSavesWithoutTheLog(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	for _, call := range []string{
		"PATCH /v1/endpoints/ep_1", "PATCH /v1/endpoints/ep_1/destinations/dst_1", "POST /v1/endpoints",
		"POST /v1/endpoints/ep_1/destinations", "POST /v1/endpoints/ep_1/rotate-token",
	} {
		r.api.on(call, http.StatusServiceUnavailable, logAway)
	}
	for path, field := range map[string]string{
		"/app/endpoints/ep_1/settings": "name", "/app/endpoints/ep_1/destinations/dst_1/settings": "name",
		"/app/endpoints/ep_1/retries": "retry_policy.max_attempts", "/app/endpoints/ep_1/destinations/new": "name",
	} {
		form := b.get(path).fields(path)
		form.Set(field, "49")
		a := b.post(path, form).want(503, "Not confirmed: it may have taken effect", "Your entries are below", `value="49"`,
			form.Get("nonce"))
		is.Lacks(t, a.body, `class="toast"`, "%s is shown as done", path)
	}
	form := b.get("/app/endpoints/new?provider=stripe").fields("/app/endpoints/new")
	form.Set("destinations", "https://a.example.com")
	form.Set("verification.secret", "whsec_mine")
	form.Set("verification.mode", "enforce")
	b.post("/app/endpoints/new", form).want(503, "Not confirmed", "https://a.example.com", form.Get("nonce"))
	nonce := url.Values{"nonce": {newNonce()}, "overlap_seconds": {"0"}}
	for _, action := range []string{"/pause", "/rotate-url"} {
		b.post("/app/endpoints/ep_1"+action, nonce).want(503, "Your change was not confirmed", "see what is stored",
			`class="b" href="/app/endpoints"`)
	}
	r.account.err = config.ErrUnavailable
	key := b.get(ui.KeysPath).fields(ui.KeysPath)
	key.Set("name", "a server")
	b.post(ui.KeysPath, key).want(503, "does not answer", "Your change was not confirmed",
		`class="b" href="`+ui.KeysPath)
	person := b.get("/app/settings/people").fields("/app/settings/people")
	person.Set("email", "new@example.com")
	b.post("/app/settings/people", person).want(503, "does not answer", "Your change was not confirmed",
		`class="b" href="`+"/app/settings/people")
	if b.get("/app").want(200); len(r.account.keys) > 0 || strings.Contains(b.get("/app").body, `class="toast"`) {
		t.Error("something is shown as done")
	}
}

// A form that was saved without an answer is not shown as somebody else's change.
func TestSaveThatTookEffectAfterAll(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/settings"
	form := b.get(path).fields(path)
	form.Set("name", "renamed")
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"name":"orders"`, `"name":"renamed"`, 1))
	b.post(path, form).wantRedirect(path)
	b.get(path).want(200, "It is stored already as you entered it.")
	if n := r.changes(); n > 0 {
		t.Errorf("%d changes were made", n)
	}
}

// A node that was cut off from the log shows nothing and does nothing, and says so.
func TestNodeThatWasCutOff(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	r.people.err = config.ErrLease
	before := len(r.api.calls)
	for _, path := range []string{ui.EventsPath, "/app/endpoints/ep_1", ui.KeysPath} {
		b.get(path).want(503, "cannot confirm sign-ins", "Reload the page")
	}
	b.post("/app/endpoints/ep_1/pause", url.Values{"nonce": {newNonce()}}).want(503, "Nothing was done")
	b.post(ui.KeysPath, url.Values{"nonce": {newNonce()}, "name": {"a"}}).want(503, "Nothing was done")
	if len(r.api.calls) > before || len(r.account.keys) > 0 {
		t.Error("a call was made")
	}
	r.people.err = nil // its session goes on
	b.get("/app/endpoints/ep_1").want(200)
}

// What somebody has deleted in another tab gives a page that says so and leads back to the list.
func TestDeletedInAnotherTab(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	nonce := url.Values{"nonce": {newNonce()}}
	const gone = `{"error":{"type":"not_found","message":"there is nothing with this id"}}`
	for _, x := range []struct{ path, list string }{
		{"/app/endpoints/ep_9", ui.EndpointsPath}, {"/app/endpoints/ep_1/destinations/dst_9", ui.EndpointsPath},
		{ui.EventsPath + "/evt_9", ui.EventsPath},
	} {
		b.get(x.path).want(404, "Not found", `class="b" href="`+x.list+`"`)
	}
	for _, x := range []struct{ path, list string }{
		{"/app/endpoints/ep_9/pause", ui.EndpointsPath}, {"/app/endpoints/ep_1/destinations/dst_9/rotate",
			ui.EndpointsPath},
		{ui.KeysPath + "/key_9/revoke", ui.KeysPath}, {"/app/settings/people" + "/usr_9/scope", "/app/settings/people"},
		{"/app/settings/people" + "/usr_9/remove", "/app/settings/people"}, {"/app/settings/people" + "/usr_9/reset",
			"/app/settings/people"},
	} {
		b.post(x.path, nonce).want(404, "Not found", "othing was changed", `class="b" href="`+x.list+`"`)
	}
	// It was deleted after the page had read it.
	for _, call := range []string{"PATCH /v1/endpoints/ep_1", "POST /v1/endpoints/ep_1/destinations/dst_1/rotate_secret"} {
		r.api.on(call, 404, gone)
	}
	b.post("/app/endpoints/ep_1/pause", nonce).want(404, "There is nothing with this id")
	b.post("/app/endpoints/ep_1/destinations/dst_1/rotate", nonce).want(404, "There is nothing with this id")
	if len(r.account.keys) > 0 {
		t.Error("a key was made")
	}
}

// The answers that show a secret are stored by no browser, and the script removes it when the page is left.
func TestSecretsLeaveWithTheirPage(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	const secret = `"secret":"whsec_shown","secret_last4":"JCo="`
	r.api.on("POST /v1/endpoints/ep_1/destinations/dst_1/rotate_secret", 200, `{"id":"dst_1","url":"https://a.example.com",
		"state":"active","signing":{`+secret+`}}`)
	key := b.get(ui.KeysPath).fields(ui.KeysPath)
	key.Set("name", "a server")
	person := b.get("/app/settings/people").fields("/app/settings/people")
	person.Set("email", "new@example.com")
	for _, a := range []*answer{
		b.post(ui.KeysPath, key), b.post("/app/settings/people", person),
		b.post("/app/endpoints/ep_1/destinations/dst_1/rotate", url.Values{"nonce": {newNonce()}}),
	} {
		if a.want(200, "data-once").header.Get("Cache-Control") != "no-store" {
			t.Errorf("Cache-Control is %q", a.header.Get("Cache-Control"))
		}
	}
}

// A bound that is reached is no fault of the service: the page says what to do.
func TestBoundsThatAreReached(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	for err, want := range map[error]string{
		config.ErrTooManyUsers: "Remove one first.", config.ErrStateFull: "The configuration is full.",
	} {
		r.account.err = nil
		invitation := b.get("/app/settings/people").fields("/app/settings/people")
		invitation.Set("email", "new@example.com")
		r.account.err = fmt.Errorf("add user: %w", err)
		b.post("/app/settings/people", invitation).want(400, want)
		key := b.get(ui.KeysPath).fields(ui.KeysPath)
		key.Set("name", "new")
		b.post(ui.KeysPath, key).want(400, want)
	}
}
