package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// values of every JSON kind, and some that only look right.
var anyValues = []string{
	`null`, `0`, `-1`, `1.5`, `1e400`, `""`, `"x"`, `"ünï"`, `true`, `[]`, `[null]`, `["x"]`, `[1]`,
	`[{}]`, `{}`, `{"a":1}`, `{"":null}`,
	`"\u0000"`, `"\ud800"`, `99999999999999999999`}

// endpointMembers returns all members of an endpoint with valid values that are not the default.
func endpointMembers() map[string]any {
	return map[string]any{
		"name": "orders", "description": "all orders", "provider": "hmac",
		"verification": map[string]any{
			"type": "hmac", "secret": "verification-secret-1", "tolerance_seconds": 60, "mode": "observe", "header": "X-Sig",
			"algorithm": "sha512", "encoding": "base64", "prefix": "v=", "signed_content": "{timestamp}.{body}",
		},
		"type_source":  "header:X-Type",
		"destinations": []any{destinationMembers()},
		"retry_policy": map[string]any{
			"strategy": "schedule", "schedule_seconds": []int{1, 2}, "max_attempts": 3, "jitter": 0.5,
			"respect_retry_after":     false,
			"max_retry_after_seconds": 10, "retry_on": []string{"404", "3xx"},
		},
		"alerts": map[string]any{
			"enabled": false, "channels": []string{"slack"}, "consecutive_failures": 5, "failure_rate_percent": 70,
			"muted_until": "2030-01-01T00:00:00.000Z",
		},
		"transformation": nil, "dedup": map[string]any{"key": "body:$.id", "window_seconds": 3600},
		"ingest_limit": map[string]any{"events_per_second": 100, "bytes_per_second": 1 << 20},
		"response":     map[string]any{"status": 202, "content_type": "text/plain", "body": "ok"},
		"enabled":      true, "paused": true, "scan_payloads": false, "keep_method": true,
		"allow_headers": []string{"X-Shop-"},
		"metadata":      map[string]string{"team": "billing"},
	}
}

func destinationMembers() map[string]any {
	return map[string]any{
		"url": "https://example.com/orders", "name": "orders", "enabled": false, "paused": true, "timeout_seconds": 5,
		"headers":    map[string]string{"Authorization": "Bearer abcdefghijklmnop", "X-Shop": "de"},
		"rate_limit": map[string]any{"per_second": 2.5, "burst": 7}, "max_in_flight": 2,
		"filter":  map[string]any{"types": []string{"order.*"}, "body": map[string]any{"data.total": 5, "data.kind": "a"}},
		"signing": map[string]any{"scheme": "standard_webhooks", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	}
}

// Every member on every level gets a value of every kind: the answer is never a 5xx, and a 400 names the member.
func TestWrongTypeOfAnyMemberIsRefused(t *testing.T) {
	c := newClient(t)
	base := c.endpoint(nil)
	target, other := "/v1/endpoints/"+base.text("id"), c.endpoint(nil) // a PATCH of destinations removes the other ones
	dst := "/v1/endpoints/" + other.text("id") + "/destinations/" + other.text("destinations.0.id")
	try := func(method, target, path string, body any) {
		t.Helper()
		a := c.do(method, target, body)
		if a.Status >= 500 || a.Status == 401 || a.Status == 404 {
			t.Errorf("%s %s: %d\n%s", method, body, a.Status, a.raw)
		}
		if a.Status == 400 {
			if param, _ := a.get("error.param").(string); !strings.HasPrefix(param, path) {
				t.Errorf("%s %s: 400 names %q, want %q: %v", method, body, param, path, a.get("error.message"))
			}
		}
	}
	each := func(members map[string]any, prefix string, wrap func(json.RawMessage) any, calls ...string) {
		walk(members, nil, func(path []string) {
			for _, v := range anyValues {
				body, err := json.Marshal(wrap(with(t, members, path, v)))
				if err != nil { // encoding/json refuses this value; the API must validate it too
					body = []byte(fmt.Sprintf(`{"name":%s}`, v))
				}
				for _, call := range calls {
					method, target, _ := strings.Cut(call, " ")
					try(method, target, prefix+path[0], string(body))
				}
			}
		})
	}
	asIs := func(m json.RawMessage) any { return m }
	each(endpointMembers(), "", asIs, "POST /v1/endpoints", "PATCH "+target)
	each(destinationMembers(), "", asIs, "PATCH "+dst)
	each(destinationMembers(), "destinations[0].", func(m json.RawMessage) any {
		return map[string]any{"destinations": []any{m}}
	}, "POST /v1/endpoints")
	for _, v := range anyValues {
		try("POST", target+"/events", "type", fmt.Sprintf(`{"type":%s,"data":{}}`, v))
		try("POST", target+"/events", "data", fmt.Sprintf(`{"type":"a","data":%s}`, v))
		try("POST", dst+"/rotate_secret", "overlap_seconds", fmt.Sprintf(`{"overlap_seconds":%s}`, v))
		try("POST", target+"/rotate-token", "overlap_seconds", fmt.Sprintf(`{"overlap_seconds":%s}`, v))
		try("POST", target+"/destinations", "url", fmt.Sprintf(`{"url":%s}`, v))
	}
	event := c.send(base.text("id"))
	for _, v := range anyValues {
		try("POST", "/v1/events/"+event+"/replay", "destination_id", fmt.Sprintf(`{"destination_id":%s}`, v))
	}
	// A client's variable that is not set must not send to all destinations.
	c.do("POST", "/v1/events/"+event+"/replay", `{"destination_id":null}`).wantError(
		400, "invalid_request", "destination_id")
}

// walk calls f with the path of every member, including those of nested objects.
func walk(m map[string]any, path []string, f func(path []string)) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		here := append(slices.Clone(path), name)
		f(here)
		if inner, ok := m[name].(map[string]any); ok {
			walk(inner, here, f)
		}
	}
}

