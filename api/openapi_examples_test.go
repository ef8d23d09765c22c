package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Every request example of the document is sent, on an endpoint and an event of its own, and succeeds as the
// document says. The harness compares the answer with its schema.
func TestExamplesOfTheDocument(t *testing.T) {
	doc := must.Get(loadContract())(t)
	sent := 0
	for template, item := range members(doc.source["paths"]) {
		for method, op := range members(item) {
			if method == "parameters" {
				continue
			}
			success := slices.MinFunc(slices.Collect(maps.Keys(members(at(op, "responses")))), strings.Compare)
			want, err := strconv.Atoi(success)
			if err != nil || want > 299 {
				t.Fatalf("%s %s has no success", method, template)
			}
			content := members(at(op, "requestBody", "content"))
			if at(op, "requestBody", "required") == true && len(content) == 0 {
				t.Errorf("%s %s needs a body and has none", method, template)
			}
			for kind, media := range content {
				examples := members(at(media, "examples"))
				if len(examples) == 0 {
					t.Errorf("%s %s has no example", method, template)
				}
				for name, example := range examples {
					t.Run(at(op, "operationId").(string)+"/"+name, func(t *testing.T) {
						body, isText := at(example, "value").(string)
						if !isText {
							text := must.Get(json.Marshal(at(example, "value")))(t)
							body = string(text)
						}
						c := newClient(t, withJobsOf(3))
						path, body := c.fill(template, body)
						c.do(strings.ToUpper(method), path, body, "Content-Type", kind).want(want)
					})
					sent++
				}
			}
		}
	}
	if sent < 20 {
		t.Errorf("the document has %d examples", sent)
	}
}

// exampleDomain is the domain in examples.
const exampleDomain = "dom_zj5n7rbw3ye9d6c8m2v0x4ktq1"

// fill creates what a path names and replaces the example ids with its ids.
func (c *client) fill(path, body string) (string, string) {
	c.t.Helper()
	ep := c.endpoint(map[string]any{"destinations": []any{"https://example.com/a", "https://example.com/b"}})
	ids := map[string]string{"{tenant_name}": c.tenant("example"),
		"{event_type_name}": c.eventType("example"), "{issue_id}": c.issue("http_502"),
		"{endpoint_id}":    ep.text("id"),
		"{destination_id}": ep.text("destinations.0.id")}
	if strings.HasSuffix(path, "/ack") {
		created := c.do("POST", "/v1/endpoints/"+ep.text("id")+"/destinations", `{"pull":{}}`).want(201)
		ids["{destination_id}"] = created.text("id")
	}
	if strings.Contains(path, "{event_id}") {
		ids["{event_id}"] = c.send(ep.text("id"))
	}
	if strings.Contains(path, "{run_id}") {
		c.send(ep.text("id"))
		run := map[string]any{"endpoint_id": ep.text("id"), "since": since()}
		ids["{run_id}"] = c.do("POST", "/v1/replays", run).want(200).text("run_id")
	}
	if strings.Contains(path, "{recovery_id}") {
		ids["{recovery_id}"] = c.recovery(ep.text("id")).text("id")
	}
	if strings.Contains(path, "{drain_id}") {
		ids["{drain_id}"] = c.drain("example").text("id")
	}
	if strings.Contains(path, "{scan_id}") {
		ids["{scan_id}"] = c.scan("scan.example.com").text("id")
	}
	if strings.Contains(body, exampleDomain) {
		body = strings.ReplaceAll(body, exampleDomain, c.verifiedDomain("scan.example.com"))
	}
	if strings.Contains(path, "{domain_id}") {
		ids["{domain_id}"] = c.domain("example.example.com").text("id")
	}
	if strings.Contains(path, "{tripwire_id}") {
		ids["{tripwire_id}"] = c.tripwire("key").text("id")
	}
	if strings.Contains(path, "{dsn_id}") {
		ids["{dsn_id}"] = c.dsn("example").text("id")
	}
	if strings.Contains(path, "{finding_id}") {
		ids["{finding_id}"] = c.finding()
	}
	if strings.Contains(path, "{fixture_id}") {
		ids["{fixture_id}"] = c.fixture(`{"a":1}`).text("id")
	}
	if strings.Contains(body, exampleEvent) {
		body = strings.ReplaceAll(body, exampleEvent, c.send(ep.text("id")))
	}
	// Selections reach 31 days back.
	body = strings.ReplaceAll(body, exampleDay, time.Now().UTC().AddDate(0, 0, -7).Format(time.DateOnly))
	for name, id := range ids {
		path = strings.ReplaceAll(path, name, id)
	}
	for placeholder, id := range map[string]string{
		exampleEndpoint: ep.text("id"), exampleDestination: ep.text("destinations.0.id")} {
		body = strings.ReplaceAll(body, placeholder, id)
	}
	return path, body
}

