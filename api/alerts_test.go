package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// alertsClient returns a client on default alert settings. All tests share one account, so tests that use it cannot
// run in parallel.
func alertsClient(t *testing.T, setup ...func(*api.Config, *api.Deps)) *client {
	c := newClient(t, setup...)
	reset := func() {
		c.do("PATCH", "/v1/alerts", `{"channels":null,"rules":null,"cooldown_seconds":null}`).want(200)
		_, err := configuration.ChangeAlert(t.Context(), alerting.AlertTestBudget, func(x *alerting.Alert) error {
			x.Budget = nil // reset what other tests have used
			return nil
		})
		must.Do(t, err)
	}
	reset()
	t.Cleanup(func() {
		r := httptest.NewRequest(
			"PATCH", "/v1/alerts", strings.NewReader(`{"channels":null,"rules":null,"cooldown_seconds":null}`))
		r.Header.Set("Authorization", "Bearer "+writeKey)
		c.serve(r)
	})
	return c
}

const contractRules = `{"delivery_failed":{"enabled":true},"consecutive_failures":{"enabled":true,"threshold":20},` +
	`"failure_rate":{"enabled":true,"percent":50,"window_seconds":300,"min_attempts":20},` +
	`"backlog_age":{"enabled":true,"seconds":300},"destination_state":{"enabled":true},` +
	`"verification_failed":{"enabled":true,"threshold":10},"usage":{"enabled":true,"percent":[80,100]},` +
	`"finding":{"enabled":true,"min_severity":"high"},"recovery":{"enabled":true},` +
	`"processing_missing":{"enabled":false,"minutes":30},"source_failing":{"enabled":true,"seconds":300}}`

func TestAlertDefaults(t *testing.T) {
	a := alertsClient(t).do("GET", "/v1/alerts", nil).want(200)
	if want := `{"channels":{"email":null,"slack":null,"webhook":null},"rules":` + contractRules +
		`,"cooldown_seconds":900,"updated_at":"`; !strings.HasPrefix(string(a.raw), want) {
		t.Errorf("got  %s\nwant %s", a.raw, want)
	}
	alertsClient(t).as(readKey).do("PATCH", "/v1/alerts", `{}`).wantError(403, "insufficient_scope", "")
	alertsClient(t).as(readKey).do("POST", "/v1/alerts/test", nil).wantError(403, "insufficient_scope", "")
}

// A stored list of percentages that a request would not be allowed to send is no fault of a change of another rule.
func TestStoredPercentsAreNoFault(t *testing.T) {
	c := alertsClient(t)
	stored, err := configuration.UpdateAlertSettings(t.Context(), func(s *alerting.AlertSettings) error {
		s.Rules.Usage.Percent = []int{90, 80, 80}
		return nil
	})
	must.Do(t, err)
	after := c.do("PATCH", "/v1/alerts", `{"rules":{"recovery":{"enabled":false}}}`).want(200)
	if got := after.get("rules.usage.percent"); fmt.Sprint(got) != fmt.Sprint(stored.Rules.Usage.Percent) {
		t.Errorf("%v", got)
	}
	c.do("PATCH", "/v1/alerts", `{"rules":{"usage":{"percent":[80,80]}}}`).
		wantError(400, "invalid_request", "rules.usage.percent[1]")
}

