package control

import (
	"encoding/json"
	"testing"
)

func TestFilter(t *testing.T) {
	f := func(filter, typ, body string, want bool) {
		t.Helper()
		var parsed *Filter
		if err := json.Unmarshal([]byte(filter), &parsed); err != nil {
			t.Fatal(err)
		}
		if got := parsed.Matches(typ, []byte(body)); got != want {
			t.Errorf("%s on %q %s: %v", filter, typ, body, got)
		}
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
}

// Numbers beyond what a float tells apart match only themselves.
func TestFilterLongNumbers(t *testing.T) {
	f := func(want, got any, equal bool) {
		t.Helper()
		if equalScalar(want, got) != equal {
			t.Errorf("%v and %v: want %v", want, got, equal)
		}
	}
	f(json.Number("12345678901234567890"), json.Number("12345678901234567890"), true)
	f(json.Number("12345678901234567890"), json.Number("12345678901234567891"), false)
	f(float64(1<<52), json.Number("4503599627370496"), true)
	f(7, json.Number("7"), true)
	f(7, json.Number("7.5"), false)
	f([]any{}, []any{}, false)
}
