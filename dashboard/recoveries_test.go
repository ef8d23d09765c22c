package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

// recoveryJSON is a job of the API; jobIn returns it in another state.
const recoveryJSON = `{"id":"rec_1","object":"recovery","endpoint_id":"ep_1","destination_id":null,
"since":"2026-08-21T06:00:00.000Z","until":"2026-08-21T22:20:00.000Z","rate_per_second":20,"state":"ready","total":1284,
"pending":1267,"queued":0,"delivered":0,"failed":0,"skipped":17,"canary":{"total":0,"delivered":0,"failed":0},
"by_destination":[{"id":"dst_1","total":1196,"failed":0,"top_error":null},
{"id":"dst_gone","total":88,"failed":0,"top_error":null}],"eta_seconds":64,"stop_reason":null,
"created_at":"2026-08-21T22:20:00.000Z","started_at":null,"finished_at":null,"deadline_at":"2026-08-22T22:20:00.000Z",
"created_by":"usr_1"}`

func jobIn(state string, more ...string) string {
	return strings.NewReplacer(append(more, `"state":"ready"`, `"state":"`+state+`"`)...).Replace(recoveryJSON)
}

const recoveryItemsJSON = `{"data":[{"id":"ritem_2","event_id":"evt_0000000000000000000000000b","event_type":"a<b>",
"destination_id":"dst_1","state":"skipped","skipped_reason":"already_delivered","canary":false,"attempts":0,
"last_response_status":null,"last_error_code":null,"updated_at":"2026-08-21T22:21:00.000Z"},
{"id":"ritem_1","event_id":"evt_0000000000000000000000000a","event_type":null,"destination_id":"dst_gone",
"state":"failed","skipped_reason":null,"canary":true,"attempts":2,"last_response_status":500,
"last_error_code":"http_status","updated_at":"2026-08-21T22:21:00.000Z"}],"next_cursor":"c2"}`

// recoveryRig answers the calls of the pages of recoveries.
func recoveryRig(t *testing.T) *rig {
	r := newEndpointRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/recoveries", http.StatusOK, `{"data":[`+recoveryJSON+`],"next_cursor":"c2"}`)
	r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, recoveryJSON)
	r.api.on("GET /v1/recoveries/rec_1/items", http.StatusOK, recoveryItemsJSON)
	r.api.on("POST /v1/recoveries", http.StatusCreated, recoveryJSON)
	r.api.on("GET /v1/events", http.StatusOK, strings.NewReplacer(`"held","reason":"breaker_open"`,
		`"failed","reason":"attempts_exhausted"`).Replace(oneEvent))
	return r
}

// formOf returns the fields of the form that is sent to path.
func (a *answer) formOf(path string) url.Values {
	a.t.Helper()
	if !strings.Contains(a.body, `action="`+path+`"`) {
		a.t.Fatalf("the page has no form for %s: %s", path, a.main())
	}
	return a.fields(path)
}

// From the choice of an endpoint to the end, with the forms alone: no script is needed.
func TestRecoveryWithoutScripts(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	b.get(ui.RecoveriesPath).want(200, "<small>by ops@example.com</small>", "<small>expires ",
		`href="/app/recoveries/new"`,
		"payments", "1,284", "c2")
	b.get("/app/recoveries/new").want(200, `<option value="ep_1"`, `value="2026-08-20T22:24:00Z"`)
	r.api.on("GET /v1/events/evt_0000000000000000000000000a", http.StatusOK, `{"deliveries":[{"destination_id":"dst_2",
		"reason":"attempts_exhausted","why":"of another"},{"destination_id":"dst_1","reason":"attempts_exhausted",
		"why":"failed: all used up; attempt 3 failed (HTTP 503)"}]}`)
	b.get("/app/recoveries/new"+"?endpoint_id=ep_1&since=2026-08-21").want(200, "attempt 3 failed (HTTP 503)")
	delete(r.api.responses, "GET /v1/events/evt_0000000000000000000000000a")
	page := b.get("/app/recoveries/new"+"?endpoint_id=ep_1&since=2026-08-21").want(200, "attempts_exhausted",
		"held: breaker &lt;open&gt;", "Counted in the newest 1 failed events", "Show the events", "All that are enabled")
	form := page.formOf(ui.RecoveriesPath)
	form.Set("rate_per_second", "20")
	b.post(ui.RecoveriesPath, form).wantRedirect("/app/recoveries/rec_1")
	call := r.api.calls[len(r.api.calls)-1]
	if want := `{"endpoint_id":"ep_1","rate_per_second":20,"since":"2026-08-21"}`; call.Body != want ||
		call.Key != form.Get("nonce") {
		t.Errorf("prepared by %s with the key %s", call.Body, call.Key)
	}
	for _, x := range []struct{ state, action, says string }{
		{"preparing", "cancel", "Nothing is sent"},
		{"ready", "canary", "Send a canary of 5"},
		{"ready", "cancel", "Nothing was sent yet"},
		{"canary_running", "cancel", "three attempts within about 12 s"},
		{"awaiting_approval", "continue", "The canary passed. Send the other 1,267?"},
		{"awaiting_approval", "cancel", "about 1\u00a0min 4\u00a0s"},
		{"running", "cancel", "20 deliveries a second"},
	} {
		r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn(x.state))
		r.api.on("POST /v1/recoveries/rec_1", http.StatusOK, recoveryJSON)
		page := b.get("/app/recoveries/rec_1").want(200, x.says, `http-equiv="refresh"`, `data-live="/app/recoveries/rec_1"`,
			"in 24\u00a0h", "2026-08-22")
		form := page.formOf("/app/recoveries/rec_1/" + x.action)
		b.post("/app/recoveries/rec_1/"+x.action, form).wantRedirect("/app/recoveries/rec_1")
		call := r.api.calls[len(r.api.calls)-1]
		if call.Body != `{"action":"`+x.action+`"}` || call.Key != form.Get("nonce") {
			t.Errorf("%s in %s: %s with the key %s", x.action, x.state, call.Body, call.Key)
		}
	}
}

