package api_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/api"
)

func TestForeignHostNamesAreRefused(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) {
		cfg.BaseURL, cfg.AllowedHosts = "https://relay.example.com:8443", []string{"inside.example", "Other.Example"}
	})
	call := func(host string) *answer {
		r := httptest.NewRequest("GET", "/v1/me", nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+c.key)
		return c.serve(r)
	}
	for _, host := range []string{
		"relay.example.com", "relay.example.com:8443", "RELAY.example.com.", "inside.example", "inside.example:80",
		"other.example", "localhost", "localhost:8080",
		"127.0.0.1", "127.0.0.1:8080", "192.0.2.1", "[::1]:8080", "[2001:db8::1]",
	} {
		call(host).want(200)
	}
	for _, host := range []string{
		"", "evil.example", "evil.example:8443", "relay.example.com.evil.example", "xrelay.example.com",
		"localhost.evil.example", "127.0.0.1.evil.example"} {
		call(host).wantError(400, "invalid_request", "host")
	}
	// A missing key still gets 401, and health checks work under every host name.
	r := httptest.NewRequest("GET", "/v1/me", nil)
	r.Host = "evil.example"
	c.serve(r).want(401)
	r = httptest.NewRequest("GET", "/healthz", nil)
	r.Host = "evil.example"
	c.serve(r).want(200)
}

// An empty body is {} with any content type, as curl and fetch send one. A cookie authenticates nothing, so a form of
// another site does nothing with it.
func TestAnEmptyBodyHasNoType(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	replay := "/v1/events/" + c.send(ep) + "/replay"
	for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain;charset=UTF-8"} {
		c.do("POST", replay, nil, "Content-Type", kind).want(200)
		c.do("POST", replay, nil, "Content-Type", kind, "Idempotency-Key", kind).want(200)
		c.do("POST", "/v1/endpoints/"+ep+"/test", nil, "Content-Type", kind).want(202)
		c.do("POST", "/v1/endpoints", nil, "Content-Type", kind).wantError(400, "invalid_request", "destinations")
		c.do("POST", replay, "{}", "Content-Type", kind).wantError(400, "invalid_request", "content-type")
		c.as("").do("POST", replay, nil, "Content-Type", kind, "Cookie", "relay-0="+writeKey+"; key="+writeKey).want(401)
	}
}

// writes are requests with a body; {ep}, {dst} and {evt} stand for what exists.
var writes = []string{
	"POST /v1/endpoints", "POST /v1/endpoints/validate", "PATCH /v1/endpoints/{ep}", "POST /v1/endpoints/{ep}/validate",
	"POST /v1/endpoints/{ep}/events",
	"POST /v1/endpoints/{ep}/events/batch", "POST /v1/endpoints/{ep}/test",
	"POST /v1/endpoints/{ep}/transformation/preview",
	"POST /v1/endpoints/{ep}/destinations", "PATCH /v1/endpoints/{ep}/destinations/{dst}",
	"POST /v1/events/{evt}/replay", "POST /v1/events/{evt}/processing", "POST /v1/replays", "POST /v1/recoveries",
	"PATCH /v1/alerts", "POST /v1/drains", "POST /v1/domains", "POST /v1/scans", "POST /v1/dsns", "POST /v1/fixtures",
	"PATCH /v1/settings/detection", "POST /v1/settings/detection/try", "POST /v1/findings/update",
}

// Any body of any request that changes something gets an answer below 500, which the document describes.
func FuzzBodies(f *testing.F) {
	for i, body := range []string{
		`{"url":"https://a.example/x","verification":{"type":"hmac","header":"X-A","signed_content":"{body}"}}`,
		`{"retry_policy":{"strategy":"schedule","schedule_seconds":[1,2]},"type_source":"body:$.a|header:X"}`,
		`{"type":"a.b","data":{"a":[1,{}]}}`, `{"events":[{"type":"a","data":{},"idempotency_key":"k"}]}`,
		`{"provider":"github"}`,
		`{"ops":[{"op":"rename","from":"/a/*","to":"b.c"}],"sample":{"a":[1]}}`,
		`{"url":"https://a.example","headers":{"Authorization":"x"},"filter":{"types":["a.*"],"body":{"a.b":1}}}`,
		`{"paused":true,"rate_limit":{"per_second":1}}`, `{"destination_ids":["dst_x"]}`,
		`{"state":"processed","details":{"a":1}}`,
		`{"status":"failed","since":"2026-11-20","rate_per_second":20,"dry_run":true}`,
		`{"endpoint_id":"ep_x","since":"2026-11-20"}`, `{"slack_webhook_url":"https://hooks.slack.com/services/a"}`,
		`{"name":"p","platform":"vercel","signing_secret":"x"}`, `{"hostname":"example.com"}`, `{"hostname":"example.com"}`,
		`{"platform":"browser","allowed_origins":["https://*.example.com"]}`,
		`{"event_id":"evt_x","required":[{"pointer":"/a","type":"string"}],"expires_in_seconds":3600}`,
		`{"rules":[{"name":"a","prefixes":["abc_"],"charset":"hex","min":8,"max":40}]}`, `{"text":"abc_0123456789"}`,
		`{"ids":["fnd_x"],"status":"ignored","ignore_until":"2027-01-01T00:00:00Z"}`,
	} {
		f.Add(byte(i), "key", []byte(body))
	}
	f.Fuzz(func(t *testing.T, n byte, idempotencyKey string, body []byte) {
		c := newClient(t)
		ep := c.endpoint(nil)
		path := strings.NewReplacer("{ep}", ep.text("id"), "{dst}", ep.text("destinations.0.id"),
			"{evt}", c.send(ep.text("id"))).Replace(writes[int(n)%len(writes)])
		method, target, _ := strings.Cut(path, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(string(body)))
		r.Header.Set("Authorization", "Bearer "+writeKey)
		r.Header.Set("Content-Type", "application/json")
		if n >= 128 {
			r.Header.Set("Content-Type", "application/x-ndjson")
		}
		r.Header["Idempotency-Key"] = []string{idempotencyKey}
		if a := c.serve(r); a.Status >= 500 {
			t.Fatalf("%s: %d %s\n%s", path, a.Status, a.raw, c.log)
		}
	})
}

// Any query of any list gets an answer below 500.
func FuzzQueries(f *testing.F) {
	for _, query := range []string{
		"status=failed&type=invoice.*&since=2026-11-20", "q=paid&body[data.amount]=4200&header[content-type]=a",
		"limit=0&cursor=x",
		"until=2026-11-20T10:00:00.123Z&provider=stripe&source=api", "body[a..b]=1e400&q=%ff", "method=POST&run_id=run_x&a;b",
	} {
		f.Add(query, "Bearer "+readKey, "evt_x")
	}
	f.Fuzz(func(t *testing.T, query, authorization, lastEvent string) {
		c := newClient(t)
		for _, list := range []string{"/v1/events", "/v1/findings", "/v1/audit", "/v1/endpoints", "/v1/replays", "/v1/usage",
			"/v1/alerts/history", "/v1/fixtures", "/v1/overview"} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", list, nil)
			r.URL = &url.URL{Path: list, RawQuery: query}
			r.Header["Authorization"] = []string{authorization}
			r.Header["Last-Event-Id"] = []string{lastEvent}
			if a := c.serve(r); a.Status >= 500 {
				t.Fatalf("%s?%s: %d %s\n%s", list, query, a.Status, a.raw, c.log)
			}
		}
	})
}