// with returns m with the raw value v at the path.
func with(t *testing.T, m map[string]any, path []string, v string) json.RawMessage {
	t.Helper()
	out := maps.Clone(m)
	if len(path) == 1 {
		out[path[0]] = json.RawMessage(v)
	} else {
		out[path[0]] = with(t, m[path[0]].(map[string]any), path[1:], v)
	}
	b := must.Get(json.Marshal(out))(t)
	return b
}

// TestMemberLimits sets one member to values below, at and beyond its bounds. A value is JSON text.
func TestMemberLimits(t *testing.T) {
	c := newClient(t)
	text := func(n int) string { return `"` + strings.Repeat("ä", n) + `"` }
	many := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	object := func(n int, member string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%s%d":"v"`, member, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	urls := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"https://example.com/%d"`, i)
		}
		return "[" + strings.TrimPrefix(b.String(), ",") + "]"
	}
	url := func(n int) string {
		return `"https://example.com/` + strings.Repeat("a", n-len("https://example.com/")) + `"`
	}
	exponential := `{"strategy":"exponential",%s}`
	schedule := `{"schedule_seconds":%s}`
	hmac := `{"type":"hmac","secret":"0123456789",%s}`
	type bound struct {
		member    string // {"member": value}; %s in format when the member lies deeper
		format    string
		good, bad []string
		param     string // parameter of the error
	}
	endpoint := []bound{
		{"name", "%s", []string{text(1), text(100)}, []string{text(0), text(101), `"\u0007"`}, "name"},
		{"description", "%s", []string{"null", text(0), text(500), `"a\nb"`}, []string{text(501)}, "description"},
		{"provider", "%s", []string{`"stripe"`, `"generic"`}, []string{`"Stripe"`, `"nobody"`, `""`}, "provider"},
		{"type_source", "%s", []string{"null", `"body:$.type"`, `"header:X-T"`, `"const:a.b"`},
			[]string{`""`, `"body"`, `"cookie:x"`, text(513)}, "type_source"},
		{"destinations", "%s", []string{urls(1), urls(50)},
			[]string{"[]", urls(51), `["x"]`, "null", `{}`, `"https://example.com"`}, "destinations"},
		{"destinations", "[{\"url\":%s}]", []string{url(2048), `"https://EXAMPLE.com:8443/x?y=z"`},
			[]string{url(2049), `""`, `"https://user:pw@example.com"`,
				`"https://example.com/#f"`, `"https://localhost/"`, `"https://127.0.0.1/"`, `"https://10.0.0.1/"`,
				`"https://[::1]/"`,
				`"https://8.8.8.8/"`,
				`"https://0x7f.1/"`, `"https://2130706433/"`, `"https://example.com:80/"`, `"https://example.com:1023/"`,
				`"https://host/"`, `"ftp://example.com"`, `"//example.com"`, `"example.com"`}, "destinations[0].url"},
		{"destinations", `[{"url":"https://a.example","timeout_seconds":%s}]`, []string{"1", "60"},
			[]string{"0", "61", "1.0", "1e1"}, "destinations[0].timeout_seconds"},
		{"destinations", `[{"url":"https://a.example","max_in_flight":%s}]`, []string{"1", "1000"},
			[]string{"0", "1001", `"5"`}, "destinations[0].max_in_flight"},
		{"destinations", `[{"url":"https://a.example","name":%s}]`, []string{"null", text(100)}, []string{text(101)},
			"destinations[0].name"},
		{"destinations", `[{"url":"https://a.example","headers":%s}]`,
			[]string{"null", "{}", object(20, "X-H"), `{"X-A":""}`, `{"User-Agent":"x"}`},
			[]string{object(21, "X-H"), `{"":"v"}`, `{"a b":"v"}`}, "destinations[0].headers"},
		{"destinations", `[{"url":"https://a.example","headers":{"X-A":%s}}]`,
			[]string{`"` + strings.Repeat("v", 2048) + `"`},
			[]string{`"` + strings.Repeat("v", 2049) + `"`, `"a\r\nb"`, `" a"`, `"ä"`}, "destinations[0].headers.X-A"},
		{"destinations", `[{"url":"https://a.example","paused":%s}]`, []string{"false", "true"},
			[]string{"null", "0", `"false"`}, "destinations[0].paused"},
		{"destinations", `[{"url":"https://a.example","rate_limit":%s}]`, []string{"null", `{"per_second":1,"burst":1}`},
			[]string{"{}", `{"burst":1}`, "5", "[]", `{"per_second":null}`}, "destinations[0].rate_limit"},
		{"destinations", `[{"url":"https://a.example","rate_limit":{"per_second":%s}}]`, []string{"0.1", "1", "1e1", "10000"},
			[]string{"0.0999", "0", "-1", "10000.1", "1e5", "1e999", `"5"`, "null"}, "destinations[0].rate_limit.per_second"},
		{"destinations", `[{"url":"https://a.example","rate_limit":{"per_second":1,"burst":%s}}]`, []string{"1", "10000"},
			[]string{"0", "-1", "10001", "1.5", "1e2", `"5"`, "null"}, "destinations[0].rate_limit.burst"},
		{"destinations", `[{"url":"https://a.example","filter":{"types":%s}}]`,
			[]string{"[]", many(50, `"a.*"`), `["order.paid"]`, `["orders/create","a,b","ä.*"]`},
			[]string{many(51, `"a"`), `["*"]`, `[".*"]`, `["a b"]`, `["*.a"]`, `["a.*.b"]`, `["a*"]`, `[1]`},
			"destinations[0].filter.types"},
		{"destinations", `[{"url":"https://a.example","filter":{"body":%s}}]`,
			[]string{"{}", object(20, "p"), `{"a.b":null,"c":1.5,"d":true}`},
			[]string{object(21, "p"), `{"a..b":1}`, `{"a":[]}`, `{"a":9007199254740993}`}, "destinations[0].filter.body"},
		{"destinations", `[{"url":"https://a.example","signing":{"scheme":%s}}]`, []string{`"standard_webhooks"`},
			[]string{`"hmac"`, "null"}, "destinations[0].signing.scheme"},
		{"destinations", `[{"url":"https://a.example","signing":{"secret":%s}}]`,
			[]string{`"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`}, []string{`"whsec_AAAA"`, `"secret"`, `""`},
			"destinations[0].signing.secret"},
		{"retry_policy", `{"max_attempts":%s}`, []string{"1", "50"}, []string{"0", "51", "1.5", `"3"`},
			"retry_policy.max_attempts"},
		{"retry_policy", `{"jitter":%s}`, []string{"0", "1", "0.25"}, []string{"-0.1", "1.01"}, "retry_policy.jitter"},
		{"retry_policy", `{"max_retry_after_seconds":%s}`, []string{"0", "86400"}, []string{"-1", "86401"},
			"retry_policy.max_retry_after_seconds"},
		{"retry_policy", `{"retry_on":%s}`, []string{"[]", `["3xx","4xx","404"]`, many(50, `"404"`)},
			[]string{`["5xx"]`, `["200"]`, `[404]`, "null", many(51, `"404"`)}, "retry_policy.retry_on"},
		{"retry_policy", schedule, []string{"[1]", many(50, "86400")},
			[]string{"[]", "null", "[0]", "[86401]", "[1.5]", many(51, "1")}, "retry_policy.schedule_seconds"},
		{"retry_policy", `{"strategy":%s}`, []string{`"schedule"`, `"exponential"`, `"none"`}, []string{`"never"`},
			"retry_policy.strategy"},
		{"retry_policy", `{"strategy":"linear","interval_seconds":%s}`, []string{"1", "86400"}, []string{"0", "86401"},
			"retry_policy.interval_seconds"},
		{"retry_policy", fmt.Sprintf(exponential, `"initial_seconds":%s`), []string{"1", "3600"}, []string{"0", "3601"},
			"retry_policy.initial_seconds"},
		{"retry_policy", fmt.Sprintf(exponential, `"multiplier":%s`), []string{"1", "10", "1.5"}, []string{"0.9", "10.1"},
			"retry_policy.multiplier"},
		{"retry_policy", fmt.Sprintf(exponential, `"max_seconds":%s`), []string{"1", "86400"}, []string{"0", "86401"},
			"retry_policy.max_seconds"},
		{"response", `{"status":%s}`, []string{"200", "299"}, []string{"199", "300"}, "response.status"},
		{"response", `{"content_type":%s}`, []string{`"text/xml"`, `"application/xml"`}, []string{`"text/html"`},
			"response.content_type"},
		{"response", `{"body":%s}`, []string{text(0), text(16384)}, []string{text(16385)}, "response.body"},
		{"metadata", "%s", []string{"null", "{}", object(20, "k"), `{"k":null}`},
			[]string{object(21, "k"), `{"":"v"}`, `{"` + strings.Repeat("k", 65) + `":"v"}`}, "metadata"},
		{"metadata", `{"k":%s}`, []string{text(0), text(500)}, []string{text(501), "1"}, "metadata.k"},
		{"alerts", `{"enabled":%s}`, []string{"true", "false"}, []string{"null", "1"}, "alerts.enabled"},
		{"alerts", `{"channels":%s}`, []string{"null", "[]", `["email"]`, `["webhook","slack","email"]`},
			[]string{`["fax"]`, `["email","email"]`, `[null]`, `["email","slack","webhook","email"]`}, "alerts.channels"},
		{"alerts", `{"consecutive_failures":%s}`, []string{"null", "1", "10000"}, []string{"0", "10001", `"5"`, "1.5"},
			"alerts.consecutive_failures"},
		{"alerts", `{"failure_rate_percent":%s}`, []string{"null", "1", "100"}, []string{"0", "101"},
			"alerts.failure_rate_percent"},
		{"alerts", `{"muted_until":%s}`, []string{"null", `"2026-08-21"`, `"2030-01-01T00:00:00+02:00"`},
			[]string{`"soon"`, "5"}, "alerts.muted_until"},
		{"dedup", "%s", []string{"null", `{"key":"body:$.id"}`},
			[]string{"{}", "[]", `"body:$.id"`, `{"window_seconds":5}`, `{"key":null}`}, "dedup"},
		{"dedup", `{"key":%s}`, []string{
			`"body:$.id"`, `"body:data.object.0.id"`, `"header:X-GitHub-Delivery"`, `"header:x"`},
			[]string{`""`, `"$.id"`, `"body:"`, `"body:$."`, `"body:$.a..b"`, `"header:"`, `"header:A B"`, `"const:a"`,
				`"body:$.a|body:$.b"`, `"query:id"`, `"` + strings.Repeat("k", 513) + `"`, `"body:$.` + strings.Repeat("k", 257) +
					`"`}, "dedup.key"},
		{"dedup", `{"key":"body:$.id","window_seconds":%s}`, []string{"1", "86400"},
			[]string{"0", "-1", "86401", "1.5", `"60"`, "null"}, "dedup.window_seconds"},
		{"ingest_limit", "%s", []string{
			"null", `{"events_per_second":1}`, `{"bytes_per_second":1024,"events_per_second":null}`},
			[]string{"{}", "5", "[]", `{"events_per_second":null}`}, "ingest_limit"},
		{"ingest_limit", `{"events_per_second":%s}`, []string{"1", "100000"}, []string{"0", "-1", "100001", "1.5", `"5"`},
			"ingest_limit.events_per_second"},
		{"ingest_limit", `{"bytes_per_second":%s}`, []string{"1024", "1073741824"},
			[]string{"1023", "0", "1073741825", "1e5"},
			"ingest_limit.bytes_per_second"},
		{"transformation", "%s", []string{"null", "[]", `{"ops":[ ]}`}, []string{`5`, `"drop"`}, "transformation"},
		{"transformation", "%s", []string{`{"ops":[{"op":"drop","paths":["a"]}]}`}, []string{`{}`, `{"ops":null}`},
			"transformation.ops"},
		{"transformation", `{"ops":[{"op":"drop","paths":%s}]}`, []string{`["a"]`}, []string{`[]`, `"a"`, `null`},
			"transformation.ops[0].paths"},
		{"transformation", `[{"op":"add","path":"a","value":0},{"op":"drop","paths":["a",%s]}]`, []string{`"b"`, `"/b/*"`},
			[]string{`5`, `""`, `"/~"`}, "transformation[1].paths[1]"},
		{"paused", "%s", []string{"false", "true"}, []string{"null", "1", `"true"`}, "paused"},
		{"scan_payloads", "%s", []string{"false", "true"}, []string{"null", "1"}, "scan_payloads"},
		{"keep_method", "%s", []string{"false", "true"}, []string{"null", "1"}, "keep_method"},
		{"allow_headers", "[%s]", []string{`"x"`, `"` + strings.Repeat("x", 128) + `"`},
			[]string{`""`, `"x y"`, `"x*"`, `"` + strings.Repeat("x", 129) + `"`}, "allow_headers[0]"},
		{"verification", fmt.Sprintf(hmac, `"tolerance_seconds":%s`), []string{"1", "86400"}, []string{"0", "86401"},
			"verification.tolerance_seconds"},
		{"verification", fmt.Sprintf(hmac, `"mode":%s`), []string{`"enforce"`, `"observe"`}, []string{`"off"`},
			"verification.mode"},
		{"verification", `{"type":"hmac","secret":%s}`, []string{`"x"`, `"` + strings.Repeat("s", 512) + `"`},
			[]string{`""`, `"` + strings.Repeat("s", 513) + `"`}, "verification.secret"},
		{"verification", `{"type":"hmac","secrets":%s}`, []string{`["a"]`, many(3, `"a"`)},
			[]string{"[]", many(4, `"a"`), `[""]`, `[1]`}, "verification.secrets"},
		{"verification", `{"type":%s,"secret":"x"}`, []string{`"stripe"`, `"twilio"`}, []string{`"generic"`, `"nobody"`},
			"verification.type"},
		{"verification", `{"type":"hmac"%s}`, []string{`,"secret":"x"`}, []string{``}, "verification.secret"},
	}
	for _, b := range endpoint {
		try := func(value string) *answer {
			body := fmt.Sprintf(`{"%s":%s`, b.member, fmt.Sprintf(b.format, value))
			if b.member != "destinations" {
				body += `,"url":"https://example.com/h"`
			}
			return c.do("POST", "/v1/endpoints", body+"}")
		}
		for _, v := range b.good {
			a := try(v)
			warned, _ := a.get("warnings.0.param").(string) // about unchecked signatures, short secrets and alerts to nobody
			if a.Status != 201 || warned != "" && !strings.HasPrefix(warned, "verification") &&
				!strings.HasPrefix(warned, "alerts.channels") {
				t.Errorf("%s %.80s: %d\n%s", b.member, v, a.Status, a.raw)
			}
		}
		for _, v := range b.bad {
			a := try(v)
			if param, _ := a.get("error.param").(string); a.Status != 400 || !strings.HasPrefix(param, b.param) {
				t.Errorf("%s %.80s: %d %s, want 400 %s\n%s", b.member, v, a.Status, param, b.param, a.raw)
			}
		}
	}
}

