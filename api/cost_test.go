package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// repeated is a text of about a mebibyte: unit again and again, between commas, %06x in it the number of its
// repetition.
func repeated(before, unit, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; b.Len() < 1<<20-300; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(unit, "%") {
			fmt.Fprintf(&b, unit, i)
		} else {
			b.WriteString(unit)
		}
	}
	return b.String() + after
}

// A body of a mebibyte costs its route at most ten times what json.Valid takes for it, whatever stands in it.
func TestBodiesCostByTheirLength(t *testing.T) {
	const maxCost = 10
	c := newClient(t)
	made := c.endpoint(nil)
	ep := "/v1/endpoints/" + made.text("id")
	dst := ep + "/destinations/" + made.text("destinations.0.id")
	event := ep + "/events"
	// As long as a name may be for which a hint is looked for.
	long := `"destinatoins-` + strings.Repeat("x", 45) + `%06x":0`
	f := func(method, path, contentType, body string) {
		t.Helper()
		serve := func() {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+writeKey)
			r.Header.Set("Content-Type", contentType)
			c.api.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		valid, took := time.Hour, time.Hour
		for range 10 { // the quickest of each count: other programs only ever add
			start := time.Now()
			if contentType == "application/json" {
				json.Valid([]byte(body))
			} else {
				for line := range strings.Lines(body) {
					json.Valid([]byte(line))
				}
			}
			between := time.Now()
			serve()
			if valid, took = min(valid, between.Sub(start)), min(took, time.Since(between)); took <= maxCost*valid {
				return
			}
		}
		t.Errorf("%s %s of %.60s… took %v, json.Valid %v", method, path, body, took, valid)
	}
	for _, x := range [][2]string{
		{"POST", "/v1/endpoints"},
		{"PATCH", ep},
		{"PATCH", dst},
		{"POST", dst + "/rotate_secret"},
		{"POST", event},
		{"POST", event + "/batch"},
		{"POST", "/v1/replays"},
		{"POST", "/v1/recoveries"},
		{"PATCH", "/v1/alerts"},
	} {
		f(x[0], x[1], "application/json", repeated("{", `"%06x":0`, "}"))
		f(x[0], x[1], "application/json", repeated("{", long, "}"))
		f(x[0], x[1], "application/json", `{"a":`+strings.Repeat("[", 1<<20-300))
		f(x[0], x[1], "application/json", repeated(`{"a":[`, "{}", "]}"))
	}
	// Members that are known, of an endpoint and of its parts.
	for _, name := range []string{"headers", "filter", "signing", "rate_limit", "name", "url"} {
		f("PATCH", dst, "application/json", repeated(`{"`+name+`":{`, long, "}}"))
		f("PATCH", dst, "application/json", repeated(`{"`+name+`":[`, `"%06x"`, "]}"))
		f("PATCH", dst, "application/json", `{"`+name+`":`+strings.Repeat("9", 1<<20-300)+"}")
	}
	for _, name := range []string{
		"metadata", "verification", "retry_policy", "destinations", "alerts", "dedup", "response", "type_source",
	} {
		f("PATCH", ep, "application/json", repeated(`{"`+name+`":{`, long, "}}"))
		f("PATCH", ep, "application/json", repeated(`{"`+name+`":[`, `{"id":"%06x"}`, "]}"))
		f("PATCH", ep, "application/json", `{"`+name+`":"`+strings.Repeat(`\u00e9`, 170_000)+`"}`)
	}
	f("PATCH", dst, "application/json", repeated(`{"filter":{"body":{`, `"a.%06x":1`, "}}}"))
	f("PATCH", dst, "application/json", repeated(`{"filter":{"types":[`, `"a.%06x"`, "]}}"))
	f("POST", event+"/batch", "application/json", repeated(`{"events":[`, "{"+long+"}", "]}"))
	f("POST", event+"/batch", "application/json", repeated(`{"events":[`, "1", "]}"))
	f("POST", event+"/batch", "application/x-ndjson", strings.Repeat("{"+unknownMembers(15)+`"type":"a.b"}`+"\n", 999))
}

// unknownMembers are n members that no request has, each with a comma behind it.
func unknownMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"x%03d":%d,`, i, i)
	}
	return b.String()
}

// What a request names beyond what is known is told for the first twenty, however many there are.
func TestWarningsAreBounded(t *testing.T) {
	c := newClient(t)
	made := c.endpoint(nil)
	ep := "/v1/endpoints/" + made.text("id")
	unknown := unknownMembers
	f := func(method, path, body string, want int) {
		t.Helper()
		got, _ := c.do(method, path, body).get("warnings").([]any)
		if len(got) != want {
			t.Errorf("%s %s: %d warnings, want %d", method, path, len(got), want)
		}
	}
	f("POST", ep+"/events", "{"+unknown(900)+`"type":"a.b","data":{}}`, 20)
	f("POST", ep+"/events", "{"+unknown(3)+`"type":"a.b","data":{}}`, 3)
	item := "{" + unknown(15) + `"type":"a.b","data":{}}`
	f("POST", ep+"/events/batch", `{"events":[`+item+","+item+"]}", 20)
	f("POST", ep+"/events/batch", "{"+unknown(900)+`"events":[{"type":"a.b","data":{}}]}`, 20)
	f("PATCH", ep, "{"+unknown(900)+`"name":"x"}`, 20)
	f("PATCH", ep, "{"+unknown(15)+`"retry_policy":{`+unknown(15)+`"jitter":0.1},"name":"x"}`, 20)
	// What is no unknown member is told beside them.
	f("PATCH", ep, "{"+unknown(30)+`"destinations":["https://example.com/other"]}`, 21)
	f("PATCH", "/v1/alerts", "{"+unknown(30)+`"cooldown_seconds":900}`, 20)
	long := strings.Repeat("n", 5000)
	got := c.do(http.MethodPatch, ep, `{"`+long+`":1}`).want(200).text("warnings.0.param")
	if len(got) > 210 || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) {
		t.Errorf("a name of 5000 bytes is repeated with %d", len(got))
	}
}
