package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// What parsers could read in different ways is refused, wherever it is, and the failure belongs to no operation.
func TestAmbiguousDocumentsAreRefused(t *testing.T) {
	p := program(t, `[{"op":"drop","paths":["/x"]}]`)
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"m%d":0`, i)
	}
	for body, want := range map[string]string{
		``:                             "empty",
		" \n":                          "empty",
		`{"a":1`:                       "not JSON",
		`{"a":1}}`:                     "not JSON",
		`{'a':1}`:                      "not JSON",
		"\xef\xbb\xbf{}":               "not JSON",
		`a=1&b=2`:                      "not JSON",
		"\x1f\x8b\x08":                 "not UTF-8",
		"{\"a\":\"\xff\"}":             "not UTF-8",
		`{"a":1,"a":2}`:                `"a" appears twice`,
		`[{"b":{"a":1,"\u0061":2}}]`:   "appears twice",
		"{\"\u2028\":1,\"\\u2028\":2}": "appears twice",
		`{"k":{` + strings.Join(many, ",") + `,"m7":1}}`: "m7 appears twice",
		`{"a":"\ud800"}`:       "surrogate",
		`{"a":"\udc00\ud800"}`: "surrogate",
		`{"a":"\ud800\u0041"}`: "surrogate",
		`{"\ud800x":1}`:        "surrogate",
		strings.Repeat("[", 65) + strings.Repeat("]", 65):           "nested deeper than 64",
		strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000): "nested deeper than 64",
	} {
		_, err := p.Apply(t.Context(), input(body), 1<<20)
		var f *Failure
		if !errors.As(err, &f) || f.Op != NoOp || !strings.Contains(strings.ReplaceAll(f.Message, `"m7"`, "m7"), want) {
			t.Errorf("%.60s: %v; want %q", body, err, want)
		}
	}
	for _, body := range []string{
		`{"a":1e400,"b":-0,"c":0.10}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`, `["a","a"]`, `{"a":"\\ud800","b":"\ud83d\ude00"}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64), `{` + strings.Join(many, ",") + `}`,
	} {
		if out, err := p.Apply(t.Context(), input(body), 1<<20); err != nil || string(out.Body) != body {
			t.Errorf("%.60s: %.60s, %v", body, out.Body, err)
		}
	}
	// The envelope of a sent event adds a level to its data.
	for levels, good := range map[int]bool{MaxDepth: true, MaxDepth + 1: false} {
		in := input(`{"data":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`)
		in.Event.Source = event.SourceAPI
		if _, err := p.Apply(t.Context(), in, 1<<20); (err == nil) != good {
			t.Errorf("data of %d levels: %v", levels, err)
		}
	}
}

// Errors of declared operations name the operation and the member.
func TestSpecErrors(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	for _, c := range []struct{ ops, param, message string }{
		{`[{"op":"drop","paths":["a"]},{"op":"remove","paths":["a"]}]`, "ops[1].op",
			"rename, pick, drop, wrap, add, set, header, path, method, cancel"},
		{`[{}]`, "ops[0].op", "must be one of"},
		{`[{"op":"drop"}]`, "ops[0].paths", "is required"},
		{`[{"op":"pick","paths":[]}]`, "ops[0].paths", "is required"},
		{`[{"op":"drop","paths":["a",""]}]`, "ops[0].paths[1]", "must not be empty"},
		{`[{"op":"drop","paths":["a..b"]}]`, "ops[0].paths[0]", "JSON Pointer"},
		{`[{"op":"drop","paths":["/a~2"]}]`, "ops[0].paths[0]", "~"},
		{`[{"op":"drop","paths":["/` + long + `"]}]`, "ops[0].paths[0]", "256"},
		{`[{"op":"drop","paths":["` + strings.Repeat("/a", 600) + `"]}]`, "ops[0].paths[0]", "1024"},
		{`[{"op":"drop","paths":["` + strings.Repeat("/a", 65) + `"]}]`, "ops[0].paths[0]", "64 steps"},
		{`[{"op":"drop","paths":[` + strings.Repeat(`"a",`, 64) + `"a"]}]`, "ops[0].paths", "64"},
		{`[{"op":"drop","paths":["a"],"key":"k"}]`, "ops[0].key", "not a member of drop"},
		{`[{"op":"rename","to":"b"}]`, "ops[0].from", "must not be empty"},
		{`[{"op":"rename","from":"a"}]`, "ops[0].to", "must not be empty"},
		{`[{"op":"rename","from":"/a/*","to":"/b"}]`, "ops[0].to", "as many *"},
		{`[{"op":"rename","from":"/a","to":"a"}]`, "ops[0].to", "same place"},
		{`[{"op":"rename","from":"a","to":"b","on_conflict":"merge"}]`, "ops[0].on_conflict", "error, replace"},
		{`[{"op":"wrap"}]`, "ops[0].key", "is required"},
		{`[{"op":"wrap","key":"` + long + `"}]`, "ops[0].key", "256"},
		{`[{"op":"wrap","key":"k","at":"/~"}]`, "ops[0].at", "~"},
		{`[{"op":"add","path":"/a"}]`, "ops[0].value", "or from is required"},
		{`[{"op":"add","path":"/a","value":1,"from":"event.id"}]`, "ops[0].value", "not both"},
		{`[{"op":"add","path":"/a","from":"event.body"}]`, "ops[0].from", "event.id"},
		{`[{"op":"add","value":1}]`, "ops[0].path", "must not be empty"},
		{`[{"op":"add","path":"a","value":{"x":1,"x":2}}]`, "ops[0].value", "twice"},
		{`[{"op":"add","path":"a","value":"` + strings.Repeat("v", MaxValue) + `"}]`, "ops[0].value", "4096"},
		{`[` + strings.Repeat(`{"op":"wrap","key":"k"},`, MaxOps) + `{"op":"wrap","key":"k"}]`, "ops", "32"},
		{`[` + strings.Repeat(`{"op":"add","path":"a","value":"`+strings.Repeat("v", 4000)+`"},`, 17) +
			`{"op":"wrap","key":"k"}]`, "ops", "65536 bytes"},
	} {
		_, err := Compile(parse(t, c.ops))
		var spec *SpecError
		if !errors.As(err, &spec) || spec.Param != c.param || !strings.Contains(spec.Message, c.message) {
			t.Errorf("%.80s: %v; want %s with %q", c.ops, err, c.param, c.message)
		}
	}
}