// A mask shows the host and not the token, and a mask that is sent back
// changes nothing.
func TestAlertURLsAreMasked(t *testing.T) {
	c := alertsClient(t)
	created := c.do("PATCH", "/v1/alerts",
		`{"channels":{"slack":{"webhook_url":"https://hooks.slack.com/services/T0/B0/planted-a1b2"},
		"webhook":{"url":"https://ops.example.com/hooks/9f3c?token=planted","enabled":false},
		"email":{"to":["ops@example.com"]}}}`).want(200)
	secret := created.text("channels.webhook.secret")
	must.Get(sign.ParseSecret(secret))(t)
	read := c.do("GET", "/v1/alerts", nil).want(200)
	want := `{"email":{"enabled":true,"to":["ops@example.com"]},"slack":{"enabled":true,"webhook_url":"https://` +
		`hooks.slack.com/****a1b2"},` +
		`"webhook":{"enabled":false,"secret_set":true,"url":"https://ops.example.com/****"}}`
	if !strings.HasPrefix(string(read.raw), `{"channels":`+want) {
		t.Fatalf("got  %s\nwant %s", read.raw, want)
	}
	saved := func() []notify.SavedChannel {
		t.Helper()
		all := must.Get(notify.OpenChannels(keyring(), configuration.AlertSettings()))(t)
		return all
	}
	before := saved()
	// Send back the answer of the read, and then each mask alone, in both forms.
	for _, body := range []string{
		string(read.raw), `{"slack_webhook_url":"https://hooks.slack.com/****a1b2"}`,
		`{"webhook_url":"https://ops.example.com/****"}`,
		fmt.Sprintf(`{"channels":{"webhook":{"secret":"whsec_****%s"}}}`, secret[len(secret)-4:]),
		`{"channels":{"webhook":{"secret":"` + secret + `"}}}`} {
		a := c.do("PATCH", "/v1/alerts", body).want(200)
		if strings.Contains(string(a.raw), "planted") || strings.Contains(string(a.raw), "whsec_") ||
			a.get("warnings") != nil {
			t.Errorf("%s: %s", body, a.raw)
		}
		if diff := gocmp.Diff(before, saved(),
			gocmp.Comparer(func(a, b sign.Secret) bool { return a.Reveal() == b.Reveal() })); diff != "" {
			t.Errorf("%s changed the channels:\n%s", body, diff)
		}
	}
	c.do("PATCH", "/v1/alerts", `{"slack_webhook_url":"https://hooks.slack.com/****ffff"}`).wantError(
		400, "invalid_request", "slack_webhook_url")
	c.do("PATCH", "/v1/alerts", `{"channels":{"slack":{"webhook_url":"https://ops.example.com/****a1b2"}}}`).wantError(
		400, "invalid_request", "channels.slack.webhook_url")
	// Both forms of a channel in one request have to agree.
	const slack, ops = `"slack_webhook_url":"https://hooks.slack.com/****a1b2"`, `"https://ops.example.com/other"`
	const other = `"slack_webhook_url":"https://hooks.slack.com/services/T1/B1/other"`
	for _, nested := range []string{`{"slack":{"webhook_url":` + ops + `}}`, `{"slack":null}`} {
		a := c.do("PATCH", "/v1/alerts", `{"channels":`+nested+`,`+other+`}`).wantError(
			400, "invalid_request", "slack_webhook_url")
		is.Has(t, a.text("error.message"), "means the same as channels.slack", "%s", a.raw)
	}
	c.do("PATCH", "/v1/alerts", `{"channels":{"webhook":{"url":`+ops+`}},"webhook_url":null}`).wantError(
		400, "invalid_request", "webhook_url")
	for _, nested := range []string{`{"webhook_url":"https://hooks.slack.com/****a1b2"}`, `{"enabled":true}`} {
		c.do("PATCH", "/v1/alerts", `{"channels":{"slack":`+nested+`},`+slack+`}`).want(200)
	}
	if diff := gocmp.Diff(before, saved(),
		gocmp.Comparer(func(a, b sign.Secret) bool { return a.Reveal() == b.Reveal() })); diff != "" {
		t.Errorf("the channels changed:\n%s", diff)
	}
	if strings.Contains(c.log.String(), "planted") || strings.Contains(c.log.String(), secret) {
		t.Error("the log contains a secret")
	}

	another := c.do("PATCH", "/v1/alerts", `{"channels":{"webhook":{"rotate_secret":true}}}`).want(200).
		text("channels.webhook.secret")
	mine := sign.NewSecret().Reveal()
	given := c.do("PATCH", "/v1/alerts", `{"channels":{"webhook":{"secret":"`+mine+`"}}}`).want(200).
		text("channels.webhook.secret")
	if another == secret || given != mine || saved()[2].Secret.Reveal() != mine {
		t.Errorf("secrets: %s, then %s, then %s", secret, another, given)
	}
	// null removes one channel and leaves the others.
	if a := c.do("PATCH", "/v1/alerts", `{"channels":{"slack":null}}`).want(200); a.get("channels.slack") != nil ||
		a.get("channels.webhook.enabled") != false {
		t.Errorf("%s", a.raw)
	}
	if a := c.do("PATCH", "/v1/alerts", `{"email":null,"webhook_url":null}`).want(200); a.get("channels.email") != nil ||
		a.get("channels.webhook") != nil {
		t.Errorf("%s", a.raw)
	}
}

