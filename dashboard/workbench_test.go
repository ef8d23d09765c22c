package dashboard

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const workbenchOf = "/app/endpoints/ep_1/workbench"

// newWorkbenchRig is a dashboard whose endpoint has a transformation, and one event.
func newWorkbenchRig(t *testing.T) *rig {
	t.Helper()
	r := newEndpointRig(t)
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"transformation":null`,
		`"transformation":{"ops":[{"op":"drop","paths":["/a"]},{"op":"wrap","key":"k"}]},"transformation_version":4,
		"transformation_versions":[{"version":4,"created_at":"2026-08-21T22:00:00.000Z",
		"created_by":{"type":"user","id":"usr_1","name":"ops@example.com"},"operations":2},
		{"version":3,"created_at":"2026-08-20T22:00:00.000Z","created_by":{"type":"key","id":"key_1","name":null},
		"operations":0}]`, 1))
	r.api.on("GET /v1/endpoints/ep_1/transformation/versions", 200, `{"data":[{"version":4,
		"created_at":"2026-08-21T22:00:00.000Z","created_by":{"type":"user","id":"usr_1","name":"ops@example.com"},
		"operations":2,"restorable":true,"transformation":{"ops":[{"op":"drop","paths":["/a"]},{"op":"wrap","key":"k"}]}},
		{"version":3,"created_at":"2026-08-20T22:00:00.000Z","created_by":{"type":"key","id":"key_1","name":null},
		"operations":0,"restorable":true,"transformation":null},
		{"version":2,"created_at":"2026-08-19T22:00:00.000Z","created_by":{"type":"key","id":"key_1","name":null},
		"operations":1,"restorable":true,"transformation":{"ops":[{"op":"wrap","key":"old"}]}},
		{"version":1,"created_at":"2026-08-18T22:00:00.000Z","created_by":{"type":"key","id":"key_1","name":null},
		"operations":3,"restorable":false,"transformation":null}]}`)
	r.api.on("GET /v1/events", 200,
		`{"data":[{"id":"evt_1","type":"order.paid","received_at":"2026-08-21T22:00:00.000Z"}]}`)
	r.api.on("POST /v1/endpoints/ep_1/transformation/preview", 200, `{"ok":true,"output":{"k":{}},
		"output_text":"{\"k\":{}}","bytes_in":9,"bytes_out":8,"masked":1,
		"steps":[{"index":0,"op":"drop","changed_total":60,"warnings":["nothing at /b"],
		"changed":[{"change":"removed","pointer":"/a","from":null,"before":"\"<script>\"","after":null}]},
		{"index":1,"op":"wrap","changed_total":1,"warnings":[],
		"changed":[{"change":"moved","pointer":"/k","from":"","before":null,"after":null}]}]}`)
	return r
}

// The page shows operations, samples, versions and what saving changes. A preview shows what each operation does.
func TestWorkbench(t *testing.T) {
	r := newWorkbenchRig(t)
	b := r.signedIn()
	page := b.get(workbenchOf).want(200, "Save as version 5", "version 4 is in use", "order.paid", "ops@example.com",
		"key_1", "2\u00a0operations", "none: bodies are delivered as they are stored", "to 2\u00a0destinations")
	form := page.fields(workbenchOf)
	lines := []string{"[", `  {"op":"drop","paths":["/a"]},`, `  {"op":"wrap","key":"k"}`, "]"}
	is.Equal(t, form.Get("transformation"), strings.Join(lines, "\r\n"), "the form holds")
	if r.changes() > 0 {
		t.Error("the page was a change")
	}
	if form.Get("sample") != "evt_1" || !strings.Contains(form.Get("sample_text"), "SAMPLE-1") {
		t.Errorf("the sample is %q, its text %q", form.Get("sample"), form.Get("sample_text"))
	}
	form.Set("sample", "")
	form.Set("sample_text", `{"a": 1.50}`)
	if shown := b.post(workbenchOf, form).want(200); strings.Contains(shown.main(), "Not saved") {
		t.Error("the operations in use are shown as not saved")
	}
	form.Set("transformation", `[{"op":"wrap","key":"k"},{"op":"drop","paths":["/a"]}]`)
	b.post(workbenchOf, form).want(200, "1. drop", "Not saved. ", "60 changes, the first 1 below", "nothing at /b",
		"&#34;&lt;script&gt;&#34;", "the whole document → /k", "Credentials in the event were masked", "&#34;k&#34;: {}",
		"<b>Before</b>", "&#34;a&#34;: 1.50")
	body := r.lastBody("POST", "/v1/endpoints/ep_1/transformation/preview")
	if body["sample_text"] != `{"a": 1.50}` || body["sample"] != nil || len(body["ops"].([]any)) != 2 {
		t.Errorf("previewed %v", body)
	}
	form.Set("sample", "evt_1")
	form.Set("transformation", "")
	b.post(workbenchOf, form).want(200)
	body = r.lastBody("POST", "/v1/endpoints/ep_1/transformation/preview")
	if body["sample"] != "evt_1" || body["sample_text"] != nil || len(body["ops"].([]any)) != 0 {
		t.Errorf("previewed %v", body)
	}
	b.get(workbenchOf+"?sample=evt_of_last_week").want(200, "1. drop", `value="evt_of_last_week" selected`)

	// Without the store there are no events to choose from, and texts still work.
	r.api.on("GET /v1/events", 503, `{"error":{"type":"unavailable","message":"the store does not answer"}}`)
	b.get(workbenchOf).want(200, "The store does not answer", "Save as version 5")
}

// A failure stands at its operation, an invalid operation at its field, and a text that is no JSON is not sent.
func TestWorkbenchErrors(t *testing.T) {
	const preview = "POST /v1/endpoints/ep_1/transformation/preview"
	r := newWorkbenchRig(t)
	b := r.signedIn()
	form := b.get(workbenchOf).fields(workbenchOf)
	r.api.on(preview, 200, `{"ok":false,"output":null,"output_text":null,"bytes_in":9,"bytes_out":0,"masked":0,
		"error":{"index":1,"pointer":"/c<b>","message":"is taken"},"steps":[{"index":0,"op":"drop","changed_total":0,
		"changed":[],"warnings":[]},{"index":1,"op":"rename","changed_total":0,"changed":[],"warnings":[]}]}`)
	a := b.post(workbenchOf, form).want(200, "An operation fails, so this body would not be sent")
	_, second, _ := strings.Cut(a.body, "2. rename")
	if !strings.Contains(second, "<code>/c&lt;b&gt;</code>: is taken") || !strings.Contains(second, ">failed<") {
		t.Errorf("the failure is not at its operation: %s", a.main())
	}
	r.api.on(preview, 200, `{"ok":false,"output":null,"output_text":null,"bytes_in":9,"bytes_out":0,"masked":0,"steps":[],
		"error":{"index":null,"pointer":"","message":"the member a appears twice"}}`)
	b.post(workbenchOf, form).want(200, "This body can never be transformed", "appears twice")
	r.api.on(preview, 400, `{"error":{"type":"invalid_request","message":"ops[1].key: is required","param":"ops[1].key"}}`)
	a = b.post(workbenchOf, form).want(400, "Operation 2: key is required", `href="#f-transformation"`)
	is.Has(t, a.fields(workbenchOf).Get("transformation"), `"wrap"`, "the entry is lost")
	calls := r.changes()
	form.Set("transformation", "[\r\n {]")
	for _, path := range []string{workbenchOf, workbenchOf + "/save"} {
		refused := b.post(path, form).want(400, "The text is no JSON: line 2")
		if saves := path != workbenchOf; saves != strings.Contains(refused.main(), "Not saved. ") {
			t.Errorf("%s: what was not saved is %s", path, refused.main())
		}
	}
	is.Equal(t, r.changes(), calls, "what is no JSON was sent")
}

// Operations are added from fields, moved and removed without JSON, and each of these previews; paths of the sample
// are offered as JSON Pointers.
func TestWorkbenchRows(t *testing.T) {
	r := newWorkbenchRig(t)
	b := r.signedIn()
	form := b.get(workbenchOf).want(200, "<code>drop /a</code>", "<code>wrap  in k</code>", `value="raise 1"`).
		fields(workbenchOf)
	form.Del("row")
	form.Set("sample", "") // its only preview is that of the operations
	ops := func() string {
		return string(web.Encode(r.lastBody("POST", "/v1/endpoints/ep_1/transformation/preview")["ops"]))
	}
	for _, x := range []struct{ op, place, to, want string }{
		{"rename", "/x", "/y", `{"from":"/x","op":"rename","to":"/y"}`},
		{"pick", "/a, /b", "", `{"op":"pick","paths":["/a","/b"]}`},
		{"add", "/n", "1.50", `{"op":"add","path":"/n","value":1.50}`},
		{"add", "/s", "<t>", `{"op":"add","path":"/s","value":"<t>"}`},
		{"wrap", "", "data", `{"key":"data","op":"wrap"}`},
	} {
		added := maps.Clone(form)
		for name, value := range map[string]string{"row": "add", "row_op": x.op, "row_path": x.place, "row_to": x.to} {
			added.Set(name, value)
		}
		page := b.post(workbenchOf, added).want(200, "All operations succeed")
		is.Has(t, page.fields(workbenchOf).Get("transformation"), x.want, "%s becomes", x.op)
	}
	form.Set("row", "raise 1")
	if b.post(workbenchOf, form); !strings.HasPrefix(ops(), `[{"key":"k","op":"wrap"},`) {
		t.Errorf("raised: %s", ops())
	}
	form.Set("row", "remove 0")
	if b.post(workbenchOf, form); strings.Contains(ops(), "drop") {
		t.Errorf("removed: %s", ops())
	}
	for _, row := range []string{"remove 7", "remove -1", "raise x", "other"} {
		form.Set("row", row)
		if b.post(workbenchOf, form); !strings.HasPrefix(ops(), `[{"op":"drop"`) {
			t.Errorf("%s: %s", row, ops())
		}
	}
	form.Set("sample", "")
	form.Set("sample_text", `{"a/b":{"c":[{"d~":1}]}}`)
	r.api.on("POST /v1/endpoints/ep_1/transformation/preview", 400, `{"error":{"message":"x"}}`)
	b.post(workbenchOf, form).want(400, `<option value="/a~1b/c/*/d~0">`)
}

// Saving sends the operations alone, and nothing if they are the same or somebody else has changed them.
func TestWorkbenchSaves(t *testing.T) {
	r := newWorkbenchRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"transformation":null`,
		`"transformation":null,"transformation_version":5`, 1))
	b := r.signedIn()
	form := b.get(workbenchOf).fields(workbenchOf)
	b.post(workbenchOf+"/save", form).wantRedirect(workbenchOf)
	is.Equal(t, r.changes(), 0, "an unchanged form was saved")
	form.Set("transformation", " ")
	b.post(workbenchOf+"/save", form).wantRedirect(workbenchOf)
	if body := r.lastBody("PATCH", "/v1/endpoints/ep_1"); len(body) != 1 || body["transformation"] != nil {
		t.Errorf("saved %v", body)
	}
	b.get(workbenchOf).want(200, "Version 5 is saved")
	form.Set("version", "stale")
	b.post(workbenchOf+"/save", form).want(http.StatusBadRequest, "Somebody changed this")
	r.api.on("PATCH /v1/endpoints/ep_1", 400,
		`{"error":{"type":"invalid_request","message":"transformation[0].op: must be","param":"transformation[0].op"}}`)
	form = b.get(workbenchOf).fields(workbenchOf)
	form.Set("transformation", "[{}]")
	b.post(workbenchOf+"/save", form).want(400, "Operation 1: op must be", `href="#f-transformation"`)
}

// An event whose body could not be transformed leads to the workbench, with the event as its sample.
func TestFailedTransformationLeadsToTheWorkbench(t *testing.T) {
	const link = `href="/app/endpoints/ep_1/workbench?sample=evt_1"`
	b := eventRig(t, `"status":"skipped","reason":"filtered"`, `"status":"failed","reason":"transform_failed"`).signedIn()
	b.get(eventPath1).want(200, link, "Show the operation that failed")
	b = eventRig(t, `"status":"skipped","reason":"filtered"`, `"status":"failed","reason":"transform_failed",
		"transform_failure":{"transformation_version":3,"index":1,"pointer":"/a<b>","message":"is taken"}`).signedIn()
	b.get(eventPath1).want(200, strings.TrimSuffix(link, `"`)+`&amp;version=3"`,
		"Operation 2 of version 3 of the transformation failed at /a&lt;b&gt;: is taken.")
	b = eventRig(t, `"status":"skipped","reason":"filtered"`, `"status":"failed","reason":"transform_failed",
		"transform_failure":{"transformation_version":3,"index":null,"pointer":"","message":"the body is empty"}`).signedIn()
	b.get(eventPath1).want(200, "Version 3 of the transformation could not be applied: the body is empty.")
	if page := eventRig(t).signedIn().get(eventPath1); strings.Contains(page.body, link) {
		t.Error("another event has the link")
	}
}

// A read person previews and does not save.
func TestWorkbenchOfAReader(t *testing.T) {
	r := newWorkbenchRig(t)
	r.people.person.Scope = config.Read
	b := r.signedIn()
	a := b.get(workbenchOf).want(200, "Ask a person with the scope read_write to save")
	is.Lacks(t, a.body, workbenchOf+"/save", "a reader sees the button")
	form := a.fields(workbenchOf)
	b.post(workbenchOf, form).want(200, "1. drop")
	b.post(workbenchOf+"/save", url.Values{"nonce": form["nonce"]}).want(403)
}

// Operations that fail on the sample are saved only when the person has seen what that means, and asks again.
func TestWorkbenchAsksBeforeItSavesWhatFails(t *testing.T) {
	r := newWorkbenchRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"transformation":null`,
		`"transformation":null,"transformation_version":5`, 1))
	r.api.on("POST /v1/endpoints/ep_1/transformation/preview", 200, `{"ok":false,"output":null,"output_text":null,
		"bytes_in":9,"bytes_out":0,"masked":0,"error":{"index":1,"pointer":"/c","message":"is taken"},
		"steps":[{"index":0,"op":"drop","changed_total":0,"changed":[],"warnings":[]},
		{"index":1,"op":"wrap","changed_total":0,"changed":[],"warnings":[]}]}`)
	b := r.signedIn()
	saves := func() (n int) {
		for _, c := range r.api.calls {
			if c.Method == http.MethodPatch {
				n++
			}
		}
		return n
	}
	form := b.get(workbenchOf).fields(workbenchOf)
	form.Set("transformation", `[{"op":"drop","paths":["/b"]},{"op":"wrap","key":"k"}]`)
	asked := b.post(workbenchOf+"/save", form).want(200, "Not saved: the sample fails at operation 2",
		"Saving changes all deliveries from now on", "Save as version 5 all the same")
	must.Equal(t, saves(), 0, "it was saved at once")
	confirmed := asked.fields(workbenchOf)
	other := asked.fields(workbenchOf)
	other.Set("sample_text", "other")
	b.post(workbenchOf+"/save", other).want(200, "all the same") // the answer was about another sample
	b.post(workbenchOf+"/save", confirmed).wantRedirect(workbenchOf)
	is.Equal(t, saves(), 1, "saves")
	// A preview that cannot be made, and operations that end the transformation, are no reason to ask.
	form.Set("transformation", "[]")
	b.post(workbenchOf+"/save", form).wantRedirect(workbenchOf)
	r.api.on("POST /v1/endpoints/ep_1/transformation/preview", 503,
		`{"error":{"type":"unavailable","message":"the store does not answer"}}`)
	form.Set("transformation", `[{"op":"drop","paths":["/b"]}]`)
	b.post(workbenchOf+"/save", form).wantRedirect(workbenchOf)
}

// An earlier version is loaded into the form, from where it is previewed and saved as a new one.
func TestWorkbenchRestoresAVersion(t *testing.T) {
	r := newWorkbenchRig(t)
	b := r.signedIn()
	page := b.get(workbenchOf).want(200, `{&#34;op&#34;:&#34;wrap&#34;,&#34;key&#34;:&#34;old&#34;}`,
		workbenchOf+"?version=3", workbenchOf+"?version=2", "not kept any more", "in use")
	for _, link := range []string{"?version=4", "?version=1"} {
		is.Lacks(t, page.body, link, "the page offers %s", link)
	}
	restored := b.get(workbenchOf+"?version=2").want(200, "the operations of version 2, not saved", "Save as version 5")
	is.Has(t, restored.fields(workbenchOf).Get("transformation"), `"old"`, "the form holds")
	b.get(workbenchOf+"?version=2&sample=evt_1").want(200, "1. drop", "Not saved. ")
	for _, version := range []string{"1", "4", "9", "x"} {
		is.Has(t, b.get(workbenchOf+"?version="+version).fields(workbenchOf).Get("transformation"), `"drop"`,
			"version %s: the form holds", version)
	}
}

const oneAuditEntry = `{"data":[{"id":"aud_1","object":"audit_entry","at":"2026-08-21T22:20:36.000Z",
"actor":{"type":"user","id":"usr_1","name":"ops<b>@example.com"},"action":"endpoint.updated",
"entity":{"type":"endpoint","id":"ep_1"},"changes":["a1","a2","a3","a4","a5","a6","a7","a8","a9"],"request_id":"req_1",
"remote_ip":"192.0.2.1","use":null},
{"id":"aud_0","object":"audit_entry","at":"2026-08-21T22:00:00.000Z","actor":{"type":"key","id":"key_1","name":null},
"action":"key.used","entity":{"type":"key","id":"key_1"},"changes":[],"request_id":null,"remote_ip":null,
"use":{"count":1200,"last_at":"2026-08-21T22:10:00.000Z","node":"a"}}],"next_cursor":"c2"}`

// The audit log says who did what to what, from where; its links keep the filters.
func TestAuditLog(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/audit", http.StatusOK, oneAuditEntry)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	b := r.signedIn()
	page := b.get("/app/audit"+"?action=endpoint.*&actor=+usr_1+&other=x").want(200, "ops&lt;b&gt;@example.com",
		`<a href="/app/endpoints/ep_1">payments</a>`,
		"endpoint.updated", `href="/app/endpoints/ep_1"`, "192.0.2.1", "a8 and 1 more", "1,200\u00a0times until",
		`href="/app/audit?action=endpoint.%2A&amp;actor=usr_1&amp;cursor=c2"`,
		`href="/app/audit?action=endpoint.%2A&amp;actor=usr_1&amp;entity_id=ep_1"`,
		`href="/app/audit?action=endpoint.%2A&amp;actor=key_1"`, `name="action" value="endpoint.*"`)
	query := r.api.calls[len(r.api.calls)-1].Query
	is.Equal(t, query.Encode(), "action=endpoint.%2A&actor=usr_1&limit=50", "the API is asked for")
	is.Lacks(t, page.main(), "First page", "the first page leads to itself")
	r.api.on("GET /v1/audit", http.StatusOK, emptyList)
	b.get("/app/audit"+"?cursor=c2").want(200, "Nothing more", "Back to the first page")
	b.get("/app/audit"+"?actor=usr_9").want(200, "None match", "Remove the filters")
	b.get("/app/audit").want(200, "Nothing yet")
	r.api.on("GET /v1/audit", http.StatusServiceUnavailable, storeAway)
	b.get("/app/audit").want(503, "The event store is unavailable")
	r.api.on("GET /v1/audit", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"action: has \"x\", which is not an action","param":"action"}}`)
	b.get("/app/audit"+"?action=x").want(400, `href="#f-action"`, "which is not an action", "Nothing was searched")
}

const usageJSON = `{"period_start":"2026-08-01T00:00:00.000Z","period_end":"2026-09-01T00:00:00.000Z",
"as_of":"2026-08-21T22:24:30.000Z","events":{"received":9000,"sent":900,"findings":100,"total":10000},
"deliveries":12000,"attempts":12345,"bytes":4096,"allowance":8000,"remaining":0,"overage":{"events":2000},
"projection":{"events":15000,"overage_events":7000,"method":"last_7_days","confidence":"ok","overage_amount":null,
"currency":null},"by_endpoint":[{"endpoint_id":"ep_1","received":9000,"sent":900,"total":9900,"bytes":4096},
{"endpoint_id":"ep_gone","received":1,"sent":0,"total":1,"bytes":1}],
"daily":[{"date":"2026-08-20","received":4000,"sent":0,"findings":100,"total":4100,"bytes":1},
{"date":"2026-08-21","received":5000,"sent":900,"findings":0,"total":5900,"bytes":1}]}`

const usageDaysJSON = `{"object":"usage_days","from":"2026-07-23T00:00:00.000Z","to":"2026-08-22T00:00:00.000Z",
"as_of":"2026-08-21T22:24:30.000Z",
"daily":[{"date":"2026-08-19","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
{"date":"2026-08-20","received":40,"sent":0,"findings":5,"total":45,"bytes":1},
{"date":"2026-08-21","received":50,"sent":9,"findings":0,"total":59,"bytes":1}],
"by_endpoint":[{"endpoint_id":"ep_1","received":70,"sent":9,"total":79,"bytes":4096,
"daily":[{"date":"2026-08-21","received":70,"sent":9,"total":79,"bytes":4096}]},
{"endpoint_id":"ep_gone","received":1,"sent":0,"total":1,"bytes":1,"daily":[]}]}`

// The usage says what is used, allowed and expected, by day and endpoint; without the store the page says so.
func TestUsagePage(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/usage", http.StatusOK, usageJSON)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	b := r.signedIn()
	b.get("/app/usage").want(200, "<b>10,000</b>", "2,000 events above the allowance of 8,000", "125\u00a0% used",
		"15,000", "7,000 above the allowance", "at the rate of the last 7 days", "12,345",
		"2026-08-20</a></td><td class=\"r\">4,000</td>", `<rect class="ok"`,
		"10,000 events and findings in 2\u00a0days",
		`<a href="/app/endpoints/ep_1">payments</a>`, "<code>ep_gone</code>")
	// The last 30 days are drawn for all endpoints, or for one of them; each has a table.
	b.get("/app/usage").want(200, "104 events and findings in 3\u00a0days", "payments, events a day in the last 30 days",
		`href="/app/usage?endpoint_id=ep_1#h-l"`,
		`2026-08-20</a></td><td class="r">40</td><td class="r">0</td><td class="r">5</td></tr>`)
	b.get("/app/usage"+"?endpoint_id=ep_1").want(200, "Last 30 days of payments", "79 events of payments in 3\u00a0days",
		`2026-08-20</a></td><td class="r">0</td><td class="r">0</td></tr>`,
		`2026-08-21</a></td><td class="r">70</td><td class="r">9</td></tr>`)
	r.api.on("GET /v1/usage/daily", http.StatusServiceUnavailable, storeAway)
	b.get("/app/usage").want(200, "<b>10,000</b>", "The last 30 days cannot be read")
	free := strings.NewReplacer(`"allowance":8000,"remaining":0`, `"allowance":null,"remaining":null`,
		`"overage":{"events":2000}`, `"overage":{"events":0}`, `"confidence":"ok"`, `"confidence":"low"`).Replace(usageJSON)
	r.api.on("GET /v1/usage", http.StatusOK, free)
	if page := b.get("/app/usage").want(200, "<b>none</b>", "a rough number"); strings.Contains(page.main(), "% used") {
		t.Error("a share of no allowance is shown")
	}
	r.api.on("GET /v1/usage", http.StatusServiceUnavailable, storeAway)
	b.get("/app/usage").want(503, "The event store is unavailable")
}

// The months before this one have a page, which leads to their neighbours, and their own files.
func TestUsagePageOfAMonth(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	show := func(month, query string, want ...string) string {
		t.Helper()
		r.api.on("GET /v1/usage", http.StatusOK, strings.Replace(usageJSON, "2026-08", month, 1))
		return r.signedIn().get("/app/usage"+query).want(200, want...).main()
	}
	main := show("2026-08", "", `href="/app/usage?period=2026-07"`, "Projected for the month")
	is.Lacks(t, main, "Month after", "the page of this month leads to the next")
	main = show("2026-06", "?period=2026-06", `href="/app/usage?period=2026-05"`, `href="/app/usage?period=2026-07"`,
		"Usage of June 2026", "June 2026 by day", "Above the allowance",
		"/app/csv/usage-days?period=2026-06", "/app/csv/usage-endpoints?period=2026-06")
	if strings.Contains(main, "Projected") || strings.Contains(main, "30 days") || strings.Contains(main, "This month") {
		t.Error("a month that has ended has a projection or the last 30 days")
	}
	if got := r.api.calls[len(r.api.calls)-1]; got.Path != "/v1/usage" || got.Query.Encode() != "period=2026-06" {
		t.Errorf("the API is asked for %s?%s", got.Path, got.Query.Encode())
	}
	show("2026-07", "?period=2026-07", `href="/app/usage" rel="next"`)
	is.Lacks(t, show("2025-08", "?period=2025-08"), "Month before", "the page leads to a month that may not be kept")
	r.signedIn().get("/app/csv/usage-days?period=2026-06&other=1").want(200)
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Query.Encode(), "period=2026-06", "the file asks for")
}

// operationPages are pages of daily operation that every test of the group opens.
var operationPages = []string{"/app/audit", "/app/usage", ui.RecoveriesPath, "/app/recoveries/rec_1",
	ui.AlertHistoryPath, "/app/alerts/rules", "/app/alerts/channels"}

// A person with the scope read sees these pages without a control that would be refused.
func TestReadPersonSeesNoActionOfOperation(t *testing.T) {
	r := operationRig(t)
	r.people.person.Scope = config.Read
	b := r.signedIn()
	for _, path := range operationPages {
		main := b.get(path).want(200).main()
		is.Lacks(t, main, `method="post"`, "%s has a form that would be refused", path)
	}
}

// What others wrote is text on every page.
func TestForeignTextOfOperationIsHarmless(t *testing.T) {
	r := operationRig(t)
	const script = `<script>alert(1)</script>`
	for route, respond := range r.api.responses {
		r.api.responses[route] = func(c apiCall) (int, http.Header, string) {
			status, header, body := respond(c)
			return status, header, strings.ReplaceAll(body, "payments", script)
		}
	}
	b := r.signedIn()
	for _, path := range operationPages {
		is.Lacks(t, b.get(path+"?since="+url.QueryEscape(script)).want(200).body, "<script>alert",
			"%s runs a script", path)
	}
}

// operationRig answers the calls of these pages.
func operationRig(t *testing.T) *rig {
	r := recoveryRig(t)
	r.api.on("GET /v1/alerts", http.StatusOK, alertSettingsJSON)
	r.api.on("GET /v1/alerts/history", http.StatusOK, oneAlert)
	r.api.on("GET /v1/audit", http.StatusOK, strings.ReplaceAll(oneAuditEntry, "ops<b>", "payments"))
	r.api.on("GET /v1/usage", http.StatusOK, usageJSON)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	return r
}

// The rules of a destination are written beside what they say of the newest events; a fault stands at its field.
func TestRulesOfADestination(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/destinations/dst_1/rules"
	b.get(path).want(200, "1 of 2 pass", "fails for 1", "a&lt;b&gt;", "column 6", "/app/endpoints/ep_1/workbench?of=dst_1")
	form := b.get(path).fields(path)
	form.Set("filter.when", "body.n > 3")
	b.post(path, form).want(200, "1 of 2 pass")
	filterOf := func(method, path string) map[string]any {
		return r.lastBody(method, path)["filter"].(map[string]any)
	}
	is.Equal(t, filterOf("POST", "/v1/endpoints/ep_1/filter/preview")["when"], any("body.n > 3"), "condition")
	r.api.on("PATCH /v1/endpoints/ep_1/destinations/dst_1", 200, `{"id":"dst_1"}`)
	b.post(path+"/save", form).want(303)
	is.Equal(t, filterOf("PATCH", "/v1/endpoints/ep_1/destinations/dst_1")["when"], any("body.n > 3"), "saved condition")
	r.api.on("POST /v1/endpoints/ep_1/filter/preview", 400,
		`{"error":{"type":"invalid_request","message":"filter.when: line 1, column 6: x","param":"filter.when"}}`)
	b.post(path, form).want(400, "The filter cannot be used as it is", "line 1, column 6")
	r.api.on("POST /v1/endpoints/ep_1/filter/preview", 503, storeAway)
	b.get(path).want(200, "The newest events cannot be read now")
}

// The workbench of a destination edits its own operations; empty is that of the endpoint, [] is none.
func TestWorkbenchOfADestination(t *testing.T) {
	r := newWorkbenchRig(t)
	b := r.signedIn()
	const of = workbenchOf + "?of=dst_1"
	b.get(of).want(200, "that of the endpoint is in use", `name="of" value="dst_1"`)
	form := b.get(of).fields(workbenchOf)
	form.Set("transformation", `[{"op":"path","expr":"'/x'"}]`)
	r.api.on("PATCH /v1/endpoints/ep_1/destinations/dst_1", 200, `{"id":"dst_1"}`)
	b.post(workbenchOf+"/save", form).want(303)
	body := r.lastBody("PATCH", "/v1/endpoints/ep_1/destinations/dst_1")
	is.Equal(t, string(web.Encode(body["transformation"])), `[{"expr":"'/x'","op":"path"}]`+"\n", "operations")
}
