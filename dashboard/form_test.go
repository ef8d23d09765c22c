package dashboard

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const thingForm = `{{with .Data}}<form method="post">{{template "nonce" .}}{{template "problem" .}}` +
	`{{template "field" (field . "name" "label=Name" "hint=What it is" "required" "max=100")}}` +
	`{{template "area" (field . "text" "rows=3" "focus")}}</form>{{end}}`

// addThings adds a form that changes a thing of the API.
func (r *rig) addThings() {
	r.addPage(ui.Route{"GET", "/app/thing", ui.Reader, func(v *ui.Visit) error {
		return v.Page("thing", ui.NewForm(url.Values{"name": {"before"}}, "1"))
	}}, "thing", thingForm)
	r.addPage(ui.Route{"POST", "/app/thing", ui.Writer, func(v *ui.Visit) error {
		f, err := v.Form()
		if err != nil {
			return err
		}
		if f.Version != "1" {
			v.Status = f.SetStale("1", map[string]string{"name": "of somebody else", "text": f.Value("text")})
			return v.Page("thing", f)
		}
		err = v.Send("POST", "/v1/things", map[string]string{"name": f.Value("name")}, f.Nonce, nil)
		if e, ok := errors.AsType[*ui.APIError](err); ok {
			v.Status = f.SetError(e)
			return v.Page("thing", f)
		}
		return v.Redirect("/app", "Saved "+f.Value("name"))
	}}, "", "")
}

// A user has at most a few unanswered large forms. A small form, such as the one that ends all sessions, is always
// accepted.
func TestFormsOfAPersonAreBounded(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	nonce := []string{b.get("/app/thing").nonce()}
	large := url.Values{"nonce": nonce, "version": {"1"}, "name": {"after"}, "unused": {strings.Repeat("a", 4<<10)}}
	open := 0 // forms that wait for the answer of the API to the next one
	rig.api.responses["POST /v1/things"] = func(apiCall) (int, http.Header, string) {
		if open++; open < 16 {
			b.post("/app/thing", large).wantRedirect("/app")
		} else if open == 16 {
			b.post("/app/thing", large).want(http.StatusTooManyRequests, "Nothing was done")
			b.post("/app/thing", url.Values{"nonce": nonce, "version": {"1"}, "name": {"small"}}).wantRedirect("/app")
		}
		return 201, nil, `{}`
	}
	b.post("/app/thing", large).wantRedirect("/app")
	b.post("/app/thing", large).wantRedirect("/app")
}

// The nonce of a form is the Idempotency-Key of its call: a second submit is a repeat.
func TestNonceIsTheIdempotencyKey(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	rig.api.on("POST /v1/things", 201, `{}`)
	b := rig.signedIn()
	page := b.get("/app/thing").want(200, `value="before"`, `maxlength="100"`, `aria-describedby="f-name-hint"`)
	if page.nonce() == b.get("/app/thing").nonce() {
		t.Error("two forms have one nonce")
	}
	form := url.Values{"nonce": {page.nonce()}, "version": {"1"}, "name": {"after"}}
	for range 2 {
		b.post("/app/thing", form).wantRedirect("/app")
	}
	must.Equal(t, len(rig.api.calls), 2, "calls")
	for _, c := range rig.api.calls {
		if c.Key != page.nonce() || c.Body != `{"name":"after"}` || c.Principal.ID != "usr_1" ||
			c.Principal.Account != "acc_1" || c.Principal.Name != "ops@example.com" || c.Principal.Agent {
			t.Errorf("the call is %+v by %+v", c, c.Principal)
		}
	}
	b.get("/app").want(200, "Saved after")
	is.Lacks(t, b.get("/app").body, "Saved after", "the message is shown twice")
	for _, nonce := range []string{"", "x", strings.Repeat("x", 23), strings.Repeat("é", 11)} {
		b.post("/app/thing", url.Values{"nonce": {nonce}, "version": {"1"}}).want(400, "The form is incomplete")
	}
}

