package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

func TestFilter(t *testing.T) {
	f := func(text, typ, body string, want bool) {
		t.Helper()
		var parsed *filter.Filter
		noError(t, json.Unmarshal([]byte(text), &parsed))
		is.Equal(t, parsed.MatchesType(typ) &&
			filter.NewBodyFilters([]*filter.Filter{parsed}).Match([]byte(body))[0], want, "%s on %q %s", text, typ, body)
	}
	f(`null`, "", "not json", true)
	f(`{}`, "a.b", "not json", true)
	f(`{"types":["a.b"]}`, "a.b", "", true)
	f(`{"types":["a.b"]}`, "a.bc", "", false)
	f(`{"types":["a.b"]}`, "", "", false)
	f(`{"types":["x","order.*"]}`, "order.created", "", true)
	f(`{"types":["order.*"]}`, "order.item.added", "", true)
	f(`{"types":["order.*"]}`, "order", "", false)
	f(`{"types":["order.*"]}`, "orders.created", "", false)
	f(`{"types":["order*"]}`, "order.created", "", false)
	f(`{"body":{"a":"x"}}`, "", `{"a":"x"}`, true)
	f(`{"body":{"a":"x"}}`, "", `{"a":"y"}`, false)
	f(`{"body":{"a":"x"}}`, "", `{}`, false)
	f(`{"body":{"a":"x"}}`, "", `nope`, false)
	f(`{"body":{"a":"x"}}`, "", ``, false)
	f(`{"body":{"a":"x"}}`, "", `{"a":"x"} {}`, false)
	f(`{"body":{"a.b.c":true}}`, "", `{"a":{"b":{"c":true}}}`, true)
	f(`{"body":{"$.a.b":true}}`, "", `{"a":{"b":true}}`, true)
	f(`{"body":{"a.b":true}}`, "", `{"a":"b"}`, false)
	f(`{"body":{"items.1.sku":"s2"}}`, "", `{"items":[{"sku":"s1"},{"sku":"s2"}]}`, true)
	f(`{"body":{"items.2.sku":"s2"}}`, "", `{"items":[{"sku":"s1"},{"sku":"s2"}]}`, false)
	f(`{"body":{"items.-1":1}}`, "", `{"items":[1]}`, false)
	f(`{"body":{"n":1}}`, "", `{"n":1.0}`, true)
	f(`{"body":{"n":1}}`, "", `{"n":1e0}`, true)
	f(`{"body":{"n":1}}`, "", `{"n":"1"}`, false)
	f(`{"body":{"n":"1"}}`, "", `{"n":1}`, false)
	f(`{"body":{"n":null}}`, "", `{"n":null}`, true)
	f(`{"body":{"n":null}}`, "", `{}`, false)
	f(`{"body":{"n":false}}`, "", `{"n":0}`, false)
	f(`{"body":{"n":1}}`, "", `{"n":{"n":1}}`, false)
	f(`{"types":["a"],"body":{"n":1,"m":2}}`, "a", `{"n":1,"m":2}`, true)
	f(`{"types":["a"],"body":{"n":1,"m":2}}`, "a", `{"n":1,"m":3}`, false)
	f(`{"types":["b"],"body":{"n":1}}`, "a", `{"n":1}`, false)
	f(`{"body":{"a":1}}`, "", `{"a":2,"a":1}`, true) // among members with the same name the last one counts
	f(`{"body":{"a":1}}`, "", `{"a":1,"a":2}`, false)
	f(`{"body":{"a.b":1}}`, "", `{"a":{"b":1},"a":{}}`, false)
	f(`{"body":{"é\"":"ü"}}`, "", `{"\u00e9\"":"\u00FC"}`, true)
	f(`{"body":{"a":"�"}}`, "", "{\"a\":\"\xff\"}", true)
	f(`{"body":{"items.01":1,"items.1":1}}`, "", `{"items":[0,1]}`, true)
	f(`{"body":{"a":"x"}}`, "", `{"a":"x"} nope`, false)
	f(`{"body":{"a":1}}`, "", `{"a":1,"b":`+strings.Repeat("[", 1024)+strings.Repeat("]", 1024)+`}`, false) // 1,025 deep
	f(`{"body":{"a":1}}`, "", `{"a":1,"b":`+strings.Repeat("[", 1023)+strings.Repeat("]", 1023)+`}`, true)
}

// Integers that a float64 cannot represent exactly match only the same text.
func TestFilterLongNumbers(t *testing.T) {
	f := func(want, got any, equal bool) {
		t.Helper()
		is.Equal(t, filter.EqualScalar(want, got), equal, "%v and %v", want, got)
	}
	f(json.Number("12345678901234567890"), json.Number("12345678901234567890"), true)
	f(json.Number("12345678901234567890"), json.Number("12345678901234567891"), false)
	f(float64(1<<52), json.Number("4503599627370496"), true)
	f(7, json.Number("7"), true)
	f(7, json.Number("7.5"), false)
	f([]any{}, []any{}, false)
}

// decodedMatch evaluates a condition on a body with the standard library: it decodes the document into a tree and
// follows one path.
func decodedMatch(conditions map[string]any, body string) bool {
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var doc any
	if !json.Valid([]byte(body)) || dec.Decode(&doc) != nil {
		return false
	}
	for path, want := range conditions {
		got := doc
		for part := range strings.SplitSeq(strings.TrimPrefix(path, "$."), ".") {
			switch v := got.(type) {
			case map[string]any:
				next, ok := v[part]
				if !ok {
					return false
				}
				got = next
			case []any:
				i, err := strconv.Atoi(part)
				if err != nil || i < 0 || i >= len(v) {
					return false
				}
				got = v[i]
			default:
				return false
			}
		}
		if !filter.EqualScalar(want, got) {
			return false
		}
	}
	return true
}

