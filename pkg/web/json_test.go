package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestParseObjectKeepsTheBytes(t *testing.T) {
	body := " {\t\"a\" : [1, 2 ,{\"x\":1,\"x\":2}],\r\n\"\\u0062\":1.50e+1 , \"c\":\"\\ud800 é\",\"d\":{} } \n"
	got := must.Get(web.ParseObject(nil, []byte(body)))(t)
	want := []web.Member{
		{Name: "a", Value: []byte(`[1, 2 ,{"x":1,"x":2}]`)}, {Name: "b", Value: []byte("1.50e+1")},
		{Name: "c", Value: []byte(`"\ud800 é"`)}, {Name: "d", Value: []byte("{}")},
	}
	is.Same(t, got, want)
}

func TestParseObjectRefuses(t *testing.T) {
	f := func(body, reason string) {
		t.Helper()
		if _, err := web.ParseObject(nil, []byte(body)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.60q: error %v, want %q", body, err, reason)
		}
	}
	f(``, "expected an object at byte 0")
	f(`[]`, "expected an object at byte 0")
	f(`null`, "expected an object")
	f(`"x"`, "expected an object")
	f(`{`, "a member name")
	f(`{"a"`, "a colon")
	f(`{"a":`, "ends early")
	f(`{"a":1`, "ends early")
	f(`{"a":1,}`, "a member name")
	f(`{"a":1 "b":2}`, "a comma")
	f(`{'a':1}`, "a member name")
	f(`{"a":01}`, "a comma")
	f(`{"a":+1}`, "a JSON value")
	f(`{"a":1.}`, "a digit")
	f(`{"a":1e}`, "a digit")
	f(`{"a":-}`, "a digit")
	f(`{"a":NaN}`, "a JSON value")
	f(`{"a":nul}`, "a JSON value")
	f(`{"a":True}`, "a JSON value")
	f(`{"a":"x`, "ends early at byte 7")
	f("{\"a\":\"x\ny\"}", "control character in a string at byte 7")
	f(`{"a":"\x41"}`, "unknown escape in a string at byte 6")
	f(`{"\x":1}`, "unknown escape in a string at byte 2")
	f(`{"a":"\u00g0"}`, "unknown escape")
	f(`{"a":"\u00`, "unknown escape")
	f(`{"a":[1,]}`, "a JSON value")
	f(`{"a":[1}`, "a comma")
	f(`{}{}`, "unexpected text after")
	f(`{} x`, "unexpected text after")
	f("{\"a\":\"\xff\"}", "not UTF-8 at byte 6")
	f("{\"\ufffd\":\"\xe2\x82\"}", "not UTF-8 at byte 8")
	f("\ufeff{}", "expected an object") // RFC 8259, 8.1: no byte order mark
	f(`{"a":1,"\u0061":2}`, `"a" appears twice`)
	f(`{"a":`+nested(web.MaxDepth+1)+`}`, "nesting is deeper than 64")
	f(`{"a":`+strings.Repeat("[", 1<<20), "nesting is deeper")
	f(strings.Repeat(`{"a":`, web.MaxDepth+2)+strings.Repeat("}", web.MaxDepth+2), "nesting is deeper than 64")
	if _, err := web.ParseObject(nil, []byte(`{"a":`+nested(web.MaxDepth)+`}`)); err != nil {
		t.Error("depth 64:", err)
	}
	deepest := strings.Repeat(`{"a":`, web.MaxDepth+1) + "1" + strings.Repeat("}", web.MaxDepth+1)
	if _, err := web.ParseObject(nil, []byte(deepest)); err != nil {
		t.Error("objects of depth 64:", err)
	}
}

