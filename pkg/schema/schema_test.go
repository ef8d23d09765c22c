package schema

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// check returns the fault of a body as text, empty if it matches.
func check(t *testing.T, schema, body string) string {
	t.Helper()
	s, err := Compile([]byte(schema))
	must.Do(t, err, schema)
	f, err := s.Check([]byte(body), new(int))
	if err != nil || f == nil {
		return fmt.Sprint("", err)
	}
	return f.Pointer() + " " + f.Message
}

func TestCheck(t *testing.T) {
	const order = `{"type":"object","required":["id"],"additionalProperties":false,
		"$defs":{"money":{"type":"integer","minimum":1}},
		"properties":{"id":{"type":"string","pattern":"^o_"},"a/b":{"type":"array","items":{"$ref":"#/$defs/money"}},
		"how":{"enum":["card","cash"]},"either":{"anyOf":[{"type":"null"},{"type":"string"}]}}}`
	for body, want := range map[string]string{
		`{"id":"o_1","a/b":[1,2],"how":"card"}`: "<nil>",
		`{"a/b":[1]}`:                           " missing property 'id'",
		`{"id":"o_1","a/b":[1,"x"]}`:            "/a~1b/1 got string, want integer",
		`{"id":"o_1","a/b":[0]}`:                "/a~1b/0 minimum: got 0, want 1",
		`{"id":"secret"}`:                       "/id does not match the pattern ^o_",
		`{"id":"o_1","how":"gold"}`:             "/how value must be one of 'card', 'cash'",
		`{"id":"o_1","either":1}`:               "/either 'anyOf' failed",
		`{"id":"o_1","z":1,"y":1}`:              " additional properties 'y', 'z' not allowed",
		`{"id":1,"how":1,"either":1}`:           "/either 'anyOf' failed",
		`{"id":"o_1","a/b":[1e999999999]}`:      "<nil>",
		`not JSON`:                              " is not JSON",
	} {
		for range 5 { // the order of members is random
			is.Equal(t, check(t, order, body), want, body)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 70)
	double := `{"$defs":{`
	for i := range 20 {
		double += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	double += `"d20":{}},"$ref":"#/$defs/d0"}`
	for schema, want := range map[string]string{
		`{`:                       "JSON",
		`{"type":"text"}`:         "/type: 'anyOf' failed",
		`[]`:                      "not a JSON Schema",
		`{"pattern":"("}`:         "not a JSON Schema",
		`{"$ref":"https://x/y"}`:  "$ref must be the path",
		`{"$ref":"other.json"}`:   "$ref must be the path",
		`{"$ref":"#/$defs/none"}`: "not in it",
		`{"$id":"https://x/y"}`:   "$id",
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:          "draft 6 or later",
		`{"items":{"$schema":"http://json-schema.org/draft-04/schema"}}`: "draft 6 or later",
		`{"$dynamicRef":"#x"}`:                  "$dynamicRef",
		`{"$schema":"https://x/y"}`:             "not a JSON Schema",
		`{"properties":{"child":{"$ref":"#"}}}`: "refers to itself",
		deep:                                    "levels",
		double:                                  "values",
		`{"properties":{"definitions":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`: "refers to itself",
		`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`:                                 "refers to itself",
		`{"$defs":{"a":{"$id":"https://x/y"}}}`:                                "$id",
		`"` + strings.Repeat("x", MaxBytes) + `"`:                              "bytes",
	} {
		if _, err := Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", schema, err, want)
		}
	}
}

// Patterns are counted before they are compiled, so that those that are refused cost no memory.
func TestCompileRefusesLargePatterns(t *testing.T) {
	many := func(pattern string, n int) []byte {
		text := `{"properties":{`
		for i := range n {
			text += fmt.Sprintf(`"%d":{"pattern":%q},`, i, pattern)
		}
		return []byte(text + `"x":{}}}`)
	}
	s, err := Compile(many("^[a-z]{2,63}$", 300))
	must.Do(t, err)
	is.Equal(t, s.Size() < 4<<20, true, "the size of many patterns")
	_, err = Compile(many(`^[\p{L} .'-]{1,100}$`, 200))
	must.Do(t, err)
	for name, text := range map[string][]byte{
		"properties": many("a{1000}", 2200),
		"program":    many(strings.Repeat("a{1000}", 3300), 1),
		"classes":    []byte(`{"pattern":"` + strings.Repeat(`\\pL`, 1000) + `"}`),
		"names":      []byte(`{"patternProperties":{"` + strings.Repeat("a{1000}", 51) + `":{}}}`),
		"references": []byte(`{"$defs":{"p":{"pattern":"a{1000}"}},"allOf":[` +
			strings.Repeat(`{"$ref":"#/$defs/p"},`, 60) + `{}]}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile(text)
		runtime.ReadMemStats(&after)
		is.Equal(t, errors.Is(err, ErrLargePatterns), true, "%s: %v", name, err)
		if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
			t.Errorf("%s: allocates %d MiB", name, took>>20)
		}
	}
}

func TestUniqueItems(t *testing.T) {
	objects := make([]string, 1000)
	for i := range objects {
		objects[i] = fmt.Sprintf(`{"id":%d,"tags":["a","b"],"at":{"x":%d.5,"y":null}}`, i, i%7)
	}
	all := strings.Join(objects, ",")
	for _, x := range []struct{ schema, body, want string }{
		{"", `[` + all + `]`, "<nil>"},
		{"", `[` + all + `,` + objects[7] + `]`, " items at 7 and 1,000 are equal"},
		{"", `[{"a":1,"b":[true]},{"b":[true],"a":1.0}]`, " items at 0 and 1 are equal"},
		{"", `[100,0.5,1e2]`, " items at 0 and 2 are equal"},
		{"", `[5e-1,0.50]`, " items at 0 and 1 are equal"},
		{"", `[0,-0.0]`, " items at 0 and 1 are equal"},
		{"", `[0,0e5]`, " items at 0 and 1 are equal"},
		{"", `[1e300,10e299]`, " items at 0 and 1 are equal"},
		{"", `[1,-1,10,"1",true,"true",null,"<nil>",[],{},[[]],[[],[]],[[[]]],[1,1],[11],["a","b"],["a1:b"]]`, "<nil>"},
		{"", `[{"a":"b"},{"a":{}},{"a":{},"b":{}},{"a":{"b":{}}},["a","b"],{"ab":""},{"":"ab"}]`, "<nil>"},
		{"", `"text"`, "<nil>"},
		{`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"uniqueItems":true}}}`, `[[1],[1,1]]`, "/1 items at 0 and 1 are equal"},
		{`{"not":{"uniqueItems":true}}`, `[1,1]`, "<nil>"},
		{`{"uniqueItems":false,"const":{"uniqueItems":true}}`, `[1,1]`, " 'const' failed"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","uniqueItems":true}`, `[1,1]`, " items at 0 and 1 are equal"},
	} {
		if x.schema == "" {
			x.schema = `{"uniqueItems":true}`
		}
		is.Equal(t, check(t, x.schema, x.body), x.want, x.schema+" "+x.body)
	}
	if _, err := Compile([]byte(`{"uniqueItems":true,"title":1}`)); err == nil {
		t.Error("the meta-schema is not applied")
	}
}