// A job whose destination is paused sends nothing and does not say that it does.
func TestRecoveryIsHeldWhileItsDestinationIsPaused(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/endpoints/ep_1", http.StatusOK, strings.Replace(sampleEndpoint, `"enabled":true,"paused":false,
"timeout_seconds"`, `"enabled":true,"paused":true,
"timeout_seconds"`, 1))
	for state, says := range map[string][]string{
		"ready": {"The destination billing is paused: what is sent waits until that ends."},
		"canary_running": {"Held: the destination billing is paused. The canary: 0 of 5 delivered.",
			"It goes on when that ends.", "held or sent, no result yet"},
		"running": {"Held: the destination billing is paused.", "It goes on when that ends."},
	} {
		r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn(state, `"canary":{"total":0`, `"canary":{"total":5`,
			`"created_by":"usr_1"`, `"created_by":"usr_1","warnings":[{"param":"destination_id","message":"dst_1 is paused"}]`))
		main := b.get("/app/recoveries/rec_1").want(200, says...).main()
		for _, wrong := range []string{"on its way:", "deliveries a second", "estination_id", ">sent, no result yet"} {
			is.Lacks(t, main, wrong, "%s: the page has %q", state, wrong)
		}
	}
}

// What has ended offers no action but the same again, says why it ended, and is not fetched again.
func TestEndedRecoveries(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	for state, says := range map[string]string{
		"completed": "Completed: 0 of 1,284 delivered, 17 skipped", "stopped": "A delivery failed for good",
		"cancelled": "Cancelled: 0 of 1,284", "expired": "Expired: 0 of 1,284", "failed": "It could not be prepared",
	} {
		r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn(state, `"stop_reason":null`,
			`"stop_reason":"delivery_failed"`, `"finished_at":null`, `"finished_at":"2026-08-21T22:23:00.000Z"`))
		main := b.get("/app/recoveries/rec_1").want(200, says, "Prepare the same again",
			`href="/app/recoveries/new?endpoint_id=ep_1&amp;rate_per_second=20&amp;since=2026-08-21T06%3A00%3A00.000Z"`).main()
		if strings.Contains(main, `method="post"`) || strings.Contains(main, "data-live") ||
			strings.Contains(main, `http-equiv="refresh"`) {
			t.Errorf("%s: %s", state, main)
		}
	}
}

// The counters of the page are those of one answer of the API, and the sum stands beside them.
func TestRecoveryShowsEveryCounter(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn("running",
		"\n\"pending\":1267,\"queued\":0,\"delivered\":0,\"failed\":0",
		"\n\"pending\":1000,\"queued\":60,\"delivered\":205,\"failed\":2", `"canary":{"total":0,"delivered":0`,
		`"canary":{"total":5,"delivered":5`))
	page := b.get("/app/recoveries/rec_1", "Relay-Part", "job").want(200,
		`data-counter="total">1,284<`, `data-counter="pending">1,000<`, `data-counter="queued">60<`,
		`data-counter="delivered">205<`, `data-counter="failed">2<`, `data-counter="skipped">17<`, "5 of 5",
		"205 delivered and 2 failed of 1,284")
	if !strings.HasPrefix(page.body, `<div id="job"`) || strings.Contains(page.body, `id="items"`) {
		t.Errorf("the part is %s", page.body)
	}
	reads := 0
	for _, c := range r.api.calls {
		if c.Path == "/v1/recoveries/rec_1" {
			reads++
		}
	}
	is.Equal(t, reads, 1, "the job was read … times for one page")
}

// Items say what came of them, with the type of their event; those of the canary stand alone too.
func TestRecoveryItemsSayWhy(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn("stopped", `"canary":{"total":0,"delivered":0`,
		`"canary":{"total":5,"delivered":4`))
	b.get("/app/recoveries/rec_1?state=failed").want(200, "it was delivered meanwhile (already_delivered)", "a&lt;b&gt;",
		"answered 500 (http_status)", "dst_gone", `<span class="tag">canary</span>`, "h-c",
		`href="/app/recoveries/rec_1?cursor=c2&amp;state=failed"`)
	asked := map[string]bool{}
	for _, c := range r.api.calls {
		if strings.HasSuffix(c.Path, "/items") {
			asked[c.Query.Encode()] = true
		}
	}
	if !asked["canary=true"] || !asked["limit=50&state=failed"] {
		t.Errorf("items were asked for by %v", asked)
	}
}

// An action that the state of the job does not allow any more changes nothing: the page says so and shows the state.
func TestRecoveryThatMovedOn(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	form := b.get("/app/recoveries/rec_1").formOf("/app/recoveries/rec_1/canary")
	r.api.on("GET /v1/recoveries/rec_1", http.StatusOK, jobIn("awaiting_approval"))
	r.api.on("POST /v1/recoveries/rec_1", http.StatusBadRequest,
		`{"error":{"type":"invalid_state","message":"action: canary is not allowed","param":"action"}}`)
	b.post("/app/recoveries/rec_1/canary", form).want(400, "Not done: Canary is not allowed.", "The canary passed")
	r.api.on("POST /v1/recoveries/rec_1", http.StatusServiceUnavailable, logAway)
	b.post("/app/recoveries/rec_1/canary", form).want(503, "Your change was not confirmed")
	b.get("/app/recoveries/rec_9").want(404, "no such recovery", `class="b" href="/app/recoveries"`)
}

// A form that the API refuses shows the error at its field and keeps what was entered.
func TestRecoveryFormErrors(t *testing.T) {
	r := recoveryRig(t)
	b := r.signedIn()
	form := b.get("/app/recoveries/new" + "?endpoint_id=ep_1").formOf(ui.RecoveriesPath)
	form.Set("rate_per_second", "500")
	r.api.on("POST /v1/recoveries", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"rate_per_second: must be 1 to 100","param":"rate_per_second"}}`)
	b.post(ui.RecoveriesPath, form).want(400, `role="alert">Not prepared. `, "Must be 1 to 100.", `value="500"`,
		`href="#f-rate_per_second"`)
	r.api.on("GET /v1/events", http.StatusServiceUnavailable, storeAway)
	b.get("/app/recoveries/new"+"?endpoint_id=ep_1").want(200, "The event store is unavailable", "Recover orders")
	b.get("/app/recoveries/new"+"?endpoint_id=ep_9").want(400, `role="alert"><a href`, "it may have been deleted")
	r.people.person.Scope = config.Read
	b.get("/app/recoveries/new").want(403)
}

// A recovery of several endpoints is a job for each, with a key of its own, so that a second submit prepares none
// twice. One that is refused does not keep the others from theirs.
func TestRecoverSeveralEndpoints(t *testing.T) {
	r := recoveryRig(t)
	failed := func(endpoint string) string {
		return `{"id":"evt_1","endpoint_id":"` + endpoint + `","status":"failed","deliveries":[]}`
	}
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[`+failed("ep_1")+","+failed("ep_2")+","+failed("ep_1")+","+
		failed("ep_gone")+`]}`)
	r.api.on("GET /v1/endpoints/ep_2", http.StatusOK, strings.NewReplacer(`"ep_1"`, `"ep_2"`, `"orders"`, `"<b>refunds"`).
		Replace(sampleEndpoint))
	b := r.signedIn()
	form := b.get("/app/recoveries/new?since=2026-08-21").want(200, "payments</a> <small>2\u00a0failed events",
		"&lt;b&gt;refunds", "Recover several endpoints").formOf(ui.RecoveriesPath)
	if got := form["endpoint_id"]; len(got) != 2 || got[0] != "ep_1" || got[1] != "ep_2" {
		t.Fatalf("the form has the endpoints %v", got)
	}
	r.api.responses["POST /v1/recoveries"] = func(c apiCall) (int, http.Header, string) {
		if strings.Contains(c.Body, "ep_2") {
			return 400, nil, `{"error":{"type":"invalid_state","message":"nothing has failed"}}`
		}
		return 201, nil, recoveryJSON
	}
	b.post(ui.RecoveriesPath, form).wantRedirect(ui.RecoveriesPath)
	keys := map[string]bool{}
	for _, c := range r.api.calls {
		if c.Method == http.MethodPost {
			keys[c.Key] = true
		}
	}
	b.get(ui.RecoveriesPath).want(200, "Prepared 1\u00a0recovery. Not prepared: &lt;b&gt;refunds: Nothing has failed.")
	is.Equal(t, len(keys), 2, "the keys are %v", keys)
	var many []string
	for i := range 11 {
		id := "ep_many" + string(rune('a'+i))
		many = append(many, failed(id))
		r.api.on("GET /v1/endpoints/"+id, http.StatusOK, strings.ReplaceAll(sampleEndpoint, `"ep_1"`, `"`+id+`"`))
	}
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[`+strings.Join(many, ",")+`]}`)
	if got := b.get("/app/recoveries/new").formOf(ui.RecoveriesPath)["endpoint_id"]; len(got) != 10 {
		t.Errorf("%d of 11 endpoints are chosen, want 10", len(got))
	}
	all := url.Values{"nonce": {newNonce()}, "since": {"24h"}, "rate_per_second": {"1"}}
	for i := range 11 {
		all.Add("endpoint_id", "ep_many"+string(rune('a'+i)))
	}
	calls := r.changes()
	if b.post(ui.RecoveriesPath, all).want(400, "at most 10 endpoints"); r.changes() != calls {
		t.Error("some of too many endpoints are recovered")
	}
	form["endpoint_id"] = []string{"ep_2", "ep_2"}
	b.post(ui.RecoveriesPath, form).want(400, "Nothing has failed")
}

const runJSON = `{"run_id":"run_1","object":"replay_run","filter":{"endpoint_id":"ep_1","status":["failed"],
"type":"order<b>"},"since":"2026-08-20T00:00:00.000Z","until":"2026-08-21T00:00:00.000Z","state":"queued","events":1000,
"queued":1200,"delivered":600,"failed":30,"skipped":10,"created_at":"2026-08-21T22:20:36.000Z","created_by":"usr_1"}`

func replayRig(t *testing.T) *rig {
	t.Helper()
	r := newEndpointRig(t)
	r.api.on("GET /v1/replays", 200, `{"data":[`+runJSON+`],"next_cursor":"c2"}`)
	r.api.on("GET /v1/replays/run_1", 200, runJSON)
	return r
}

// From a selection to its run: the dry run says how many deliveries there are and how long they take, and the button
// that sends them repeats the number and the selection.
func TestReplayFromSelectionToRun(t *testing.T) {
	r := replayRig(t)
	b := r.signedIn()
	named := "endpoint orders · status failed"
	b.get("/app/replays/run_1").want(200, named)
	b.get(ui.ReplaysPath+"?state=queued").want(200, named, "sending", "order&lt;b&gt;", "1,200", "ops@example.com",
		`href="/app/replays/run_1"`, "cursor=c2", `href="/app/csv/replays?state=queued"`)
	r.api.on("POST /v1/replays", 200, `{"events":1000,"queued":1200,"run_id":null,"truncated":false,
"warnings":[{"param":"status","message":"3 of these events are delivered unchecked"}]}`)
	form := b.get(ui.NewReplayPath+"?endpoint_id=ep_1&status=failed&unknown=1").want(200,
		`value="2026-08-20T22:24:00Z"`).
		fields("/app/replays/dry-run")
	if form.Get("endpoint_id") != "ep_1" || form.Get("status") != "failed" || form.Get("rate_per_second") != "50" {
		t.Errorf("the form begins with %v", form)
	}
	form.Set("rate_per_second", "20")
	page := b.post("/app/replays/dry-run", form).want(200, "1,000 events are selected", "1,200 deliveries",
		"about 1\u00a0min 0\u00a0s", "delivered unchecked", "Send 1,200 deliveries")
	sent := r.api.calls[len(r.api.calls)-2] // then the page reads the catalogue
	if want := `{"dry_run":true,"endpoint_id":"ep_1","only_undelivered":true,"rate_per_second":20,` +
		`"since":"2026-08-20T22:24:00Z","status":"failed"}`; string(sent.Body) != want {
		t.Errorf("the dry run sends %s, want %s", sent.Body, want)
	}
	start := page.fields(ui.ReplaysPath)
	if start.Get("nonce") == form.Get("nonce") || start.Get("status") != "failed" || start.Has("until") {
		t.Errorf("the run begins with %v", start)
	}
	r.api.on("POST /v1/replays", 200, `{"events":1000,"queued":1200,"run_id":"run_1","truncated":false}`)
	b.post(ui.ReplaysPath, start).wantRedirect("/app/replays/run_1")
	if last := r.api.calls[len(r.api.calls)-1]; strings.Contains(string(last.Body), "dry_run") ||
		last.Key != start.Get("nonce") {
		t.Errorf("the run is started with %s under %q", last.Body, last.Key)
	}
	r.api.on("POST /v1/replays", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"rate_per_second: must be an integer from 1 to 100",`+
			`"param":"rate_per_second"}}`)
	form.Set("rate_per_second", "500")
	b.post("/app/replays/dry-run", form).want(400, `value="500"`, `role="alert"><a href="#f-rate_per_second">`,
		"Must be an integer from 1 to 100")
	r.api.on("POST /v1/replays", http.StatusServiceUnavailable, storeAway)
	b.post(ui.ReplaysPath, start).want(503, "The event store is unavailable")
	r.api.on("POST /v1/replays", 200, `{"events":0,"queued":0,"run_id":null,"truncated":false}`)
	if nothing := b.post("/app/replays/dry-run", form).want(200, "No event is selected"); strings.Contains(nothing.body,
		"do-replay") {
		t.Error("there is a button that sends nothing")
	}
}

// The page of a run shows how far it is until it ends, and cancels it. A person who may only read sees no action.
func TestReplayProgressAndCancel(t *testing.T) {
	r := replayRig(t)
	b := r.signedIn()
	page := b.get("/app/replays/run_1").want(200, "560\u00a0deliveries are open", `data-counter="delivered">600<`,
		`width="500"`, `width="25"`, `data-live="/app/replays/run_1"`, "by ops@example.com", "Cancel replay")
	r.api.on("POST /v1/replays/run_1", 200, runJSON)
	form := page.fields("/app/replays/run_1/cancel")
	b.post("/app/replays/run_1/cancel", form).wantRedirect("/app/replays/run_1")
	if last := r.api.calls[len(r.api.calls)-1]; string(last.Body) != `{"action":"cancel"}` ||
		last.Key != form.Get("nonce") {
		t.Errorf("cancelled with %s under %q", last.Body, last.Key)
	}
	state := func(state, counts string) string {
		text := strings.ReplaceAll(runJSON, `"state":"queued"`, `"state":"`+state+`"`)
		return strings.ReplaceAll(text, `"skipped":10`, counts)
	}
	for _, x := range []struct{ run, text string }{
		{state("cancelled", `"skipped":10`), "within an hour at the latest"},
		{state("cancelled", `"skipped":570`), "was skipped (run_stopped)"},
		{state("queued", `"skipped":570`), "Every delivery has ended"},
	} {
		r.api.on("GET /v1/replays/run_1", 200, x.run)
		if a := b.get("/app/replays/run_1").want(200, x.text); strings.Contains(a.body, "dlg-cancel") {
			t.Errorf("a run with %q can be cancelled", x.text)
		}
	}
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","endpoint_id":"ep_1","status":"failed",
		"deliveries":[{"destination_id":"dst_1","status":"failed","last_response_status":503}]}]}`)
	b.get("/app/replays/run_1").want(200, "30 of 1,200 failed; the newest: ", "answered 503", "ended, 30 failed",
		`href="/app/events?run_id=run_1&amp;status=failed"`, "Replay failures", `status=failed&amp;`)
	r.api.on("GET /v1/replays/run_1", 200, runJSON)
	r.people.person.Scope = "read"
	reader := r.signedIn()
	for _, path := range []string{ui.ReplaysPath, "/app/replays/run_1"} {
		if main := reader.get(path).want(200).main(); strings.Contains(main, `method="post"`) ||
			strings.Contains(main, "New replay") {
			t.Errorf("%s shows actions to a person who may only read", path)
		}
	}
	reader.get(ui.NewReplayPath).want(403)
	r.api.on("GET /v1/replays/run_1", 404, `{"error":{"type":"not_found","message":"there is no such run"}}`)
	b.get("/app/replays/run_1").want(404, "no such replay")
	r.api.on("GET /v1/replays", http.StatusServiceUnavailable, storeAway)
	b.get(ui.ReplaysPath).want(503, "The event store is unavailable")
}