// A rejected form keeps what was typed and says at the field what to change.
func TestRejectedFormsSayWhatToChange(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"1"}, "name": {`<b>"`}, "text": {"a\nb"}}
	rig.api.on("POST /v1/things", 400,
		`{"error":{"type":"invalid_request","param":"name","message":"name: must be shorter"}}`)
	a := b.post("/app/thing", form).want(400, `value="&lt;b&gt;&#34;"`, "Must be shorter.", `aria-invalid="true"`,
		`Not saved. <a href="#f-name">Name</a>: Must be shorter.`, `id="f-name-err"`, ">\na\nb</textarea>",
		`required autofocus aria-invalid="true"`)
	is.Equal(t, strings.Count(a.body, " autofocus"), 1, "the focus is not on the field at fault alone")
	if a.nonce() == form.Get("nonce") {
		t.Error("a rejected form keeps its nonce, with which other values would be refused")
	}
	rig.api.on("POST /v1/things", 503, `{"error":{"type":"unavailable","message":"the log is away"}}`)
	if a := b.post("/app/thing", form).want(503, "The log is away."); a.nonce() != form.Get("nonce") {
		t.Error("a form that may have taken effect gets another nonce, with which it would do it twice")
	}
}

// A form that was drawn before somebody else's change replaces nothing without asking.
func TestStaleFormsAskAgain(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"0"}, "name": {"mine"}, "text": {"same"}}
	a := b.post("/app/thing", form).
		want(400, "Somebody changed this", `value="mine"`, "Stored now: <code>of somebody else")
	if len(rig.api.calls) > 0 || strings.Count(a.body, "Stored now") != 1 ||
		!strings.Contains(a.body, `name="version" value="1"`) {
		t.Errorf("%d calls; the page is %s", len(rig.api.calls), a.body)
	}
}

func TestFormsAreBounded(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	b.post("/app/thing", url.Values{"name": {strings.Repeat("x", 1048576)}}).want(400, "larger than 1048576 bytes")
	rig.browser().post("/app/sign-in", url.Values{"email": {strings.Repeat("x", 16384)}}).
		want(400, "larger than 16384 bytes")
	b.post("/app/thing", url.Values{}, "Content-Type", "multipart/form-data").want(400)
	b.post("/app/thing", url.Values{}, "Content-Type", "text/plain").want(400)
}

