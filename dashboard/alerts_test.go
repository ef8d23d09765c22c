package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/test/is"
)

const alertSettingsJSON = `{"channels":{"email":null,
"slack":{"enabled":true,"webhook_url":"https://hooks.example.com/****a1b2"},
"webhook":null},"rules":{"delivery_failed":{"enabled":true},"consecutive_failures":{"enabled":true,"threshold":20},
"failure_rate":{"enabled":true,"percent":50,"window_seconds":300,"min_attempts":20},
"backlog_age":{"enabled":true,"seconds":300},"destination_state":{"enabled":false},
"verification_failed":{"enabled":true,"threshold":10},"usage":{"enabled":true,"percent":[80,100]},
"finding":{"enabled":true,"min_severity":"high"},"recovery":{"enabled":true},
"processing_missing":{"enabled":false,"minutes":30},"source_failing":{"enabled":true,"seconds":300}},
"cooldown_seconds":900,"updated_at":"2026-08-21T20:00:00.000Z"}`

const oneAlert = `{"data":[{"id":"alrt_1","object":"alert","type":"alert.destination.held",
"rule":"consecutive_failures","endpoint_id":"ep_1","destination_id":"dst_1","recovery_id":null,"state":"firing",
"value":23,"threshold":20,"fired_at":"2026-08-21T22:00:36.000Z","resolved_at":null},
{"id":"alrt_0","object":"alert","type":"alert.recovery",
"rule":"recovery","endpoint_id":"ep_gone","destination_id":null,"recovery_id":"rec_1","state":"resolved",
"value":"ready","threshold":null,"fired_at":"2026-08-21T21:00:36.000Z","resolved_at":"2026-08-21T21:30:36.000Z"}]}`