// trees returns all ordered trees with n nodes, as arrays of arrays.
func trees(n int) (all []string) {
	for _, children := range forests(n - 1) {
		all = append(all, "["+children+"]")
	}
	return all
}

func forests(n int) (all []string) {
	if n == 0 {
		return []string{""}
	}
	for first := 1; first <= n; first++ {
		for _, tree := range trees(first) {
			for _, rest := range forests(n - first) {
				all = append(all, strings.TrimSuffix(tree+","+rest, ","))
			}
		}
	}
	return all
}

// A check ends soon whatever the schema and the body are.
func TestCostIsBounded(t *testing.T) {
	nots := `{"allOf":[` + strings.Repeat(`{"not":{"items":{"type":"string"}}},`, 1000) + `{}]}`
	patterns := `{"patternProperties":{`
	for i := range 200 {
		patterns += fmt.Sprintf(`"(a|b|c)*%dx$":{},`, i)
	}
	patterns += `"z":{}}}`
	text := strings.Repeat("abc", 70_000)
	lengths := `{"allOf":[` + strings.Repeat(`{"maxLength":9},`, 4000) + `{}]}`
	few := make([]string, 20) // each has the beginning of the others
	for i := range few {
		few[i] = `[` + strings.Repeat("1,", 24_000) + fmt.Sprint(i, "]")
	}
	large := `[` + strings.Repeat("1e308,", 150_000) + `1]`
	numbers := `[` + strings.Repeat("1e400000,", 100) + `1]`
	for name, x := range map[string]struct{ schema, body string }{
		"values":   {nots, `[` + strings.Repeat("1,", 500_000) + `1]`},
		"patterns": {patterns, `{"` + strings.Repeat("abc", 300_000) + `":1}`},
		"program":  {`{"pattern":"(?:[a-z]{0,1000})*[0-9]$"}`, `"` + text + `"`},
		"defined":  {`{"definitions":{"p":{"pattern":"(?:[a-z]{0,1000})*[0-9]$"}}}`, `"` + text + `"`},
		"usual":    {`{"pattern":"^[^@ ]+@[^@ ]+\\.[a-z]{2,}$"}`, `"` + text + `"`},
		"numbers":  {`{"items":{"multipleOf":0.01,"maximum":1e999999999}}`, numbers},
		"lengths":  {lengths, `"` + strings.Repeat("a", 1_000_000) + `"`},
		"unique":   {`{"uniqueItems":true}`, numbers},
		"large":    {`{"uniqueItems":true}`, `[` + large + `,` + large + `]`},
		"trees":    {`{"uniqueItems":true}`, `[` + strings.Join(trees(12), ",") + `]`},
		"few":      {`{"uniqueItems":true}`, `[` + strings.Join(few, ",") + `]`},
	} {
		s, err := Compile([]byte(x.schema))
		if err != nil {
			t.Fatal(name, err)
		}
		begin := time.Now()
		_, err = s.Check([]byte(x.body), new(int))
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		is.Equal(t, errors.Is(err, ErrTooCostly), strings.Contains("values patterns program defined lengths", name),
			"%s: %v", name, err)
	}
}

