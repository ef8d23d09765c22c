package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The ingest limit is merged member by member; null removes one member or the whole limit.
func TestIngestLimitIsMerged(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	target := "/v1/endpoints/" + ep.text("id")
	if ep.get("ingest_limit") != nil {
		t.Errorf("at first: %s", ep.raw)
	}
	for _, step := range []struct{ patch, events, bytes string }{
		{`{"events_per_second":5}`, "5", "<nil>"},
		{`{"bytes_per_second":2048}`, "5", "2048"},
		{`{"events_per_second":null}`, "<nil>", "2048"},
		{`{}`, "<nil>", "2048"},
	} {
		c.do("PATCH", target, `{"ingest_limit":`+step.patch+`}`).want(200)
		got := c.do("GET", target, nil).want(200)
		events := fmt.Sprint(got.get("ingest_limit.events_per_second"))
		bytes := fmt.Sprint(got.get("ingest_limit.bytes_per_second"))
		if events != step.events || bytes != step.bytes {
			t.Errorf("after %s: %s events, %s bytes", step.patch, events, bytes)
		}
	}
	c.do("PATCH", target, `{"ingest_limit":{"bytes_per_second":null}}`).wantError(400, "invalid_request", "ingest_limit")
	if got := c.do("PATCH", target, `{"ingest_limit":null}`).want(200); got.get("ingest_limit") != nil {
		t.Errorf("%s", got.raw)
	}
}

// Above the endpoint's limit a send gets 429, and each event of a batch gets its own result. The Idempotency-Key of
// a refused event is released.
func TestSendingOverTheIngestLimit(t *testing.T) {
	c := newClient(t)
	target, room := "/v1/endpoints/"+c.endpoint(nil).text("id")+"/events", 1
	c.fake.AcceptFunc = func(context.Context, *event.Event) error {
		if room--; room >= 0 {
			return nil
		}
		return &web.Error{
			Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: 2 * time.Second, Message: "over the limit",
			Err: stream.ErrBufferFull,
		}
	}
	body := `{"type":"a.b","data":{}}`
	c.do("POST", target, body).want(202)
	refused := c.do("POST", target, body, "Idempotency-Key", "k1").wantError(429, "rate_limited", "")
	is.Equal(t, refused.Header.Get("Retry-After"), "2", refused.Header)
	room = 1
	c.do("POST", target, body, "Idempotency-Key", "k1").want(202)
	room = 2
	keyed := `{"type":"a.b","data":{},"idempotency_key":"k2"}`
	batch := c.do("POST", target+"/batch", `{"events":[`+body+`,`+body+`,`+body+`,`+keyed+`]}`).want(202)
	for i, want := range []any{nil, nil, "rate_limited", "rate_limited"} {
		is.Equal(t, batch.get(fmt.Sprintf("data.%d.error.type", i)), want, "event %d: %s", i, batch.raw)
	}
	room = 1
	again := c.do("POST", target+"/batch", `{"events":[`+keyed+`]}`).want(202)
	if again.get("data.0.id") == nil {
		t.Errorf("%s", again.raw)
	}
}

// The store gets the API key of each read, and a key with too many concurrent reads gets 429.
func TestReadsOfAKeyAreBounded(t *testing.T) {
	c := newClient(t)
	var caller string
	c.fake.EventFunc = func(ctx context.Context, _ string, _ id.ID) (*event.Detail, error) {
		caller = event.Caller(ctx)
		return nil, fmt.Errorf("%w: 8 reads are running", event.ErrOverloaded)
	}
	a := c.do("GET", "/v1/events/"+id.NewGenerator(nil).NewUnbounded(1).Text(id.Event), nil).want(429)
	if a.text("error.type") != "rate_limited" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v", a.raw, a.Header)
	}
	if me := c.do("GET", "/v1/me", nil).want(200).text("key_id"); caller != me {
		t.Errorf("the store was asked for %q, the key is %q", caller, me)
	}
}