func TestAlertFlatForm(t *testing.T) {
	c := alertsClient(t)
	a := c.do("PATCH", "/v1/alerts", `{"email":"ops@example.com","slack_webhook_url":"https://hooks.slack.com/services/`+
		`T0/B0/abcd","webhook_url":"https://ops.example.com/h"}`).want(200)
	if a.get("channels.email.to.0") != "ops@example.com" || a.get("channels.slack.enabled") != true ||
		!strings.HasPrefix(a.text("channels.webhook.secret"), "whsec_") {
		t.Errorf("%s", a.raw)
	}
	a = c.do("PATCH", "/v1/alerts", `{"channels":{"email":{"enabled":false}},"email":["a@example.com","b@example.com"]}`).
		want(200)
	if a.get("channels.email.to.1") != "b@example.com" || a.get("channels.email.enabled") != false {
		t.Errorf("%s", a.raw)
	}
}

func TestAlertBounds(t *testing.T) {
	c := alertsClient(t)
	addresses := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("a%d@example.com", i)
		}
		b, _ := json.Marshal(all)
		return string(b)
	}
	url := func(n int) string {
		return `"https://example.com/` + strings.Repeat("x", n-len("https://example.com/")) + `"`
	}
	percents := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("%d,", n), ",") + "]" }
	count := func(n int) string {
		args := make([]any, n)
		for i := range args {
			args[i] = i + 1
		}
		return fmt.Sprintf(percents(n), args...)
	}
	long := strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 92) + "bb" // 251
	for _, b := range []struct {
		format    string
		good, bad []string
		param     string
	}{
		{`{"channels":{"email":{"to":%s}}}`,
			[]string{`"ops@example.com"`, addresses(1), addresses(20), `["` + long + `cde"]`},
			[]string{addresses(0), addresses(21), "null", `[null]`, `""`, `"ops"`, `["Ops <ops@example.com>"]`,
				`["a@example.com","A@example.com"]`, `["` + long + `cdef"]`, `"a@example.com,b@example.com"`}, "channels.email.to"},
		{`{"email":%s}`, []string{"null", `"ops@example.com"`, addresses(20)},
			[]string{addresses(21), "[]", "5", `["ops"]`}, "email"},
		{`{"channels":{"email":{"to":["a@b.c"],"enabled":%s}}}`, []string{"true", "false"}, []string{"null", `"true"`},
			"channels.email.enabled"},
		{`{"channels":{"slack":{"webhook_url":%s}}}`, []string{url(2048)},
			[]string{url(2049), "null", "5", `"http://hooks.slack.com/x"`, `"https://127.0.0.1/x"`, `"https://localhost/x"`,
				`"https://u:p@example.com"`, `""`}, "channels.slack.webhook_url"},
		{`{"slack_webhook_url":%s}`, []string{url(2048), "null"}, []string{url(2049), `"ftp://example.com"`, "[]"},
			"slack_webhook_url"},
		{`{"webhook_url":%s}`, []string{url(2048), "null"}, []string{url(2049), `"https://10.0.0.1/"`}, "webhook_url"},
		{`{"channels":{"webhook":{"url":"https://example.com/h","secret":%s}}}`,
			[]string{`"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`},
			[]string{`"whsec_short"`, "5", `""`, `"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`}, "channels.webhook.secret"},
		{`{"channels":%s}`, []string{"null", "{}"}, []string{"[]", "5"}, "channels"},
		{`{"rules":%s}`, []string{"null", "{}", `{"usage":null}`}, []string{"[]", "true"}, "rules"},
		{`{"rules":{"delivery_failed":{"enabled":%s}}}`, []string{"false", "true"}, []string{"null", "1"},
			"rules.delivery_failed.enabled"},
		{`{"rules":{"consecutive_failures":{"threshold":%s}}}`, []string{"1", "10000"}, []string{"0", "10001", "1.5", "null"},
			"rules.consecutive_failures.threshold"},
		{`{"rules":{"failure_rate":{"percent":%s}}}`, []string{"1", "100"}, []string{"0", "101"},
			"rules.failure_rate.percent"},
		{`{"rules":{"failure_rate":{"window_seconds":%s}}}`, []string{"60", "3600"}, []string{"59", "3601"},
			"rules.failure_rate.window_seconds"},
		{`{"rules":{"failure_rate":{"min_attempts":%s}}}`, []string{"1", "100000"}, []string{"0", "100001"},
			"rules.failure_rate.min_attempts"},
		{`{"rules":{"backlog_age":{"seconds":%s}}}`, []string{"10", "604800"}, []string{"9", "604801"},
			"rules.backlog_age.seconds"},
		{`{"rules":{"verification_failed":{"threshold":%s}}}`, []string{"1", "10000"}, []string{"0", "10001"},
			"rules.verification_failed.threshold"},
		{`{"rules":{"usage":{"percent":%s}}}`, []string{"[1]", "[1000]", "[100,80]", count(10)},
			[]string{"[]", "null", "[0]", "[1001]", "[80,80]", "80", count(11)}, "rules.usage.percent"},
		{`{"rules":{"finding":{"min_severity":%s}}}`, []string{`"low"`, `"critical"`}, []string{`"none"`, "1"},
			"rules.finding.min_severity"},
		{`{"rules":{"processing_missing":{"minutes":%s}}}`, []string{"1", "10080"}, []string{"0", "10081"},
			"rules.processing_missing.minutes"},
		{`{"cooldown_seconds":%s}`, []string{"0", "86400", "null"}, []string{"-1", "86401", `"5"`}, "cooldown_seconds"},
	} {
		for _, v := range b.good {
			if a := c.do("PATCH", "/v1/alerts", fmt.Sprintf(b.format, v)); a.Status != 200 || a.get("warnings") != nil {
				t.Errorf("%s %.60s: %d\n%s", b.format, v, a.Status, a.raw)
			}
		}
		for _, v := range b.bad {
			a := c.do("PATCH", "/v1/alerts", fmt.Sprintf(b.format, v))
			if param, _ := a.get("error.param").(string); a.Status != 400 || !strings.HasPrefix(param, b.param) {
				t.Errorf("%s %.60s: %d %s, want 400 %s\n%s", b.format, v, a.Status, param, b.param, a.raw)
			}
		}
	}
	if got := c.do("PATCH", "/v1/alerts", `{"rules":{"usage":{"percent":[100,80]}}}`).
		get("rules.usage.percent.0"); got != 80.0 {
		t.Errorf("percents are not ascending: %v", got)
	}
}