// An error of the parser names the member.
func TestInvalidJSON(t *testing.T) {
	f := func(path, body, param, message string) {
		t.Helper()
		_, err := web.ParseObject(nil, []byte(body))
		if e := web.FromError(web.InvalidJSON(path, err)); e.Param != param || e.Message != message {
			t.Errorf("%q, %q; want %q, %q", e.Param, e.Message, param, message)
		}
	}
	f("", `{"a":1,"a":2}`, "a", "appears twice; send it once")
	f("b", `{"a":1,"a":2}`, "b.a", "appears twice; send it once")
	f("", `{`, "", "the body is not the expected JSON: expected a member name in quotes at byte 1")
	f("b", `{`, "b", "is not the expected JSON: expected a member name in quotes at byte 1")
}

// ParseObject accepts exactly what encoding/json accepts: here with each ASCII character at places where the grammar
// decides, and with each prefix of a text.
func TestParseObjectIsAsStrict(t *testing.T) {
	f := func(body string) {
		t.Helper()
		_, err := web.ParseObject(nil, []byte(body))
		is.Equal(t, json.Valid([]byte(body)), err == nil, "%q: valid is: %v", body, err)
	}
	for _, text := range []string{`{"a":#}`, `{"a":#1}`, `{"a":1#}`, `{"a":1#1}`, `{"a":-#}`, `{"a":1.#}`, `{"a":1.0#1}`,
		`{"a":1e#}`, `{"a":1E#2}`, `{"a":1e+#}`, `{"a":tru#}`, `{"a":"\#"}`, `{"a":"\u#0a0"}`, `{"a":"\uA0F#"}`, `{"a"#1}`,
		`{"a":"#"}`} {
		for c := range 128 {
			f(strings.Replace(text, "#", string(rune(c)), 1))
		}
	}
	const text = `{"a":[1.5e-7,{"b":true,"c":false},null,"\u00e9\\x"]}`
	for end := range len(text) + 1 {
		f(text[:end])
	}
}

// An envelope may be nested deeper than the requests in it.
func TestParseEnvelope(t *testing.T) {
	if _, err := web.ParseEnvelope([]byte(`{"a":` + nested(web.MaxDepth+1) + `}`)); err != nil {
		t.Error(err)
	}
	if _, err := web.ParseEnvelope([]byte(`{"a":` + nested(1001) + `}`)); err == nil {
		t.Error("depth 1,001 is accepted")
	}
	deep := []byte(nested(web.MaxDepth + 2))
	if _, err := web.ParseEnvelopeArray(deep, 1); err != nil {
		t.Error(err)
	}
	if _, err := web.ParseArray(deep, 1); err == nil {
		t.Error("an array of depth 66 is accepted")
	}
}

func TestParseArray(t *testing.T) {
	got := must.Get(web.ParseArray([]byte(` [1, "a" ,[ ], {"b":2}] `), 4))(t)
	is.Same(t, toStrings(got), []string{"1", `"a"`, "[ ]", `{"b":2}`})
	for _, bad := range []string{"", "{}", "[", "[1", "[1]2", "[,]", "x]", "{1]"} {
		if _, err := web.ParseArray([]byte(bad), 4); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := web.ParseArray([]byte(`[1,2,3]`), 2); !errors.As(err, new(*web.LimitError)) {
		t.Errorf("three elements with a limit of two: %v", err)
	}
}

func toStrings(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

// FuzzParseObject compares ParseObject with encoding/json: both must accept the same objects, except that ParseObject
// also limits depth and members and refuses duplicates and text that is not UTF-8.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"a":[{"b":-0.5e-7},null,true,false,"\u00e9\\"]}`, `[1]`, `{"a":"x`,
		`{"a":1,"a":2}`, "{\"\xff\":1}", `{"a":` + nested(65) + `}`, "{\"a\":\"\x7f\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		members, err := web.ParseObject(nil, body)
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(body, &want)
		isObject := wantErr == nil && want != nil
		if err == nil && !isObject {
			t.Fatalf("%q was accepted: %v", body, wantErr)
		}
		if err != nil {
			var syntax *web.SyntaxError
			// The reasons with " than " are those of MaxDepth and MaxMembers.
			stricter := !utf8.Valid(body) || errors.As(err, new(*web.DuplicateError)) || errors.As(err, &syntax) &&
				strings.Contains(syntax.Reason, " than ")
			if isObject && !stricter {
				t.Fatalf("%q was refused: %v", body, err)
			}
			return
		}
		for _, m := range members {
			if got, ok := want[m.Name]; !ok || string(got) != string(m.Value) {
				t.Fatalf("%q: member %q is %q, want %q", body, m.Name, m.Value, got)
			}
		}
		must.Equal(t, len(members), len(want), "%q: members", body)
	})
}

