package expr_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/expr"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

const body = `{"amount":1250,"rate":10.50,"one":1.0,"huge":1e400,"long":12345678901234567890123,` +
	`"big":9007199254740993,"name":"Zoë \u00e9","none":null,"items":[{"sku":"a","n":2},{"sku":"b","n":3}],` +
	`"tags":[1,2.0,"x"],"dup":1,"dup":2,"deep":{"a":{"b":[10,20]}}}`

func order() *event.Event {
	made := id.NewGenerator(func() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC) }).NewUnbounded(0)
	return &event.Event{ID: made, Type: "order.paid", Source: event.SourceProvider, Verdict: event.VerdictVerified,
		Query: "shop=nl&shop=de&x=%zz", Body: []byte(body),
		Header: []event.Field{{Name: "X-Kind", Value: "a"}, {Name: "X-Kind", Value: "b"}}}
}

func TestValues(t *testing.T) {
	in := expr.NewInput(order(), "ten_1")
	for text, want := range map[string]string{
		`body.amount`:                            `1250`,
		`body.one`:                               `1.0`,
		`body.huge`:                              `1e400`,
		`body.long`:                              `12345678901234567890123`,
		`body.rate`:                              `10.50`,
		`body.deep`:                              `{"a":{"b":[10,20]}}`,
		`{"id": body.long, "one": body.one}`:     `{"id":12345678901234567890123,"one":1.0}`,
		`[body.one, body.tags]`:                  `[1.0,[1,2.0,"x"]]`,
		`body.amount > 5 ? body.one : body.huge`: `1.0`,
		`body.amount / 100`:                      `12.5`,
		`body.amount / 50`:                       `25`,
		`100 / body.rate`:                        `9.523809523809524`,
		`7 / 2`:                                  `3`,
		`body.amount + 0.5`:                      `1250.5`, `body.amount * 2`: `2500`, `body.amount - body.one`: `1249`,
		`body.amount % 7`:               `4`,
		`1.5 * size(body.items)`:        `3`,
		`size(body.items) / 4`:          `0`,
		`body.big + 1`:                  `9007199254740994`,
		`-body.amount`:                  `-1250`,
		`body.name + "!"`:               `"Zoë é!"`,
		`"n=" + string(body.amount)`:    `"n=1250"`,
		`body.items.map(i, i.n)`:        `[2,3]`,
		`body.items.map(i, i.n * 2)`:    `[4,6]`,
		`body.items.filter(i, i.n > 2)`: `[{"sku":"b","n":3}]`,
		`body.dup`:                      `2`, `body.none`: `null`, `body.deep.a.b[1]`: `20`, `body["amount"]`: `1250`,
		`body.?missing.orValue(7)`: `7`, `body.?deep.a.b[?1]`: `20`, `body.?missing`: `null`,
		`headers["x-kind"]`: `"a, b"`, `query.shop`: `"nl"`, `type`: `"order.paid"`,
		`event.received_at`: `"2026-05-04T03:02:01Z"`,
		`event.tenant`:      `"ten_1"`,
		`event.verified`:    `true`,
		`duration("90s")`:   `"90s"`, `b"ab"`: `"YWI="`, `body.name.upperAscii()`: `"ZOë é"`,
		`{"z": 1, "a": [null, 1.5]}`:     `{"a":[null,1.5],"z":1}`,
		`[1] + body.tags`:                `[1,1,2.0,"x"]`,
		`body.tags + [1]`:                `[1,2.0,"x",1]`,
		`["a", body.name, ""].join("-")`: `"a-Zoë é-"`,
		`[].join()`:                      `""`,
		`body.name.replace("o", "00")`:   `"Z00ë é"`,
		`"aaa".replace("a", "b", 2)`:     `"bba"`,
		`"ab".replace("", "-")`:          `"-a-b-"`,
		`math.greatest(body.amount, 3)`:  `1250`,
		`int(body.rate)`:                 `10`,
		`double(body.one)`:               `1`,
	} {
		p, err := expr.Compile(text, expr.Any)
		must.Do(t, err, "%s", text)
		got, err := p.JSON(in)
		must.Do(t, err, "%s", text)
		is.Equal(t, string(got), want, "%s", text)
	}
}

