package api_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

type obj = map[string]any

// has checks members of an answer.
func (a *answer) has(members obj) {
	a.t.Helper()
	for path, want := range members {
		if got := a.get(path); !reflect.DeepEqual(got, want) {
			a.t.Errorf("%s: %s is %#v, want %#v\n%s", a.call, path, got, want, a.raw)
		}
	}
}

// A transformation is stored as a whole, each change is a version that says when and by whom it was made, and a GET
// sent back changes nothing.
func TestTransformation(t *testing.T) {
	c := newClient(t)
	e := c.endpoint(nil)
	path := "/v1/endpoints/" + e.text("id")
	e.has(obj{"transformation": nil, "transformation_version": 0.0, "transformation_versions": []any{}})
	ops := []any{
		obj{"op": "rename", "from": "/a", "to": "/b", "on_conflict": "replace"},
		obj{"op": "pick", "paths": []any{"/b"}, "required": true},
		obj{"op": "drop", "paths": []any{"c.*.d"}},
		obj{"op": "wrap", "key": "payload", "at": "/b"},
		obj{"op": "add", "path": "/n", "value": nil},
		obj{"op": "add", "path": "/id", "from": "event.id"},
	}
	patched := c.do("PATCH", path, obj{"transformation": ops}).want(200)
	patched.has(obj{"transformation_version": 1.0})
	if got := patched.get("transformation"); !reflect.DeepEqual(got, any(obj{"ops": ops})) {
		t.Errorf("stored as %v", got)
	}
	me := c.do("GET", "/v1/me", nil)
	patched.has(obj{
		"transformation_versions.0.version": 1.0, "transformation_versions.0.operations": 6.0,
		"transformation_versions.0.created_by.type": "key", "transformation_versions.0.created_by.id": me.text("key_id"),
	})
	again := c.do("PATCH", path, c.do("GET", path, nil).want(200).Body).want(200)
	again.has(obj{"transformation_version": 1.0, "warnings": nil})
	c.do("PATCH", path, obj{"name": "other"}).want(200).has(obj{"transformation_version": 1.0})
	c.do("PATCH", path, obj{"transformation": nil}).want(200).has(obj{"transformation_version": 2.0,
		"transformation": nil, "transformation_versions.0.operations": 0.0, "transformation_versions.1.version": 1.0})

	unknown := c.do("PATCH", path, obj{"transformation": obj{"ops": []any{
		obj{"op": "drop", "paths": []any{"a"}, "pathes": 1}}}}).want(200)
	unknown.has(obj{"warnings.0.param": "transformation.ops[0].pathes", "transformation_version": 3.0})
	c.do("PATCH", path, obj{"transformation": []any{obj{"op": "drop", "paths": []any{"a"}},
		obj{"op": "rename", "from": "/a/*", "to": "/b"}}}).wantError(400, "invalid_request", "transformation[1].to")
	c.do("PATCH", path, `{"transformation":[{"op":"add","path":"a","value":{"x":1,"x":2}}]}`).
		wantError(400, "invalid_request", "transformation[0].value")
	c.do("PATCH", path, `{"transformation":[{"op":"add","path":"a","value":1e400}]}`).
		wantError(400, "invalid_request", "transformation[0].value")
}