// alertRig answers the calls of the pages of alerts. Its endpoint is muted until the next day.
func alertRig(t *testing.T) *rig {
	r := newRig(t)
	r.api.on("GET /v1/alerts", http.StatusOK, alertSettingsJSON)
	r.api.on("PATCH /v1/alerts", http.StatusOK, alertSettingsJSON)
	r.api.on("GET /v1/alerts/history", http.StatusOK, oneAlert)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments","destinations":[{"id":"dst_1",
		"name":"ledger","url":"https://a.example.com"}],"alerts":{"muted_until":"2026-08-22T22:24:36.000Z"}},
		{"id":"ep_2","name":"orders","alerts":{"muted_until":"2026-08-21T22:00:00.000Z"}}]}`)
	r.api.on("PATCH /v1/endpoints/ep_1", http.StatusOK, `{"id":"ep_1"}`)
	return r
}

// sent returns the body of the last call.
func (r *rig) sent() string { return r.api.calls[len(r.api.calls)-1].Body }

// The list says what fires, where, since when, and which endpoints are muted.
func TestAlertHistory(t *testing.T) {
	r := alertRig(t)
	b := r.signedIn()
	b.get("/app/alerts").wantRedirect(ui.AlertHistoryPath)
	page := b.get(ui.AlertHistoryPath+"?endpoint_id=ep_1").want(200, "Failed attempts in a row",
		"23\u00a0failed attempts in a row",
		`href="/app/endpoints/ep_1/destinations/dst_1"`, "payments, ledger", `<span class="tag">muted</span>`,
		`href="/app/recoveries/rec_1"`, "A recovery has ended: ready", "ep_gone", "in 24\u00a0h")
	is.Lacks(t, page.main(), `<td><a href="/app/endpoints/ep_2">`, "an endpoint whose mute has ended is shown as muted")
	form := page.fields("/app/alerts" + "/mute")
	form.Set("hours", "8")
	b.post("/app/alerts"+"/mute", form).wantRedirect(ui.AlertHistoryPath)
	is.Equal(t, r.sent(), `{"alerts":{"muted_until":"2026-08-22T06:24:36Z"}}`, "muted by")
	b.get(ui.AlertHistoryPath).want(200, "Its alerts pause until the mute ends",
		"No new alerts fire while it is muted")
	form.Set("hours", "0")
	b.post("/app/alerts"+"/mute", form).wantRedirect(ui.AlertHistoryPath)
	is.Equal(t, r.sent(), `{"alerts":{"muted_until":null}}`, "the mute ends by")
	for _, hours := range []string{"100000", "-1", "x", ""} {
		form.Set("hours", hours)
		b.post("/app/alerts"+"/mute", form).want(400, "Choose for how long")
	}
	r.api.on("GET /v1/alerts/history", http.StatusOK, emptyList)
	page = b.get(ui.AlertHistoryPath).want(200, "Nothing fires")
	const silent = "No channel is set up"
	is.Lacks(t, page.body, silent, "Slack is on, and the page says that nothing is sent")
	r.api.on("GET /v1/alerts", http.StatusOK, strings.Replace(alertSettingsJSON, `"enabled":true,"webhook_url"`,
		`"enabled":false,"webhook_url"`, 1))
	b.get(ui.AlertHistoryPath).want(200, silent, `href="/app/alerts/channels"`)
}

// A form of rules sends what was changed alone; an older form saves nothing.
func TestAlertRules(t *testing.T) {
	r := alertRig(t)
	b := r.signedIn()
	form := b.get("/app/alerts/rules").want(200, `value="80, 100"`).fields("/app/alerts/rules")
	b.post("/app/alerts/rules", form).wantRedirect("/app/alerts/rules")
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Method, "GET", "a form without a change changes something")
	form.Set("rules.failure_rate.percent", "30")
	form.Set("rules.usage.percent", "50 90")
	form.Set("rules.finding.min_severity", "critical")
	form.Set("rules.destination_state.enabled", "true")
	form.Del("rules.delivery_failed.enabled")
	form.Set("cooldown_seconds", "60")
	b.post("/app/alerts/rules", form).wantRedirect("/app/alerts/rules")
	if want := `{"cooldown_seconds":60,"rules":{"delivery_failed":{"enabled":false},` +
		`"destination_state":{"enabled":true},"failure_rate":{"percent":30},"finding":{"min_severity":"critical"},` +
		`"usage":{"percent":[50,90]}}}`; r.sent() != want {
		t.Errorf("saved by %s, want %s", r.sent(), want)
	}
	r.api.on("PATCH /v1/alerts", http.StatusBadRequest, `{"error":{"type":"invalid_request",
		"message":"rules.failure_rate.percent: must be 1 to 100","param":"rules.failure_rate.percent"}}`)
	b.post("/app/alerts/rules", form).want(400, "Must be 1 to 100.", `href="#f-rules.failure_rate.percent"`, `value="30"`)
	r.api.on("GET /v1/alerts", http.StatusOK, strings.Replace(alertSettingsJSON, `"seconds":300}`, `"seconds":77}`, 1))
	before := r.changes()
	b.post("/app/alerts/rules", form).want(400, "Somebody changed this", "77")
	is.Equal(t, r.changes(), before, "an older form saved something")
	r.api.on("PATCH /v1/alerts", http.StatusOK, alertSettingsJSON)
	b.post("/app/alerts/rules"+"/reset", url.Values{"nonce": {newNonce()}}).wantRedirect("/app/alerts/rules")
	is.Equal(t, r.sent(), `{"cooldown_seconds":900,"rules":null}`, "reset by")
}

// Channels are shown masked, and a mask that was not touched is not sent. A new webhook shows its secret once.
func TestAlertChannels(t *testing.T) {
	r := alertRig(t)
	b := r.signedIn()
	page := b.get("/app/alerts/channels").want(200, "https://hooks.example.com/****a1b2", "Set up Email", "Save Slack")
	slack := page.fields("/app/alerts/channels" + "/slack")
	slack.Del("channels.slack.enabled")
	b.post("/app/alerts/channels"+"/slack", slack).wantRedirect("/app/alerts/channels")
	is.Equal(t, r.sent(), `{"channels":{"slack":{"enabled":false}}}`, "disabled by")
	email := page.fields("/app/alerts/channels" + "/email")
	email.Set("channels.email.to", "a@example.com\r\nb@example.com\r\n")
	b.post("/app/alerts/channels"+"/email", email).wantRedirect("/app/alerts/channels")
	is.Equal(t, r.sent(), `{"channels":{"email":{"enabled":true,"to":["a@example.com","b@example.com"]}}}`, "set up by")
	hook := page.fields("/app/alerts/channels" + "/webhook")
	hook.Set("channels.webhook.url", "https://a.example.com")
	with := strings.Replace(alertSettingsJSON, `"webhook":null`,
		`"webhook":{"enabled":true,"url":"https://a.example.com/****","secret_set":true,"secret":"whsec_shown"}`, 1)
	r.api.on("PATCH /v1/alerts", http.StatusOK, with)
	b.post("/app/alerts/channels"+"/webhook", hook).want(200, "data-once", "whsec_shown")
	r.api.on("GET /v1/alerts", http.StatusOK, strings.Replace(with, `,"secret":"whsec_shown"`, "", 1))
	if again := b.post("/app/alerts/channels"+"/webhook", hook).want(400,
		"Somebody changed this"); strings.Contains(again.body,
		"whsec_shown") {
		t.Error("a form that is sent twice shows the secret twice")
	}
	b.post("/app/alerts/channels"+"/webhook/rotate", url.Values{"nonce": {newNonce()}}).want(200, "whsec_shown")
	is.Equal(t, r.sent(), `{"channels":{"webhook":{"rotate_secret":true}}}`, "rotated by")
	r.api.on("PATCH /v1/alerts", http.StatusOK, alertSettingsJSON)
	b.post("/app/alerts/channels"+"/slack/remove", url.Values{"nonce": {newNonce()}}).wantRedirect("/app/alerts/channels")
	is.Equal(t, r.sent(), `{"channels":{"slack":null}}`, "removed by")
	r.api.on("PATCH /v1/alerts", http.StatusBadRequest, `{"error":{"type":"invalid_request",
		"message":"channels.email.to[1]: must be a mail address","param":"channels.email.to[1]"}}`)
	b.post("/app/alerts/channels"+"/email", email).want(400, "must be a mail address", "b@example.com",
		`href="#f-channels.email.to"`)
	b.post("/app/alerts/channels"+"/fax", email).want(404, "no such channel")
	b.post("/app/alerts/channels"+"/email/rotate", email).want(404, "no secret")
}

// A test says what each channel answered; the form's nonce is the Idempotency-Key.
func TestAlertChannelsAreTested(t *testing.T) {
	r := alertRig(t)
	b := r.signedIn()
	r.api.on("POST /v1/alerts/test", http.StatusOK, `{"sent":1,"failed":1,"results":[{"channel":"slack",
		"target":"hooks.example.com","ok":false,"status":"failed","http_status":404,"error":"http_status",
		"message":"no_service<b>","duration_ms":1234},{"channel":"email","target":"o***@example.com","ok":true,
		"status":"sent","http_status":null,"error":null,"message":null,"duration_ms":12}]}`)
	form := b.get("/app/alerts/channels").fields("/app/alerts/channels" + "/test")
	b.post("/app/alerts/channels"+"/test", form).want(200, "no_service&lt;b&gt;", "1,234&nbsp;ms", "o***@example.com",
		"sent")
	if call := r.api.calls[len(r.api.calls)-1]; call.Key != form.Get("nonce") {
		t.Errorf("the test has the key %q", call.Key)
	}
	r.api.on("POST /v1/alerts/test", http.StatusTooManyRequests,
		`{"error":{"type":"rate_limited","message":"an account may run at most 6 alert tests a minute"}}`)
	b.post("/app/alerts/channels"+"/test", form).want(429, "at most 6 alert tests")
}
