package conformance

import (
	"fmt"
	"strings"
	"time"
)

// sendingCases test the "Rules for sending and receipts".
func sendingCases() []testCase {
	return []testCase{
		{"Sending 1", "sending needs a key that may write", func(c *C) {
			ep := c.endpoint(nil)
			c.withKey(c.ReadKey).wantError(403, "insufficient_scope", "", "POST", "/v1/endpoints/"+text(ep, "id")+"/events",
				object{"type": "a", "data": object{}})
		}},
		{"Sending 2", "type and data are required, and nothing else is validated", func(c *C) {
			route := "/v1/endpoints/" + text(c.endpoint(nil), "id") + "/events"
			for _, x := range []struct {
				body  any
				param string
			}{
				{object{"data": object{}}, "type"}, {object{"type": "", "data": object{}}, "type"},
				{object{"type": 5, "data": object{}}, "type"},
				{object{"type": strings.Repeat("x", 129), "data": object{}}, "type"},
				{object{"type": "a b", "data": object{}}, "type"},
				{object{"type": "a"}, "data"}, {object{"type": "a", "data": nil}, "data"},
				{object{"type": "a", "data": []int{}}, "data"},
				{object{"type": "a", "data": "x"}, "data"}, {object{"type": "a", "data": object{}, "id": "evt_1"}, "id"},
			} {
				c.wantError(400, "invalid_request", x.param, "POST", route, x.body)
			}
			c.must(202, "POST", route, object{"type": strings.Repeat("x", 128), "data": object{}})
			c.wantError(400, "payload_too_large", "-", "POST", route,
				object{"type": "a", "data": object{"x": strings.Repeat("x", 1<<20)}})
		}},
		{"Sending 3", "an event that was answered 202 is read and listed at once", func(c *C) {
			ep := c.endpoint(nil)
			for range 5 {
				id := c.send(ep, "a.b", object{})
				if all := c.list("/v1/events?endpoint_id="+text(ep, "id"), 100); len(all) == 0 || all[0]["id"] != id {
					c.Fatalf("%s is not the newest of %v", id, all)
				}
				c.wantEqual("id", c.event(id)["id"], id)
			}
		}},
		{"Sending 4", "an Idempotency-Key makes one event of many requests", func(c *C) {
			ep := c.endpoint(nil)
			route, key := "/v1/endpoints/"+text(ep, "id")+"/events", "k-"+text(ep, "id")
			body := object{"type": "a.b", "data": object{"n": 1}}
			first := c.must(202, "POST", route, body, "Idempotency-Key", key)
			again := c.do("POST", route, body, "Idempotency-Key", key)
			if again.body["id"] != first["id"] || again.header.Get("Idempotent-Replayed") != "true" {
				c.Errorf("repeat: %d %v", again.status, again.body)
			}
			c.wantError(400, "idempotency_mismatch", "-", "POST", route, object{"type": "a.c", "data": object{}},
				"Idempotency-Key", key)
			c.wantEqual("events", len(c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)), 1)
		}},
		{"Sending 5", "receipts are validated", func(c *C) {
			id := c.send(c.endpoint(nil), "a.b", object{})
			route := "/v1/events/" + id + "/processing"
			for _, x := range []struct {
				body  any
				param string
			}{
				{object{}, "state"}, {object{"state": "done"}, "state"}, {object{"state": nil}, "state"},
				{object{"state": "processed", "reference": strings.Repeat("r", 256)}, "reference"},
				{object{"state": "processed", "reference": "a\nb"}, "reference"},
				{object{"state": "processed", "details": strings.Repeat("d", 2049)}, "details"},
				{object{"state": "processed", "details": 5}, "details"},
				{object{"state": "processed", "details": []int{1}}, "details"},
			} {
				c.wantError(400, "invalid_request", x.param, "POST", route, x.body)
			}
			c.must(200, "POST", route,
				object{"state": "processed", "reference": strings.Repeat("r", 255), "details": strings.Repeat("d", 2048)})
			c.wantError(404, "not_found", "", "POST", "/v1/events/evt_nope/processing", object{"state": "processed"})
		}},
		{"Sending 6", "events without a receipt can be found", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			done, open := c.send(ep, "a.b", object{}), c.send(ep, "a.b", object{})
			c.awaitStatus(done, "delivered")
			c.awaitStatus(open, "delivered")
			c.must(200, "POST", "/v1/events/"+done+"/processing", object{"state": "processed"})
			for filter, want := range map[string]string{"missing": open, "processed": done, "none": open} {
				all := c.list("/v1/events?endpoint_id="+text(ep, "id")+"&processing="+filter, 1)
				if len(all) != 1 || all[0]["id"] != want {
					c.Errorf("processing=%s lists %v, want %s", filter, all, want)
				}
			}
		}},
	}
}