// A preview shows what each operation does, has the bytes that a delivery would have, and changes nothing.
func TestTransformationPreview(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(obj{"transformation": []any{obj{"op": "wrap", "key": "saved"}}}).text("id")
	path := "/v1/endpoints/" + ep + "/transformation/preview"
	reader := c.as(readKey)
	before := c.do("GET", "/v1/endpoints/"+ep, nil).text("updated_at")

	got := reader.do("POST", path, `{"ops":[{"op":"drop","paths":["/x","/none"]},{"op":"wrap","key":"k"}],
		"sample":{"n": 1.50,"x":{"s":"<é>"}}}`).want(200)
	got.has(obj{"ok": true, "output_text": `{"k":{"n":1.50}}`, "output.k.n": 1.5, "bytes_out": 16.0, "masked": 0.0,
		"steps.0.changed.0.change": "removed", "steps.0.changed.0.pointer": "/x", "steps.0.changed.0.before": `{"s":"<é>"}`,
		"steps.0.changed_total": 1.0, "steps.0.warnings.0": "there is nothing at /none", "steps.1.changed.0.pointer": "/k",
		"steps.1.changed.0.from": "", "error": nil})
	reader.do("POST", path, `{"ops":[{"op":"rename","from":"/a","to":"/b","on_conflict":"replace"},
		{"op":"add","path":"/b","value":3,"on_conflict":"replace"}],"sample":{"a":1,"b":2}}`).want(200).
		has(obj{"steps.0.changed.0.change": "replaced", "steps.0.changed.0.from": "/a", "steps.0.changed.0.before": "2",
			"steps.0.changed.0.after": "1", "steps.1.changed.0.change": "replaced", "steps.1.changed.0.from": nil})
	reader.do("POST", path, `{"sample":[1e2]}`).want(200).has(obj{"output_text": `{"saved":[1e2]}`})
	reader.do("POST", path, obj{"ops": []any{}, "sample_text": "{\"n\" : 1e400}"}).want(200).
		has(obj{"output_text": `{"n":1e400}`, "output": nil, "steps": []any{}})
	failed := reader.do("POST", path, `{"ops":[{"op":"drop","paths":["a"]},{"op":"rename","from":"/b","to":"/c/d"}],
		"sample":{"b":1,"c":5}}`).want(200)
	failed.has(obj{"ok": false, "output": nil, "output_text": nil, "error.index": 1.0, "error.pointer": "/c",
		"bytes_out": 0.0})
	reader.do("POST", path, obj{"sample_text": `{"a":1,"a":2}`}).want(200).
		has(obj{"ok": false, "error.index": nil, "error.pointer": ""})

	for body, param := range map[string]string{
		`{}`: "sample", `{"sample":1,"sample_text":"1"}`: "sample", `{"sample_text":5}`: "sample_text",
		`{"sample":"evt_x"}`: "sample", `{"sample":"evt_00000000000000000000000000"}`: "sample",
		`{"ops":[{"op":"drop","paths":["a"]},{"op":"add","path":"/x"}],"sample":1}`: "ops[1].value",
		`{"ops":{"ops":[{"op":"wrap"}]},"sample":1}`:                                "ops.ops[0].key",
	} {
		reader.do("POST", path, body).wantError(400, "invalid_request", param)
	}
	c.do("POST", strings.Replace(path, ep, "ep_none", 1), `{"sample":1}`).wantError(404, "not_found", "")
	if after := c.do("GET", "/v1/endpoints/"+ep, nil).text("updated_at"); after != before || len(c.fake.events) != 0 {
		t.Errorf("a preview changed or sent something: %s, %d events", after, len(c.fake.events))
	}
}

// A stored event is a sample with its id and type. Credentials in its body are masked, and an erased one is no sample.
func TestPreviewOfAnEvent(t *testing.T) {
	c := newClient(t)
	ep, other := c.endpoint(nil).text("id"), c.endpoint(nil).text("id")
	path := "/v1/endpoints/" + ep + "/transformation/preview"
	secret := "sk_" + "live_" + strings.Repeat("4eC39HqLyjWDarjt", 2)
	name := c.send(ep)
	d := must.Get(id.Parse(id.Event, name))(t)
	leak := "postgres://app:" + "Hunter2Hunter2@db.example.com/app" // only the rules for leaks have it
	stored := `{"key":"` + secret + `","db":"` + leak + `"}`
	c.fake.details[d] = func(x *event.Detail) { x.Event.Body = []byte(stored) }
	body := obj{"ops": []any{obj{"op": "add", "path": "/id", "from": "event.id"},
		obj{"op": "add", "path": "/t", "from": "event.type"}}, "sample": name}
	got := c.do("POST", path, body).want(200)
	text := got.text("output_text")
	if strings.Contains(text, secret) || strings.Contains(text, "Hunter2") ||
		!strings.Contains(text, `"id":"`+name+`"`) || !strings.Contains(text, `"t":"`) || got.get("masked") != 2.0 {
		t.Errorf("%s, %v masked", text, got.get("masked"))
	}
	c.do("POST", strings.Replace(path, ep, other, 1), body).wantError(400, "invalid_request", "sample")
	c.do("DELETE", "/v1/events/"+name+"/payload", nil).want(200)
	c.do("POST", path, body).wantError(400, "invalid_state", "sample")
}