// IDs and the day in the request examples.
const (
	exampleEndpoint    = "ep_6c8m2v0x4ktq1zj5n7rbw3ye9d"
	exampleEvent       = "evt_01m7w6h6kk00r00w2s1cbs4f8h"
	exampleDestination = "dst_0w3ye9d6c8m2v0x4ktq1zj5n7r"
	exampleDay         = "2026-11-20"
)

// Each example of a schema is valid for it.
func TestExamplesOfSchemasAreValid(t *testing.T) {
	source := plain(must.Get(loadContract())(t).source).(map[string]any)
	schemas, examples := map[string]any{}, map[string][]any{}
	var collect func(at string, v any)
	collect = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, element := range v {
				collect(at+"/"+strconv.Itoa(i), element)
			}
		case map[string]any:
			list, isSchema := v["examples"].([]any) // of bodies they are objects
			if isSchema {
				schemas["at"+strconv.Itoa(len(schemas))], examples[at] = v, list
				v["$comment"] = at
			}
			for name, inner := range v {
				if name != "examples" {
					collect(at+"/"+name, inner)
				}
			}
		}
	}
	collect("", at(source, "components", "schemas"))
	collect("", source["paths"])
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	document := map[string]any{"components": source["components"], "$defs": schemas}
	must.Do(t, compiler.AddResource("relay:examples", document))
	for name, schema := range schemas {
		where := schema.(map[string]any)["$comment"].(string)
		compiled := must.Get(compiler.Compile("relay:examples#/$defs/" + name))(t)
		for _, example := range examples[where] {
			is.OK(t, compiled.Validate(example), where)
		}
	}
	if len(schemas) < 100 {
		t.Errorf("%d schemas have examples", len(schemas))
	}
}

// A member of a request may be null where the document says so, and only there.
func TestNullIsAcceptedWhereTheDocumentSaysSo(t *testing.T) {
	doc := must.Get(loadContract())(t)
	tried := 0
	for template, item := range members(doc.source["paths"]) {
		for method, op := range members(item) {
			media := at(op, "requestBody", "content", "application/json")
			schema := doc.deref(at(media, "schema"))
			names := slices.Sorted(maps.Keys(members(at(media, "examples"))))
			isForeign := at(op, "operationId") == "importEventTypes" // its body is an OpenAPI document, read as far as needed
			if len(names) == 0 || len(members(schema["properties"])) == 0 || isForeign {
				continue
			}
			t.Run(at(op, "operationId").(string), func(t *testing.T) {
				c := newClient(t, withJobsOf(3))
				text := must.Get(json.Marshal(at(media, "examples", names[0], "value")))(t)
				path, filled := c.fill(template, string(text))
				for name, property := range members(schema["properties"]) {
					body := map[string]any{}
					if json.Unmarshal([]byte(filled), &body) != nil {
						return // a batch
					}
					body[name] = nil
					allowed := doc.allowsNull(property)
					a := c.do(strings.ToUpper(method), path, body)
					message, _ := a.get("error.message").(string)
					switch {
					case a.Status < 300 && !allowed:
						t.Errorf("%s: null is accepted, and the document does not say so", name)
					case a.Status == 400 && allowed && a.get("error.param") == name && strings.HasPrefix(message, "must be a"):
						t.Errorf("%s: null is refused, and the document allows it: %s", name, message)
					}
					tried++
				}
			})
		}
	}
	if tried < 100 {
		t.Errorf("%d members were tried", tried)
	}
}

// allowsNull reports whether null is valid for a schema of the document. A schema without a type is one of any value.
func (c *contract) allowsNull(v any) bool {
	if v == false {
		return false
	}
	s := c.deref(v)
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if all, ok := s[keyword].([]any); ok {
			return slices.ContainsFunc(all, c.allowsNull)
		}
	}
	if all, ok := s["allOf"].([]any); ok {
		return !slices.ContainsFunc(all, func(part any) bool { return !c.allowsNull(part) })
	}
	types, isList := s["type"].([]any)
	isAny := s["type"] == nil && s["const"] == nil && s["enum"] == nil
	return isAny || s["type"] == "null" || isList && slices.Contains(types, any("null"))
}