// What is exactly at a bound is accepted.
func TestSpecBounds(t *testing.T) {
	name := strings.Repeat("x", MaxName)
	for _, ops := range []string{
		`[{"op":"rename","from":"a","to":"b","on_conflict":"error"}]`,
		`[{"op":"wrap","key":"` + name + `"}]`,
		`[{"op":"drop","paths":["/` + name + `"]}]`,
		`[{"op":"drop","paths":["` + strings.Repeat("/a", MaxSteps) + `"]}]`,
		`[{"op":"drop","paths":["` + strings.Repeat("/"+strings.Repeat("x", 127), MaxPath/128) + `"]}]`,
		`[{"op":"drop","paths":[` + strings.Repeat(`"a",`, MaxPaths-1) + `"a"]}]`,
		`[{"op":"add","path":"a","value":"` + strings.Repeat("v", MaxValue-2) + `"}]`,
		`[` + strings.Repeat(`{"op":"wrap","key":"k"},`, MaxOps-1) + `{"op":"wrap","key":"k"}]`,
	} {
		if _, err := Compile(parse(t, ops)); err != nil {
			t.Errorf("%.80s: %v", ops, err)
		}
	}
	_, err := Compile([]Op{{Op: Drop, Paths: []string{"a\xff"}}})
	is.Failed(t, err, "UTF-8", "a path that is not UTF-8")
	growing := program(t, `[{"op":"wrap","key":"k"},{"op":"add","path":"/l/*/x","value":1},{"op":"wrap","key":"k"}]`)
	if n := growing.MaxOutput(1000, 1<<20); n < 1000+500*len(`{"x":1},`) || n > 100_000 {
		t.Errorf("1000 bytes may become %d", n)
	}
	is.Equal(t, growing.MaxOutput(1000, 2000), 2000, "1000 bytes may become … at most 2000")
}

// Results, what operations add on the way, and work are bounded, whatever the document is.
func TestResultsAreBounded(t *testing.T) {
	numbers := func(n int) string { return `{"l":[` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + `]}` }
	objects := func(n int) string { return `{"l":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}` }
	value := strings.Repeat("v", 1000)
	for _, c := range []struct{ ops, body, message string }{
		{`[{"op":"add","path":"/l/*/x","value":"` + value + `"}]`, objects(200), "more than 100000 bytes"},
		{`[{"op":"add","path":"/l/*","value":"` + value + `","on_conflict":"replace"},{"op":"drop","paths":["/l"]}]`,
			numbers(200), "more than 100000 bytes"}, // what is dropped afterwards took memory all the same
		{`[{"op":"wrap","key":"k","at":"/l/*"}]`, numbers(40_000), "more than 100000 bytes"},
		{`[{"op":"pick","paths":["/l/39999"]}]`, numbers(40_000), "more than 100000 bytes"}, // null is longer than 0
		{`[{"op":"drop","paths":["` + strings.Repeat(`/l/*/x","`, 63) + `/y"]}` +
			strings.Repeat(`,{"op":"drop","paths":["`+strings.Repeat(`/l/*/x","`, 63)+`/y"]}`, 31) + `]`,
			numbers(45_000), "members and elements"},
	} {
		out, err := program(t, c.ops).Apply(t.Context(), input(c.body), 100_000)
		is.Failed(t, err, c.message, "%.60s: %d bytes", c.ops, len(out.Body))
	}
}

