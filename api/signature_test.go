package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// providerSecret is the secret with which the requests of these tests are signed.
const providerSecret = "a secret of these tests"

// receive stores a signed request of a provider at an endpoint that verifies it, with verdict rejected. change is made
// to the request after it was signed.
func (c *client) receive(scheme string, at time.Time, body string, change func(e *event.Event)) (ep *answer, d id.ID) {
	c.t.Helper()
	ep = c.endpoint(map[string]any{"provider": scheme, "verification": map[string]any{"secret": providerSecret}})
	stored, _ := configuration.Endpoint(ep.text("id"))
	d = must.Get(id.NewGenerator(func() time.Time { return at }).New(stored.Partition))(c.t)
	req := verify.Request{URL: ep.text("ingest_url") + "?", Header: http.Header{}, Body: []byte(body), Now: at}
	must.Do(c.t, verify.Sign(verify.Config{Type: scheme, Secrets: []string{providerSecret}}, req))
	e := &event.Event{
		ID: d, Account: stored.Account, Endpoint: stored.ID, Source: event.SourceProvider, Verdict: event.VerdictRejected,
		Reason: event.SignatureMismatch, Method: "POST", Body: []byte(body),
	}
	for name, values := range req.Header {
		e.Header = append(e.Header, event.Field{Name: name, Value: values[0]})
	}
	change(e)
	c.fake.events[d] = e
	return ep, d
}

func (c *client) explain(d id.ID) *answer {
	c.t.Helper()
	return c.do("GET", "/v1/events/"+d.Text(id.Event)+"/signature", nil)
}

// The explanation of a rejected event shows what was signed and the probable cause, to a read key too.
func TestExplainSignature(t *testing.T) {
	c := newClient(t)
	at := time.Now().Truncate(time.Second)
	_, d := c.receive("stripe", at, `{"a":1}`, func(e *event.Event) { e.Body = []byte("{\"a\":1}\n") })
	a := c.as(readKey).explain(d).want(200)
	full := c.fake.events[d].Header[0].Value
	stamp, mac := strings.TrimPrefix(strings.Split(full, ",")[0], "t="), strings.Split(full, "v1=")[1]
	expected, _ := a.get("secrets.0.expected_prefix").(string)
	want := map[string]any{
		"object": "signature", "event_id": d.Text(id.Event), "scheme": "stripe", "verdict": "rejected",
		"reason":  "signature_mismatch",
		"headers": []any{map[string]any{"name": "Stripe-Signature", "values": []any{full}}}, "url": nil,
		"signed_content": stamp + ".{\"a\":1}\n", "signed_content_encoding": "utf8", "signed_content_truncated": false,
		"signed_content_masked": false, "signed_size_bytes": float64(len(stamp) + 9), "timestamp": stamp,
		"signed_at": at.UTC().Format("2006-01-02T15:04:05.000Z"), "age_seconds": 0.0, "tolerance_seconds": 300.0,
		"received_prefix": mac[:8],
		"secrets":         []any{map[string]any{"last4": "ests", "expected_prefix": expected, "matches": false}},
		"findings": []any{map[string]any{"code": "body_newline", "message": "The signature was made before a newline was " +
			"added at the end of the body: send exactly the signed bytes."}},
	}
	if diff := gocmp.Diff(want, a.Body); diff != "" || len(expected) != 8 {
		t.Errorf("%s\n%s", diff, a.raw)
	}
}

