package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
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
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
	"Access-Control-Allow-Origin", "Date", "Vary", "Content-Encoding",
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