func TestRateLimitMerges(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/endpoints",
		`{"destinations":[{"url":"https://a.example","rate_limit":{"per_second":2.5}}]}`).want(201)
	ep := created.text("id")
	dst := "/v1/endpoints/" + ep + "/destinations/" + created.text("destinations.0.id")
	stored := func(want *config.RateLimit) {
		t.Helper()
		e, _ := configuration.Endpoint(ep)
		if got := e.Destinations[0].RateLimit; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("stored %+v, want %+v", got, want)
		}
	}
	if created.get("destinations.0.rate_limit.per_second") != 2.5 ||
		created.get("destinations.0.rate_limit.burst") != 3.0 {
		t.Errorf("%s", created.raw)
	}
	stored(&config.RateLimit{PerSecond: 2.5, Burst: 3})
	// no request has set the burst, so it follows the rate
	c.do("PATCH", dst, `{"rate_limit":{"per_second":100}}`).want(200)
	stored(&config.RateLimit{PerSecond: 100, Burst: 100})
	c.do("PATCH", dst, `{"rate_limit":{"burst":7}}`).want(200)
	stored(&config.RateLimit{PerSecond: 100, Burst: 7})
	c.do("PATCH", dst, `{"rate_limit":{"per_second":0.1}}`).want(200)
	stored(&config.RateLimit{PerSecond: 0.1, Burst: 7})
	c.do("PATCH", dst, `{"name":"other"}`).want(200)
	stored(&config.RateLimit{PerSecond: 0.1, Burst: 7})
	if a := c.do("PATCH", dst, `{"rate_limit":{"per_minute":6}}`).want(200); a.text(
		"warnings.0.param") != "rate_limit.per_minute" {
		t.Errorf("%s", a.raw)
	}
	if a := c.do("PATCH", dst, `{"rate_limit":null}`).want(200); a.get("rate_limit") != nil {
		t.Errorf("%s", a.raw)
	}
	stored(nil)
	c.do("PATCH", dst, `{"rate_limit":{"burst":7}}`).wantError(400, "invalid_request", "rate_limit.per_second")
	c.do("PATCH", dst, `{"rate_limit":{"per_second":0.1}}`).want(200)
	stored(&config.RateLimit{PerSecond: 0.1, Burst: 1})
}