// The operations of earlier versions can be read, and sent back as they are to restore them.
func TestTransformationVersions(t *testing.T) {
	c := newClient(t)
	path := "/v1/endpoints/" + c.endpoint(nil).text("id")
	versions := path + "/transformation/versions"
	c.do("GET", versions, nil).want(200).has(obj{"data": []any{}})
	first := obj{"ops": []any{obj{"op": "drop", "paths": []any{"/a"}}, obj{"op": "add", "path": "/n", "value": nil}}}
	c.do("PATCH", path, obj{"transformation": first}).want(200)
	c.do("PATCH", path, obj{"transformation": []any{obj{"op": "wrap", "key": "k"}}}).want(200)
	c.do("PATCH", path, obj{"transformation": nil}).want(200)
	got := c.as(readKey).do("GET", versions, nil).want(200)
	got.has(obj{"data.0.version": 3.0, "data.0.transformation": nil, "data.0.restorable": true, "data.0.operations": 0.0,
		"data.1.version": 2.0, "data.1.transformation.ops.0.key": "k", "data.1.created_by.type": "key",
		"data.2.version": 1.0, "data.2.operations": 2.0, "data.2.restorable": true})
	c.do("PATCH", path, obj{"transformation": got.get("data.2.transformation")}).want(200).
		has(obj{"transformation_version": 4.0, "transformation": first})
	c.do("GET", versions, nil).want(200).has(obj{"data.0.version": 4.0, "data.0.transformation": first})

	// What there is no room for any more still says when and by whom it was made.
	long := strings.Repeat("v", 4000)
	for n := range 20 {
		op := obj{"op": "add", "path": "/n", "value": long, "required": n%2 == 0}
		c.do("PATCH", path, obj{"transformation": []any{op}}).want(200)
	}
	got = c.do("GET", versions, nil).want(200)
	got.has(obj{"data.23.version": 1.0, "data.23.restorable": false, "data.23.transformation": nil,
		"data.23.operations": 2.0, "data.1.restorable": true})
	is.Equal(t, len(c.do("GET", path, nil).get("transformation_versions").([]any)), 20, "the endpoint shows … versions")
	c.do("GET", versions+"?version=1", nil).wantError(400, "invalid_request", "version")
	c.do("GET", "/v1/endpoints/ep_none/transformation/versions", nil).wantError(404, "not_found", "")
}

