package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
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
		is.Equal(t, c.do(method, target, nil).wantError(404, "not_found", "").Header.Get("Allow"), allow,
			"%s: Allow", call)
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

// contract checks answers against the OpenAPI document. Its schemas are closed: the document lets responses grow,
// but a member or an enum value that it does not describe is a gap in the document.
type contract struct {
	operations []describedOperation
	schemas    *jsonschema.Compiler
	failure    *jsonschema.Schema // schema of every error
	source     map[string]any     // the document
	closed     map[string]any     // $defs of the closed schemas
}

type describedOperation struct {
	method    string
	template  string
	path      *regexp.Regexp
	responses map[string]describedResponse
}

type describedResponse struct {
	headers map[string]describedHeader
	bodies  map[string]*jsonschema.Schema // by media type
}

type describedHeader struct {
	required bool
	integer  bool
	schema   *jsonschema.Schema
}

// loadContract reads the document once for all tests of the package.
var loadContract = sync.OnceValues(func() (*contract, error) {
	text, err := api.OpenAPIDocument()
	if err != nil {
		return nil, err
	}
	var source map[string]any
	if err := yaml.Unmarshal(text, &source); err != nil {
		return nil, err
	}
	c := &contract{source: source, closed: map[string]any{}}
	return c, c.read()
})

