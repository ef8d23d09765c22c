package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// TestContract01 and the tests below check what every client relies on, one promise each, as far as this package can
// answer it.

func TestContract01EveryCallNeedsAKey(t *testing.T) {
	c := newClient(t)
	text, key, err := configuration.CreateKey(t.Context(), config.NewKey{Name: "revoked", Scope: config.ReadWrite})
	must.Do(t, err)
	c.as(text).do("GET", "/v1/me", nil).want(200)
	must.Do(t, configuration.RevokeKey(t.Context(), key.ID))
	for _, target := range []string{"/v1", "/v1/", "/v1/me", "/v1/endpoints", "/v1/events/evt_nope", "/v1/nope"} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			c.as("").do(method, target, nil).wantError(401, "authentication_required", "")
			c.as("wrong").do(method, target, nil).wantError(401, "invalid_api_key", "")
			a := c.as(text).do(method, target, nil).wantError(401, "invalid_api_key", "")
			must.Equal(t, a.Header.Get("WWW-Authenticate"), "Bearer", "%s without WWW-Authenticate", a.call)
		}
	}
	for _, header := range []string{"Basic " + writeKey, writeKey, "Bearer", "Bearer ", "Bearer " + writeKey + " x"} {
		c.as("").do("GET", "/v1/me", nil, "Authorization", header).wantError(401, "invalid_api_key", "")
	}
	c.as("").do("GET", "/v1/me", nil, "Authorization", "bearer  "+writeKey).want(200)
}

func TestContract02ReadKeyCannotWrite(t *testing.T) {
	c := newClient(t)
	known := c.endpoint(nil)
	ep, dst := known.text("id"), known.text("destinations.0.id")
	agent, _, err := configuration.CreateKey(t.Context(), config.NewKey{
		Name: "agent", Scope: config.ReadWrite, Agent: true})
	must.Do(t, err)
	for _, key := range []string{readKey, agent} {
		c := c.as(key)
		for _, id := range []string{ep, "ep_nope"} {
			c.do("POST", "/v1/endpoints", "broken").wantError(403, "insufficient_scope", "")
			c.do("PATCH", "/v1/endpoints/"+id, nil).wantError(403, "insufficient_scope", "")
			c.do("DELETE", "/v1/endpoints/"+id, nil).wantError(403, "insufficient_scope", "")
			c.do("POST", "/v1/endpoints/"+id+"/events", nil).wantError(403, "insufficient_scope", "")
			c.do("POST", "/v1/endpoints/"+id+"/destinations", nil).wantError(403, "insufficient_scope", "")
			c.do("PATCH", "/v1/endpoints/"+id+"/destinations/"+dst, nil).wantError(403, "insufficient_scope", "")
			c.do("DELETE", "/v1/endpoints/"+id+"/destinations/"+dst, nil).wantError(403, "insufficient_scope", "")
			c.do("POST", "/v1/endpoints/"+id+"/destinations/"+dst+"/rotate_secret", nil).wantError(403, "insufficient_scope", "")
			c.do("POST", "/v1/endpoints/"+id+"/destinations/"+dst+"/purge", nil).wantError(403, "insufficient_scope", "")
			c.do("POST", "/v1/events/evt_nope/replay", nil).wantError(403, "insufficient_scope", "")
		}
		c.do("POST", "/v1/endpoints/"+ep+"/rotate-token", nil).wantError(403, "insufficient_scope", "")
		c.do("GET", "/v1/endpoints/"+ep, nil).want(200)
		c.do("GET", "/v1/events", nil).want(200)
	}
	if got := c.as(agent).do("GET", "/v1/me", nil).get("agent"); got != true {
		t.Errorf("agent is %v in /v1/me", got)
	}
}

func TestContract05EmptyArrayBroken(t *testing.T) {
	c := newClient(t)
	c.do("POST", "/v1/endpoints", `{}`).wantError(400, "invalid_request", "destinations")
	c.do("POST", "/v1/endpoints", nil).wantError(400, "invalid_request", "destinations")
	for _, body := range []string{`[]`, `{`, `x`, `null`, `"x"`, `{}{}`, `{"a":}`, "\x00", `{"a":"` + "\xff" + `"}`} {
		c.do("POST", "/v1/endpoints", body).wantError(400, "invalid_request", "")
	}
}