// A value has the same bytes whether its operations come from a request or from the configuration, where json.Marshal
// has escaped some of its characters.
func TestStoredValuesKeepTheirBytes(t *testing.T) {
	const value = `{"h":"<&>\u003C\\\\u003c\n","u":"` + "\u2028\u2029" + `","n":1e400}`
	ops := []Op{{Op: Add, Path: "/v", Value: json.RawMessage(value)}}
	text := must.Get(json.Marshal(ops))(t)
	for _, all := range [][]Op{ops, parse(t, string(text))} {
		p := must.Get(Compile(all))(t)
		out, err := p.Apply(t.Context(), input(`{}`), 1<<20)
		if want := `{"v":` + strings.Replace(value, `\u003C`, "<", 1) + `}`; err != nil || string(out.Body) != want {
			t.Errorf("%s, %v; want %s", out.Body, err, want)
		}
	}
}

func TestPreviewTellsEachStep(t *testing.T) {
	p := program(t, `[{"op":"drop","paths":["/items/*/price","/none"]},
		{"op":"rename","from":"/customer/id","to":"/customer_id"},
		{"op":"add","path":"/v","value":2,"on_conflict":"replace"},
		{"op":"wrap","key":"payload"},
		{"op":"pick","paths":["/payload/items"]},
		{"op":"drop","paths":["/payload/x"],"required":true}]`)
	got := previewOf(t, p, `{"items":[{"price":1.50,"id":7}],"customer":{"id":"c"},"v":1}`, 1<<20)
	want := []Step{
		{0, Drop, []Change{{Removed, "/items/0/price", "", "1.50", ""}}, 1, []string{"there is nothing at /none"}},
		{1, Rename, []Change{{Moved, "/customer_id", "/customer/id", "", `"c"`}}, 1, []string{}},
		{2, Add, []Change{{Replaced, "/v", "", "1", "2"}}, 1, []string{}},
		{3, Wrap, []Change{{Moved, "/payload", "", "", ""}}, 1, []string{}},
		{4, Pick, []Change{{Removed, "/payload/customer", "", "{}", ""}, {Removed, "/payload/v", "", "2", ""},
			{Removed, "/payload/customer_id", "", `"c"`, ""}}, 3, []string{}},
		{5, Drop, []Change{}, 0, []string{}},
	}
	if !reflect.DeepEqual(got.Steps, want) {
		t.Errorf("%+v", got.Steps)
	}
	if f := got.Failure; f == nil || f.Op != 5 || f.Pointer != "/payload/x" || got.Body != nil {
		t.Errorf("%+v, output %s", got.Failure, got.Body)
	}

	many := `{"l":[` + strings.TrimSuffix(strings.Repeat(`{"a":"`+strings.Repeat("é", 200)+`"},`, 60), ",") + `]}`
	step := previewOf(t, program(t, `[{"op":"drop","paths":["/l/*/a","/l/*/b"]}]`), many, 1<<20).Steps[0]
	if step.Total != 60 || len(step.Changed) != MaxChanges || len(step.Warnings) != MaxWarnings ||
		len(step.Changed[0].Before) > maxExcerpt+len("…") {
		t.Errorf("%d changes, %d listed, %d warnings", step.Total, len(step.Changed), len(step.Warnings))
	}
}

// A rename that takes the place of another value says which value is gone, and where the new one comes from.
func TestPreviewTellsWhatARenameReplaces(t *testing.T) {
	got := previewOf(t, program(t, `[{"op":"rename","from":"/a","to":"/b","on_conflict":"replace"},
		{"op":"rename","from":"/x/y","to":"/b","on_conflict":"replace"},
		{"op":"rename","from":"/b","to":"/c","on_conflict":"replace"}]`), `{"a":1,"b":2,"x":{"y":3}}`, 1<<20)
	want := []Step{
		{0, Rename, []Change{{Replaced, "/b", "/a", "2", "1"}}, 1, []string{}},
		{1, Rename, []Change{{Replaced, "/b", "/x/y", "1", "3"}}, 1, []string{}},
		{2, Rename, []Change{{Moved, "/c", "/b", "", ""}}, 1, []string{}},
	}
	if !reflect.DeepEqual(got.Steps, want) || string(got.Body) != `{"c":3,"x":{}}` {
		t.Errorf("%+v, output %s", got.Steps, got.Body)
	}
}

