package conformance

import (
	"net/http"
	"strings"
	"time"
)

// strangerCases test what a client meets that knows nothing of the service, as far as no other group does.
func strangerCases() []testCase {
	return []testCase{
		{"Stranger 3", "an endpoint is made without DNS", func(c *C) {
			c.must(http.StatusCreated, "POST", "/v1/endpoints",
				object{"destinations": []object{{"url": "https://example.com/h"}}})
			c.must(http.StatusCreated, "POST", "/v1/endpoints",
				object{"destinations": []object{{"url": "https://no-such-host.invalid.example.com/h"}}})
		}},
		{"Stranger 4", "http is refused by its name", func(c *C) {
			c.wantError(400, "invalid_request", "destinations[0].url", "POST", "/v1/endpoints",
				object{"destinations": []object{{"url": "http://example.com/h"}}})
		}},
		{"Stranger 5", "an endpoint without a destination is refused", func(c *C) {
			c.wantError(400, "invalid_request", "destinations", "POST", "/v1/endpoints", object{})
			c.wantError(400, "invalid_request", "destinations", "POST", "/v1/endpoints", object{"destinations": []any{}})
		}},
		{"Stranger 6", "a partial retry policy leaves the rest", func(c *C) {
			ep := c.must(201, "POST", "/v1/endpoints", object{"url": "https://example.com/h"})
			after := c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"), object{"retry_policy": object{"max_attempts": 1}})
			want := ep["retry_policy"].(object)
			want["max_attempts"] = 1
			c.wantEqual("retry_policy", after["retry_policy"], want)
		}},
		{"Stranger 11", "one event to two destinations queues two deliveries", func(c *C) {
			one, two := c.receiver(nil), c.receiver(nil)
			ep := c.endpoint(nil, one, two)
			id := c.send(ep, "a.b", object{})
			c.awaitStatus(id, "delivered")
			got := c.must(200, "POST", "/v1/replays", object{"endpoint_id": ep["id"], "since": ago(time.Hour)})
			for name, want := range (object{"events": 1, "queued": 2, "truncated": false}) {
				c.wantEqual(name, got[name], want)
			}
			if !strings.HasPrefix(text(got, "run_id"), "run_") {
				c.Errorf("run_id is %v", got["run_id"])
			}
		}},
		{"Stranger 13", "a recovery without failures is ready, and its canary completes it", func(c *C) {
			job := c.prepareJob(c.endpoint(nil), nil)
			c.wantEqual("total", job["total"], 0)
			c.wantError(400, "invalid_state", "action", "POST", "/v1/recoveries/"+text(job, "id"), object{"action": "continue"})
			c.doAction(job, "canary")
			c.awaitJob(job, "completed")
		}},
		{"Stranger 14", "GET then PATCH of what was read changes nothing", func(c *C) {
			ep := c.endpoint(object{"verification": object{
				"type": "hmac", "secret": "a-secret-of-the-provider", "header": "X-Sig"}, "provider": "hmac",
				"destinations": []object{
					{"url": "https://example.com/h", "headers": object{"Authorization": "Bearer very-secret-token"}}}})
			route := "/v1/endpoints/" + text(ep, "id")
			before := c.must(200, "GET", route, nil)
			if strings.Contains(string(mustJSON(before)), "very-secret-token") ||
				strings.Contains(string(mustJSON(before)), "a-secret-of-the-provider") {
				c.Errorf("a read shows a secret: %v", before)
			}
			c.must(200, "PATCH", route, before)
			after := c.must(200, "GET", route, nil)
			for name, want := range before {
				if name != "updated_at" {
					c.wantEqual(name, after[name], want)
				}
			}
		}},
		{"Stranger 15", "a reading key sees neither the ingest URL nor what may be secret in the URL of a destination",
			func(c *C) {
				url := "https://example.com/hooks/T0K3N-of-a-channel-9f3c?key=k3y-of-a-channel-a1b2"
				ep := c.endpoint(object{"destinations": []object{{"url": url}}})
				route, token := "/v1/endpoints/"+text(ep, "id"), text(ep, "ingest_url")
				_, want, _ := strings.Cut(token, "/in/")
				seen := c.withKey(c.ReadKey).must(200, "GET", route, nil)
				if got := text(seen, "ingest_url"); !strings.HasSuffix(got, "/in/****"+want[len(want)-4:]) {
					c.Errorf("ingest_url is %s", got)
				}
				c.wantEqual("url", text(seen, "destinations", 0, "url"), "https://example.com/****")
				c.must(200, "PATCH", route, object{"destinations": seen["destinations"]})
				after := c.must(200, "GET", route, nil)
				c.wantEqual("the URL after its mask was sent back", text(after, "destinations", 0, "url"),
					text(ep, "destinations", 0, "url"))
			}},
	}
}