// A page says as of when its data is, and which error of the API it has.
func TestCallsOfTheAPI(t *testing.T) {
	rig := newRig(t)
	rig.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1"}]}`)
	b := rig.signedIn()
	rig.api.responses["GET /v1/overview"] = func(apiCall) (int, http.Header, string) {
		return 200, http.Header{"Relay-Data-As-Of": {"2026-08-21T22:20:36.000Z"}}, overviewJSON
	}
	b.get("/app").want(200, `Data as of <time datetime="2026-08-21T22:20:36.000Z">`, "4\u00a0min ago")
	rig.api.on("GET /v1/overview", 503, `{"error":{"type":"unavailable","message":"the store is away"}}`)
	b.get("/app").want(200, "the store is away", "still accepted")
	rig.api.responses["GET /v1/overview"] = func(apiCall) (int, http.Header, string) {
		return 429, http.Header{"Retry-After": {"3"}}, `{"error":{"type":"rate_limited","message":"too many"}}`
	}
	if a := b.get("/app").want(429, "Too many.", "Try again", `<span class="nb">22:24:40.000`); a.header.Get(
		"Retry-After") != "3" {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	rig.api.on("GET /v1/overview", 500, `not JSON`)
	b.get("/app").want(500, "Something failed")
}

// fields returns what a browser sends of the form with that action, unchanged.
func (a *answer) fields(action string) url.Values {
	a.t.Helper()
	_, form, found := strings.Cut(a.body, `action="`+action+`"`)
	if !found {
		a.t.Fatalf("there is no form %s: %s", action, a.main())
	}
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, at := range inputTag.FindAllStringSubmatchIndex(form, -1) {
		tag, kind := form[at[0]:at[1]], form[at[2]:at[3]]
		name := nameOf.FindStringSubmatch(tag)
		switch after := form[at[1]:]; {
		case name == nil:
		case kind == "textarea":
			text, _, _ := strings.Cut(strings.TrimPrefix(after, "\n"), "</textarea>")
			values.Add(name[1], strings.ReplaceAll(ui.UnixLines(unescape(text)), "\n", "\r\n")) // as browsers do
		case kind == "select":
			options, _, _ := strings.Cut(after, "</select>")
			if chosen := regexp.MustCompile(`value="([^"]*)" selected`).FindStringSubmatch(options); chosen != nil {
				values.Add(name[1], unescape(chosen[1]))
			} else if first := valueOf.FindStringSubmatch(options); first != nil {
				values.Add(name[1], unescape(first[1]))
			}
		case strings.Contains(tag, `type="checkbox"`) || strings.Contains(tag, `type="radio"`):
			if strings.Contains(tag, " checked") {
				values.Add(name[1], unescape(valueOf.FindStringSubmatch(tag)[1]))
			}
		default:
			value := valueOf.FindStringSubmatch(tag)
			values.Add(name[1], unescape(value[1]))
		}
	}
	return values
}

func unescape(text string) string {
	return html.UnescapeString(text)
}

// A form that is sent as it was drawn changes nothing: neither masks nor new lines are taken for new values.
func TestUnchangedFormsChangeNothing(t *testing.T) {
	for path, page := range map[string]string{
		"/app/endpoints/ep_1/settings": "", "/app/endpoints/ep_1/retries": "",
		"/app/endpoints/ep_1/destinations/dst_1/settings": "",
	} {
		r := newEndpointRig(t)
		b := r.signedIn()
		b.post(path, b.get(path+page).want(200).fields(path)).wantRedirect(path)
		if n := r.changes(); n > 0 {
			t.Errorf("%s: %d changes: %s", path, n, r.api.calls[len(r.api.calls)-1].Body)
		}
	}
}

// Only the members that were changed are sent.
func TestFormsSendOnlyWhatChanged(t *testing.T) {
	const endpoint, destination = "/app/endpoints/ep_1", "/app/endpoints/ep_1/destinations/dst_1/settings"
	for _, x := range []struct {
		path, api string
		change    url.Values
		want      string
	}{
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"name": {"new"}}, `{"name":"new"}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"description": {""}, "enabled": nil},
			`{"description":null,"enabled":false}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"dedup.key": {""}}, `{"dedup":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"dedup.window_seconds": {"60"}},
			`{"dedup":{"window_seconds":60}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"ingest_limit.events_per_second": {""}},
			`{"ingest_limit":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"ingest_limit.bytes_per_second": {"x"}},
			`{"ingest_limit":{"bytes_per_second":"x"}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"metadata": {`{"a":"b"}`}},
			`{"metadata":{"a":"b","team":null}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"alerts.channels": {"slack"}},
			`{"alerts":{"channels":["slack"]}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"verification.mode": {"off"}}, `{"verification":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", // refused: the secret would be lost
			url.Values{"verification.mode": {"off"}, "verification.secret": {"new secret"}},
			`{"verification":{"type":"shopify","mode":"off","tolerance_seconds":300,"secret":"new secret"}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"verification.mode": {"observe"}},
			`{"verification":{"type":"shopify","mode":"observe","tolerance_seconds":300}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1",
			url.Values{"verification.secret": {"new secret"}, "verification.keep": {"true"}},
			`{"verification":{"type":"shopify","mode":"enforce","tolerance_seconds":300,"secrets":["new secret","****c41e"]}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"provider": {"generic"}},
			`{"provider":"generic","verification":null}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1", url.Values{"retry_policy.schedule_seconds": {"5, 60 600"}},
			`{"retry_policy":{"schedule_seconds":[5,60,600]}}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1",
			url.Values{"retry_policy.strategy": {"linear"}, "retry_policy.interval_seconds": {"30"}},
			`{"retry_policy":{"strategy":"linear","interval_seconds":30}}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1", url.Values{"retry_policy.retry_on": {""}},
			`{"retry_policy":{"retry_on":[]}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"headers": {"Authorization: ****1234"}},
			`{"headers":{"Authorization":"****1234","X-Team":null}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"auth.username": {"other"}},
			`{"auth":{"username":"other"}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"auth.type": {""}}, `{"auth":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"filter.types": {""}, "filter.body": {""}},
			`{"filter":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"filter.types": {"a.b\r\nc.*"}},
			`{"filter":{"types":["a.b","c.*"],"body":{"data.paid":true}}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"rate_limit.per_second": {""}},
			`{"rate_limit":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1",
			url.Values{"rate_limit.per_second": {"2.5"}, "rate_limit.burst": {""}},
			`{"rate_limit":{"per_second":2.5,"burst":3}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"signing.algorithm": {"ed25519"}},
			`{"signing":{"algorithm":"ed25519"}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"signing.secret": {"whsec_x"}},
			`{"signing":{"secret":"whsec_x"}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"format": {"raw"}}, `{"format":"raw"}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1",
			url.Values{"signing.schemes[0].type": {""}, "signing.schemes[1].type": {"svix"},
				"signing.schemes[2].value": {"v1={signature}"}},
			`{"signing":{"schemes":[{"type":"svix"},{"value":"v1={signature}"}]}}`},
	} {
		r := newEndpointRig(t)
		r.api.on("PATCH "+x.api, 200, sampleEndpoint)
		b := r.signedIn()
		form := b.get(x.path).want(200).fields(x.path)
		for name, values := range x.change {
			form[name] = values
		}
		b.post(x.path, form).wantRedirect(x.path)
		var want map[string]any
		must.Do(t, json.Unmarshal([]byte(x.want), &want))
		if got := r.lastBody("PATCH", x.api); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: the body is %v, want %v", x.change, got, want)
		}
	}
}