func TestConditions(t *testing.T) {
	in := expr.NewInput(order(), "")
	for text, want := range map[string]bool{
		`body.amount > 1000`:       true,
		`1000 < body.amount`:       true,
		`body.amount >= 1250.0`:    true,
		`body.one == 1`:            true,
		`1 == body.one`:            true,
		`body.rate == 10.5`:        true,
		`body.long > 1`:            true,
		`body.amount == "1250"`:    false,
		`body.amount in [1, 1250]`: true,
		`2 in body.tags`:           true,
		`"x" in body.tags`:         true,
		`3 in body.tags`:           false,
		`has(body.amount)`:         true,
		`has(body.missing)`:        false,
		`"deep" in body`:           true,
		`"nope" in body`:           false,
		`body.items.exists(i, i.sku == "b" && i.n >= 3)`:        true,
		`body.items.all(i, i.n > 2)`:                            false,
		`body.none == null`:                                     true,
		`body.tags == [1, 2, "x"]`:                              true,
		`[1, 2, "x"] == body.tags`:                              true,
		`body.deep.a == {"b": [10, 20]}`:                        true,
		`{"b": [10, 20]} == body.deep.a`:                        true,
		`body.deep.a != {"b": [10]}`:                            true,
		`body.name.startsWith("Zo")`:                            true,
		`type == "order.paid" && event.source == "provider"`:    true,
		`type.matches("^order\\.")`:                             true,
		`size(body.items) == 2 && size(body.name) == 5`:         true,
		`event.received_at > timestamp("2026-01-01T00:00:00Z")`: true,
		`body.big == 9007199254740993`:                          true, `body.big == 9007199254740992`: false,
		`body.missing == 1 || true`: true,
		`"x-kind" in headers`:       true,
		`type(body.amount) == int`:  true,
	} {
		p, err := expr.Compile(text, expr.Bool)
		must.Do(t, err, "%s", text)
		got, err := p.Bool(in)
		must.Do(t, err, "%s", text)
		is.Equal(t, got, want, "%s", text)
	}
}

func TestExpressionsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		``: "is empty", `body.amount >`: "line 1, column 14: Syntax error",
		"true &&\n  boddy.x": "line 2, column 3: unknown name to 'boddy'",
		`1 + 1`:              "line 1, column 1: is int, but must be bool",
		`"a" + 1 == "b"`:     "line 1, column 5: found no matching overload",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100): "",
		strings.Repeat("true && ", 400) + "true":                     "",
		strings.Repeat("x", 5000):                                    "is longer than 4096 bytes",
	} {
		_, err := expr.Compile(text, expr.Bool)
		must.Equal(t, err != nil, true, "%s", text)
		is.Has(t, err.Error(), want, "%s", text)
	}
}

func TestEvaluationsThatFail(t *testing.T) {
	in := expr.NewInput(order(), "")
	for text, want := range map[string]string{
		`body.missing > 1`:     "line 1, column 5: no such key: missing",
		`body.items[5].n == 1`: "index out of bounds: 5",
		`body.name > 1`:        "line 1, column 11: > cannot be used with string and int",
		`body.amount`:          "line 1, column 1: is int, but must be bool",
		`body.amount / 0 > 1`:  "division by zero",
		`body.name - 1 == 2`:   "line 1, column 11: - cannot be used with string and int",
		`headers["x"] == ""`:   "no such key: x",
		strings.Repeat(`[1,2,3,4,5,6,7,8,9].all(c, `, 6) + "true" + strings.Repeat(")", 6): "takes too many steps",
	} {
		p, err := expr.Compile(text, expr.Bool)
		must.Do(t, err, "%s", text)
		_, err = p.Bool(in)
		must.Equal(t, err != nil, true, "%s", text)
		is.Has(t, err.Error(), want, "%s", text)
	}
}

// No expression takes much time or memory of a large body: what would ends as too many steps.
func TestLargeBody(t *testing.T) {
	ev := order()
	ev.Body = []byte(`{"items":[` + strings.Repeat(`{"n":1},`, 100_000) + `{"n":1}],"pad":"` +
		strings.Repeat("x", 1<<20) + `"}`)
	for text, want := range map[string]string{
		`body.items.all(i, i.n == 1)`:                               "takes too many steps",
		`body.items.all(i, body.pad != "")`:                         "takes too many steps",
		`body.items.all(i, body.items == body.items)`:               "takes too many steps",
		`body.items.map(i, body.pad).size() > 0`:                    "takes too many steps",
		`body.items.map(i, body.pad + body.pad).size() > 0`:         "takes too many steps",
		`body.items.map(i, body.items + body.items).size() > 0`:     "takes too many steps",
		`body.items.all(i, body.pad.indexOf("y") < 0)`:              "takes too many steps",
		`body.items.all(i, body.pad.upperAscii() != "")`:            "takes too many steps",
		`body.pad.replace("x", body.pad) != ""`:                     "makes more than 262144 bytes",
		`body.pad.replace("", "xxxxxxxx") != ""`:                    "makes more than 262144 bytes",
		`[body.pad, body.pad].join(body.pad) != ""`:                 "makes more than 262144 bytes",
		`body.pad.matches("(x+x+)+y")`:                              "takes too many steps",
		`body.pad.split("").size() > 0`:                             "takes too many steps",
		`body.pad.endsWith("x") && body.pad.replace("x", "") == ""`: "",
		`body.pad.substring(0, 3) + "y" == "xxxy"`:                  "",
	} {
		p := must.Get(expr.Compile(text, expr.Bool))(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := kit.CPUTime(t)
		_, err := p.Bool(expr.NewInput(ev, ""))
		took := kit.CPUTime(t) - began
		runtime.ReadMemStats(&after)
		made := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %v, %d MiB, %v", text, took, made, err)
		is.Equal(t, err == nil, want == "", "%s: %v", text, err)
		if err != nil {
			is.Has(t, err.Error(), want, "%s", text)
		}
		is.Equal(t, made < 200, true, "%s: %d MiB", text, made)
	}
	for _, text := range []string{`"%s".format([body.pad]) == ""`, `"a".matches(body.pad)`, `matches("a", body.pad)`} {
		_, err := expr.Compile(text, expr.Bool)
		is.Equal(t, err != nil, true, "%s", text)
	}
}

func BenchmarkCondition(b *testing.B) {
	ev := order()
	ev.Body = []byte(`{"amount":1250,"pad":"` + strings.Repeat("x", 800) +
		`","customer":{"country":"NL","tags":["a","b"]},"type":"order.paid"}`)
	for _, text := range []string{`body.amount > 1000`,
		`body.amount >= 100 && body.customer.country in ["NL", "DE"] && type.startsWith("order.")`,
		`body.customer.tags.exists(t, t == "b")`} {
		p := must.Get(expr.Compile(text, expr.Bool))(b)
		b.Run(fmt.Sprintf("%.20s", text), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.Bool(expr.NewInput(ev, ""))
			}
		})
	}
	p := make([]*expr.Program, 10)
	for i := range p {
		p[i] = must.Get(expr.Compile(fmt.Sprintf(`body.amount > %d && body.customer.country == "NL"`, i), expr.Bool))(b)
	}
	b.Run("ten", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			in := expr.NewInput(ev, "")
			for _, p := range p {
				_, _ = p.Bool(in)
			}
		}
	})
}