func BenchmarkParseObject1KB(b *testing.B) {
	body := []byte(`{"type":"order.paid","data":{"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"A-1009","n":2,"price":19.90},`, 25), ",") + `]}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(web.ParseObject(make([]web.Member, 0, 4), body))(b)
	}
}

// BenchmarkEncodingJSONValid1KB is the comparison for BenchmarkParseObject1KB: json.Valid of the same text.
func BenchmarkEncodingJSONValid1KB(b *testing.B) {
	body := []byte(`{"type":"order.paid","data":{"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"A-1009","n":2,"price":19.90},`, 25), ",") + `]}}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if !json.Valid(body) {
			b.Fatal("not valid")
		}
	}
}

// DecodeString returns an error for values that are not JSON strings.
func TestDecodeString(t *testing.T) {
	for raw, want := range map[string]string{`""`: "", `"a"`: "a", `"\u0041\n"`: "A\n", `"é"`: "é"} {
		is.Equal(t, must.Get(web.DecodeString([]byte(raw)))(t), want, raw)
	}
	for _, raw := range []string{"", "1", "12", "null", "true", "{}", `["tools/list"]`, `"`, `"\x"`} {
		if s, err := web.DecodeString([]byte(raw)); err == nil {
			t.Errorf("%s: %q", raw, s)
		}
	}
}