// A form that was drawn before somebody else's change saves nothing and shows what is stored now.
func TestStaleEndpointForms(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, sampleEndpoint)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/settings"
	form := b.get(path).want(200).fields(path)
	form.Set("description", "mine")
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"name":"orders"`, `"name":"theirs"`, 1))
	a := b.post(path, form).want(400, "Somebody changed this", "Stored now: <code>theirs</code>", `value="mine"`)
	if n := r.changes(); n > 0 {
		t.Fatalf("%d changes were made", n)
	}
	b.post(path, a.fields(path)).wantRedirect(path)
	if got := r.lastBody("PATCH", "/v1/endpoints/ep_1"); got["description"] != "mine" || got["name"] != "orders" {
		t.Errorf("the second answer saves %v", got)
	}
}

// Errors of the API stand at the field that they are about, also those of a part of it.
func TestErrorsOfEndpointsStandAtTheirFields(t *testing.T) {
	for _, x := range []struct{ path, api, param, field string }{
		{"/app/endpoints/ep_1/settings", "/v1/endpoints/ep_1", "metadata.team", "metadata"},
		{"/app/endpoints/ep_1/settings", "/v1/endpoints/ep_1", "dedup.key", "dedup.key"},
		{"/app/endpoints/ep_1/retries", "/v1/endpoints/ep_1", "retry_policy.schedule_seconds[1]",
			"retry_policy.schedule_seconds"},
		{"/app/endpoints/ep_1/destinations/dst_1/settings", "/v1/endpoints/ep_1/destinations/dst_1", "headers.X-Team",
			"headers"},
		{"/app/endpoints/ep_1/destinations/dst_1/settings", "/v1/endpoints/ep_1/destinations/dst_1", "filter.types[0]",
			"filter.types"},
	} {
		r := newEndpointRig(t)
		r.api.on("PATCH "+x.api, 400, `{"error":{"type":"invalid_request","param":"`+x.param+`","message":"`+x.param+
			`: is not good"}}`)
		b := r.signedIn()
		form := b.get(x.path).want(200).fields(x.path)
		for _, field := range []string{"name", "retry_policy.max_attempts"} {
			if form.Has(field) {
				form.Set(field, "7")
			}
		}
		b.post(x.path, form).want(400, `id="f-`+x.field+`-err"`, "s not good", `href="#f-`)
	}
}