// authenticationCases test the sentences of "Authentication".
func authenticationCases() []testCase {
	return []testCase{
		{"Authentication 1", "every request needs a key in Authorization: Bearer", func(c *C) {
			id := text(c.endpoint(nil), "id")
			for _, route := range []string{
				"GET /v1/endpoints", "POST /v1/endpoints", "GET /v1/endpoints/" + id, "PATCH /v1/endpoints/" + id,
				"DELETE /v1/endpoints/" + id,
				"POST /v1/endpoints/" + id + "/events", "GET /v1/events", "GET /v1/events/evt_x", "POST /v1/events/evt_x/replay",
				"POST /v1/events/evt_x/processing",
				"POST /v1/replays", "GET /v1/recoveries", "POST /v1/recoveries", "POST /v1/recoveries/rec_x",
				"GET /v1/recoveries/rec_x/items", "GET /v1/usage",
				"GET /v1/alerts", "PATCH /v1/alerts", "POST /v1/alerts/test", "GET /v1/nope"} {
				method, where, _ := strings.Cut(route, " ")
				c.withKey("").wantError(401, "authentication_required", "", method, where, nil)
				c.withKey("wrong-key-0123456789").wantError(401, "invalid_api_key", "", method, where, nil)
			}
			a := c.withKey("").do("GET", "/v1/events", nil)
			c.wantEqual("WWW-Authenticate", strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer"), true)
			c.withKey("").wantError(401, "invalid_api_key", "", "GET", "/v1/events", nil, "Authorization", "Basic abc")
		}},
		{"Authentication 2", "a key has a scope: a reading key cannot change anything, known id or not", func(c *C) {
			id := text(c.endpoint(nil), "id")
			read := c.withKey(c.ReadKey)
			for _, route := range []string{
				"POST /v1/endpoints", "PATCH /v1/endpoints/" + id, "DELETE /v1/endpoints/" + id, "DELETE /v1/endpoints/ep_nope",
				"POST /v1/endpoints/" + id + "/events",
				"POST /v1/events/evt_nope/replay", "POST /v1/events/evt_nope/processing", "POST /v1/replays", "POST /v1/recoveries",
				"POST /v1/recoveries/rec_nope", "PATCH /v1/alerts", "POST /v1/alerts/test"} {
				method, where, _ := strings.Cut(route, " ")
				read.wantError(403, "insufficient_scope", "", method, where, "not even JSON")
			}
			for _, where := range []string{"/v1/endpoints", "/v1/endpoints/" + id, "/v1/events", "/v1/recoveries", "/v1/replays",
				"/v1/usage", "/v1/alerts", "/v1/audit", "/v1/me"} {
				read.must(200, "GET", where, nil)
			}
		}},
		{"Authentication 3", "a revoked key stops working immediately", func(c *C) {
			key, revoke := c.NewKey(c.T)
			other := c.withKey(key)
			c.eventually(waitLimit, func() string {
				if a := other.do("GET", "/v1/me", nil); a.status != 200 {
					return fmt.Sprintf("a request with a new key is answered %d", a.status)
				}
				return ""
			})
			revoke()
			for range 6 { // reaches every node behind a load balancer
				other.wantError(401, "invalid_api_key", "", "GET", "/v1/me", nil)
			}
		}},
		{"Authentication 4", "a key is told what it is", func(c *C) {
			me := c.must(200, "GET", "/v1/me", nil)
			c.wantMembers("me", me, "account_id", "key_id", "scope", "version")
			c.wantEqual("scope", me["scope"], "read_write")
			c.wantEqual("scope of the read key", c.withKey(c.ReadKey).must(200, "GET", "/v1/me", nil)["scope"], "read")
		}},
	}
}

// errorCases test the sentences of "Errors".
func errorCases() []testCase {
	return []testCase{
		{"Errors 1", "an error has a type, a message, and the parameter when one applies", func(c *C) {
			e := c.wantError(400, "invalid_request", "limit", "GET", "/v1/events?limit=0", nil)
			c.wantMembers("error", e, "type", "message", "param", "doc_url", "request_id")
			a := c.do("GET", "/v1/events/evt_nope", nil)
			c.wantEqual("request id", member(a.body, "error", "request_id"), a.header.Get("X-Request-Id"))
			if len(a.body) != 1 {
				c.Errorf("an error with more members: %v", a.body)
			}
		}},
		{"Errors 2", "an unknown id is 404, of whatever kind it seems to be", func(c *C) {
			ep := text(c.endpoint(nil), "id")
			for _, route := range []string{
				"GET /v1/endpoints/ep_nope", "GET /v1/endpoints/evt_nope", "PATCH /v1/endpoints/ep_nope",
				"POST /v1/endpoints/ep_nope/events", "GET /v1/events/evt_nope",
				"GET /v1/events/" + ep, "POST /v1/events/evt_nope/replay", "GET /v1/recoveries/rec_nope",
				"POST /v1/recoveries/rec_nope", "GET /v1/recoveries/rec_nope/items",
				"GET /v1/replays/run_nope", "PATCH /v1/endpoints/" + ep + "/destinations/dst_nope", "GET /v1/events/%00",
				"GET /v1/nope", "PUT /v1/endpoints", "GET /v1/endpoints/"} {
				method, where, _ := strings.Cut(route, " ")
				c.wantError(404, "not_found", "", method, where, nil)
			}
			c.wantEqual("Allow", strings.Contains(c.do("PUT", "/v1/endpoints", nil).header.Get("Allow"), "POST"), true)
			c.wantError(404, "not_found", "endpoint_id", "POST", "/v1/recoveries",
				object{"endpoint_id": "ep_nope", "since": ago(time.Hour), "rate_per_second": 5})
		}},
		{"Errors 3", "too many requests are 429, with the time to wait", func(c *C) {
			a := c.do("GET", "/v1/me", nil)
			if !c.Limited {
				return
			}
			c.wantEqual("rate headers", a.header.Get("X-RateLimit-Limit") != "" && a.header.Get("X-RateLimit-Remaining") != "" &&
				a.header.Get("X-RateLimit-Reset") != "", true)
			key, _ := c.NewKey(c.T)
			a = c.withKey(key).sendUntilLimited("GET", "/v1/me")
			c.wantEqual("status", a.status, 429)
			c.wantEqual("type", member(a.body, "error", "type"), "rate_limited")
			if a.header.Get("Retry-After") == "" {
				c.Error("no Retry-After")
			}
		}},
		{"Errors 4", "a body that is no object is refused", func(c *C) {
			ep := c.endpoint(nil)
			for _, body := range []string{"[]", "{", "null", "5", `"x"`, "{}{}", `{"name":"a","name":"b"}`, "\xff", "{\"a\":1}x",
				strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)} {
				for _, route := range []string{"POST /v1/endpoints", "PATCH /v1/endpoints/" + text(ep, "id"), "POST /v1/replays",
					"POST /v1/recoveries", "PATCH /v1/alerts"} {
					method, where, _ := strings.Cut(route, " ")
					c.wantError(400, "invalid_request", "-", method, where, body)
				}
			}
			c.wantError(400, "invalid_request", "content-type", "POST", "/v1/endpoints", "{}", "Content-Type", "text/plain")
			c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"), "{}", "Content-Type",
				"application/merge-patch+json; charset=utf-8")
		}},
	}
}

