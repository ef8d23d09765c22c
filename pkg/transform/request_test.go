package transform

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Operations on the request leave the body as it is stored, JSON or not, and see the event as it is stored.
func TestRequestOperations(t *testing.T) {
	for _, c := range []struct{ ops, body, header, path, method string }{
		{`{"op":"header","name":"x-kind","expr":"body.kind"}`, `{ "kind": "a" }`, "X-Kind: a", "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n"}`, `{"n":12345678901234567890}`, "X-N: 12345678901234567890", "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n"}`, `{"n":null}`, "", "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n"}`, `{}`, "", "", ""},
		{`{"op":"header","name":"X-N","expr":"body.?n"}`, `{"n":true}`, "X-N: true", "", ""},
		{`{"op":"header","name":"X-N","expr":"'1'"},{"op":"header","name":"x-n","expr":"'2'"}`, `a=1`, "X-N: 2", "", ""},
		{`{"op":"header","name":"Idempotency-Key","expr":"event.id"}`, ``, "Idempotency-Key: " + evt, "", ""},
		{`{"op":"path","expr":"'/orders/' + body.id"}`, `{"id":"a/b ?#%é"}`, "", "/orders/a/b%20%3F%23%25%C3%A9", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":7}`, "", "/7", ""},
		{`{"op":"path","expr":"'a/b/'"}`, `{}`, "", "/a/b/", ""},
		{`{"op":"path","expr":"'//evil.example/x'"}`, `{}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":"a/../../b"}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":"."}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":"a\\b"}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":"a\nb"}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":""}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":["a"]}`, failing, "", ""},
		{`{"op":"path","expr":"body.id"}`, `{"id":"` + strings.Repeat("a", maxPathBytes+1) + `"}`, failing, "", ""},
		{`{"op":"method","expr":"type == 'x' ? 'PUT' : 'DELETE'"}`, `{}`, "", "", "DELETE"},
		{`{"op":"method","expr":"'CONNECT'"}`, `{}`, failing, "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n"}`, `{"n":"a\r\nX-Evil: 1"}`, failing, "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n"}`, `{"n":"é"}`, failing, "", ""},
		{`{"op":"header","name":"X-N","expr":"body.n","required":true}`, `{}`, failing, "", ""},
		{`{"op":"cancel","when":"body.none == 1"},{"op":"method","expr":"'PUT'"}`, `{}`, "", "", "PUT"},
	} {
		got, err := program(t, "["+c.ops+"]").Apply(t.Context(), input(c.body), 1<<20)
		var lines []string
		for _, f := range got.Header {
			lines = append(lines, f.Name+": "+f.Value)
		}
		header := strings.Join(lines, "\n")
		if failure := (*Failure)(nil); errors.As(err, &failure) {
			header = failing
			is.Equal(t, failure.Op, 0, "operation of %s", c.ops)
		} else {
			must.Do(t, err, c.ops)
			is.Equal(t, string(got.Body), c.body, "body after %s", c.ops)
		}
		if header != c.header || got.Path != c.path || got.Method != c.method || got.Changed || got.Cancelled {
			t.Errorf("%s of %s: %q %+v, %v", c.ops, c.body, header, got, err)
		}
	}
}

var evt = input("").Event.ID.Text("evt_")

// What follows a cancellation is not done, and what is before it has no effect.
func TestCancel(t *testing.T) {
	p := program(t, `[{"op":"cancel","when":"body.test && event.tenant == ''"},{"op":"path","expr":"1 / 0"}]`)
	got := must.Get(p.Apply(t.Context(), input(`{"test":true}`), 1<<20))(t)
	is.Equal(t, got.Cancelled, true, "cancelled")
	_, err := p.Apply(t.Context(), input(`{"test":false}`), 1<<20)
	is.Failed(t, err, "operation 1: the expression has no value: line 1, column 3: division by zero", "the rest")
	_, err = p.Apply(t.Context(), input(`{"test":7}`), 1<<20)
	is.Failed(t, err, "operation 0", "a condition that is no bool")
}

// Expressions see what the operations before have not changed.
func TestExpressionsSeeTheStoredEvent(t *testing.T) {
	p := program(t, `[{"op":"drop","paths":["a"]},{"op":"set","path":"b","expr":"body.a + headers['x-shop']"},
		{"op":"header","name":"X-Tenant","expr":"event.tenant"}]`)
	in := input(`{"a":"1"}`)
	in.Tenant, in.Event.Header = "acme", []event.Field{{Name: "X-Shop", Value: "2"}}
	got := must.Get(p.Apply(t.Context(), in, 1<<20))(t)
	is.Equal(t, string(got.Body), `{"b":"12"}`, "body")
	is.Equal(t, slices.Equal(got.Header, []event.Field{{Name: "X-Tenant", Value: "acme"}}), true, "header")
}

func TestRequestSpecErrors(t *testing.T) {
	for _, c := range []struct{ op, param, message string }{
		{`{"op":"set","path":"/a"}`, "expr", "is required"},
		{`{"op":"set","path":"/a","expr":"body.a +"}`, "expr", "line 1, column 9"},
		{`{"op":"set","path":"/a","expr":"x"}`, "expr", "unknown name"},
		{`{"op":"set","path":"/a","expr":"1","value":1}`, "value", "not a member of set"},
		{`{"op":"cancel","when":"1"}`, "when", "must be bool"},
		{`{"op":"cancel"}`, "when", "is required"},
		{`{"op":"cancel","when":"true","required":true}`, "required", "not a member of cancel"},
		{`{"op":"header","expr":"'a'"}`, "name", "must be the name of a header"},
		{`{"op":"header","name":"a b","expr":"'a'"}`, "name", "must be the name of a header"},
		{`{"op":"header","name":"Webhook_Signature","expr":"'a'"}`, "name", "is set by the service"},
		{`{"op":"header","name":"host","expr":"'a'"}`, "name", "HTTP transport"},
		{`{"op":"header","name":"authorization","expr":"'a'"}`, "name", "stored encrypted"},
		{`{"op":"drop","paths":["a"],"when":"true"}`, "when", "not a member of drop"},
	} {
		_, err := Compile(parse(t, "["+c.op+"]"))
		var spec *SpecError
		if !errors.As(err, &spec) || spec.Param != "ops[0]."+c.param || !strings.Contains(spec.Message, c.message) {
			t.Errorf("%s: %v; want %s with %q", c.op, err, c.param, c.message)
		}
	}
}