// firingAlert is an alert of a rule at a destination of ep_1.
func firingAlert(rule string) string {
	return `{"data":[{"id":"alrt_1","rule":"` + rule + `","endpoint_id":"ep_1","destination_id":"dst_1","state":"firing",
		"value":13,"threshold":10,"fired_at":"2026-08-21T22:00:00Z"}]}`
}

// An alert leads to the events that it is about, on its endpoint's page and in the list, and what failed to its
// recovery.
func TestAlertsLeadToTheirEvents(t *testing.T) {
	const recover = `href="/app/recoveries/new?endpoint_id=ep_1&amp;since=2026-08-21T21%3A00%3A00Z"`
	for rule, x := range map[string]struct {
		filter  string
		recover bool
	}{
		"delivery_failed": {"status=failed", true}, "failure_rate": {"status=failed%2Cretrying", true},
		"backlog_age": {"status=pending%2Cretrying", false}, "verification_failed": {"status=rejected", false},
		"processing_missing": {"processing=missing", false}, "usage": {"", false},
	} {
		r := newEndpointRig(t)
		r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert(rule))
		r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
		b := r.signedIn()
		for _, path := range []string{"/app/endpoints/ep_1", ui.AlertHistoryPath} {
			page := b.get(path).want(200).main()
			links := strings.Contains(page, "/app/events?destination_id=dst_1&amp;endpoint_id=ep_1") &&
				strings.Contains(page, x.filter+`">Show events`)
			if links != (x.filter != "") || strings.Contains(page, recover) != x.recover {
				t.Errorf("%s on %s: leads to events %v, to a recovery %v", rule, path, links, strings.Contains(page, recover))
			}
		}
	}
}

// An alert about signatures says what is wrong with the newest request.
func TestAlertHasTheNewestDiagnosis(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert("verification_failed"))
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","status":"rejected"}]}`)
	r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
	r.api.on("GET /v1/events/evt_1/signature", http.StatusOK,
		`{"object":"signature","findings":[{"code":"body_json","message":"A proxy wrote the <JSON> `+"`again`"+`."}]}`)
	b := r.signedIn()
	for _, path := range []string{"/app/endpoints/ep_1", "/app/alerts/history"} {
		b.get(path).want(200, `href="/app/events/evt_1"`, "A proxy wrote the &lt;JSON&gt; <code>again</code>.")
	}
	r.api.on("GET /v1/events/evt_1/signature", http.StatusBadRequest,
		`{"error":{"type":"invalid_state","message":"the payload was erased"}}`)
	b.get("/app/endpoints/ep_1").want(200, "with an invalid signature")
	r.api.on("GET /v1/events", http.StatusOK, emptyList)
	b.get("/app/endpoints/ep_1").want(200, "with an invalid signature")
}

// The events of one endpoint lead back to it, and those that failed to their recovery.
func TestEventsOfAnEndpointLeadOn(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	const back, recover = `<a href="/app/endpoints/ep_1">payments</a>`, "/app/recoveries/new?endpoint_id=ep_1"
	b.get(ui.EventsPath+"?endpoint_id=ep_1&status=failed").want(200, back,
		`href="`+recover+`&amp;since=2026-08-21T22%3A24%3A35Z">Recover these`)
	if page := b.get(ui.EventsPath + "?status=failed").want(200).main(); strings.Contains(page, back) ||
		strings.Contains(page, recover) {
		t.Error("the events of all endpoints lead to one")
	}
	if page := b.get(ui.EventsPath+"?endpoint_id=ep_1").want(200, back); strings.Contains(page.main(), recover) {
		t.Error("what did not fail leads to a recovery")
	}
	newEndpointRig(t).signedIn().get("/app/endpoints/ep_1").want(200, `href="/app/events?endpoint_id=ep_1">Events</a>`)
}