func TestAlertUnknownMembersWarn(t *testing.T) {
	c := alertsClient(t)
	a := c.do("PATCH", "/v1/alerts",
		`{"rules":{"backlog":{"seconds":5},"backlog_age":{"second":20}},"channels":{"sms":{}},"cooldown":5}`).want(200)
	for i, param := range []string{"channels.sms", "rules.backlog_age.second", "rules.backlog", "cooldown"} {
		if got := a.get(fmt.Sprintf("warnings.%d.param", i)); got != param {
			t.Errorf("warning %d is about %v, want %s", i, got, param)
		}
	}
	c.do("PATCH", "/v1/alerts", `[]`).wantError(400, "invalid_request", "")
	c.do("PATCH", "/v1/alerts", `{"cooldown_seconds":1,"cooldown_seconds":2}`).wantError(
		400, "invalid_request", "cooldown_seconds")
}

// POST /v1/alerts/test against real servers: one that accepts, one that refuses, one that never answers, and a mail
// server.
func TestAlertTestReportsEachChannel(t *testing.T) {
	conf, ca := kit.Certificate(t)
	mail := kit.NewMailServer(t, conf, kit.MailOptions{StartTLS: true, User: "relay", Password: "secret"})
	policy := egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	transport := must.Get(egress.NewTransport(egress.Config{Policy: policy, CAFile: ca}))(t)
	defer transport.CloseIdleConnections()
	operator := must.Get(egress.NewOperatorDialer(ca, ""))(t)
	sender := func(smtp string) func(*api.Config, *api.Deps) {
		s := must.Get(notify.New(notify.Config{SMTPURL: smtp},
			notify.Deps{Transport: transport, Dial: operator.Dial, TLS: operator.TLS(), Now: time.Now}))(t)
		return func(_ *api.Config, d *api.Deps) { d.Notifier, d.Egress = s, policy }
	}
	c := alertsClient(t, sender("smtp://relay:secret@"+mail.Addr+"?from=relay@example.com"))

	a := c.do("POST", "/v1/alerts/test", nil).want(200)
	if a.get("sent") != 0.0 || a.get("failed") != 0.0 || len(a.get("results").([]any)) != 0 ||
		a.get("warnings.0.param") != "channels" {
		t.Errorf("without channels: %s", a.raw)
	}
	c.do("POST", "/v1/alerts/test", `[]`).wantError(400, "invalid_request", "")

	var body []byte
	var header http.Header
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/services/") {
			http.Error(w, "no_service", http.StatusNotFound)
			return
		}
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	srv.TLS = conf.Clone()
	srv.StartTLS()
	defer srv.Close()
	created := c.do("PATCH", "/v1/alerts",
		map[string]any{"email": "ops@example.com", "slack_webhook_url": srv.URL + "/services/T0/B0/hush",
			"webhook_url": srv.URL + "/hook"}).want(200)
	a = c.do("POST", "/v1/alerts/test", `{}`).want(200)
	if a.get("sent") != 2.0 || a.get("failed") != 1.0 || len(mail.Messages()) != 1 {
		t.Fatalf("%s, %d letters", a.raw, len(mail.Messages()))
	}
	for i, want := range []map[string]any{
		{"channel": "email", "target": "o****@example.com", "ok": true, "status": "sent", "http_status": nil, "error": nil,
			"message": nil},
		{"channel": "slack", "target": srv.URL + "/****hush", "ok": false, "status": "failed", "http_status": 404.0,
			"error": "http_status", "message": "the channel answered 404 Not Found"},
		{"channel": "webhook", "target": srv.URL + "/****", "ok": true, "status": "sent", "http_status": 200.0, "error": nil,
			"message": nil},
	} {
		got := a.get(fmt.Sprintf("results.%d", i)).(map[string]any)
		if _, ok := got["duration_ms"].(float64); !ok {
			t.Errorf("no duration: %v", got)
		}
		delete(got, "duration_ms")
		is.Equal(t, gocmp.Diff(want, got), "", "result %d", i)
	}
	secret := must.Get(sign.ParseSecret(created.text("channels.webhook.secret")))(t)
	var at int64
	fmt.Sscan(header.Get("webhook-timestamp"), &at)
	if header.Get("webhook-signature") != sign.Sign(
		[]sign.Secret{secret}, header.Get("webhook-id"), time.Unix(at, 0), body) {
		t.Error("the webhook's signature is wrong")
	}
	var sent struct{ ID, Type string }
	if err := json.Unmarshal(body, &sent); err != nil || sent.Type != "alert.test" || sent.ID != header.Get("webhook-id") {
		t.Errorf("%s, %v", body, err)
	}

	// Disabled channels are reported as skipped; without a mail server the mail channel fails.
	c.do("PATCH", "/v1/alerts", `{"channels":{"slack":{"enabled":false},"webhook":{"enabled":false}}}`).want(200)
	other := newClient(t, sender(""))
	a = other.do("POST", "/v1/alerts/test", nil).want(200)
	if a.get("sent") != 0.0 || a.get("failed") != 1.0 || a.get("results.0.error") != "smtp_not_configured" ||
		a.get("results.1.status") != "skipped" || a.get("results.2.status") != "skipped" {
		t.Errorf("%s", a.raw)
	}
	on := `{"channels":{"email":{"enabled":true}}}`
	for _, a := range []*answer{other.do("GET", "/v1/alerts", nil), other.do("PATCH", "/v1/alerts", on)} {
		a.want(200)
		if a.get("warnings.0.param") != "channels.email" || !strings.Contains(string(a.raw), "RELAY_SMTP_URL") {
			t.Errorf("nothing is said of the missing mail server: %s", a.raw)
		}
	}
	a = other.do("PATCH", "/v1/alerts", `{"channels":{"email":{"enabled":false}}}`).want(200)
	if a.get("warnings") != nil {
		t.Errorf("a warning about a channel that is off: %s", a.raw)
	}
}