// An event whose body could not be transformed says which operation of which version failed, and where.
func TestTransformFailureIsExplained(t *testing.T) {
	c := newClient(t)
	e := c.endpoint(obj{"transformation": []any{obj{"op": "drop", "paths": []any{"/none"}},
		obj{"op": "rename", "from": "/data", "to": "/type", "required": true}}})
	ep := e.text("id")
	name := c.send(ep)
	d := must.Get(id.Parse(id.Event, name))(t)
	body, failedAt := `{"type":"order.paid","data":{}}`, time.Now()
	c.fake.details[d] = func(x *event.Detail) {
		x.Event.Body = []byte(body)
		for i := range x.Deliveries {
			x.Deliveries[i].Status, x.Deliveries[i].Reason = event.Failed, event.TransformFailed
			x.Deliveries[i].LastAt = failedAt
		}
	}
	want := obj{"deliveries.0.transform_failure.transformation_version": 1.0,
		"deliveries.0.transform_failure.index": 1.0, "deliveries.0.transform_failure.pointer": "/type",
		"deliveries.0.why": "failed: the transformation or the filter could not be applied; operation 2 of version 1 failed"}
	read := func() *answer { return c.as(readKey).do("GET", "/v1/events/"+name, nil).want(200) }
	got := read()
	got.has(want)
	text := got.text("deliveries.0.transform_failure.message")
	is.Has(t, text, "there is a value here already")
	// The operations of that time count, also after they were corrected.
	c.do("PATCH", "/v1/endpoints/"+ep, obj{"transformation": nil}).want(200)
	failedAt = failedAt.Add(time.Hour) // the clock of the node that delivered is ahead
	read().has(want)
	failedAt = time.Time{} // it is behind
	read().has(want)
	body = `{"a":1,"a":2}`
	read().has(obj{"deliveries.0.transform_failure.index": nil, "deliveries.0.transform_failure.pointer": "",
		"deliveries.0.why": "failed: the transformation or the filter could not be applied; version 1 failed on the body " +
			"as a whole"})
	body = `{"type":"order.paid"}`
	read().has(obj{"deliveries.0.transform_failure.pointer": "/data"})
	body = `{"data":{}}`
	read().has(obj{"deliveries.0.transform_failure": nil})
	// So is the place in the condition of a filter.
	c.do("PATCH", "/v1/endpoints/"+ep+"/destinations/"+e.text("destinations.0.id"),
		`{"filter":{"when":"body.data == null || body.data > 5"}}`).want(200)
	read().has(obj{"deliveries.0.transform_failure": nil,
		"deliveries.0.filter_failure": "filter.when: line 1, column 32: > cannot be used with map and int",
		"deliveries.0.why": "failed: the transformation or the filter could not be applied; the condition of the filter " +
			"has no value for this event"})
	c.do("PATCH", "/v1/endpoints/"+ep+"/destinations/"+e.text("destinations.0.id"), `{"filter":null}`).want(200)
	body = `{"type":"order.paid","data":{}}`
	c.do("DELETE", "/v1/events/"+name+"/payload", nil).want(200)
	read().has(obj{"deliveries.0.transform_failure": nil})
}

// slowBody is a request's body that arrives only after the test.
type slowBody struct {
	reading chan<- struct{}
	arrive  <-chan struct{}
}

func (b slowBody) Read([]byte) (int, error) {
	b.reading <- struct{}{}
	<-b.arrive
	return 0, io.EOF
}

// Clients that send slowly do not keep others from a preview.
func TestSlowPreviewsMakeNobodyWait(t *testing.T) {
	c := newClient(t)
	path := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/transformation/preview"
	reading, arrive := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	const slow = 3 // more than there are places
	for range slow {
		all.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), "POST", path, slowBody{reading, arrive})
			r.Header.Set("Authorization", "Bearer "+writeKey)
			if got := c.serve(r); got.Status != 400 {
				t.Errorf("without a body: %d %s", got.Status, got.raw)
			}
		})
	}
	for range slow {
		select {
		case <-reading:
		case <-time.After(time.Minute):
			t.Fatal("a request waits for the body of another")
		}
	}
	c.do("POST", path, `{"sample":1}`).want(200) // one byte, too short for a string
	close(arrive)
	all.Wait()
}

// The document has the operations that a request may have.
func TestDocumentHasTheOperations(t *testing.T) {
	document := &contract{source: readYAML(t, documentFile(t))}
	op := at(document.source, "components", "schemas", "TransformationOpInput", "properties", "op", "enum")
	if got, want := fmt.Sprint(op), fmt.Sprint(transform.Kinds()); got != want {
		t.Errorf("the document has %s, want %s", got, want)
	}
}