func TestReservedHeaders(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"Host", "content-length", "Webhook-Id", "relay-attempt", "Relay_Hops", "webhook.id",
		"Transfer-Encoding", "connection", "Idempotency-Key"} {
		c.do("POST", "/v1/endpoints", map[string]any{
			"destinations": []any{map[string]any{"url": "https://example.com", "headers": map[string]string{name: "x"}}}}).
			wantError(400, "invalid_request", "destinations[0].headers."+name)
	}
	c.do("POST", "/v1/endpoints", `{"destinations":[{"url":"https://example.com","headers":{"X-A":"1","x-a":"2"}}]}`).
		wantError(400, "invalid_request", "destinations[0].headers.x-a")
}

func TestDuplicateMembers(t *testing.T) {
	c := newClient(t)
	for body, param := range map[string]string{
		`{"name":"a","name":"b"}`: "name",
		`{"destinations":[{"url":"https://a.example","url":"https://b.example"}]}`:                    "destinations[0].url",
		`{"url":"https://a.example","retry_policy":{"jitter":0,"jitter":1}}`:                          "retry_policy.jitter",
		`{"url":"https://a.example","metadata":{"a":"1","\u0061":"2"}}`:                               "metadata.a",
		`{"url":"https://a.example","destinations":["https://b.example"]}`:                            "url",
		`{"url":"https://a.example","verification":{"secret":"a","secrets":["b"]}}`:                   "verification.type",
		`{"url":"https://a.example","provider":"hmac","verification":{"secret":"a","secrets":["b"]}}`: "verification.secrets",
	} {
		c.do("POST", "/v1/endpoints", body).wantError(400, "invalid_request", param)
	}
}

