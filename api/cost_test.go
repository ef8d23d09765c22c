package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

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