func TestDedupMerges(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"dedup": map[string]any{"key": "body:$.id"}})
	ep := created.text("id")
	stored := func(want *config.Dedup) {
		t.Helper()
		e, _ := configuration.Endpoint(ep)
		if got := e.Dedup; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("stored %+v, want %+v", got, want)
		}
	}
	stored(&config.Dedup{Key: "body:$.id", WindowSeconds: 86400})
	if created.get("dedup.window_seconds") != 86400.0 || created.text("dedup.key") != "body:$.id" {
		t.Errorf("%s", created.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+ep, `{"dedup":{"window_seconds":60}}`).want(200)
	stored(&config.Dedup{Key: "body:$.id", WindowSeconds: 60})
	c.do("PATCH", "/v1/endpoints/"+ep, `{"dedup":{"key":"header:X-Id"}}`).want(200)
	stored(&config.Dedup{Key: "header:X-Id", WindowSeconds: 60})
	if a := c.do("PATCH", "/v1/endpoints/"+ep, `{"dedup":{"window":1}}`).want(200); a.text(
		"warnings.0.param") != "dedup.window" {
		t.Errorf("%s", a.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+ep, `{"dedup":null}`).want(200)
	stored(nil)
}

// Like the type source, the deduplication of a provider's webhooks follows the provider until a request sets another
// one: the id of another provider's body may name an order, of which all webhooks but the first would be duplicates.
func TestDedupFollowsTheProvider(t *testing.T) {
	c := newClient(t)
	dedupOf := func(a *answer) any { return a.want(200).get("dedup.key") }
	created := c.do("POST", "/v1/endpoints", `{"provider":"stripe","destinations":["https://a.example"]}`).want(201)
	path := "/v1/endpoints/" + created.text("id")
	is.Equal(t, created.get("dedup.key"), any("body:$.id"))
	is.Equal(t, dedupOf(c.do("PATCH", path, `{"provider":"shopify"}`)), any("header:X-Shopify-Webhook-Id"))
	c.do("PATCH", path, `{"dedup":{"window_seconds":60}}`).want(200)
	github := c.do("PATCH", path, `{"provider":"github"}`).want(200)
	is.Equal(t, github.get("dedup.key"), any("header:X-GitHub-Delivery"))
	is.Equal(t, github.get("dedup.window_seconds"), any(60.0))
	is.Equal(t, dedupOf(c.do("PATCH", path, `{"provider":"generic"}`)), nil)
	is.Equal(t, dedupOf(c.do("PATCH", path, `{"provider":"stripe"}`)), nil) // it may have been turned off
	is.Equal(t, dedupOf(c.do("PATCH", path, `{"provider":"shopify","dedup":{"key":"header:X-Own"}}`)),
		any("header:X-Own"))
	is.Equal(t, dedupOf(c.do("PATCH", path, `{"provider":"stripe"}`)), any("header:X-Own"))
}

func TestDestinationStates(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/endpoints", `{"destinations":["https://a.example","https://b.example"]}`).want(201)
	target := "/v1/endpoints/" + created.text("id")
	first, second := created.text("destinations.0.id"), created.text("destinations.1.id")
	want := func(state string, reason any, other string) {
		t.Helper()
		for call, prefix := range map[string]string{
			"GET " + target: "", "PATCH " + target: "", "GET /v1/endpoints?limit=1": "data.0."} {
			method, path, _ := strings.Cut(call, " ")
			a := c.do(method, path, nil).want(200)
			if a.text(prefix+"destinations.0.state") != state || a.get(prefix+"destinations.0.state_reason") != reason ||
				a.text(prefix+"destinations.1.state") != other {
				t.Errorf("%s: %s, want %s %v, and %s", call, a.raw, state, reason, other)
			}
		}
	}
	want("active", nil, "active")
	var asked [][]string
	c.fake.HeldFunc = func(dests []string) map[string]time.Time {
		asked = append(asked, dests)
		return map[string]time.Time{first: time.Now().Add(time.Minute)}
	}
	want("held", "breaker_open", "active")
	if len(asked) != 3 || fmt.Sprint(asked[0]) != fmt.Sprint([]string{first, second}) {
		t.Errorf("asked %v: want one question for each answer", asked)
	}
	if a := c.do("PATCH", target+"/destinations/"+first, `{"paused":true}`).want(200); a.text("state") != "paused" ||
		a.text("state_reason") != "manual" || a.get("paused") != true {
		t.Errorf("%s", a.raw)
	}
	want("paused", "manual", "active")
	c.do("PATCH", target+"/destinations/"+first, `{"paused":false}`).want(200)
	if a := c.do("PATCH", target, `{"paused":true}`).want(200); a.get("paused") != true ||
		a.get("destinations.0.paused") != false {
		t.Errorf("%s", a.raw)
	}
	want("paused", "manual", "paused")
	c.do("PATCH", target+"/destinations/"+first, `{"enabled":false}`).want(200)
	want("disabled", "manual", "paused")
	if _, err := configuration.UpdateEndpoint(t.Context(), created.text("id"), func(e *config.Endpoint) error {
		e.Paused, e.Destinations[0].StateReason = false, "gone_410"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want("disabled", "gone_410", "active")
	c.do("PATCH", target+"/destinations/"+first, `{"enabled":true}`).want(200)
	want("held", "breaker_open", "active")
}

func TestPurgeDestination(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 0, 0, 123_456_789, time.UTC)
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	created := c.endpoint(nil)
	ep, dst := created.text("id"), created.text("destinations.0.id")
	target := "/v1/endpoints/" + ep + "/destinations/" + dst + "/purge"
	purged := func(body, want string) {
		t.Helper()
		a := c.do("POST", target, body).want(200)
		if a.text("id") != dst || a.text("object") != "destination" || a.text("purged_before") != want || len(a.Body) != 3 {
			t.Errorf("%s", a.raw)
		}
		e, _ := configuration.Endpoint(ep)
		is.Equal(t, e.Destinations[0].PurgeBefore.Format("2006-01-02T15:04:05.000Z"), want, "stored")
	}
	purged(`{"before":"2026-08-21T23:00:00+02:00"}`, "2026-08-21T21:00:00.000Z")
	purged(``, "2026-08-21T22:00:00.124Z") // everything of the current millisecond
	purged(`{}`, "2026-08-21T22:00:00.124Z")
	now = now.Add(time.Hour)
	purged(`{"before":"2026-08-21"}`, "2026-08-21T22:00:00.124Z") // an earlier time changes nothing
	purged(`{"before":"2026-08-21T23:00:00.123456789Z"}`, "2026-08-21T23:00:00.123Z")
	purged(`{}`, "2026-08-21T23:00:00.124Z")
	for _, bad := range []string{
		`{"before":"2026-08-21T23:00:00.123456790Z"}`, `{"before":"2027-01-01"}`, `{"before":"soon"}`, `{"before":null}`,
		`{"before":1}`, `{"before":""}`} {
		c.do("POST", target, bad).wantError(400, "invalid_request", "before")
	}
	// if it were ignored, everything would be purged
	c.do("POST", target, `{"befor":"2026-08-21"}`).wantError(400, "invalid_request", "befor")
	c.do("POST", target, `[]`).wantError(400, "invalid_request", "")
	c.do("POST", "/v1/endpoints/"+ep+"/destinations/dst_nope/purge", nil).wantError(404, "not_found", "")
	c.do("GET", target, nil).wantError(404, "not_found", "")
}

func TestVerificationSecretMasks(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"secret": "first-secret-aaaa"}})
	ep := created.text("id")
	target := "/v1/endpoints/" + ep
	live := func(want ...string) {
		t.Helper()
		e, _ := configuration.Endpoint(ep)
		var got []string
		for _, sealed := range e.Verification.Secrets {
			text := must.Get(keyring().OpenString(ep, seal.FieldVerification, sealed))(t)
			got = append(got, text)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("secrets %v, want %v", got, want)
		}
	}
	patch := func(verification string) *answer {
		t.Helper()
		return c.do("PATCH", target, `{"verification":`+verification+`}`)
	}
	patch(`{"secrets":["****aaaa","second-secret-bbbb"]}`).want(200)
	live("first-secret-aaaa", "second-secret-bbbb")
	is.Equal(t, c.do("GET", target, nil).text("verification.secret_last4"), "aaaa", "secret_last4")
	patch(`{"secret":"****aaaa"}`).want(200) // the mask in responses leaves all secrets unchanged
	patch(`{"mode":"observe"}`).want(200)
	patch(`{"secrets":["****aaaa","****bbbb"]}`).want(200)
	live("first-secret-aaaa", "second-secret-bbbb")
	patch(`{"secrets":["third-secret-cccc","****bbbb","****aaaa"]}`).want(200)
	live("third-secret-cccc", "second-secret-bbbb", "first-secret-aaaa")
	is.Equal(t, c.do("GET", target, nil).text("verification.secret_last4"), "cccc", "secret_last4")
	patch(`{"secrets":["****bbbb"]}`).want(200)
	live("second-secret-bbbb")
	patch(`{"secrets":["****bbbb","****bbbb"]}`).wantError(400, "invalid_request", "verification.secrets[1]")
	patch(`{"secrets":["x","****zzzz"]}`).wantError(400, "invalid_request", "verification.secrets[1]")
	patch(`{"secret":"****zzzz"}`).wantError(400, "invalid_request", "verification.secret")
	patch(`{"secret":"****"}`).wantError(400, "invalid_request", "verification.secret")
	patch(`{"secret":"x","secrets":["y"]}`).wantError(400, "invalid_request", "verification.secrets")
	patch(`{"secrets":["a","b","c","****bbbb"]}`).wantError(400, "invalid_request", "verification.secrets")
	live("second-secret-bbbb")
	patch(`{"secret":"****ends-like-a-mask"}`).want(200) // longer than any mask, so it is a secret
	live("****ends-like-a-mask")
	patch(`{"secrets":["short-1","short-2"]}`).want(200) // too short to show their ends: they have the same mask
	patch(`{"secrets":["new-secret-dddd","****"]}`).want(200)
	live("new-secret-dddd", "short-1")
	patch(`{"type":"github","secret":"first-secret-aaaa"}`).want(200)
	live("first-secret-aaaa")
	// After a change of the provider the old masks are invalid.
	c.do("PATCH", target, `{"provider":"stripe","verification":{"type":"stripe","secret":"****aaaa"}}`).wantError(
		400, "invalid_request", "verification.secret")
}