// Channels that do not answer are waited for at the same time, not one after the other.
func TestAlertTestRunsChannelsConcurrently(t *testing.T) {
	waiting := make(chan struct{}, 3)
	c := alertsClient(t, func(_ *api.Config, d *api.Deps) {
		d.Notifier = sendFunc(func(ctx ctxT, _ notify.Channel, _ notify.Message) notify.Result {
			waiting <- struct{}{}
			for len(waiting) < 3 { // none returns before all have started
				select {
				case <-ctx.Done():
					return notify.Result{}
				case <-time.After(time.Millisecond):
				}
			}
			return notify.Result{OK: true}
		})
	})
	c.do("PATCH", "/v1/alerts", `{"email":"ops@example.com","slack_webhook_url":"https://example.com/s",`+
		`"webhook_url":"https://example.com/w"}`).want(200)
	if a := c.do("POST", "/v1/alerts/test", nil).want(200); a.get("sent") != 3.0 {
		t.Errorf("%s", a.raw)
	}
}

// clockAt gives a client a clock that the test moves.
func clockAt(ahead *atomic.Int64) func(*api.Config, *api.Deps) {
	return func(_ *api.Config, d *api.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
}

// An account may run 6 tests a minute and send 20 test mails an hour, on all nodes together.
func TestAlertTestsAreLimited(t *testing.T) {
	var ahead atomic.Int64
	var sent atomic.Int64 // the channels of one test run concurrently
	sender := func(_ *api.Config, d *api.Deps) {
		d.Notifier = sendFunc(func(_ ctxT, c notify.Channel, _ notify.Message) notify.Result {
			sent.Add(int64(max(1, len(c.To))))
			return notify.Result{OK: true}
		})
	}
	c := alertsClient(t, clockAt(&ahead), sender)
	other := newClient(t, clockAt(&ahead), sender) // another node
	test := func(c *client) *answer { return c.do("POST", "/v1/alerts/test", nil) }
	later := func(d time.Duration) { ahead.Add(int64(d)) }
	refused := func(least, most int) {
		t.Helper()
		before := sent.Load()
		a := test(other).wantError(429, "rate_limited", "")
		if wait, _ := strconv.Atoi(a.Header.Get("Retry-After")); wait < least || wait > most || sent.Load() != before {
			t.Errorf("Retry-After %d, want %d to %d; %d sent", wait, least, most, sent.Load()-before)
		}
	}
	for range 3 { // without a channel nothing is sent, and it does not count
		test(c).want(200)
	}
	c.do("PATCH", "/v1/alerts", `{"slack_webhook_url":"https://example.com/s"}`).want(200)
	for i := range 6 {
		test([]*client{c, other}[i%2]).want(200)
		later(5 * time.Second)
	}
	refused(25, 30)
	later(31 * time.Second)
	test(other).want(200)
	refused(1, 5)
	later(time.Minute)

	var to []string
	for i := range 7 {
		to = append(to, fmt.Sprintf("ops%d@example.com", i))
	}
	c.do("PATCH", "/v1/alerts", map[string]any{"email": to}).want(200)
	test(c).want(200)
	later(10 * time.Minute)
	test(c).want(200) // 14 mails
	later(10 * time.Minute)
	refused(40*60-10, 40*60)
	c.do("PATCH", "/v1/alerts", `{"channels":{"email":{"enabled":false}}}`).want(200)
	test(other).want(200) // only Slack is enabled
	c.do("PATCH", "/v1/alerts", `{"channels":{"email":{"enabled":true}}}`).want(200)
	refused(40*60-10, 40*60)
	later(40 * time.Minute)
	test(other).want(200)
}

// Only one test runs at a time. The claim of a test whose node died expires.
func TestOneAlertTestPerAccountAtATime(t *testing.T) {
	var ahead atomic.Int64
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	c := alertsClient(t, clockAt(&ahead), func(_ *api.Config, d *api.Deps) {
		d.Notifier = sendFunc(func(ctxT, notify.Channel, notify.Message) notify.Result {
			began <- struct{}{}
			<-hold
			return notify.Result{OK: true}
		})
	})
	c.do("PATCH", "/v1/alerts", `{"slack_webhook_url":"https://example.com/s"}`).want(200)
	var all sync.WaitGroup
	all.Go(func() { c.do("POST", "/v1/alerts/test", nil).want(200) })
	<-began
	a := newClient(t, clockAt(&ahead)).do("POST", "/v1/alerts/test", nil).wantError(429, "rate_limited", "")
	if !strings.Contains(a.text("error.message"), "only one runs at a time") || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s", a.raw)
	}
	ahead.Store(int64(16 * time.Second))
	all.Go(func() { c.do("POST", "/v1/alerts/test", nil).want(200) })
	<-began
	close(hold)
	all.Wait()
	all.Go(func() { c.do("POST", "/v1/alerts/test", nil).want(200) }) // both have recorded their end
	<-began
	all.Wait()
}