// An event that was rejected before the secret was right can be replayed, however old its signature is.
func TestExplainSignatureThatIsValidNow(t *testing.T) {
	c := newClient(t)
	_, d := c.receive("github", time.Now(), "{}", func(*event.Event) {})
	a := c.explain(d).want(200)
	if a.text("verdict") != "verified" || a.get("reason") != nil || a.get("timestamp") != nil ||
		a.get("tolerance_seconds") != nil || a.text("findings.0.code") != "valid_for_replay" {
		t.Errorf("%s", a.raw)
	}
	c.fake.events[d].Verdict = event.VerdictVerified
	if a := c.explain(d).want(200); len(a.get("findings").([]any)) != 0 {
		t.Errorf("%s", a.raw)
	}
	ep, d := c.receive("slack", time.Now().Add(-time.Hour), "{}", func(e *event.Event) {
		e.ID, _ = id.NewGenerator(time.Now).New(e.ID.Partition())
	})
	d, c.fake.events = c.fake.events[d].ID, map[id.ID]*event.Event{c.fake.events[d].ID: c.fake.events[d]}
	a = c.explain(d).want(200)
	if a.text("reason") != "timestamp_outside_tolerance" || a.text("findings.0.code") != "timestamp_old" ||
		a.text("findings.1.code") != "valid_for_replay" || a.get("age_seconds").(float64) < 3600 {
		t.Errorf("%s", a.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+ep.text("id"), `{"verification":{"mode":"observe"}}`).want(200)
	if a := c.explain(d).want(200); a.text("verdict") != "observed" {
		t.Errorf("%s", a.raw)
	}
}

// The token in the URL that Twilio signs is masked for readers.
func TestExplainSignatureMasksTheToken(t *testing.T) {
	c := newClient(t)
	ep, d := c.receive("twilio", time.Now(), "Body=x", func(*event.Event) {})
	token := strings.TrimPrefix(ep.text("ingest_url"), baseURL+"/in/")
	a := c.explain(d).want(200)
	if a.text("url") != ep.text("ingest_url")+"?" || a.text("signed_content") != a.text("url")+"Bodyx" ||
		a.get("signed_content_masked") != false || a.text("verdict") != "verified" {
		t.Errorf("%s", a.raw)
	}
	a = c.as(readKey).explain(d).want(200)
	masked := baseURL + "/in/****" + token[len(token)-4:] + "?"
	if strings.Contains(string(a.raw), token) || a.text("url") != masked || a.text("signed_content") != masked+"Bodyx" ||
		a.get("signed_content_masked") != true {
		t.Errorf("%s", a.raw)
	}
}

// The signed text is cut to 64 KiB, between characters; bytes that are no text are shown in base64.
func TestExplainSignatureOfALargeBody(t *testing.T) {
	c := newClient(t)
	_, d := c.receive("github", time.Now(), "x"+strings.Repeat("ä", 40_000), func(*event.Event) {})
	a := c.explain(d).want(200)
	if a.get("signed_content_truncated") != true || len(a.text("signed_content")) != 64<<10-1 ||
		a.get("signed_size_bytes") != 80_001.0 || a.text("signed_content_encoding") != "utf8" {
		t.Errorf("%.300s", a.raw)
	}
	_, d = c.receive("github", time.Now(), "\xff", func(*event.Event) {})
	if a := c.explain(d).want(200); a.text("signed_content") != "/w==" || a.text("signed_content_encoding") != "base64" {
		t.Errorf("%s", a.raw)
	}
}

// Events without a signature that can be computed again are refused with what to do.
func TestExplainSignatureRefusals(t *testing.T) {
	c := newClient(t)
	refused := func(d id.ID, text string) {
		t.Helper()
		a := c.explain(d).wantError(400, "invalid_state", "")
		is.Has(t, a.text("error.message"), text, "%s", a.raw)
	}
	sent := must.Get(id.Parse(id.Event, c.send(c.endpoint(nil).text("id"))))(t)
	refused(sent, "sent through the API")
	ep, d := c.receive("github", time.Now(), "{}", func(*event.Event) {})
	c.do("PATCH", "/v1/endpoints/"+ep.text("id"), `{"verification":null}`).want(200)
	refused(d, "verifies no signatures")
	c.do("DELETE", "/v1/endpoints/"+ep.text("id"), nil).want(200)
	refused(d, "was deleted")
	_, d = c.receive("github", time.Now(), "{}", func(*event.Event) {})
	c.do("DELETE", "/v1/events/"+d.Text(id.Event)+"/payload", nil).want(200)
	refused(d, "was erased")
	c.do("GET", "/v1/events/evt_nope/signature", nil).wantError(404, "not_found", "")
	c.do("POST", "/v1/events/"+d.Text(id.Event)+"/signature", nil).wantError(404, "not_found", "")
}

// Twilio treats a response that is not TwiML as an error. The default response follows the provider until a request
// sets another.
func TestDefaultAnswerFollowsTheProvider(t *testing.T) {
	c := newClient(t)
	want := func(a *answer, contentType, body string) *answer {
		t.Helper()
		if a.Status > 201 || a.text("response.content_type") != contentType || a.text("response.body") != body {
			t.Errorf("%d %v", a.Status, a.Body["response"])
		}
		return a
	}
	const json, received = "application/json", `{"received":true}`
	plain := want(c.do("POST", "/v1/endpoints", map[string]any{"url": "https://example.com/h"}), json, received)
	twilio := want(c.do("POST", "/v1/endpoints", map[string]any{"url": "https://example.com/h", "provider": "twilio"}),
		"text/xml", "<Response/>")
	// Without provider, the type of the verification sets it.
	want(c.do("POST", "/v1/endpoints", map[string]any{
		"url": "https://example.com/h", "verification": map[string]any{"type": "twilio", "secret": "12345"},
	}), "text/xml", "<Response/>")
	want(c.do("POST", "/v1/endpoints", map[string]any{
		"url": "https://example.com/h", "provider": "twilio",
		"response": map[string]any{"content_type": json, "body": received},
	}), json, received)

	own := "/v1/endpoints/" + plain.text("id")
	want(c.do("PATCH", own, `{"provider":"twilio"}`), "text/xml", "<Response/>")
	want(c.do("PATCH", own, `{"response":{"body":"<Response></Response>"}}`), "text/xml", "<Response></Response>")
	want(c.do("PATCH", own, `{"provider":"generic"}`), "text/xml", "<Response></Response>")
	want(c.do("PATCH", own, `{"response":null}`), json, received)
	want(c.do("PATCH", "/v1/endpoints/"+twilio.text("id"), `{"provider":"slack"}`), json, received)
}