// limitCases test the rows of "Limits" that no other case tests, and "Versioning".
func limitCases() []testCase {
	return []testCase{
		{"Limits 1", "limit is 1 to 100, more is 100", func(c *C) {
			for _, bad := range []string{"0", "-1", "x", "1.5", ""} {
				if bad != "" {
					c.wantError(400, "invalid_request", "limit", "GET", "/v1/events?limit="+bad, nil)
				}
			}
			c.must(200, "GET", "/v1/events?limit=1000", nil)
		}},
		{"Limits 2", "the parts of an endpoint are bounded", func(c *C) {
			x := strings.Repeat("x", 101)
			ok := object{"url": "https://example.com/"}
			many := make([]object, 51)
			for i := range many {
				many[i] = object{"url": fmt.Sprintf("https://example.com/%d", i)}
			}
			for param, body := range map[string]object{
				"name":                            {"url": ok["url"], "name": x},
				"description":                     {"url": ok["url"], "description": strings.Repeat("x", 501)},
				"provider":                        {"url": ok["url"], "provider": "nobody"},
				"destinations":                    {"destinations": many},
				"destinations[0].timeout_seconds": {"destinations": []object{{"url": ok["url"], "timeout_seconds": 61}}},
				"destinations[0].max_in_flight":   {"destinations": []object{{"url": ok["url"], "max_in_flight": 1001}}},
				"destinations[0].rate_limit.per_second": {
					"destinations": []object{{"url": ok["url"], "rate_limit": object{"per_second": 10001, "burst": 1}}}},
				"retry_policy.max_attempts":      {"url": ok["url"], "retry_policy": object{"max_attempts": 51}},
				"retry_policy.strategy":          {"url": ok["url"], "retry_policy": object{"strategy": "never"}},
				"response.status":                {"url": ok["url"], "response": object{"status": 300}},
				"ingest_limit.events_per_second": {"url": ok["url"], "ingest_limit": object{"events_per_second": 0}},
				"dedup.window_seconds": {
					"url": ok["url"], "dedup": object{"key": "body:$.id", "window_seconds": 86401}},
			} {
				c.wantError(400, "invalid_request", param, "POST", "/v1/endpoints", body)
			}
		}},
		{"Versioning 1", "the version is the path prefix /v1", func(c *C) {
			if a := c.do("GET", "/v2/endpoints", nil); a.status != 404 {
				c.Errorf("/v2 answers %d", a.status)
			}
		}},
	}
}