// The operator may restrict the domains of alert mails.
func TestAlertMailsOnlyToAllowedDomains(t *testing.T) {
	alertsClient(t).do("PATCH", "/v1/alerts", `{"email":"saved@elsewhere.example"}`).want(200)
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) {
		cfg.AlertDomains = notify.Domains{"example.com", "xn--mnchen-3ya.example"}
	})
	for _, to := range []string{"ops@elsewhere.example", "ops@mail.example.com", "ops@example.com.evil.example",
		`\"ops@example.com\"@evil.example`, "ops%evil.example@example.com", "evil.example!ops@example.com"} {
		a := c.do("PATCH", "/v1/alerts", `{"channels":{"email":{"to":["ops@example.com","`+to+`"]}}}`).wantError(400,
			"invalid_request", "channels.email.to[1]")
		is.Has(t, a.text("error.message"), "example.com", "%s", a.raw)
	}
	c.do("PATCH", "/v1/alerts", `{"email":["a@example.com","b@elsewhere.example"]}`).wantError(400, "invalid_request",
		"email[1]")
	c.do("PATCH", "/v1/alerts", `{"cooldown_seconds":60}`).want(200) // saved addresses do not block other changes
	c.do("PATCH", "/v1/alerts", `{"email":["a@example.com","b@EXAMPLE.com","c@münchen.example"]}`).want(200)
	if a := c.do("GET", "/v1/alerts", nil).want(200); !strings.Contains(string(a.raw), "c@xn--mnchen-3ya.example") {
		t.Errorf("the domain is not stored as it was compared: %s", a.raw)
	}
}