func TestUnknownMembersAreWarnings(t *testing.T) {
	c := newClient(t)
	a := c.do("POST", "/v1/endpoints", `{"url":"https://example.com","nmae":"x","retry_policy":{"max_attempt":3},`+
		`"id":"ep_x","created_at":"x","object":"x"}`).want(201)
	var params []string
	for _, w := range a.get("warnings").([]any) {
		params = append(params, w.(map[string]any)["param"].(string))
	}
	is.Equal(t, strings.Join(params, " "), "retry_policy.max_attempt nmae", "warnings for")
	is.Has(t, a.text("warnings.1.message"), "did you mean name?")
	misplaced := c.do("POST", "/v1/endpoints", `{"name":"x","destinations":[{"url":"https://example.com",`+
		`"response":{"status":204}}]}`).want(201)
	if misplaced.text("warnings.0.param") != "destinations[0].response" ||
		!strings.Contains(misplaced.text("warnings.0.message"), "a member of the endpoint") {
		t.Errorf("%s", misplaced.raw)
	}
	sent := c.do("POST", "/v1/endpoints/"+a.text("id")+"/events", `{"type":"a","data":{},"dta":1}`).want(202)
	is.Equal(t, sent.text("warnings.0.param"), "dta", "%s", sent.raw)
}