// TestMatchAgreesWithItsModel compares with the answers of simple-json-match, which testdata/match.mjs has asked.
func TestMatchAgreesWithItsModel(t *testing.T) {
	var model struct {
		Document json.RawMessage
		Cases    []struct {
			Pattern json.RawMessage
			Match   bool
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/match.json"))(t), &model))
	must.Equal(t, len(model.Cases) > 100, true)
	ev := order()
	ev.Body = model.Document
	in := expr.NewInput(ev, "")
	for _, c := range model.Cases {
		m, err := expr.ParseMatch(fmt.Appendf(nil, `{"body":%s}`, c.Pattern))
		must.Do(t, err, "%s", c.Pattern)
		got := must.Get(m.Holds(in))(t)
		is.Equal(t, got, c.Match, "%s", c.Pattern)
	}
}

func TestMatch(t *testing.T) {
	in := expr.NewInput(order(), "")
	for pattern, want := range map[string]bool{
		`{"headers":{"x-kind":"a, b"},"query":{"shop":"nl"}}`:         true,
		`{"type":{"$startsWith":"order."},"event":{"verified":true}}`: true,
		`{"headers":{"authorization":{"$exist":false}}}`:              true,
		`{"body":{"long":12345678901234567890123}}`:                   true,
		`{"body":{"tags":{"$contains":"x"}}}`:                         true,
		`{"body":{"name":{"$contains":"Zoë"}}}`:                       true,
		`{"body":{"name":{"$contains":1}}}`:                           false,
		`{"body":{"amount":"1250"}}`:                                  false,
		`{"body":{"amount":{"$ne":1}}}`:                               true,
		`{"$or":[{"type":"x"},{"body":{"dup":2}}]}`:                   true,
		`{"body":{"amount":{"$not":{"$gt":1000}}}}`:                   false,
		`{}`:                                true,
		`{"body":{"big":9007199254740993}}`: true,
		`{"body":{"big":9007199254740992}}`: false,
	} {
		m, err := expr.ParseMatch([]byte(pattern))
		must.Do(t, err, "%s", pattern)
		is.Equal(t, must.Get(m.Holds(in))(t), want, "%s", pattern)
	}
	for pattern, want := range map[string]string{
		`[]`:                             "must be an object",
		`{"a":1}`:                        "a: is unknown; a pattern begins with body, headers",
		`{"body":{"a":{"$foo":1}}}`:      "body.a.$foo: is no operator",
		`{"body":{"a":{"$gt":true}}}`:    "body.a.$gt: must be a number or a string",
		`{"body":{"a":{"$in":5}}}`:       "body.a.$in: must be an array",
		`{"body":{"$or":{}}}`:            "body.$or: must be an array of patterns",
		`{"body":{"a":{"$gt":1,"b":2}}}`: "body.a: has operators beside members",
		`{"body":` + strings.Repeat(`{"a":`, 20) + `1` + strings.Repeat("}", 21): "nested deeper than 16",
		`{"body":1} {}`: "is more than one JSON value",
		`{"body":{"a":[` + strings.Repeat("1,", 300) + `1]}}`: "has more than 200 values",
		`{"body":{"a":{"$exist":1}}}`:                         "body.a.$exist: must be true or false",
	} {
		_, err := expr.ParseMatch([]byte(pattern))
		must.Equal(t, err != nil, true, "%s", pattern)
		is.Has(t, err.Error(), want, "%s", pattern)
	}
}