// A change with If-Match is made only if nobody has changed the endpoint since it was read.
func TestIfMatchRefusesAStaleRevision(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{})
	target := "/v1/endpoints/" + created.text("id")
	read := c.do("GET", target, nil).want(200)
	tag := read.Header.Get("ETag")
	if tag == "" || tag != created.Header.Get("ETag") {
		t.Fatalf("ETag %q, and %q when it was created", tag, created.Header.Get("ETag"))
	}
	c.do("PATCH", target, `{"name":"first"}`, "If-Match", `"0", `+tag).want(200)
	for _, method := range []string{"PATCH", "DELETE"} {
		c.do(method, target, `{"name":"second"}`, "If-Match", tag).wantError(400, "conflict", "if-match")
	}
	c.do("PATCH", target, `{"name":"third"}`, "If-Match", "*").want(200)
	now := c.do("GET", target, nil).want(200)
	if now.text("name") != "third" || now.Header.Get("ETag") == tag {
		t.Errorf("%s, ETag %s", now.raw, now.Header.Get("ETag"))
	}
	c.do("DELETE", target, nil, "If-Match", now.Header.Get("ETag")).want(200)
}

// A destination has no ETag of its own: its endpoint's counts.
func TestIfMatchOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []string{"https://example.com/a", "https://example.com/b"}})
	target := "/v1/endpoints/" + created.text("id")
	destination := target + "/destinations/" + created.text("destinations.0.id")
	stale := created.Header.Get("ETag")
	c.do("PATCH", destination, `{"timeout_seconds":20}`, "If-Match", stale).want(200)
	for _, method := range []string{"PATCH", "DELETE"} {
		c.do(method, destination, `{"timeout_seconds":30}`, "If-Match", stale).wantError(400, "conflict", "if-match")
	}
	now := c.do("GET", target, nil).want(200)
	if now.get("destinations.0.timeout_seconds") != 20.0 {
		t.Errorf("%s", now.raw)
	}
	c.do("DELETE", destination, nil, "If-Match", now.Header.Get("ETag")).want(200)
}

// A destination has a transformation of its own, with its versions, in place of the endpoint's.
func TestTransformationOfADestination(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(obj{"transformation": []any{obj{"op": "wrap", "key": "all"}}, "destinations": []any{
		obj{"url": "https://a.example.com/hook"},
		obj{"url": "https://b.example.com/hook", "transformation": []any{obj{"op": "cancel", "when": "body.n > 3"},
			obj{"op": "path", "expr": "'/' + type"}, obj{"op": "header", "name": "X-N", "expr": "body.n"}}}}})
	ep.has(obj{"destinations.0.transformation": nil, "destinations.1.transformation.ops.1.expr": "'/' + type"})
	path := "/v1/endpoints/" + ep.text("id")
	dest := path + "/destinations/" + ep.text("destinations.1.id")
	of := "?destination_id=" + ep.text("destinations.1.id")
	versions := func() *answer { return c.do("GET", path+"/transformation/versions"+of, nil).want(200) }
	versions().has(obj{"data.0.version": 1.0, "data.0.operations": 3.0})

	preview := func(sample any) *answer {
		return c.as(readKey).do("POST", path+"/transformation/preview", obj{"sample": sample,
			"destination_id": ep.text("destinations.1.id")}).want(200)
	}
	preview(obj{"n": 3}).has(obj{"ok": false, "error.index": 1.0}) // a pasted sample has no type
	c.do("PATCH", dest, obj{"transformation": []any{obj{"op": "path", "expr": "'/n/' + string(body.n)"},
		obj{"op": "method", "expr": "'PUT'"}, obj{"op": "cancel", "when": "body.n > 3"}}}).want(200)
	preview(obj{"n": 3}).has(obj{"path": "/n/3", "method": "PUT", "cancelled": nil, "output_text": `{"n":3}`})
	preview(obj{"n": 4}).has(obj{"cancelled": true})

	c.do("PATCH", dest, obj{"transformation": []any{}}).want(200).has(obj{"transformation.ops": []any{}})
	c.do("PATCH", dest, obj{"name": "b"}).want(200).has(obj{"transformation.ops": []any{}})
	c.do("PATCH", dest, obj{"transformation": nil}).want(200).has(obj{"transformation": nil})
	versions().has(obj{"data.0.version": 4.0, "data.0.inherits": true, "data.1.operations": 0.0,
		"data.2.restorable": true})
	preview(obj{"n": 4}).has(obj{"output_text": `{"all":{"n":4}}`})

	for member, ops := range map[string]obj{
		"transformation[0].expr": {"op": "set", "path": "/a", "expr": "body."},
		"transformation[0].when": {"op": "cancel", "when": "body.a"}, // null when absent, and no bool
		"transformation[0].name": {"op": "header", "name": "Relay-Attempt", "expr": "'1'"},
	} {
		a := c.do("PATCH", dest, obj{"transformation": []any{ops}})
		if member == "transformation[0].when" {
			a.want(200) // only an event can say what body.a is
			continue
		}
		a.wantError(400, "invalid_request", member)
	}
	c.do("PATCH", dest, obj{"transformation": []any{obj{"op": "path", "expr": "'/a'"}}, "http_batch": obj{}}).
		wantError(400, "invalid_request", "transformation[0]")
	c.do("GET", path+"/transformation/versions?destination_id=dst_none", nil).
		wantError(400, "invalid_request", "destination_id")
	c.do("POST", path+"/transformation/preview", obj{"sample": 1, "destination_id": "dst_none"}).
		wantError(400, "invalid_request", "destination_id")
}

