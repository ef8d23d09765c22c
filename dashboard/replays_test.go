package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
)

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
	b.get(frame.ReplaysPath+"?state=queued").want(200, named, "sending", "order&lt;b&gt;", "1,200", "ops@example.com",
		`href="/app/replays/run_1"`, "cursor=c2", `href="/app/csv/replays?state=queued"`)
	r.api.on("POST /v1/replays", 200, `{"events":1000,"queued":1200,"run_id":null,"truncated":false,
"warnings":[{"param":"status","message":"3 of these events are delivered unchecked"}]}`)
	form := b.get(frame.NewReplayPath+"?endpoint_id=ep_1&status=failed&unknown=1").want(200,
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
	start := page.fields(frame.ReplaysPath)
	if start.Get("nonce") == form.Get("nonce") || start.Get("status") != "failed" || start.Has("until") {
		t.Errorf("the run begins with %v", start)
	}
	r.api.on("POST /v1/replays", 200, `{"events":1000,"queued":1200,"run_id":"run_1","truncated":false}`)
	b.post(frame.ReplaysPath, start).wantRedirect("/app/replays/run_1")
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
	b.post(frame.ReplaysPath, start).want(503, "The event store is unavailable")
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
		{state("cancelled", `"skipped":10`), "at the latest within an hour"},
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
		`href="/app/events?run_id=run_1&amp;status=failed"`, "Replay what failed", `status=failed&amp;`)
	r.api.on("GET /v1/replays/run_1", 200, runJSON)
	r.people.person.Scope = "read"
	reader := r.signedIn()
	for _, path := range []string{frame.ReplaysPath, "/app/replays/run_1"} {
		if main := reader.get(path).want(200).main(); strings.Contains(main, `method="post"`) ||
			strings.Contains(main, "New replay") {
			t.Errorf("%s shows actions to a person who may only read", path)
		}
	}
	reader.get(frame.NewReplayPath).want(403)
	r.api.on("GET /v1/replays/run_1", 404, `{"error":{"type":"not_found","message":"there is no such run"}}`)
	b.get("/app/replays/run_1").want(404, "no such replay")
	r.api.on("GET /v1/replays", http.StatusServiceUnavailable, storeAway)
	b.get(frame.ReplaysPath).want(503, "The event store is unavailable")
}