// The page of a destination shows its requests in a range, what waits for it, its newest failures with the ways on from
// them, and sends a test event to it alone: that is how one that is held is tried.
func TestDestinationIsAPlaceToWork(t *testing.T) {
	const path = "/app/endpoints/ep_1/destinations/dst_1"
	r := newEndpointRig(t)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_2","endpoint_id":"ep_1","type":"a.b",
		"status":"retrying","received_at":"2026-08-21T22:20:00Z","why":"x",
		"deliveries":[{"destination_id":"dst_1","status":"retrying","last_response_status":503}]},
		{"id":"evt_1","status":"pending","received_at":"2026-08-21T22:00:00Z","why":"x",
		"deliveries":[{"destination_id":"dst_1","status":"held"}]}]}`)
	b := r.signedIn()
	b.get(path+"?range=7d").want(200, "79\u00a0ms", "107 delivered", "15.7\u00a0%", "Waiting events</dt><dd><b>2</b>",
		`datetime="2026-08-21T22:00:00.000Z"`, `href="/app/events/evt_2"`, "Recover these",
		`href="/app/recoveries/new?destination_id=dst_1&amp;endpoint_id=ep_1&amp;since=`,
		`href="/app/events?destination_id=dst_1&amp;endpoint_id=ep_1&amp;status=failed%2Cretrying"`,
		`name="destination_id" value="dst_1"`, "Send test event", "<b>billing answered 503</b>: ",
		`href="/app/events?destination_id=dst_1&amp;endpoint_id=ep_1">Events</a>`, `href="`+path+`/settings">Settings</a>`)
	for _, call := range r.api.calls {
		if strings.HasSuffix(call.Path, "/traffic") && call.Query.Get("range") != "7d" {
			t.Errorf("the traffic is asked for with %s", call.Query.Encode())
		}
	}
	held := strings.Replace(sampleEndpoint, `"state":"active"`, `"state":"held"`, 1)
	r.api.on("GET /v1/endpoints/ep_1", http.StatusOK, held)
	b.get(path+"?range=24h").want(200, "Try now", "<title>Failed requests, at most 16.7\u00a0%")
}

// An endpoint that rejects most of its requests says so wherever it is listed, unless an alert does.
func TestEndpointThatRejectsSaysSo(t *testing.T) {
	const text, state = "6 of 6\u00a0requests of the last hour were rejected", `class="st rejected on"`
	r := newEndpointRig(t)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","endpoint_id":"ep_1","status":"rejected"},
		{"id":"evt_2","endpoint_id":"ep_1","status":"rejected"}]}`)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"rejected":6}}`)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[`+sampleEndpoint+`]}`)
	b := r.signedIn()
	for _, path := range []string{"/app", "/app/endpoints", "/app/endpoints/ep_1"} {
		b.get(path).want(200, text)
	}
	b.get("/app/endpoints").want(200, state)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"delivered":4,"rejected":2}}`)
	r.now = r.now.Add(time.Minute) // it is asked for every ten seconds
	for _, path := range []string{"/app", "/app/endpoints", "/app/endpoints/ep_1"} {
		is.Lacks(t, b.get(path).want(200).main(), "were rejected", "%s says it of an endpoint that accepts most", path)
	}
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"rejected":6}}`)
	r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert("verification_failed"))
	is.Lacks(t, b.get("/app/endpoints/ep_1").want(200).main(), "were rejected", "the page says it twice")
}

// What fires is listed by cause; a filter lists each alert.
func TestAlertsAreGroupedByCause(t *testing.T) {
	r := newEndpointRig(t)
	one := strings.TrimSuffix(firingAlert("consecutive_failures"), "]}")
	other := strings.TrimPrefix(firingAlert("delivery_failed"), `{"data":[`)
	r.api.on("GET /v1/alerts/history", http.StatusOK, one+","+other)
	r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
	b := r.signedIn()
	page := b.get(ui.AlertHistoryPath).want(200, "What fires, by cause", "Nothing was resolved").main()
	is.Equal(t, strings.Count(page, `<li class="why`), 1, "causes")
	b.get(ui.AlertHistoryPath+"?state=firing").want(200, "What fires, by cause")
	page = b.get(ui.AlertHistoryPath + "?endpoint_id=ep_1").want(200).main()
	is.Equal(t, strings.Count(page, "<td class=\"nb\"><span class=\"st failed on\">"), 2, "alerts")
}