// bodyLength is the length of the bodies below, without the bytes around the repeated part.
const bodyLength = 1<<20 - 300

// repeated returns a text many times, separated by commas; %06x in it becomes the number of the repetition.
func repeated(unit string) string {
	var b strings.Builder
	for i := 0; b.Len() < bodyLength-len(unit); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, unit, i)
	}
	return b.String()
}

// validCost is the processor time of json.Valid for a flat body of bodyLength.
func validCost(t testing.TB, flat []byte) time.Duration {
	t.Helper()
	start := kit.CPUTime(t)
	if !json.Valid(flat) {
		t.Fatal("the flat body is not JSON")
	}
	return kit.CPUTime(t) - start
}

var flatBody = sync.OnceValue(func() []byte { return []byte("{" + repeated(`"%06x":0`) + "}") })

// wantLinearCost posts a body and fails if the route needs more than ten times the processor time of json.Valid for a
// flat body of the same length.
func (c *client) wantLinearCost(method, path, contentType, body string) {
	c.t.Helper()
	const maxCost = 10
	valid, took := time.Hour, time.Hour
	for range 10 { // the fastest run of each counts: other programs only slow them down
		r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+c.key)
		r.Header.Set("Content-Type", contentType)
		valid = min(valid, validCost(c.t, flatBody()))
		start := kit.CPUTime(c.t)
		c.api.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if took = min(took, kit.CPUTime(c.t)-start); took <= maxCost*valid {
			return
		}
	}
	c.t.Errorf("%s %s of %.60s… took %v, json.Valid %v", method, path, body, took, valid)
}