// at follows names down in the document.
func at(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func members(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// deref follows a reference to a component.
func (c *contract) deref(v any) map[string]any {
	m := members(v)
	if ref, ok := m["$ref"].(string); ok {
		return c.deref(at(c.source, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return m
}

func (c *contract) read() error {
	// Every schema becomes a definition first; they are compiled when all are known.
	type place struct {
		set  func(*jsonschema.Schema)
		name string
	}
	var places []place
	n := 0
	compileLater := func(schema any, set func(*jsonschema.Schema)) {
		n++
		name := "use-" + strconv.Itoa(n)
		c.closed[name] = c.close(schema, false)
		places = append(places, place{set, name})
	}
	for template, item := range members(c.source["paths"]) {
		for method, op := range members(item) {
			if method == "parameters" {
				continue
			}
			o := describedOperation{method: strings.ToUpper(method), template: template,
				responses: map[string]describedResponse{}}
			o.path = regexp.MustCompile(
				"^" + regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + "$")
			for status, raw := range members(at(op, "responses")) {
				res := describedResponse{headers: map[string]describedHeader{}, bodies: map[string]*jsonschema.Schema{}}
				for name, raw := range members(c.deref(raw)["headers"]) {
					header := c.deref(raw)
					required, _ := header["required"].(bool)
					integer := c.deref(header["schema"])["type"] == "integer"
					compileLater(header["schema"], func(s *jsonschema.Schema) {
						res.headers[http.CanonicalHeaderKey(name)] = describedHeader{required, integer, s}
					})
				}
				for kind, media := range members(c.deref(raw)["content"]) {
					compileLater(at(media, "schema"), func(s *jsonschema.Schema) { res.bodies[kind] = s })
				}
				o.responses[status] = res
			}
			c.operations = append(c.operations, o)
		}
	}
	compileLater(map[string]any{"$ref": "#/components/schemas/Error"}, func(s *jsonschema.Schema) { c.failure = s })
	c.schemas = jsonschema.NewCompiler()
	c.schemas.DefaultDraft(jsonschema.Draft2020)
	c.schemas.AssertContent() // data in a stream is JSON
	if err := c.schemas.AddResource("relay:closed", plain(map[string]any{"$defs": c.closed})); err != nil {
		return err
	}
	for _, p := range places {
		schema, err := c.schemas.Compile("relay:closed#/$defs/" + p.name)
		if err != nil {
			return fmt.Errorf("compile a schema of the document: %w", err)
		}
		p.set(schema)
	}
	return nil
}

// plain converts YAML numbers to JSON numbers.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case int:
		return float64(v)
	}
	return v
}

// close returns the schema without room for undescribed members. branch is true for a part of a schema whose other
// parts describe the remaining members.
func (c *contract) close(v any, branch bool) any {
	schema, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, x := range schema {
		switch key {
		case "$ref":
			name := strings.TrimPrefix(x.(string), "#/components/schemas/")
			def := name
			if branch {
				def = name + ".branch"
			}
			if _, done := c.closed[def]; !done {
				c.closed[def] = true // for recursive schemas
				c.closed[def] = c.close(at(c.source, "components", "schemas", name), branch)
			}
			out[key] = "#/$defs/" + def
		case "x-extensible-enum":
			out["enum"] = x
		case "properties":
			properties := map[string]any{}
			for name, p := range members(x) {
				properties[name] = c.close(p, false)
			}
			out[key] = properties
		case "items", "additionalProperties", "contentSchema":
			out[key] = c.close(x, false)
		case "if", "then":
			out[key] = c.close(x, true)
		case "allOf", "oneOf", "anyOf":
			parts := slices.Clone(x.([]any))
			for i := range parts {
				parts[i] = c.close(parts[i], branch || key == "allOf")
			}
			out[key] = parts
		default:
			out[key] = x
		}
	}
	_, open := schema["additionalProperties"]
	_, all := schema["allOf"]
	if kind := schema["type"]; !branch && !open && (all || kind == "object") {
		out["unevaluatedProperties"] = false
	}
	return out
}

// undescribedHeaders lists the headers that the document leaves to HTTP.
var undescribedHeaders = []string{
	"Content-Type", "Content-Length", "Content-Security-Policy", "X-Content-Type-Options", "Cache-Control",
	"Strict-Transport-Security",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Headers", "Access-Control-Max-Age", "Date", "Vary", "Content-Encoding",
}

// checkAnswer returns what in an answer the document does not describe.
func (c *contract) checkAnswer(method, path string, status int, header http.Header, body []byte) error {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var o *describedOperation
	for i := range c.operations {
		if c.operations[i].method == method && c.operations[i].path.MatchString(path) &&
			(o == nil || strings.Count(c.operations[i].template, "{") < strings.Count(o.template, "{")) {
			o = &c.operations[i]
		}
	}
	if o == nil {
		isFile := strings.HasPrefix(path, "/docs") || strings.HasPrefix(path, "/tools/") ||
			strings.HasPrefix(path, "/catalogue") || path == "/scan-bot"
		if isFile && (status == http.StatusOK || status == http.StatusNotModified) {
			return nil // the reference page, which shows the document, a page about leak scans, and programs to download
		}
		if method == http.MethodOptions && status == http.StatusOK {
			return nil // the rules of CORS
		}
		if status < 400 {
			return fmt.Errorf("%s %s is answered %d and is not in the document", method, path, status)
		}
		return validate(c.failure, body)
	}
	res, ok := o.responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s %s: status %d is not in the document", o.method, o.template, status)
	}
	for name, values := range header {
		h, known := res.headers[name]
		if !known && !slices.Contains(undescribedHeaders, name) {
			return fmt.Errorf("%s %s, %d: header %s is not in the document", o.method, o.template, status, name)
		}
		if known {
			if err := h.validate(values); err != nil {
				return fmt.Errorf("%s %s, %d: header %s: %w", o.method, o.template, status, name, err)
			}
		}
	}
	for name, h := range res.headers {
		if h.required && header.Get(name) == "" {
			return fmt.Errorf("%s %s, %d: no header %s", o.method, o.template, status, name)
		}
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	schema := res.bodies[kind]
	switch {
	case len(res.bodies) == 0 && len(body) == 0:
		return nil
	case err != nil || schema == nil:
		return fmt.Errorf("%s %s, %d: media type %q is not in the document", o.method, o.template, status,
			header.Get("Content-Type"))
	case kind == "text/event-stream":
		for _, item := range streamItems(string(body)) {
			if err := schema.Validate(item); err != nil {
				return fmt.Errorf("%s %s, %d: %v: %w", o.method, o.template, status, item, err)
			}
		}
		return nil
	case kind != "application/json":
		return nil
	}
	if err := validate(schema, body); err != nil {
		return fmt.Errorf("%s %s, %d: %w", o.method, o.template, status, err)
	}
	return nil
}

func (h describedHeader) validate(values []string) error {
	var v any = strings.Join(values, ", ")
	if h.integer {
		n, err := strconv.Atoi(values[0])
		if err != nil {
			return err
		}
		v = n
	}
	return h.schema.Validate(v)
}

// streamItems returns the items of a stream of server-sent events, each as an object of its fields.
func streamItems(stream string) (items []any) {
	for block := range strings.SplitSeq(stream, "\n\n") {
		item := map[string]any{}
		for line := range strings.SplitSeq(block, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok && name != "" { // without a name it is a comment
				item[name] = value
			}
		}
		if len(item) > 0 {
			items = append(items, item)
		}
	}
	return items
}

func validate(schema *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// described fails the test if the document does not describe the answer.
func (a *answer) described(method, path string) {
	a.t.Helper()
	c := must.Get(loadContract())(a.t)
	body := a.raw
	if method == http.MethodHead {
		return
	}
	is.OK(a.t, c.checkAnswer(method, path, a.Status, a.Header, body), "the document and the API differ: %s", body)
	if of := readers[a.Body["object"]]; of != nil && method == http.MethodGet && a.Status == http.StatusOK {
		a.readInto(of())
	}
}

// readers are the types of package wire in which the tools of agents read what the API answers, by member object.
var readers = map[any]func() any{
	"endpoint": func() any { return &wire.Endpoint{} }, "finding": func() any { return &wire.Finding{} },
	"recovery": func() any { return &wire.Recovery{} }, "domain": func() any { return &wire.Domain{} },
	"event": func() any { return &wire.Event{} },
}

// readInto fails the test if v, which reads the answer, loses something of it.
func (a *answer) readInto(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.raw, v); err != nil {
		a.t.Errorf("%s is not read: %v\n%s", a.call, err, a.raw)
		return
	}
	var read map[string]any
	again := web.Encode(v)
	if err := json.Unmarshal(again, &read); err != nil || !reflect.DeepEqual(read, a.Body) {
		a.t.Errorf("%s is read as %s\nnot as %s", a.call, again, a.raw)
	}
}

// checkAnswer must refuse answers that the document does not describe.
func TestDocumentCheckFindsViolations(t *testing.T) {
	c := must.Get(loadContract())(t)
	good := func() (http.Header, string) {
		return http.Header{"X-Request-Id": {"req_1"}, "Content-Type": {"application/json"}},
			`{"account_id":"acc_1","key_id":"key_1","key_name":"x","scope":"read","agent":false,"version":"1"}`
	}
	h, body := good()
	must.Do(t, c.checkAnswer("GET", "/v1/me", 200, h, []byte(body)))
	refused := func(method, path string, status int, change func(http.Header), body string) {
		t.Helper()
		h, _ := good()
		change(h)
		if c.checkAnswer(method, path, status, h, []byte(body)) == nil {
			t.Error("accepted")
		}
	}
	same := func(http.Header) {}
	refused("GET", "/v1/nope", 200, same, body)
	refused("POST", "/v1/me", 200, same, body)
	refused("GET", "/v1/me", 204, same, body)
	refused("GET", "/v1/me", 404, same, `{"error":{}}`)
	refused("GET", "/v1/me", 200, same, strings.Replace(body, `"version"`, `"versions"`, 1))
	refused("GET", "/v1/me", 200, same, strings.Replace(body, `{`, `{"more":1,`, 1))
	refused("GET", "/v1/me", 200, same, strings.Replace(body, `"read"`, `"write"`, 1))
	refused("GET", "/v1/me", 200, func(h http.Header) { h.Del("X-Request-Id") }, body)
	refused("GET", "/v1/me", 200, func(h http.Header) { h.Set("X-More", "1") }, body)
	refused("GET", "/v1/me", 200, func(h http.Header) { h.Set("X-RateLimit-Limit", "many") }, body)
	refused("GET", "/v1/me", 200, func(h http.Header) { h.Set("Content-Type", "text/html") }, body)
	refused("GET", "/v1/me", 200, func(h http.Header) { h.Set("Idempotent-Replayed", "true") }, body)

	const path = "/v1/endpoints/ep_1/stream"
	stream := func(h http.Header) { h.Set("Content-Type", "text/event-stream") }
	h, _ = good()
	stream(h)
	item := "id: abc\nevent: ready\ndata: {\"endpoint_id\":\"ep_1\"}\n\n: keep-alive\n\n"
	is.OK(t, c.checkAnswer("GET", path, 200, h, []byte(item)))
	refused("GET", path, 200, stream, strings.Replace(item, "ready", "begin", 1))
	refused("GET", path, 200, stream, strings.Replace(item, "endpoint_id", "endpoint", 1))
	refused("GET", path, 200, stream, strings.Replace(item, `:"ep_1"`, `:"ep_1","more":1`, 1))
	refused("GET", path, 200, stream, strings.Replace(item, "event: ready\n", "", 1))
}

// A receiver that sends events or replays with the headers of a delivery is recognised, as at an ingest URL: events
// are stored without a delivery, and replays are refused.
func TestDeliveryLoopThroughTheAPI(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	route := "/v1/endpoints/" + ep
	const one = `{"type":"a","data":{}}`
	for _, x := range []struct {
		header []string
		loop   bool
	}{
		{[]string{"Relay-Hops", "5"}, true}, {[]string{"Relay-Hops", "1000000"}, true}, {[]string{"Relay-Hops", "4"}, false},
		{[]string{"Relay-Hops", "2", "Relay-Path", ep + "," + ep}, true},
		{[]string{"Relay-Hops", "1", "Relay-Path", ep}, false}, {nil, false},
	} {
		for _, name := range []string{
			c.do("POST", route+"/events", one, x.header...).want(202).text("id"),
			c.do("POST", route+"/test", nil, x.header...).want(202).text("id"),
			c.do("POST", route+"/events/batch", `{"events":[`+one+`]}`, x.header...).want(202).text("data.0.id"),
		} {
			a := c.do("GET", "/v1/events/"+name, nil).want(200)
			is.Equal(t, a.text("status") == "skipped" && a.text("reason") == string(event.DeliveryLoop), x.loop,
				"%v: %s", x.header, a.raw)
			if len(x.header) > 0 && a.text("headers.Relay-Hops") != x.header[1] {
				t.Errorf("%v: the next delivery would not count on: %s", x.header, a.raw)
			}
		}
	}
	name := c.do("POST", route+"/events", one).want(202).text("id")
	for _, target := range []string{
		"/v1/events/" + name + "/replay", "/v1/replays", "/v1/recoveries", "/v1/recoveries/rec_1"} {
		c.do("POST", target, nil, "Relay-Hops", "1").wantError(400, "invalid_state", "Relay-Hops")
	}
	c.do("POST", "/v1/events/"+name+"/replay", nil, "Relay-Hops", "0").want(200)
}
