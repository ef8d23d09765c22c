package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// eventType creates an event type with a schema, and returns its name.
func (c *client) eventType(name string) string {
	c.t.Helper()
	return c.do("PUT", "/v1/event_types/"+url.PathEscape(name), `{"group":"Invoices","description":"Of `+name+`","schema":
		{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer","minimum":1},
		"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"}}}}}},
		"example":{"amount":3}}`).want(200).text("name")
}

func TestEventTypes(t *testing.T) {
	c := newClient(t)
	name := c.eventType("orders/paid")
	path := "/v1/event_types/" + url.PathEscape(name)
	if got := c.do("GET", path, nil).want(200); got.get("version") != 1.0 || got.get("example.amount") != 3.0 ||
		got.get("deprecated") != false {
		t.Errorf("%s", got.raw)
	}
	// The same schema with its members in another order is the same version; another one is the next.
	const reordered = `{"schema":{"properties":{"lines":{"items":{"properties":{"sku":{"type":"string"}},"type":"object"},
		"type":"array"},"amount":{"minimum":1,"type":"integer"}},"required":["amount"],"type":"object"},"deprecated":true}`
	if got := c.do("PATCH", path, reordered).want(200); got.get("version") != 1.0 || got.get("deprecated") != true ||
		got.text("group") != "Invoices" {
		t.Errorf("%s", got.raw)
	}
	if got := c.do("PUT", path, `{"schema":true}`).want(200); got.get("version") != 2.0 || got.text("group") != "" ||
		got.get("example") != nil || got.get("versions.0.example.amount") != 3.0 {
		t.Errorf("%s", got.raw)
	}
	for i := range 12 {
		c.do("PATCH", path, fmt.Sprintf(`{"schema":{"maxItems":%d}}`, i)).want(200)
	}
	if got := c.do("GET", path, nil).want(200); got.get("version") != 14.0 || got.get("versions.0.version") != 5.0 {
		t.Errorf("the oldest versions stay: %s", got.raw)
	}
	c.do("POST", "/v1/event_types", map[string]any{"name": name}).wantError(400, "conflict", "name")
	first := c.do("POST", "/v1/event_types", `{"name":"once"}`, "Idempotency-Key", "event type").want(201)
	if got := c.do("POST", "/v1/event_types", `{"name":"once"}`, "Idempotency-Key", "event type").want(201); string(
		got.raw) != string(first.raw) {
		t.Errorf("repeated: %s", got.raw)
	}
	for _, x := range []struct{ body, param string }{
		{`{}`, "name"}, {`{"name":"a b"}`, "name"}, {`{"name":"seen"}`, "name"}, {`{"name":"openapi.json"}`, "name"},
		{`{"name":"x","schema":{"type":"text"}}`, "schema"}, {`{"name":"x","schema":{"$ref":"https://e.com/s"}}`, "schema"},
		{`{"name":"x","schema":"` + strings.Repeat("x", 66_000) + `"}`, "schema"}, {`{"name":"x","group":3}`, "group"},
		{`{"name":"x","example":"` + strings.Repeat("x", 33_000) + `"}`, "example"},
	} {
		c.do("POST", "/v1/event_types", x.body).wantError(400, "invalid_request", x.param)
	}
	c.do("PATCH", path, `{"name":"other"}`).wantError(400, "invalid_request", "name")
	if got := c.do("GET", "/v1/event_types?limit=1", nil).want(200); got.text("data.0.name") != "once" ||
		got.text("next_cursor") == "" {
		t.Errorf("%s", got.raw)
	}
	// A tenant sees what is not internal.
	c.do("PUT", "/v1/event_types/secret.one", `{"internal":true}`).want(200)
	x := newTenant(c, t)
	x.do("GET", "/v1/event_types/once", nil).want(200)
	x.do("GET", "/v1/event_types/secret.one", nil).wantError(404, "not_found", "")
	for _, list := range []string{"/v1/event_types", "/v1/event_types/openapi.json"} {
		if got := x.do("GET", list, nil).want(200); strings.Contains(string(got.raw), "secret.one") {
			t.Errorf("%s", got.raw)
		}
	}
	// Nor do its endpoints: neither the example nor what is wrong with data tells of it.
	c.do("PUT", "/v1/event_types/secret.one", `{"internal":true,"schema":{"required":["margin"]},
		"example":{"margin":7}}`).want(200)
	ep := x.do("POST", "/v1/endpoints", `{"url":"https://example.com/h","validate":"reject"}`).want(201).text("id")
	x.do("POST", "/v1/endpoints/"+ep+"/events", `{"type":"secret.one","data":{}}`).want(202)
	test := x.do("POST", "/v1/endpoints/"+ep+"/test", `{"provider":"generic","type":"secret.one"}`).want(202)
	if got := x.do("GET", "/v1/events/"+test.text("id"), nil).want(200); strings.Contains(
		string(got.raw), "margin") {
		t.Errorf("%s", got.raw)
	}
	own := c.endpoint(nil).text("id")
	test = c.do("POST", "/v1/endpoints/"+own+"/test", `{"provider":"generic","type":"secret.one"}`).want(202)
	if got := c.do("GET", "/v1/events/"+test.text("id"), nil).want(200); !strings.Contains(
		string(got.raw), "margin") {
		t.Errorf("%s", got.raw)
	}
	c.do("DELETE", path, nil).want(200)
	c.do("GET", path, nil).wantError(404, "not_found", "")
}