// The cost of a body of a mebibyte depends on its length only, whatever it contains.
func TestBodyCostIsLinear(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	ep := "/v1/endpoints/" + created.text("id")
	dst := ep + "/destinations/" + created.text("destinations.0.id")
	sent := "/v1/events/" + c.send(created.text("id"))
	f := func(method, path, body string) {
		t.Helper()
		c.wantLinearCost(method, path, "application/json", body)
	}
	// The longest names for which a similar name is searched.
	misspelt := `"destinatoins-` + strings.Repeat("x", 45) + `%06x":0`
	unknown := repeated(misspelt)
	deep, escapes := strings.Repeat("[", bodyLength), strings.Repeat(`\u00e9`, bodyLength/6)
	bodies := []string{"{" + repeated(`"%06x":0`) + "}", "{" + unknown + "}", `{"a":` + deep, `{"a":[` +
		repeated(`{"%x":{}}`) + "]}"}
	for _, route := range []string{
		"POST /v1/endpoints", "PATCH " + ep, "POST " + ep + "/rotate-token", "POST " + ep + "/test", "POST " + ep + "/events",
		"POST " + ep + "/events/batch", "PATCH " + dst, "POST " + dst + "/rotate_secret", "POST " + dst + "/purge",
		"POST /v1/replays", "POST /v1/recoveries", "POST " + sent + "/replay", "POST " + sent + "/processing",
		"PATCH /v1/alerts", "POST /v1/alerts/test",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, body := range bodies {
			f(method, path, body)
		}
	}
	// Known members of an endpoint and of its parts.
	names, ids, digits := repeated(`"%06x"`), repeated(`{"id":"%06x"}`), strings.Repeat("9", bodyLength)
	for _, name := range []string{"headers", "filter", "signing", "rate_limit", "name", "url"} {
		f("PATCH", dst, `{"`+name+`":{`+unknown+"}}")
		f("PATCH", dst, `{"`+name+`":[`+names+"]}")
		f("PATCH", dst, `{"`+name+`":`+digits+"}")
	}
	for _, name := range []string{
		"metadata", "verification", "retry_policy", "destinations", "alerts", "dedup", "response", "type_source",
	} {
		f("PATCH", ep, `{"`+name+`":{`+unknown+"}}")
		f("PATCH", ep, `{"`+name+`":[`+ids+"]}")
		f("PATCH", ep, `{"`+name+`":"`+escapes+`"}`)
	}
	for _, name := range []string{"reference", "details"} {
		f("POST", sent+"/processing", `{"state":"failed","`+name+`":{`+unknown+"}}")
		f("POST", sent+"/processing", `{"state":"failed","`+name+`":"`+escapes+`"}`)
	}
	f("PATCH", dst, `{"filter":{"body":{`+repeated(`"a.%06x":1`)+"}}}")
	f("PATCH", dst, `{"filter":{"types":[`+repeated(`"a.%06x"`)+"]}}")
	f("POST", ep+"/events/batch", `{"events":[`+repeated("{"+misspelt+"}")+"]}")
	f("POST", ep+"/events/batch", `{"events":[`+digits[:1000]+strings.Repeat(",1", bodyLength/2-1000)+"]}")
	lines := strings.Repeat("{"+unknownMembers(15)+`"type":"a.b"}`+"\n", 999)
	c.wantLinearCost("POST", ep+"/events/batch", "application/x-ndjson", lines)
}