func TestContract10UnknownIdsAndRoutes(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	name, dst := ep.text("id"), ep.text("destinations.0.id")
	for _, call := range []string{
		"GET /v1/events/evt_nope", "GET /v1/events/" + name, "GET /v1/nope", "GET /v1", "GET /v1/", "GET /v1/events/",
		"GET /v1//events",
		"GET /v1/events/evt_01m7w6h6kk00r00w2s1cbs4f8h", "GET /v1/events/EVT_01M7W6H6KK00R00W2S1CBS4F8H",
		"GET /v1/events/%2e%2e",
		"GET /v1/events/evt_01m7w6h6kk00r00w2s1cbs4f8h%2fattempts", "GET /v1/events/evt_01m7w6h6kk00r00w2s1cbs4f8h/attempts",
		"POST /v1/events/evt_01m7w6h6kk00r00w2s1cbs4f8h/replay", "POST /v1/events/evt_nope/replay",
		"GET /v1/endpoints/ep_nope", "PATCH /v1/endpoints/ep_nope", "DELETE /v1/endpoints/ep_nope",
		"POST /v1/endpoints/ep_nope/events",
		"GET /v1/endpoints/" + dst, "POST /v1/endpoints/ep_nope/destinations", "POST /v1/endpoints/ep_nope/rotate-token",
		"PATCH /v1/endpoints/" + name + "/destinations/dst_nope",
		"DELETE /v1/endpoints/" + name + "/destinations/dst_nope", "POST /v1/endpoints/" + name +
			"/destinations/dst_nope/rotate_secret",
		"POST /v1/endpoints//events", "POST /v1/endpoints/" + name + "/x/events", "POST /v1/endpoints/" + name + "%2fevents",
		"POST /v1/endpoints/%2f/events",
		"POST /v1/endpoints/" + name + "/destinations/dst_nope/purge", "POST /v1/endpoints/ep_nope/destinations/" +
			dst + "/purge",
		"POST /healthz", "GET /", "GET /nope", "GET /in",
	} {
		method, target, _ := strings.Cut(call, " ")
		c.do(method, target, nil).wantError(404, "not_found", "")
		c.do(method, target, "broken").wantError(404, "not_found", "") // before the body is validated
	}
	for call, allow := range map[string]string{
		"PUT /v1/endpoints": "GET, POST", "DELETE /v1/events": "GET", "OPTIONS /v1/endpoints/ep_x": "DELETE, GET, PATCH",
		"GET /v1/endpoints/ep_x/events": "POST", "TRACE /v1/me": "GET",
	} {
		method, target, _ := strings.Cut(call, " ")
		if got := c.do(method, target, nil).wantError(404, "not_found", "").Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", call, got, allow)
		}
	}
}

// Clients that escape more than they must, "_" as "%5F" for example, mean the same resource.
func TestEscapedIdsAreTheSameIds(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	name, event := ep.text("id"), c.send(ep.text("id"))
	escaped := strings.NewReplacer("_", "%5F", "e", "%65")
	for path, want := range map[string]string{
		"/v1/endpoints/" + escaped.Replace(name): name, "/v1/events/" + escaped.Replace(event): event,
	} {
		is.Equal(t, c.do("GET", path, nil).want(200).text("id"), want, "GET %s", path)
	}
	c.do("POST", "/v1/endpoints/"+escaped.Replace(name)+"/events", `{"type":"a","data":{}}`).want(202)
	c.do("PATCH", "/v1/endpoints/"+escaped.Replace(name), `{"name":"escaped"}`).want(200)
}

func TestContract16DeleteThenEverythingIsGoneButTheEvents(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	event := c.send(ep)
	gone := c.do("DELETE", "/v1/endpoints/"+ep, nil).want(200)
	if gone.text("id") != ep || gone.text("object") != "endpoint" || gone.get("deleted") != true {
		t.Errorf("%s", gone.raw)
	}
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		c.do(method, "/v1/endpoints/"+ep, nil).wantError(404, "not_found", "")
	}
	c.do("POST", "/v1/endpoints/"+ep+"/events", `{"type":"a","data":{}}`).wantError(404, "not_found", "")
	is.Equal(t, c.do("GET", "/v1/events?endpoint_id="+ep, nil).want(200).text("data.0.id"), event, "listed")
	c.do("GET", "/v1/events/"+event, nil).want(200)
	c.do("POST", "/v1/events/"+event+"/replay", nil).wantError(400, "invalid_state", "")
}

// Each error comes before those listed after it: a request with every error gets the first, and when that one is
// corrected, the next.
func TestErrorPrecedence(t *testing.T) {
	c := newClient(t)
	limited := newClient(t, withRates(1, 1, 1))
	const path = "/v1/endpoints/ep_nope/events"
	bad := []string{"Content-Type", "text/plain"}
	c.as("wrong").do("POST", path, "broken", bad...).wantError(401, "invalid_api_key", "")
	limited.as(readKey).do("POST", path, "broken", bad...).wantError(403, "insufficient_scope", "")
	limited.as(readKey).do("POST", path, "broken", bad...).wantError(429, "rate_limited", "")
	limited.as("wrong").do("POST", path, "broken", bad...).want(401)
	c.as(readKey).do("POST", path, "broken", bad...).wantError(403, "insufficient_scope", "")
	c.do("POST", path, "broken", bad...).wantError(404, "not_found", "")
	ep := c.endpoint(nil).text("id")
	c.do("POST", "/v1/endpoints/"+ep+"/events", "broken", bad...).wantError(400, "invalid_request", "content-type")
	c.do("POST", "/v1/endpoints/"+ep+"/events", "broken").wantError(400, "invalid_request", "")
}