// An expression in a preview reads the headers of an event, with credentials masked.
func TestPreviewMasksHeaders(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	name := c.send(ep)
	c.fake.details[must.Get(id.Parse(id.Event, name))(t)] = func(x *event.Detail) {
		x.Event.Header = []event.Field{{Name: "X-Api-Key", Value: "hunter2hunter2"}, {Name: "X-Shop", Value: "nl"}}
	}
	c.do("POST", "/v1/endpoints/"+ep+"/transformation/preview", obj{"sample": name, "ops": []any{
		obj{"op": "set", "expr": "headers['x-api-key'] + headers['x-shop']"}}}).want(200).
		has(obj{"output_text": `"****ter2nl"`})
}

// The preview of a filter says which events pass, and never shows credentials by what it answers.
func TestFilterPreview(t *testing.T) {
	c := newClient(t)
	e := c.endpoint(obj{"destinations": []any{
		obj{"url": "https://a.example.com/hook", "filter": obj{"types": []any{"order.*"}}}}})
	ep, path := e.text("id"), "/v1/endpoints/"+e.text("id")+"/filter/preview"
	secret := "sk_" + "live_" + strings.Repeat("4eC39HqLyjWDarjt", 2)
	for _, body := range []string{`{"n":1}`, `{"n":"x","key":"` + secret + `"}`, `{"n":500}`} {
		d := must.Get(id.Parse(id.Event, c.send(ep)))(t)
		c.fake.details[d] = func(x *event.Detail) { x.Event.Body = []byte(body) }
	}
	reader := c.as(readKey)
	all := reader.do("POST", path, obj{}).want(200)
	all.has(obj{"passed": 3.0, "failed": 0.0})
	got := reader.do("POST", path, obj{"filter": obj{"when": "body.n > 100"}}).want(200)
	got.has(obj{"passed": 1.0, "failed": 1.0})
	guess := obj{"filter": obj{"when": `body.key.startsWith("` + secret[:12] + `")`}}
	reader.do("POST", path, guess).want(200).has(obj{"passed": 0.0})
	reader.do("POST", path, obj{"filter": obj{"types": []any{"none.*"}}}).want(200).has(obj{"passed": 0.0})
	reader.do("POST", path, obj{"destination_id": e.text("destinations.0.id"), "filter": obj{"types": []any{"none.*"}}}).
		want(200).has(obj{"passed": 0.0})
	reader.do("POST", path, obj{"filter": obj{"when": "body."}}).wantError(400, "invalid_request", "filter.when")
	reader.do("POST", path, obj{"destination_id": "dst_none"}).wantError(400, "invalid_request", "destination_id")
}