// unknownMembers returns n unknown members, each followed by a comma.
func unknownMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"x%03d":%d,`, i, i)
	}
	return b.String()
}

// Only the first twenty unknown members get a warning.
func TestWarningsAreBounded(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	ep := "/v1/endpoints/" + created.text("id")
	unknown := unknownMembers
	f := func(method, path, body string, want int) {
		t.Helper()
		got, _ := c.do(method, path, body).get("warnings").([]any)
		is.Equal(t, len(got), want, "%s %s: warnings", method, path)
	}
	f("POST", ep+"/events", "{"+unknown(900)+`"type":"a.b","data":{}}`, 20)
	f("POST", ep+"/events", "{"+unknown(3)+`"type":"a.b","data":{}}`, 3)
	item := "{" + unknown(15) + `"type":"a.b","data":{}}`
	f("POST", ep+"/events/batch", `{"events":[`+item+","+item+"]}", 20)
	f("POST", ep+"/events/batch", "{"+unknown(900)+`"events":[{"type":"a.b","data":{}}]}`, 20)
	f("PATCH", ep, "{"+unknown(900)+`"name":"x"}`, 20)
	f("PATCH", ep, "{"+unknown(15)+`"retry_policy":{`+unknown(15)+`"jitter":0.1},"name":"x"}`, 20)
	// Other warnings are added to them.
	f("PATCH", ep, "{"+unknown(30)+`"destinations":["https://example.com/other"]}`, 21)
	f("PATCH", "/v1/alerts", "{"+unknown(30)+`"cooldown_seconds":900}`, 20)
	long := strings.Repeat("n", 5000)
	got := c.do(http.MethodPatch, ep, `{"`+long+`":1}`).want(200).text("warnings.0.param")
	if len(got) > 210 || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) {
		t.Errorf("a name of 5000 bytes is repeated with %d", len(got))
	}
}

// Bodies that hardly arrive take a part of the memory for bodies: those of one key, which may only read, leave room for
// others, and all of them together are bounded. What they have taken is free when they end.
func TestBodiesThatStallAreBounded(t *testing.T) {
	c := newClient(t)
	e := "/v1/endpoints/" + c.endpoint(nil).text("id")
	const part = 40 << 10
	held := api.BoundBodies(c.api, 5*part/2, 3*part/2) // a few kilobytes of each are not counted
	// stall sends a part of a body, and returns what the answer is as soon as there is one, and how to end the body.
	stall := func(key, path string) (status <-chan int, end func()) {
		body, rest := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, e+path, body)
		r.Header.Set("Authorization", "Bearer "+key)
		answered := make(chan int, 1)
		before := held()
		awaitLease()
		go func() {
			w := httptest.NewRecorder()
			c.api.Handler().ServeHTTP(w, r)
			body.Close()
			answered <- w.Code
		}()
		go rest.Write([]byte(`{"data":"` + strings.Repeat("a", part)))
		kit.WaitFor(t, "the body has arrived, or is answered", func() bool {
			return held() >= before+part-4<<10 || len(answered) > 0
		})
		return answered, func() { rest.CloseWithError(io.ErrUnexpectedEOF) }
	}
	want := func(what string, answered <-chan int, want int) {
		t.Helper()
		got, patience := 0, time.Minute
		if want == 0 { // no answer
			patience = 100 * time.Millisecond
		}
		select {
		case got = <-answered:
		case <-time.After(patience):
		}
		is.Equal(t, got, want, "%s: status", what)
	}
	const preview = "/transformation/preview"
	first, end := stall(readKey, preview)
	want("the first body", first, 0)
	more, _ := stall(readKey, preview)
	want("another of that key", more, http.StatusTooManyRequests)
	other, endOther := stall(writeKey, "/events")
	want("one of another key", other, 0)
	api.BoundBodies(c.api, 5*part/2, 5*part)
	more, _ = stall(writeKey, "/test")
	want("one more than the node has room for", more, http.StatusServiceUnavailable)
	end()
	endOther()
	want("a body that was cut off", first, http.StatusBadRequest)
	want("one of another key that was cut off", other, http.StatusBadRequest)
	kit.WaitFor(t, "no bytes and keys stay", func() bool { return held() == 0 })
}