// The bodies of a request have one bound.
func TestCostOfARequestIsBounded(t *testing.T) {
	s, err := Compile([]byte(`{"pattern":"^[a-z]{1,900}$"}`))
	must.Do(t, err)
	body := []byte(`"` + strings.Repeat("a", 15_000) + `"`)
	spent, checked := 0, 0
	for range 100 {
		if _, err = s.Check(body, &spent); err != nil {
			break
		}
		checked++
	}
	if !errors.Is(err, ErrTooCostly) || checked < 2 || checked > 10 {
		t.Errorf("%d bodies, then %v", checked, err)
	}
}

// A schema that compiles checks any body without a panic, for a bounded time, and its canonical text stays the same.
func FuzzCheck(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"type":"number","multipleOf":0.1}}}`, `{"a":1e300}`)
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"pattern":"^(a+)+$"}}}`, `"aaaaaaaaaaaaaaaaaaaa!"`)
	f.Add(`{"anyOf":[{"items":{"$ref":"#"}},{"enum":[1,"1",null]}],"uniqueItems":true}`, `[[],[1.0],1]`)
	f.Add(`{"format":"email","minLength":2,"additionalProperties":false}`, `{"/~":1}`)
	f.Fuzz(func(t *testing.T, text, body string) {
		s, err := Compile([]byte(text))
		if err != nil {
			return
		}
		canonical := must.Get(Canonical([]byte(text)))(t)
		is.Equal(t, string(must.Get(Canonical(canonical))(t)), string(canonical), "the canonical text of it")
		spent := 0
		fault, err := s.Check([]byte(body), &spent)
		if errors.Is(err, ErrTooCostly) {
			return
		}
		must.Do(t, err)
		if fault != nil {
			is.List(t, Tokens(fault.Pointer()), fault.Path, "tokens of "+fault.Pointer())
		}
	})
}
