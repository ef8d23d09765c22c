package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/must"
)

// vector is one operation, a document, and the result or the failure.
type vector struct{ op, in, want, pointer string }

// failing marks a vector whose operation fails at the pointer.
const failing = "fails"

var vectors = map[string][]vector{
	Rename: {
		{`"from":"/a","to":"/b"`, `{"a":1}`, `{"b":1}`, ""},
		{`"from":"a","to":"b"`, `{"x":0,"a":1,"y":2}`, `{"x":0,"b":1,"y":2}`, ""}, // the place among others stays
		{`"from":"/customer/id","to":"/customer_id"`, `{"customer":{"id":7,"n":1}}`,
			`{"customer":{"n":1},"customer_id":7}`, ""},
		{`"from":"customer.id","to":"customer.number"`, `{"customer":{"id":7}}`, `{"customer":{"number":7}}`, ""},
		{`"from":"/a","to":"/x/y/z"`, `{"a":[1]}`, `{"x":{"y":{"z":[1]}}}`, ""},
		{`"from":"/data","to":"/data/inner"`, `{"data":{"k":1}}`, `{"data":{"inner":{"k":1}}}`, ""},
		{`"from":"/a/b","to":"/a","on_conflict":"replace"`, `{"a":{"b":1}}`, `{"a":1}`, ""},
		{`"from":"/a","to":"/b"`, `{"a":1,"b":2}`, failing, "/b"},
		{`"from":"/a","to":"/b","on_conflict":"replace"`, `{"b":2,"a":1}`, `{"b":1}`, ""},
		{`"from":"/a","to":"/x/b","on_conflict":"replace"`, `{"x":{"b":[2],"c":3},"a":1}`, `{"x":{"b":1,"c":3}}`, ""},
		{`"from":"/a","to":"/x/b"`, `{"x":{"b":2},"a":1}`, failing, "/x/b"},
		{`"from":"/a","to":"/s/b"`, `{"s":"text","a":1}`, failing, "/s"},
		{`"from":"/none","to":"/b"`, `{"a":1}`, `{"a":1}`, ""},
		{`"from":"/none","to":"/b","required":true`, `{"a":1}`, failing, "/none"},
		{`"from":"/items/*/id","to":"/items/*/sku"`, `{"items":[{"id":1,"q":2},{"q":3},{"id":4}]}`,
			`{"items":[{"sku":1,"q":2},{"q":3},{"sku":4}]}`, ""},
		{`"from":"/items/*/id","to":"/ids/*"`, `{"items":[{"id":1},{},{"id":3}]}`,
			`{"items":[{},{},{}],"ids":[1,null,3]}`, ""},
		{`"from":"/a/*/b/*/c","to":"/a/*/b/*/d"`, `{"a":[{"b":[{"c":1},{"c":2}]},{"b":[]}]}`,
			`{"a":[{"b":[{"d":1},{"d":2}]},{"b":[]}]}`, ""},
		{`"from":"/items/*/id","to":"/items/*/sku","required":true`, `{"items":[{"id":1},{}]}`, failing, "/items/1/id"},
		{`"from":"/o/*/id","to":"/o/*/n"`, `{"o":{"*":{"id":1},"x":{"id":2}}}`, `{"o":{"*":{"n":1},"x":{"id":2}}}`, ""},
		{`"from":"/l/0","to":"/first"`, `{"l":[1,2,3]}`, `{"l":[2,3],"first":1}`, ""},
		{`"from":"/n","to":"/m"`, `{ "n" : -0.00E+01 , "k":1e400 }`, `{"m":-0.00E+01,"k":1e400}`, ""},
		{`"from":"/a~1b~0c","to":"/d.e"`, `{"a/b~c":"é"}`, `{"d.e":"é"}`, ""},
		{`"from":"/a","to":"/l/x"`, `{"a":1,"l":[]}`, failing, "/l/x"},
		{`"from":"/a","to":"/l/-"`, `{"a":1,"l":[2]}`, `{"l":[2,1]}`, ""},
		{`"from":"/a","to":"/l/-"`, `{"a":1}`, `{"l":[1]}`, ""},
		{`"from":"/l/0","to":"/l/-"`, `{"l":[1,2,3]}`, `{"l":[2,3,1]}`, ""},
		{`"from":"/l/*/a","to":"/l/*/-"`, `{"l":[{"a":1},{"a":2,"-":3}]}`, failing, "/l/1/-"},
		{`"from":"/a","to":"/o/-"`, `{"a":1,"o":{}}`, `{"o":{"-":1}}`, ""},
	},
	Pick: {
		{`"paths":["/a"]`, `{"a":1,"b":2}`, `{"a":1}`, ""},
		{`"paths":["/b","/a"]`, `{"a":1,"b":2,"c":3}`, `{"a":1,"b":2}`, ""}, // in the order of the document
		{`"paths":["/a/b"]`, `{"a":{"b":1,"c":2},"d":3}`, `{"a":{"b":1}}`, ""},
		{`"paths":["data.items.*.sku"]`, `{"data":{"items":[{"sku":1,"x":2},{"sku":3}]},"y":0}`,
			`{"data":{"items":[{"sku":1},{"sku":3}]}}`, ""},
		{`"paths":["/items/*/sku"]`, `{"items":[{"x":1},{"sku":2}]}`, `{"items":[{},{"sku":2}]}`, ""},
		{`"paths":["/items/*/sku"]`, `{"items":[5,{"sku":2},"s"]}`, `{"items":[null,{"sku":2},null]}`, ""},
		{`"paths":["/items/2"]`, `{"items":[1,2,3,4]}`, `{"items":[null,null,3]}`, ""},
		{`"paths":["/items/*"]`, `{"items":[1,[2]],"a":0}`, `{"items":[1,[2]]}`, ""},
		{`"paths":["/none"]`, `{"a":1}`, `{}`, ""}, // never the whole document
		{`"paths":["/none"],"required":true`, `{"a":1}`, failing, "/none"},
		{`"paths":["/a/none"]`, `{"a":{"b":1}}`, `{"a":{}}`, ""},
		{`"paths":["/a/b/c"]`, `{"a":{"b":5}}`, `{"a":{}}`, ""},
		{`"paths":["/a","/a/b"]`, `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":2}}`, ""},
		{`"paths":["/a/b","/a"]`, `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":2}}`, ""},
		{`"paths":["/a"]`, `[1,2]`, `[]`, ""},
		{`"paths":["/1"]`, `[1,2,3]`, `[null,2]`, ""},
		{`"paths":["/a"]`, `"text"`, `null`, ""},
		{`"paths":["/o/*"]`, `{"o":{"*":1,"x":2}}`, `{"o":{"*":1}}`, ""},
		{`"paths":["/a","/c"]`, `{"a":-0,"b":0,"c":1e400}`, `{"a":-0,"c":1e400}`, ""},
		{`"paths":["/é"]`, `{"\u00e9":"\ud83d\ude00","z":0}`, `{"\u00e9":"\ud83d\ude00"}`, ""},
		{`"paths":["/l/*/*"]`, `{"l":[[1,2],[3],4]}`, `{"l":[[1,2],[3],null]}`, ""},
		{`"paths":["/a/b","/a/c"],"required":true`, `{"a":{"b":1}}`, failing, "/a/c"},
	},
	Drop: {
		{`"paths":["/a"]`, `{"a":1,"b":2}`, `{"b":2}`, ""},
		{`"paths":["a.b"]`, `{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, ""},
		{`"paths":["$.a.b"]`, `{"a":{"b":1}}`, `{"a":{}}`, ""},
		{`"paths":["/a","/b","/c"]`, `{"c":1,"b":2,"a":3}`, `{}`, ""},
		{`"paths":["/items/0","/items/1"]`, `{"items":[1,2,3]}`, `{"items":[3]}`, ""}, // places of the document before
		{`"paths":["/items/*"]`, `{"items":[1,2,3]}`, `{"items":[]}`, ""},
		{`"paths":["/items/*/price"]`, `{"items":[{"price":1,"id":2},{"id":3},4]}`, `{"items":[{"id":2},{"id":3},4]}`, ""},
		{`"paths":["/a","/a/b"]`, `{"a":{"b":1}}`, `{}`, ""},
		{`"paths":["/a","/a/b"],"required":true`, `{"a":{"b":1}}`, `{}`, ""},
		{`"paths":["/none"]`, `{"a":1}`, `{"a":1}`, ""},
		{`"paths":["/none"],"required":true`, `{"a":1}`, failing, "/none"},
		{`"paths":["/items/*/id"],"required":true`, `{"items":[{"id":1},5]}`, failing, "/items/1/id"},
		{`"paths":["/items/7"]`, `{"items":[1]}`, `{"items":[1]}`, ""},
		{`"paths":["/items/-"]`, `{"items":[1]}`, `{"items":[1]}`, ""},
		{`"paths":["/items/01"]`, `{"items":[1,2]}`, `{"items":[1,2]}`, ""},
		{`"paths":["/0"]`, `{"0":1,"1":2}`, `{"1":2}`, ""},
		{`"paths":["/o/*"]`, `{"o":{"*":1,"x":2}}`, `{"o":{"x":2}}`, ""},
		{`"paths":["/"]`, `{"":1,"a":2}`, `{"a":2}`, ""},
		{`"paths":["/a"]`, `7`, `7`, ""},
		{`"paths":["/\u2028"]`, `{"\u2028":1,"x":"\u2028"}`, `{"x":"\u2028"}`, ""},
		{`"paths":["/a<b>"]`, `{"a\u003cb>":1,"<":"&"}`, `{"<":"&"}`, ""},
	},
	Wrap: {
		{`"key":"payload"`, `{"a":1}`, `{"payload":{"a":1}}`, ""},
		{`"key":"payload"`, ` [ 1 , 2 ] `, `{"payload":[1,2]}`, ""},
		{`"key":"payload"`, `"text"`, `{"payload":"text"}`, ""},
		{`"key":"payload"`, `null`, `{"payload":null}`, ""},
		{`"key":"payload"`, `1e400`, `{"payload":1e400}`, ""},
		{`"key":"a b"`, `{}`, `{"a b":{}}`, ""},
		{`"key":"q\"\\"`, `0`, `{"q\"\\":0}`, ""},
		{`"key":"é"`, `0`, `{"é":0}`, ""},
		{`"key":"k","at":"/a"`, `{"a":1,"b":2}`, `{"a":{"k":1},"b":2}`, ""},
		{`"key":"k","at":"a.b"`, `{"a":{"b":[1]}}`, `{"a":{"b":{"k":[1]}}}`, ""},
		{`"key":"k","at":"/l/*"`, `{"l":[1,{"x":2},null]}`, `{"l":[{"k":1},{"k":{"x":2}},{"k":null}]}`, ""},
		{`"key":"k","at":"/l/1"`, `{"l":[1,2]}`, `{"l":[1,{"k":2}]}`, ""},
		{`"key":"k","at":"/none"`, `{"a":1}`, `{"a":1}`, ""},
		{`"key":"k","at":"/none","required":true`, `{"a":1}`, failing, "/none"},
		{`"key":"k","at":"/l/*/x","required":true`, `{"l":[{"x":1},{}]}`, failing, "/l/1/x"},
		{`"key":"k","at":"/l/*"`, `{"l":[]}`, `{"l":[]}`, ""},
		{`"key":"k","at":"/o/*"`, `{"o":{"*":1,"x":2}}`, `{"o":{"*":{"k":1},"x":2}}`, ""},
		{`"key":"k","at":"/a/b"`, `{"a":5}`, `{"a":5}`, ""},
		{`"key":"a"`, `{"a":{"a":1}}`, `{"a":{"a":{"a":1}}}`, ""},
		{`"key":"*"`, `{"a":1}`, `{"*":{"a":1}}`, ""},
		{`"key":"<&>"`, `{"a":"<&>"}`, `{"<&>":{"a":"<&>"}}`, ""},
	},
	Add: {
		{`"path":"/b","value":2`, `{"a":1}`, `{"a":1,"b":2}`, ""},
		{`"path":"b.c.d","value":[1, 2]`, `{}`, `{"b":{"c":{"d":[1,2]}}}`, ""},
		{`"path":"/a","value":2`, `{"a":1}`, failing, "/a"},
		{`"path":"/a","value":2,"on_conflict":"replace"`, `{"a":1,"b":0}`, `{"a":2,"b":0}`, ""},
		{`"path":"/a","value":null`, `{}`, `{"a":null}`, ""},
		{`"path":"/l/-","value":3`, `{"l":[1,2]}`, `{"l":[1,2,3]}`, ""},
		{`"path":"/l/-","value":1`, `{}`, `{"l":[1]}`, ""},
		{`"path":"/l/2","value":3`, `{"l":[1,2]}`, `{"l":[1,2,3]}`, ""},
		{`"path":"/l/5","value":3`, `{"l":[1,2]}`, failing, "/l/5"},
		{`"path":"/l/0","value":3`, `{"l":[1,2]}`, failing, "/l/0"},
		{`"path":"/l/0","value":3,"on_conflict":"replace"`, `{"l":[1,2]}`, `{"l":[3,2]}`, ""},
		{`"path":"/l/*/t","value":"x"`, `{"l":[{},{"a":1}]}`, `{"l":[{"t":"x"},{"a":1,"t":"x"}]}`, ""},
		{`"path":"/l/*/t/u","value":1e400`, `{"l":[{}]}`, `{"l":[{"t":{"u":1e400}}]}`, ""},
		{`"path":"/l/*","value":0,"on_conflict":"replace"`, `{"l":[1,[2]]}`, `{"l":[0,0]}`, ""},
		{`"path":"/l/*/t","value":0`, `{"l":[1]}`, failing, "/l/0"},
		{`"path":"/l/*/t","value":0`, `{}`, `{}`, ""},
		{`"path":"/l/*/t","value":0,"required":true`, `{}`, failing, "/l/*"},
		{`"path":"/o/*/t","value":0`, `{"o":{"*":{}}}`, `{"o":{"*":{"t":0}}}`, ""},
		{`"path":"/a/b","value":1`, `{"a":"s"}`, failing, "/a"},
		{`"path":"/a","value":1`, `[0]`, failing, "/a"},
		{`"path":"/meta/event_id","from":"event.id"`, `{}`,
			`{"meta":{"event_id":"` + id.Lowest(received).Text(id.Event) + `"}}`, ""},
		{`"path":"/t","from":"event.type"`, `{}`, `{"t":"a.\"b"}`, ""},
		{`"path":"/t","from":"event.received_at"`, `{}`, `{"t":"2026-08-21T22:24:36.123Z"}`, ""},
		{`"path":"/t","from":"endpoint.id"`, `{}`, `{"t":"ep_1"}`, ""},
		{`"path":"/t","from":"attempt.number"`, `{}`, `{"t":3}`, ""},
	},
	Set: {
		{`"path":"/total","expr":"body.amount / 100"`, `{"amount":1250}`, `{"amount":1250,"total":12.5}`, ""},
		{`"path":"/a","expr":"body.b"`, `{"a":1,"b":12345678901234567890}`,
			`{"a":12345678901234567890,"b":12345678901234567890}`, ""},
		{`"path":"/a","expr":"body.b"`, `{"b":1.0}`, `{"b":1.0,"a":1.0}`, ""},
		{`"path":"/a","expr":"body.b"`, `{"b":1e400}`, `{"b":1e400,"a":1e400}`, ""},
		{`"path":"/a","expr":"body.b"`, `{"b":{"c" : [ 1 , "\u00e9" ]}}`,
			`{"b":{"c":[1,"\u00e9"]},"a":{"c":[1,"\u00e9"]}}`, ""},
		{`"expr":"body.data"`, `{"type":"x","data":{"b":1, "a":2}}`, `{"b":1,"a":2}`, ""},
		{`"expr":"{'text': 'Order ' + string(body.id) + ' was paid'}"`, `{"id":7}`, `{"text":"Order 7 was paid"}`, ""},
		{`"expr":"{'b': [body.a, null, true], 'a': type}"`, `{"a":"<"}`, `{"a":"a.\"b","b":["<",null,true]}`, ""},
		{`"path":"a.b.c","expr":"1"`, `{}`, `{"a":{"b":{"c":1}}}`, ""},
		{`"path":"/l/*/n","expr":"size(body.l)"`, `{"l":[{},{"n":9}]}`, `{"l":[{"n":2},{"n":2}]}`, ""},
		{`"path":"/l/-","expr":"'x'"`, `{"l":[1]}`, `{"l":[1,"x"]}`, ""},
		{`"path":"/a","expr":"body.none"`, `{"a":1}`, `{"a":1}`, ""},
		{`"path":"/a","expr":"body.none","required":true`, `{"a":1}`, failing, ""},
		{`"path":"/a","expr":"body.?none.orValue('x')"`, `{"a":1}`, `{"a":"x"}`, ""},
		{`"path":"/a","expr":"has(body.none) ? 1 : 2"`, `{}`, `{"a":2}`, ""},
		{`"path":"/a","expr":"body.a + 'x'"`, `{"a":1}`, failing, ""},
		{`"path":"/a","expr":"1 / 0"`, `{}`, failing, ""},
		{`"path":"/a/b","expr":"1"`, `{"a":5}`, failing, "/a"},
		{`"path":"/a","expr":"event.received_at"`, `{}`, `{"a":"2026-08-21T22:24:36.123Z"}`, ""},
		{`"path":"/a","expr":"body.a.map(x, x * 2)"`, `{"a":[1,2.5]}`, `{"a":[2,5]}`, ""},
		{`"path":"/a","expr":"headers"`, `{}`, `{"a":{}}`, ""},
	},
}

var received = time.Date(2026, 8, 22, 0, 24, 36, 123456789, time.FixedZone("", 2*60*60))

func input(body string) Input {
	return Input{Attempt: 3,
		Event: &event.Event{ID: id.Lowest(received), Type: `a."b`, Endpoint: "ep_1", Body: []byte(body)}}
}

// program compiles operations that are written as JSON.
func program(t testing.TB, ops string) *Program {
	t.Helper()
	p, err := Compile(parse(t, ops))
	must.Do(t, err, ops)
	return p
}

func previewOf(t testing.TB, p *Program, body string, most int) Preview {
	t.Helper()
	preview := must.Get(p.Preview(t.Context(), input(body), most))(t)
	return preview
}

func parse(t testing.TB, ops string) []Op {
	t.Helper()
	var all []Op
	must.Do(t, json.Unmarshal([]byte(ops), &all), ops)
	return all
}

func TestVectors(t *testing.T) {
	for _, kind := range []string{Rename, Pick, Drop, Wrap, Add, Set} {
		if len(vectors[kind]) < 20 {
			t.Errorf("%s has only %d vectors", kind, len(vectors[kind]))
		}
		for _, v := range vectors[kind] {
			p := program(t, fmt.Sprintf(`[{"op":%q,%s}]`, kind, v.op))
			made, err := p.Apply(t.Context(), input(v.in), 1<<20)
			got := made.Body
			preview := previewOf(t, p, v.in, 1<<20)
			var failure *Failure
			errors.As(err, &failure)
			switch {
			case v.want != failing && (err != nil || string(got) != v.want):
				t.Errorf("%s {%s} of %s: %s, %v; want %s", kind, v.op, v.in, got, err, v.want)
			case v.want == failing && (failure == nil || failure.Op != 0 || failure.Pointer != v.pointer):
				t.Errorf("%s {%s} of %s: %s, %+v; want a failure at %s", kind, v.op, v.in, got, failure, v.pointer)
			}
			if string(preview.Body) != string(got) || (preview.Failure == nil) != (failure == nil) {
				t.Errorf("%s {%s} of %s: the preview says %s, %v", kind, v.op, v.in, preview.Body, preview.Failure)
			}
			if most := p.MaxOutput(len(v.in), 1<<20); len(got) > most {
				t.Errorf("%s {%s} of %s: %d bytes, announced were at most %d", kind, v.op, v.in, len(got), most)
			}
		}
	}
}