// randomDocument returns JSON with few names, so that paths often match, and its paths.
func randomDocument(r *rand.Rand, depth int) string {
	switch n := r.IntN(6); {
	case depth == 0 || n == 0:
		return []string{"1", `"s"`, "null", "true", "-0", "{}", "[]"}[r.IntN(7)]
	case n < 4:
		members := []string{}
		for _, name := range []string{"a", "b", "c", "*"} {
			if r.IntN(3) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, randomDocument(r, depth-1)))
			}
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, ",") + "}"
	default:
		elements := make([]string, r.IntN(4))
		for i := range elements {
			elements[i] = randomDocument(r, depth-1)
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
}

func randomPaths(r *rand.Rand) string {
	paths := make([]string, 1+r.IntN(3))
	for i := range paths {
		for range 1 + r.IntN(3) {
			paths[i] += "/" + []string{"a", "b", "c", "*"}[r.IntN(4)]
		}
	}
	b, err := json.Marshal(paths)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// dropped is a plain model of drop on a decoded document: nil where a value was dropped.
func dropped(v any, path []string) any {
	if len(path) == 0 {
		return taken{}
	}
	switch v := v.(type) {
	case map[string]any:
		if inner, ok := v[path[0]]; ok {
			if v[path[0]] = dropped(inner, path[1:]); v[path[0]] == (any)(taken{}) {
				delete(v, path[0])
			}
		}
	case []any:
		if path[0] != "*" {
			return v
		}
		kept := []any{}
		for _, inner := range v {
			if inner = dropped(inner, path[1:]); inner != (any)(taken{}) {
				kept = append(kept, inner)
			}
		}
		return kept
	}
	return v
}

type taken struct{}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &v), "%s", text)
	return v
}

func TestPropertiesOfPickAndDrop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	apply := func(ops, body string) []byte {
		out, err := program(t, ops).Apply(t.Context(), input(body), 1<<20)
		must.Do(t, err, "%s of %s", ops, body)
		return out.Body
	}
	for range 1000 {
		body, paths := randomDocument(r, 4), randomPaths(r)
		pick, drop := `{"op":"pick","paths":`+paths+`}`, `{"op":"drop","paths":`+paths+`}`
		if got := apply("["+drop+"]", body); !reflect.DeepEqual(decoded(t, got), modelDrop(t, body, paths)) {
			t.Fatalf("drop %s of %s: %s", paths, body, got)
		}
		once := apply("["+pick+"]", body)
		if again := apply("["+pick+"]", string(once)); string(again) != string(once) {
			t.Fatalf("pick %s of %s: %s, then %s", paths, body, once, again)
		}
		// What is dropped cannot be picked, and after pick and drop nothing but the way to it is left.
		for _, ops := range []string{"[" + drop + "," + pick + "]", "[" + pick + "," + drop + "]"} {
			if left := apply(ops, body); strings.ContainsAny(string(left), `1s-t`) {
				t.Fatalf("%s of %s: %s", ops, body, left)
			}
		}
		if all := apply(`[{"op":"wrap","key":"k"},{"op":"pick","paths":["/k"]}]`, body); string(all) != `{"k":`+body+`}` {
			t.Fatalf("%s became %s", body, all)
		}
	}
}

func modelDrop(t *testing.T, body, paths string) any {
	v := decoded(t, []byte(body))
	var all []string
	must.Do(t, json.Unmarshal([]byte(paths), &all))
	for _, path := range all {
		v = dropped(v, strings.Split(path[1:], "/"))
	}
	return v
}

func FuzzApply(f *testing.F) {
	for kind, all := range vectors {
		for _, v := range all {
			f.Add(fmt.Sprintf(`[{"op":%q,%s}]`, kind, v.op), v.in)
		}
	}
	f.Add(`[{"op":"rename","from":"/a/*/b","to":"/c/*/d/*"}]`, `{"a":[{"b":1e400}],"c":"\ud800"}`)
	f.Add(manyPaths(4, 4), escapedNames(8, 300))
	f.Fuzz(func(t *testing.T, ops, body string) {
		var all []Op
		if json.Unmarshal([]byte(ops), &all) != nil {
			return
		}
		p, err := Compile(all)
		if err != nil {
			return
		}
		const most = 100_000
		out, err := p.Apply(t.Context(), input(body), most)
		preview := previewOf(t, p, body, most)
		if (err == nil) != (preview.Failure == nil) || string(out.Body) != string(preview.Body) {
			t.Fatalf("%s, %v; the preview says %s, %v", out.Body, err, preview.Body, preview.Failure)
		}
		if err != nil {
			return
		}
		if len(out.Body) > p.MaxOutput(len(body), most) {
			t.Fatalf("%d bytes of %d, announced were %d", len(out.Body), len(body), p.MaxOutput(len(body), most))
		}
		fault := validate(out.Body, string(out.Body), MaxDepth)
		if fault != nil && !strings.Contains(fault.Message, "nested deeper") {
			t.Fatalf("%s: %v", out.Body, fault)
		}
	})
}