type sendFunc func(ctxT, notify.Channel, notify.Message) notify.Result

func (f sendFunc) CanMail() bool { return true }

func (f sendFunc) Send(ctx ctxT, c notify.Channel, m notify.Message) notify.Result {
	return f(ctx, c, m)
}

// Alerts that go nowhere have a warning: of an endpoint whose channel is not set up or disabled, and of a channel that
// gets a new target while it is disabled.
func TestAlertsThatReachNobodyAreWarnedOf(t *testing.T) {
	c := alertsClient(t)
	target := "/v1/endpoints/" + c.endpoint(nil).text("id")
	f := func(path, body string, params ...string) {
		t.Helper()
		a, got := c.do("PATCH", path, body).want(200), []string{}
		for i := range 3 {
			if p, ok := a.get(fmt.Sprintf("warnings.%d.param", i)).(string); ok {
				got = append(got, p)
			}
		}
		is.List(t, got, params, "%s: warnings of", body)
	}
	const slack = "https://hooks.slack.com/services/T0/B0/planted-a1b2"
	f(target, `{"alerts":{"channels":["webhook","slack"]}}`, "alerts.channels[0]", "alerts.channels[1]")
	f("/v1/alerts", `{"channels":{"slack":{"webhook_url":"`+slack+`","enabled":false}}}`)
	f(target, `{"alerts":{"channels":["slack"]}}`) // as it is
	f(target, `{"alerts":{"channels":[]}}`)
	f(target, `{"alerts":{"channels":["slack"]}}`, "alerts.channels[0]")
	f("/v1/alerts", `{"slack_webhook_url":"`+slack+`"}`) // as it is
	f("/v1/alerts", `{"slack_webhook_url":"`+slack+`c"}`, "slack_webhook_url")
	f("/v1/alerts", `{"channels":{"slack":{"webhook_url":"`+slack+`"}}}`, "channels.slack.webhook_url")
	f("/v1/alerts", `{"channels":{"slack":{"webhook_url":"`+slack+`d","enabled":true}}}`)
	f("/v1/alerts", `{"channels":{"slack":{"webhook_url":"`+slack+`"}}}`)
	f(target, `{"alerts":{"channels":["slack"]}}`)
	f(target, `{"alerts":{"channels":[]}}`)
	f(target, `{"name":"x"}`)
}