// members returns an object of n members with names of equal length.
func members(n int) []byte {
	b := []byte("{")
	for i := range n {
		b = fmt.Appendf(b, `"%06x":0,`, i)
	}
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

func TestParseObjectBoundsMembers(t *testing.T) {
	got, err := web.ParseObject([]web.Member{{Name: "000000"}}, members(web.MaxMembers))
	if err != nil || len(got) != 1+web.MaxMembers {
		t.Errorf("%d members, %v", len(got), err)
	}
	_, err = web.ParseObject(nil, members(web.MaxMembers+1))
	is.Failed(t, err, "more than 1000 members")
	inside := fmt.Appendf(nil, `{"data":%s}`, members(5*web.MaxMembers))
	if _, err := web.ParseObject(nil, inside); err != nil {
		t.Error("MaxMembers applies to an inner object:", err)
	}
	// Duplicates are found below and above the number of members from which a map is used.
	for _, n := range []int{1, 15, 16, 17, 40, web.MaxMembers - 1} {
		for _, twice := range []int{0, n / 2, n - 1} {
			body := fmt.Appendf(bytes.TrimSuffix(members(n), []byte("}")), `,"%06x":1}`, twice)
			if _, err := web.ParseObject(nil, body); !errors.As(err, new(*web.DuplicateError)) {
				t.Errorf("member %d of %d twice: %v", twice, n, err)
			}
		}
	}
}

// expensive returns texts of about 1 MiB, each of a form that takes a careless parser more than linear time or memory.
func expensive() map[string][]byte {
	const size = 1 << 20
	fill := func(before, unit, after string) []byte {
		return []byte(before + strings.TrimSuffix(strings.Repeat(unit, size/len(unit)), ",") + after)
	}
	return map[string][]byte{
		"distinct members":    members(size / 11),
		"members of a member": fmt.Appendf(nil, `{"data":%s}`, members(size/11)),
		"objects of members":  fill(`{"data":[`, string(members(900))+",", "]}"),
		"empty objects":       fill(`{"data":[`, "{},", "]}"),
		"nested objects":      fill(`{"data":[`, strings.Repeat(`{"a":`, 60)+"1"+strings.Repeat("}", 60)+",", "]}"),
		"deep":                fill(`{"data":`, "[", ""),
		"one string":          fill(`{"data":"`, "x", `"}`),
		"one escaped string":  fill(`{"data":"`, `\u00e9`, `"}`),
		"an escaped name":     fill(`{"`, `\n`, `":1}`),
		"escaped names":       bytes.ReplaceAll(members(size/17), []byte(`"0`), []byte(`"\u0030`)),
		"one number":          fill(`{"data":`, "9", "}"),
		"numbers":             fill(`{"data":[`, "-1.5e-7,", "]}"),
		"digits":              fill(`{"data":[`, "1,", "]}"),
		"white space":         fill("{", " \n", "}"),
		"emoji":               fill(`{"data":"`, "\U0001f600", `"}`),
		"no end":              fill(`{"data":"`, `\\`, ""),
	}
}

// maxCost is the most processor time that parsing a body may take, as a multiple of that of json.Valid.
const maxCost = 10

// cost returns the processor time of read as a multiple of that of json.Valid for body. It compares the fastest of up
// to 20 rounds, because other programs and the garbage collector only make a round slower, and stops as soon as they
// are within maxCost.
func cost(t *testing.T, body []byte, read func()) float64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	valid, reader := time.Hour, time.Hour
	for range 20 {
		start := threadTime(t)
		json.Valid(body)
		between := threadTime(t)
		read()
		valid, reader = min(valid, between-start), min(reader, threadTime(t)-between)
		if reader <= maxCost*valid {
			break
		}
	}
	return float64(reader) / float64(valid)
}

// threadTime returns the processor time that this thread has used. Unlike the clock it does not advance while other
// programs run.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	must.Do(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}

func TestParseCostDependsOnLengthOnly(t *testing.T) {
	for name, body := range expensive() {
		f := func(reader string, read func()) {
			t.Helper()
			if got := cost(t, body, read); got > maxCost {
				t.Errorf("%s: %s costs %.1f times json.Valid, want at most %d", name, reader, got, maxCost)
			}
		}
		f("ParseObject", func() { _, _ = web.ParseObject(nil, body) })
		f("ParseEnvelope", func() { _, _ = web.ParseEnvelope(body) })
		array := bytes.TrimSuffix(bytes.TrimPrefix(body, []byte(`{"data":`)), []byte("}"))
		f("ParseArray", func() { _, _ = web.ParseArray(array, 1000) })
		if items, err := web.ParseEnvelopeArray(array, len(array)); err == nil { // as the API parses a batch
			f("ParseObject of each element", func() {
				for _, item := range items {
					_, _ = web.ParseObject(nil, item)
				}
			})
		}
	}
}

func BenchmarkParseObject1MiB(b *testing.B) {
	for name, body := range expensive() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = web.ParseObject(nil, body)
			}
		})
		b.Run(name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				json.Valid(body)
			}
		})
	}
}

// What other parsers refuse is not portable, though encoding/json takes it (but for the last).
func TestIsPortable(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, text := range []string{`{"a":[1,-2.5e3,"\\ud83d\\ude00","\u00e9",null,true]} `, "7", deep(60), `"\\\\ud83d"`} {
		is.Equal(t, web.IsPortable([]byte(text)), true, "%s", text)
	}
	for _, text := range []string{"\"\xf6\"", `"\ud83d"`, `["\ude00\ud83d"]`, "1e400", "[-1e999]", deep(61), "",
		"{} {}", `"\u12`} {
		is.Equal(t, web.IsPortable([]byte(text)), false, "%s", text)
	}
}