// expiredLease is a configuration whose lease has expired.
type expiredLease struct{ *config.Control }

func (expiredLease) Authenticate(string) (*config.Key, error) { return nil, config.ErrLease }

// unavailableLog is a configuration whose log does not answer writes.
type unavailableLog struct{ *config.Control }

func (unavailableLog) CreateEndpoint(context.Context, *config.Endpoint) (*config.Endpoint, error) {
	return nil, config.ErrUnavailable
}

func (unavailableLog) UpdateEndpoint(context.Context, string, func(*config.Endpoint) error) (*config.Endpoint, error) {
	return nil, config.ErrConflict
}

func TestConfigurationErrors(t *testing.T) {
	a := newClient(t, withConfig(expiredLease{configuration})).do("GET", "/v1/me", nil).wantError(503, "unavailable", "")
	if a.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	ep := newClient(t).endpoint(nil).text("id")
	c := newClient(t, withConfig(unavailableLog{configuration}))
	c.do("POST", "/v1/endpoints", `{"url":"https://example.com"}`).wantError(503, "unavailable", "")
	c.do("PATCH", "/v1/endpoints/"+ep, `{"name":"x"}`).wantError(400, "conflict", "")
}

func TestEveryAnswerIsSandboxedAndNamed(t *testing.T) {
	c := newClient(t)
	for _, a := range []*answer{
		c.do("GET", "/v1/me", nil), c.do("GET", "/v1/nope", nil), c.as("").do("GET", "/v1/me", nil),
		c.do("GET", "/healthz", nil),
		c.do("GET", "/readyz", nil), c.do("GET", "/nope", nil), c.do("GET", "/docs/deprecations", nil),
		c.do("POST", "/v1/endpoints", "x"),
	} {
		if a.Header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", a.call, a.Header)
		}
	}
}

func TestHeaderBlockLimits(t *testing.T) {
	c := newClient(t)
	r := func(lines int) int {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "/v1/me", nil)
		req.Host = "localhost"
		req.Header.Set("Authorization", "Bearer "+writeKey)
		for range lines - 1 {
			req.Header.Add("X-Filler", "x")
		}
		return c.serve(req).Status
	}
	for lines, want := range map[int]int{200: 200, 201: 400, 10_000: 400} {
		is.Equal(t, r(lines), want, "%d header lines", lines)
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	c := newClient(t)
	srv := httptest.NewServer(c.api.Handler())
	defer srv.Close()
	for target, want := range map[string]int{"/v1/me": 200, "/healthz": 200, "/v1/nope": 404} {
		r := must.Get(http.NewRequestWithContext(t.Context(), "HEAD", srv.URL+target, nil))(t)
		r.Header.Set("Authorization", "Bearer "+readKey)
		res := must.Get(srv.Client().Do(r))(t)
		if res.Body.Close(); res.StatusCode != want || res.ContentLength <= 0 {
			t.Errorf("HEAD %s: %d, length %d", target, res.StatusCode, res.ContentLength)
		}
	}
}

// Any text in place of an id or a cursor gets a clear 4xx, never a 5xx.
func FuzzIdsAndCursors(f *testing.F) {
	for _, seed := range []string{
		"ep_x", "evt_01m7w6h6kk00r00w2s1cbs4f8h", "..", "%2e%2e", "a/b", "\x00", "\xff", "' OR 1=1",
		"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := newClient(t)
		segment, value := url.PathEscape(s), url.QueryEscape(s)
		for _, call := range []string{
			"GET /v1/events/" + segment, "GET /v1/events/" + segment + "/attempts", "POST /v1/events/" + segment + "/replay",
			"GET /v1/endpoints/" + segment,
			"PATCH /v1/endpoints/" + segment, "POST /v1/endpoints/" + segment + "/events", "DELETE /v1/endpoints/" + segment +
				"/destinations/" + segment,
			"GET /v1/events?cursor=" + value, "GET /v1/endpoints?cursor=" + value, "GET /v1/events?endpoint_id=" + value +
				"&type=" + value + "&limit=" + value,
			"GET /v1/events?since=" + value, "GET /v1/events?" + value + "=1", "GET /v1/events?run_id[]=" + value,
		} {
			method, target, _ := strings.Cut(call, " ")
			if a := c.do(method, target, nil); a.Status != 200 && a.Status != 400 && a.Status != 404 {
				t.Errorf("%s: %d\n%s", call, a.Status, a.raw)
			}
		}
	})
}