// discardingAccepter accepts events and drops them.
type discardingAccepter struct{}

func (discardingAccepter) Accept(context.Context, *event.Event, *config.Endpoint) error { return nil }

func (discardingAccepter) AcceptAll(_ context.Context, es []*event.Event, _ *config.Endpoint) []error {
	return make([]error, len(es))
}

// BenchmarkSend1KB measures one send of 1 KB from the router to the answer, without net/http's server and without
// the log.
func BenchmarkSend1KB(b *testing.B) {
	benchmarkSend(b, "off")
}

// BenchmarkSend1KBValidated is the same with a schema of the type.
func BenchmarkSend1KBValidated(b *testing.B) { benchmarkSend(b, "reject") }

func benchmarkSend(b *testing.B, validate string) {
	c := newClient(b, func(_ *api.Config, d *api.Deps) { d.Accept = discardingAccepter{} })
	ep := c.endpoint(map[string]any{"validate": validate}).text("id")
	c.do("PUT", "/v1/event_types/order.paid", `{"schema":{"type":"object","required":["items"],"properties":{"items":{
		"type":"array","items":{"type":"object","required":["sku"],"properties":{"sku":{"type":"string"},
		"n":{"type":"integer"},"price":{"type":"number"}}}}}}}`).want(200)
	body := `{"type":"order.paid","data":{"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"A-1009","n":2,"price":19.90},`, 26), ",") + `]}}`
	h := c.api.Handler()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := must.Get(
			http.NewRequestWithContext(b.Context(), "POST", "/v1/endpoints/"+ep+"/events", strings.NewReader(body)))(b)
		r.Host, r.RemoteAddr = "relay.example.com", "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer "+writeKey)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "bench/1")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 202 {
			b.Fatal(w.Code, w.Body)
		}
	}
}
