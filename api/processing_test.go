package api_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// reporter sends processing receipts for one event.
type reporter struct {
	*client
	event string
	now   time.Time
}

func newReporter(t *testing.T) *reporter {
	r := &reporter{now: time.Now()}
	r.client = newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return r.now } })
	r.event = r.send(r.endpoint(nil).text("id"))
	return r
}

func (r *reporter) report(body any) *answer {
	r.t.Helper()
	return r.do("POST", "/v1/events/"+r.event+"/processing", body)
}

func TestProcessingReceipts(t *testing.T) {
	r := newReporter(t)
	r.now = time.Now().Truncate(time.Hour).Add(123_900 * time.Microsecond)
	first := r.now.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
	f := func(body string, want map[string]any) {
		t.Helper()
		a := r.report(body).want(200)
		if len(a.Body) != len(want)+2 || a.text("event_id") != r.event || a.text("created_at") != first {
			t.Errorf("%s", a.raw)
		}
		for path, w := range want {
			if got, there := a.Body[path]; got != w || !there {
				t.Errorf("%s: %s is %v, want %v", body, path, got, w)
			}
		}
	}
	f(`{"state":"processing"}`,
		map[string]any{"state": "processing", "reference": nil, "details": nil, "applied": true, "updated_at": first})
	r.now = r.now.Add(time.Second)
	f(`{"state":"failed","reference":"job 7","details":"no stock"}`,
		map[string]any{"state": "failed", "reference": "job 7", "details": "no stock", "applied": true,
			"updated_at": r.now.UTC().Format("2006-01-02T15:04:05.000Z")})
	f(`{"state":"processing","reference":null,"details":null}`,
		map[string]any{"state": "processing", "reference": nil, "details": nil, "applied": true,
			"updated_at": r.now.UTC().Format("2006-01-02T15:04:05.000Z")})
	f(`{"state":"processed","reference":"inv-1"}`,
		map[string]any{"state": "processed", "reference": "inv-1", "details": nil, "applied": true,
			"updated_at": r.now.UTC().Format("2006-01-02T15:04:05.000Z")})
	done := r.now.UTC().Format("2006-01-02T15:04:05.000Z")
	r.now = r.now.Add(time.Second)
	for _, late := range []string{"failed", "processing"} {
		f(`{"state":"`+late+`","reference":"late"}`,
			map[string]any{"state": "processed", "reference": "inv-1", "details": nil, "applied": false, "updated_at": done})
	}
	got := r.fake.receipts
	for _, receipts := range got {
		for _, x := range receipts {
			if x.Account != configuration.Account().ID || x.Endpoint == "" || x.Event.Text("evt_") != r.event {
				t.Errorf("%+v", x)
			}
		}
		is.Equal(t, len(receipts), 6, "receipts are recorded")
	}
}