// What an endpoint does with an event that does not match the schema of its type.
func TestEventsAreValidated(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	kind := c.eventType("validated.one")
	ep := c.endpoint(nil).text("id")
	send := "/v1/endpoints/" + ep + "/events"
	body := func(data string) string { return `{"type":"` + kind + `","data":` + data + `}` }
	const wrong = `{"amount":3,"lines":[{},{"sku":1}]}`
	set := func(mode string) { c.do("PATCH", "/v1/endpoints/"+ep, `{"validate":"`+mode+`"}`).want(200) }
	c.do("POST", send, body(wrong)).want(202)

	set("reject")
	refused := c.do("POST", send, body(wrong)).wantError(400, "invalid_request", "data.lines[1].sku")
	if m := refused.text("error.message"); !strings.Contains(m, `version 1 of the schema of validated.one at `+
		`"/lines/1/sku": got number, want string`) {
		t.Errorf("%s", m)
	}
	c.do("POST", send, body(`{}`)).wantError(400, "invalid_request", "data")
	c.do("POST", send, body(`{"amount":1}`)).want(202)
	c.do("POST", send, `{"type":"not.in.it","data":{}}`).want(202)
	key := []string{"Idempotency-Key", "validated"}
	c.do("POST", send, body(wrong), key...).wantError(400, "invalid_request", "data.lines[1].sku")
	batch := c.do("POST", send+"/batch", `{"events":[`+body(`{"amount":1}`)+","+body(wrong)+`]}`).want(202)
	is.Equal(t, batch.text("data.1.error.param"), "events[1].data.lines[1].sku", "%s", batch.raw)

	set("warn")
	warned := c.do("POST", send, body(wrong)).want(202)
	is.Equal(t, warned.text("warnings.0.param"), "data.lines[1].sku", "%s", warned.raw)
	if got := c.do("GET", "/v1/events/"+warned.text("id"), nil).want(200); got.get("mismatch.version") != 1.0 ||
		got.text("mismatch.pointer") != "/lines/1/sku" {
		t.Errorf("%s", got.raw)
	}
	batch = c.do("POST", send+"/batch", `{"events":[`+body(wrong)+`]}`).want(202)
	is.Equal(t, batch.text("warnings.0.param"), "events[0].data.lines[1].sku", "%s", batch.raw)
	set("off")
	again := c.do("POST", send, body(wrong), key...).wantError(400, "invalid_state", "")
	if m := again.text("error.message"); !strings.Contains(m, "did not match its schema") {
		t.Errorf("the repeat of a refused event is answered %s", m)
	}
	if got := c.do("POST", send, body(wrong)).want(202); got.get("warnings") != nil {
		t.Errorf("%s", got.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+ep, `{"validate":"no"}`).wantError(400, "invalid_request", "validate")
}

// An import of an export changes nothing, whatever the catalogue has; into an empty one it restores everything.
func TestImportOfAnExport(t *testing.T) {
	c := newClient(t)
	const doc = `{"openapi":"3.1.0","info":{"title":"x","version":"1"},
		"components":{"schemas":{"Money":{"type":"object","properties":{"unit":{"$ref":"#/components/schemas/Unit"}}},
			"Unit":{"enum":["EUR","USD"]}},"pathItems":{"p":{"post":{"summary":"Of a component"}}}},
		"webhooks":{
		"imported/one":{"post":{"description":"One","tags":["A","B"],"deprecated":true,"requestBody":{"content":{
			"application/json":{"schema":{"type":"object","properties":{"total":{"$ref":"#/components/schemas/Money"},
			"again":{"$ref":"#/webhooks/imported~1one/post/requestBody/content/application~1json/schema/properties/total"},
			"$odd %":{"$ref":"#/components/schemas/Money"}}},"example":{"total":{"unit":"EUR"}}}}}}},
		"imported.whole":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{
			"type":{},"timestamp":{},"data":{"type":"array","items":{"$ref":"#/components/schemas/Unit"}}}},
			"examples":{"a":{"value":{"data":["EUR"]}}}}}}}},
		"imported.bare":{"$ref":"#/components/pathItems/p"}}}`
	names := []string{"imported%2Fone", "imported.whole", "imported.bare"}
	if got := c.do("POST", "/v1/event_types/import", doc).want(200); got.get("created") != 3.0 {
		t.Fatalf("%s", got.raw)
	}
	read := func() (all string) {
		for _, name := range names {
			var x map[string]any
			_ = json.Unmarshal(c.do("GET", "/v1/event_types/"+name, nil).want(200).raw, &x)
			delete(x, "created_at")
			delete(x, "updated_at")
			text, _ := json.Marshal(x)
			all += string(text) + "\n"
		}
		return all
	}
	if got := c.do("GET", "/v1/event_types/"+names[0], nil); got.text("group") != "A" ||
		got.get("schema.$defs.Unit") == nil || got.text("schema.$defs.Money.properties.unit.$ref") != "#/$defs/Unit" ||
		got.text("schema.properties.again.$ref") != "#/properties/total" {
		t.Errorf("%s", got.raw)
	}
	if got := c.do("GET", "/v1/event_types/"+names[1], nil); got.text("schema.type") != "array" ||
		got.text("example.0") != "EUR" {
		t.Errorf("%s", got.raw)
	}
	if got := c.do("GET", "/v1/event_types/"+names[2], nil); got.text("description") != "Of a component" ||
		got.get("version") != nil {
		t.Errorf("%s", got.raw)
	}
	c.do("PATCH", "/v1/event_types/"+names[0], `{"internal":true,"schema":{"$defs":{"x/y":{"type":"string"}},
		"$ref":"#/$defs/x~1y"},"example":"a"}`).want(200)
	want, exported := read(), c.do("GET", "/v1/event_types/openapi.json", nil).want(200).raw
	if got := c.do("POST", "/v1/event_types/import", string(exported)).want(200); got.get("created") != 0.0 ||
		got.get("updated") != 0.0 {
		t.Errorf("imported again: %s\n%s", got.raw, exported)
	}
	for _, name := range names {
		c.do("DELETE", "/v1/event_types/"+name, nil).want(200)
	}
	if got := c.do("POST", "/v1/event_types/import", string(exported)).want(200); got.get("created") != 3.0 {
		t.Errorf("%s", got.raw)
	}
	if got := read(); got != want {
		t.Errorf("after the import:\n%s\nwant\n%s", got, want)
	}
	if again := c.do("GET", "/v1/event_types/openapi.json", nil).want(200).raw; string(again) != string(exported) {
		t.Errorf("exported again:\n%s\nwant\n%s", again, exported)
	}
	many := map[string]any{}
	for i := range 1001 {
		many[fmt.Sprint("t", i)] = map[string]any{}
	}
	for _, x := range []struct {
		doc   any
		param string
	}{
		{`{}`, "openapi"}, {`{"openapi":"3.0.3","webhooks":{}}`, "openapi"}, {`{"openapi":"3.1.0"}`, "webhooks"},
		{map[string]any{"openapi": "3.1.0", "webhooks": many}, "webhooks"},
		{`{"openapi":"3.1.0","webhooks":{"a b":{"post":{}}}}`, "webhooks.a b"},
		{`{"openapi":"3.1.0","webhooks":{"a":{"$ref":"https://e.com/x"}}}`, "webhooks.a"},
		{`{"openapi":"3.1.0","webhooks":{"imported.bare":{"post":{"description":"changed"}},"z":{"post":{"requestBody":
			{"content":{"application/json":{"schema":{"$ref":"other.json#/x"}}}}}}}}`, "webhooks.z"},
		{`{"openapi":"3.1.0","components":{"schemas":{"n":{"properties":{"c":{"$ref":"#/components/schemas/n"}}}}},"webhooks":
			{"z":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/n"}}}}}}}}`,
			"webhooks.z"},
	} {
		c.do("POST", "/v1/event_types/import", x.doc).wantError(400, "invalid_request", x.param)
	}
	is.Equal(t, read(), want, "a refused import has changed something")
}

// The catalogue is public only if the account says so, without internal types, and draws what people have written as
// text.
func TestPublicCatalogue(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/catalogue", "/catalogue/openapi.json"} {
		c.as("").do("GET", path, nil).wantError(404, "not_found", "")
	}
	c.do("PUT", "/v1/event_types/shown.one", `{"group":"<b>","description":"<script>x</script> [l](javascript:x)","schema":
		{"$defs":{"m":{"type":"integer","description":"<i>in cents</i>"},"b":true},"type":"object","properties":{
		"amount":{"$ref":"#/$defs/m"},"any":{"$ref":"#/$defs/b"}}},"example":{"amount":"</pre>"}}`).want(200)
	c.do("PUT", "/v1/event_types/shown.odd", `{"schema":{"x-extensible-enum":3,"minimum":1}}`).want(200)
	c.do("PUT", "/v1/event_types/hidden.one", `{"internal":true,"schema":true}`).want(200)
	c.do("PATCH", "/v1/settings/catalogue", `{"title":"`+strings.Repeat("x", 101)+`"}`).
		wantError(400, "invalid_request", "title")
	if got := c.do("PATCH", "/v1/settings/catalogue", `{"public":true,"title":"Example Ltd"}`).want(200); got.get(
		"public") != true {
		t.Errorf("%s", got.raw)
	}
	page := string(c.as("").do("GET", "/catalogue", nil).want(200).raw)
	for _, want := range []string{"<h1>Example Ltd</h1>", "&lt;script&gt;x", "[l](javascript:x)", "&lt;i&gt;in cents",
		`<code class="name">amount</code> <span class="type">integer</span>`, "shown.odd", "&lt;/pre&gt;"} {
		is.Has(t, page, want)
	}
	// References do not multiply a long text, nor a long name.
	for _, def := range []string{`{"description":"%s"}`, `{"properties":{"%s":{}}}`} {
		many := strings.Repeat(`{"$ref":"#/$defs/long"},`, 500) + `true`
		c.do("PUT", "/v1/event_types/shown.long", `{"schema":{"$defs":{"long":`+fmt.Sprintf(def,
			strings.Repeat("x", 40_000))+`},"allOf":[`+many+`]}}`).want(200)
		if got := c.as("").do("GET", "/catalogue", nil).want(200); len(got.raw) > 1<<20 ||
			!strings.Contains(string(got.raw), "xxxx") {
			t.Errorf("%d bytes for %s", len(got.raw), def)
		}
	}
	c.do("DELETE", "/v1/event_types/shown.long", nil).want(200)
	document := string(c.as("").do("GET", "/catalogue/openapi.json", nil).want(200).raw)
	for _, text := range []string{page, document} {
		if strings.Contains(text, "hidden.one") || strings.Contains(text, "x-eventrelay") {
			t.Errorf("%s", text)
		}
	}
	c.do("PATCH", "/v1/event_types/shown.odd", `{"internal":true}`).want(200)
	if page = string(c.as("").do("GET", "/catalogue", nil).want(200).raw); strings.Contains(page, "shown.odd") {
		t.Error("the page is that of before")
	}
	c.do("PATCH", "/v1/settings/catalogue", `{"public":false}`).want(200)
	c.as("").do("GET", "/catalogue", nil).wantError(404, "not_found", "")
}