func TestEndpointAlerts(t *testing.T) {
	c := newClient(t)
	const none = `"alerts":{"enabled":true,"channels":null,"consecutive_failures":null,"failure_rate_percent":null,` +
		`"muted_until":null}`
	created := c.endpoint(nil)
	is.Has(t, string(created.raw), none, "%s", created.raw)
	target := "/v1/endpoints/" + created.text("id")
	a := c.do("PATCH", target,
		`{"alerts":{"channels":["slack"],"consecutive_failures":5,"muted_until":"2030-01-01T02:00:00+02:00","mute":1}}`).
		want(200)
	if want := `"alerts":{"enabled":true,"channels":["slack"],"consecutive_failures":5,"failure_rate_percent":null,` +
		`"muted_until":"2030-01-01T00:00:00.000Z"}`; !strings.Contains(string(a.raw), want) ||
		a.get("warnings.1.param") != "alerts.mute" {
		t.Errorf("%s", a.raw)
	}
	if a = c.do("PATCH", target, `{"alerts":{"enabled":false,"channels":[]}}`).want(200); a.get(
		"alerts.enabled") != false || len(a.get("alerts.channels").([]any)) != 0 ||
		a.get("alerts.consecutive_failures") != 5.0 {
		t.Errorf("%s", a.raw)
	}
	if a = c.do("PATCH", target, `{"alerts":null}`).want(200); !strings.Contains(string(a.raw), none) {
		t.Errorf("%s", a.raw)
	}
}

// The list has the alerts that fire and the resolved ones, page by page, and no record that is not an alert.
func TestAlertHistory(t *testing.T) {
	c := newClient(t)
	endpoint := "ep_alert_history"
	at := time.Date(2026, 9, 1, 12, 0, 0, 123e6, time.UTC)
	save := func(name string, alter func(*alerting.Alert)) {
		t.Helper()
		_, err := configuration.ChangeAlert(t.Context(), name, func(x *alerting.Alert) error {
			x.Endpoint = endpoint
			alter(x)
			return nil
		})
		must.Do(t, err)
		t.Cleanup(func() {
			is.OK(t, configuration.ForgetAlert(context.WithoutCancel(t.Context()), name))
		})
	}
	save("destination.failing/"+endpoint+"/dst_one", func(x *alerting.Alert) {
		x.Rule, x.Destination, x.Firing = "consecutive_failures", "dst_one", true
		x.Since, x.FiredAt, x.Value, x.Threshold = at, at, 22, 20
	})
	save("destination.held/"+endpoint+"/dst_one", func(x *alerting.Alert) {
		x.Rule, x.Destination, x.FiredAt, x.Since = "destination_state", "dst_one", at, at.Add(time.Minute)
		x.Value = "breaker_open"
	})
	save("recovery.ended/"+endpoint+"/rec_one", func(x *alerting.Alert) {
		x.Rule, x.Subject, x.FiredAt, x.Since, x.Value = "recovery", "rec_one", at, at, "stopped"
	})
	save("finding/77", func(x *alerting.Alert) { x.Rule, x.Since, x.FiredAt = "finding", at, at })

	all := c.do("GET", "/v1/alerts/history?endpoint_id="+endpoint, nil).want(200)
	must.Equal(t, len(all.get("data").([]any)), 3, "alerts: %s", all.raw)
	firing := c.do("GET", "/v1/alerts/history?state=firing&endpoint="+endpoint, nil).want(200)
	want := `"object":"alert","type":"alert.destination.failing","rule":"consecutive_failures",` +
		`"endpoint_id":"` + endpoint + `","destination_id":"dst_one","recovery_id":null,"state":"firing",` +
		`"value":22,"threshold":20,"fired_at":"2026-09-01T12:00:00.123Z","resolved_at":null}]}`
	if !strings.HasPrefix(string(firing.raw), `{"data":[{"id":"alrt_`) || !strings.Contains(string(firing.raw), want) {
		t.Errorf("got  %s\nwant %s", firing.raw, want)
	}
	var states []string
	for query := "?limit=1&state=resolved&endpoint=" + endpoint; query != ""; {
		page := c.as(readKey).do("GET", "/v1/alerts/history"+query, nil).want(200)
		states = append(states, page.text("data.0.type")+" "+page.text("data.0.resolved_at"))
		cursor, more := page.get("next_cursor").(string)
		if query = ""; more {
			query = "?limit=1&state=resolved&endpoint=" + endpoint + "&cursor=" + cursor
		}
	}
	if got := strings.Join(states, ", "); got != "alert.recovery.ended 2026-09-01T12:00:00.123Z, "+
		"alert.destination.held 2026-09-01T12:01:00.123Z" {
		t.Error(got)
	}
	c.do("GET", "/v1/alerts/history?state=open", nil).wantError(400, "invalid_request", "state")
	c.do("GET", "/v1/alerts/history?rule=finding", nil).wantError(400, "invalid_request", "rule")
	c.do("GET", "/v1/alerts/history?status=firing", nil).wantError(400, "invalid_request", "status")
}