func TestProcessingRefused(t *testing.T) {
	r := newReporter(t)
	nested := func(n int) string { return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1) }
	object := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	token := "sk_live_" + strings.Repeat("a1B2", 6)
	good := func(members string) {
		t.Helper()
		r.report(`{"state":"processing"` + members + `}`).want(200)
	}
	bad := func(param, members string) *answer {
		t.Helper()
		return r.report(`{"state":"processing"`+members+`}`).wantError(400, "invalid_request", param)
	}
	for _, body := range []string{
		`{}`, ``, `{"state":null}`, `{"state":"Processed"}`, `{"state":"none"}`, `{"state":"missing"}`, `{"state":1}`,
		`{"state":""}`} {
		r.report(body).wantError(400, "invalid_request", "state")
	}
	for _, body := range []string{`[]`, `{"state":"failed"`, `{"state":"failed"} x`} {
		r.report(body).wantError(400, "invalid_request", "")
	}
	r.report(`{"state":"failed","state":"failed"}`).wantError(400, "invalid_request", "state")

	good(`,"reference":""`)
	good(`,"reference":"` + strings.Repeat("é", 255) + `"`)
	good(`,"reference":"日本 😀"`)
	bad("reference", `,"reference":"`+strings.Repeat("é", 256)+`"`)
	for _, text := range []string{`\u0000`, `a\nb`, `\u202e`, `\u200b`, `\u00a0`, `\ud800`, `\u007f`, "\u2028"} {
		bad("reference", `,"reference":"`+text+`"`)
	}
	for _, kind := range []string{`7`, `{}`, `true`, `["a"]`} {
		bad("reference", `,"reference":`+kind)
	}
	good(`,"details":"` + strings.Repeat("é", 1024) + `"`)
	bad("details", `,"details":"`+strings.Repeat("é", 1024)+`x"`)
	good(`,"details":"` + strings.Repeat(`\u0061`, 2048) + `"`) // the decoded text counts, not its escapes
	bad("details", `,"details":"`+strings.Repeat(`\u0061`, 2049)+`"`)
	good(`,"details":` + object(4096))
	bad("details", `,"details":`+object(4097))
	good(`,"details":` + nested(5))
	bad("details", `,"details":`+nested(6))
	good(`,"details":{"a":[[[[1]]]],"b":"}]{[\"\\"}`)
	bad("details", `,"details":{"a":[[[[[]]]]]}`)
	bad("", `,"details":`+nested(70)) // deeper than any body may be: the whole body is refused
	for _, kind := range []string{`7`, `["a"]`, `true`} {
		bad("details", `,"details":`+kind)
	}
	for param, members := range map[string]string{
		"reference": `"reference":"ref ` + token + `"`,
		"details":   `"details":"` + `\u0073` + token[1:] + `"`,
	} {
		a := bad(param, ","+members)
		if strings.Contains(string(a.raw), token) || !strings.Contains(a.text("error.message"), "Stripe live secret key") {
			t.Errorf("%s", a.raw)
		}
	}
	bad("details", `,"details":{"a":[1,{"`+token+`":true}]}`)
	bad("details", `,"details":{"key":"`+apikey.New()+`"}`)
	bad("details", `,"details":{"pem":"-----BEGIN `+`PRIVATE KEY-----\nMII"}`)
	is.Lacks(t, r.log.String(), token, "the log contains a refused secret")
	a := r.report(`{"state":"failed","refrence":"x","event_id":"evt_1","applied":true}`).want(200)
	if a.text("warnings.0.param") != "refrence" || !strings.Contains(a.text("warnings.0.message"), "reference") ||
		a.get("warnings.1") != nil {
		t.Errorf("%s", a.raw)
	}
}

// Details come back byte for byte: numbers keep their digits, and a text that looks like an object stays a text.
func TestProcessingDetailsKeepTheirBytes(t *testing.T) {
	r := newReporter(t)
	for _, details := range []string{
		`{"n":12345678901234567890.10,"e":1E40,"z":-0,"dup":1,"dup":2}`, `"{\"a\":1}"`, `""`, `{}`,
		`"\u0000\ud800\u2028<b>&"`,
		`"<b>é` + "\u2028" + `"`,
	} {
		a := r.report(`{"state":"processing","details":` + details + `}`).want(200)
		is.Has(t, string(a.raw), `"details":`+details+`,`, "%s became %s", details, a.raw)
	}
}

func TestProcessingOfForeignEvents(t *testing.T) {
	r := newReporter(t)
	body := `{"state":"processed"}`
	for _, name := range []string{"evt_nope", r.endpoint(nil).text("id"), "evt_" + strings.Repeat("0", 26), "rcpt_1"} {
		r.do("POST", "/v1/events/"+name+"/processing", body).wantError(404, "not_found", "")
		r.do("POST", "/v1/events/"+name+"/processing", "broken").wantError(404, "not_found", "")
		r.as(readKey).do("POST", "/v1/events/"+name+"/processing", body).wantError(403, "insufficient_scope", "")
	}
	r.as("").do("POST", "/v1/events/"+r.event+"/processing", body).wantError(401, "authentication_required", "")
	r.do("GET", "/v1/events/"+r.event+"/processing", nil).wantError(404, "not_found", "")
	r.do("POST", "/v1/events/"+r.event+"/processing", body, "Content-Type", "text/plain").wantError(
		400, "invalid_request", "content-type")
	r.now = r.now.AddDate(0, 0, 31)
	r.report(body).wantError(404, "not_found", "")
}

// A store that is behind cannot return the effect of a receipt; the 503 says that the receipt is in the log.
func TestProcessingWhileTheStoreIsBehind(t *testing.T) {
	r := newReporter(t)
	r.fake.ReportFunc = func(ctx context.Context, _ *event.Receipt) (event.ReceiptResult, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Minute {
			t.Error("the wait has no end")
		}
		return event.ReceiptResult{}, errors.Join(event.ErrUnavailable, errors.New("secret address"))
	}
	a := r.report(`{"state":"processed"}`).wantError(503, "unavailable", "")
	if a.Header.Get("Retry-After") == "" || !strings.Contains(a.text("error.message"), "is recorded") ||
		strings.Contains(string(a.raw), "address") {
		t.Errorf("%v %s", a.Header, a.raw)
	}
	ctx, leave := context.WithCancel(t.Context())
	r.fake.ReportFunc = func(report context.Context, x *event.Receipt) (event.ReceiptResult, error) {
		leave()
		return event.ReceiptResult{Receipt: *x, Applied: true}, report.Err()
	}
	r.doCtx(ctx, "POST", "/v1/events/"+r.event+"/processing", `{"state":"processed"}`).want(200)
}