// Evaluating all filters of an endpoint in one pass gives the same result as each filter alone on the decoded document.
func TestBodyFiltersTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "0", "01", "é", `a\u0062`, "\xff"}
	scalars := []string{"1", "1.0", "2e0", `"x"`, `"\u0078"`, `"\ud800"`, "null", "true"}
	var value func(depth int) string
	value = func(depth int) string {
		var b strings.Builder
		switch n := r.IntN(4); {
		case depth > 0 && n == 0:
			for i := range r.IntN(4) {
				fmt.Fprintf(&b, "%.*s%s", min(i, 1), ",", value(depth-1))
			}
			return "[" + b.String() + "]"
		case depth > 0 && (n < 3 || depth == 3):
			for i := range r.IntN(5) {
				fmt.Fprintf(&b, "%.*s\"%s\":%s", min(i, 1), ", ", names[r.IntN(len(names))], value(depth-1))
			}
			return "{" + b.String() + "}"
		}
		return scalars[r.IntN(len(scalars))]
	}
	matched := 0
	for range 20_000 {
		e := &Endpoint{Destinations: make([]Destination, 1+r.IntN(5))}
		for i := range e.Destinations {
			f := &filter.Filter{Body: map[string]any{}}
			for range r.IntN(3) {
				path := []string{"a", "b", "0", "1", "01", "é", "ab"}[r.IntN(7)]
				for range r.IntN(2) {
					path += "." + []string{"a", "b", "0", "1", "01"}[r.IntN(5)]
				}
				f.Body[path] = []any{1.0, 2.0, "x", nil}[r.IntN(4)]
			}
			e.Destinations[i].Filter = f
		}
		filters := e.Conditions()
		if filters == nil {
			continue
		}
		body := value(3)
		held, _ := filters.Hold(&event.Event{Body: []byte(body)}, "")
		for i, got := range held {
			conditions := e.Destinations[i].Filter.Body
			if want := decodedMatch(conditions, body); got != want {
				t.Fatalf("%v of %s: %v, want %v", conditions, body, got, want)
			} else if want && len(conditions) > 0 {
				matched++
			}
		}
	}
	if matched < 100 {
		t.Errorf("only %d filters matched: the test proves little", matched)
	}
}

// mebibytes returns bodies of 1 MiB that are as expensive to read as possible.
func mebibytes() map[string][]byte {
	const size = 1 << 20
	members, deep := []byte(`{"a":{"a":1`), strings.Repeat(`{"a":`, 1000)
	for i := 0; len(members) < size; i++ {
		members = fmt.Appendf(members, `,"%x":0`, i)
	}
	return map[string][]byte{
		"ones":    append(append([]byte(`[1`), bytes.Repeat([]byte(",1"), size/2)...), ']'),
		"members": append(members, `}}`...),
		"deep":    []byte(deep + `[` + strings.Repeat("0,", (size-6*1000)/2) + `0]` + strings.Repeat("}", 1000)),
		"text":    []byte(`{"a":"` + strings.Repeat(`\"`, size/2) + `"}`),
	}
}

// fullEndpoint returns an endpoint with the maximum number of destinations and conditions, with long paths.
func fullEndpoint() *Endpoint {
	e := &Endpoint{Destinations: make([]Destination, 50)}
	for i := range e.Destinations {
		f := &filter.Filter{Body: map[string]any{}}
		for j := range 20 {
			f.Body[strings.Repeat("a.", j%16)+fmt.Sprint(1000*i+j)] = "x"
		}
		e.Destinations[i].Filter = f
	}
	return e
}

// At the bounds, the filters of an endpoint read 1 MiB in little more time than it takes to validate it: neither their
// number nor the form of the document multiplies the work.
func TestBodyFiltersAreBounded(t *testing.T) {
	filters := fullEndpoint().Conditions()
	for name, body := range mebibytes() {
		if !json.Valid(body) {
			t.Fatalf("%s is not JSON", name)
		}
		// Processor time, the least of several rounds, because other tests run at the same time.
		valid, match := time.Hour, time.Hour
		for range 10 {
			began := kit.CPUTime(t)
			json.Valid(body)
			between := kit.CPUTime(t)
			filters.Hold(&event.Event{Body: body}, "")
			valid, match = min(valid, between-began), min(match, kit.CPUTime(t)-between)
			if match <= 10*valid {
				break
			}
		}
		t.Logf("%s: %v, json.Valid %v", name, match, valid)
		if match > 10*valid {
			t.Errorf("%s: the filters take %v, json.Valid %v", name, match, valid)
		}
	}
}

func BenchmarkBodyFilters(b *testing.B) {
	filters := map[string]*filter.Conditions{
		"one":  filter.NewConditions([]*filter.Filter{{Body: map[string]any{"data.status": "paid"}}}),
		"full": fullEndpoint().Conditions(),
	}
	for name, body := range mebibytes() {
		for of, f := range filters {
			b.Run(name+"/"+of, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					f.Hold(&event.Event{Body: body}, "")
				}
			})
		}
	}
}