// Personal data in a receipt is warned of, once for each kind, and never repeated; the receipt counts.
func TestReceiptsWarnOfPersonalData(t *testing.T) {
	r := newReporter(t)
	const about = "must not hold personal data, but seems to contain "
	f := func(body string, want ...string) {
		t.Helper()
		a := r.report(body).want(200)
		var got []string
		if list, ok := a.Body["warnings"].([]any); ok {
			for _, x := range list {
				w := x.(map[string]any)
				got = append(got, w["param"].(string)+" "+strings.TrimPrefix(w["message"].(string), about))
			}
		}
		if !slices.Equal(got, want) || a.Body["applied"] != true {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	const email = "an email address; leave it out"
	f(`{"state":"processing","reference":"order 7","details":{"n":1700000000000,"from":"a@example.com"}}`)
	f(`{"state":"processing","reference":"jane@acme.io"}`, "reference "+email)
	f(`{"state":"processing","details":"call +4915112345678"}`, "details a phone number; leave it out")
	f(`{"state":"processing","details":{"jane\u0040acme.io":["DE89370400440532013000"],"b":"b@acme.io"}}`,
		"details "+email, "details the number of a bank account; leave it out")
	f(`{"state":"processing","details":{"n":4111111111111111}}`, "details a card number; leave it out")
}

// The first call counts, the event shows its time, and a replay is refused.
func TestErasePayload(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	ev, other := c.send(ep), c.send(ep)
	path := "/v1/events/" + ev
	if at, there := c.do("GET", path, nil).want(200).Body["payload_erased_at"]; at != nil || !there {
		t.Errorf("before: %v", at)
	}
	first := c.do("DELETE", path+"/payload", nil).want(200)
	if len(first.Body) != 3 || first.text("id") != ev || first.text("object") != "event" {
		t.Errorf("%s", first.raw)
	}
	at := first.text("payload_erased_at")
	if moment, err := time.Parse(time.RFC3339, at); err != nil || time.Since(moment) > time.Hour {
		t.Errorf("erased at %q", at)
	}
	is.Equal(t, c.do("DELETE", path+"/payload", nil).want(200).text("payload_erased_at"), at,
		"a repeat says: the first call said %s", at)
	is.Equal(t, c.do("GET", path, nil).want(200).text("payload_erased_at"), at, "the event says")
	for _, query := range []string{"", "&q=order"} {
		for _, row := range c.do("GET", "/v1/events?endpoint_id="+ep+query, nil).want(200).Body["data"].([]any) {
			row := row.(map[string]any)
			if want := map[any]any{ev: at, other: nil}[row["id"]]; row["payload_erased_at"] != want {
				t.Errorf("%s lists %v as erased at %v, want %v", query, row["id"], row["payload_erased_at"], want)
			}
		}
	}
	c.do("POST", path+"/replay", nil).wantError(400, "invalid_state", "")
	c.do("POST", "/v1/events/"+other+"/replay", nil).want(200)

	c.as(readKey).do("DELETE", path+"/payload", nil).wantError(403, "insufficient_scope", "")
	for _, unknown := range []string{"evt_nope", id.ID{1}.Text(id.Event), "ep_1"} {
		c.do("DELETE", "/v1/events/"+unknown+"/payload", nil).want(404)
	}
	c.do("GET", path+"/payload", nil).want(404)
}

// failingErasures is a configuration log that refuses erasures.
type failingErasures struct{ err error }

func (f failingErasures) ErasePayload(context.Context, id.ID, string) (time.Time, error) {
	return time.Time{}, f.err
}
func (f failingErasures) ErasedAt(id.ID) time.Time { return time.Time{} }

func TestErasePayloadFails(t *testing.T) {
	for err, status := range map[error]int{
		config.ErrUnavailable: 503, config.ErrLevel: 503, config.ErrTooManyErasures: 429, config.ErrStateFull: 400,
		config.ErrRecoveryHistoryFull: 429, jobs.ErrTooManyRuns: 429, config.ErrTooManyEndpoints: 400,
		config.ErrEntityTooLarge: 400, event.ErrUnavailable: 503, errors.New("other"): 500,
	} {
		c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Erasures = failingErasures{err} })
		c.do("DELETE", "/v1/events/"+c.send(c.endpoint(nil).text("id"))+"/payload", nil).want(status)
	}
}
