package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// routeCases test the rows of "Endpoints" that no other group tests.
func routeCases() []testCase {
	return []testCase{
		{"Route 1", "GET /v1/endpoints lists the endpoints, newest first", func(c *C) {
			made := []string{}
			for range 3 {
				made = append(made, text(c.endpoint(nil), "id"))
			}
			var listed []string
			for _, ep := range c.list("/v1/endpoints", 100) {
				if slices.Contains(made, text(ep, "id")) {
					listed = append(listed, text(ep, "id"))
				}
			}
			slices.Reverse(made)
			c.wantEqual("endpoints", listed, made)
		}},
		{"Route 2", "POST /v1/endpoints answers with the created endpoint", func(c *C) {
			a := c.do("POST", "/v1/endpoints", object{"url": "https://example.com/h", "name": "short form"})
			c.wantEqual("status", a.status, 201)
			c.wantEqual("object", a.body["object"], "endpoint")
			c.wantEqual("url", member(a.body, "destinations", 0, "url"), "https://example.com/h")
			if !strings.HasPrefix(text(a.body, "destinations", 0, "signing", "secret"), "whsec_") {
				c.Errorf("signing: %v", member(a.body, "destinations", 0, "signing"))
			}
		}},
		{"Route 3", "PATCH takes any of destinations, retry policy and alerts, all or nothing", func(c *C) {
			ep := c.endpoint(nil)
			route := "/v1/endpoints/" + text(ep, "id")
			c.wantError(400, "invalid_request", "destinations[0].url", "PATCH", route,
				object{"name": "new", "destinations": []any{"http://example.com"}})
			c.wantEqual("after a refused change", c.must(200, "GET", route, nil)["name"], ep["name"])
			c.wantEqual("after a change", c.must(200, "PATCH", route, object{"name": "new"})["name"], "new")
			c.wantError(400, "invalid_request", "destinations", "PATCH", route, object{"destinations": []any{}})
		}},
		{"Route 4", "a deleted endpoint stops receiving events", func(c *C) {
			ep := c.endpoint(nil)
			id := c.send(ep, "a.b", object{})
			route := "/v1/endpoints/" + text(ep, "id")
			gone := c.must(200, "DELETE", route, nil)
			c.wantEqual("deleted", gone["deleted"], true)
			c.wantEqual("id", gone["id"], ep["id"])
			if a := c.postAsProvider(ep, "{}"); a.status != http.StatusNotFound {
				c.Errorf("the deleted endpoint answers a provider with %d", a.status)
			}
			for _, method := range []string{"GET", "PATCH", "DELETE"} {
				c.wantError(404, "not_found", "", method, route, map[string]any{"PATCH": object{}}[method])
			}
			c.wantError(404, "not_found", "", "POST", route+"/events", object{"type": "a", "data": object{}})
			c.wantEqual("its events stay", c.event(id)["id"], id)
			c.wantEqual("and listed", len(c.list("/v1/events?endpoint_id="+text(ep, "id"), 5)), 1)
		}},
		{"Route 5", "GET /v1/events filters by endpoint, status, type and time", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			before := now()
			paid := c.send(ep, "order.paid", object{})
			c.awaitStatus(paid, "delivered")
			c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"),
				object{"destinations": []object{{"id": member(ep, "destinations", 0, "id"), "enabled": false}}})
			between := now()
			lost := c.send(ep, "user.gone", object{})
			for query, want := range map[string][]string{
				"":                                {lost, paid},
				"&status=delivered":               {paid},
				"&status=skipped":                 {lost},
				"&status=delivered,skipped":       {lost, paid},
				"&status=failed":                  nil,
				"&type=order.*":                   {paid},
				"&type=user.gone":                 {lost},
				"&since=" + before:                {lost, paid},
				"&since=" + between:               {lost},
				"&until=" + between:               {paid},
				"&from=" + between:                {lost},
				"&source=provider":                nil,
				"&source=api&type=order.paid":     {paid},
				"&status[]=delivered&status=":     {paid},
				"&destination_id=dst_nope":        nil,
				"&status=skipped&type=order.paid": nil,
			} {
				var got []string
				for _, e := range c.list("/v1/events?endpoint_id="+text(ep, "id")+query, 1) {
					got = append(got, text(e, "id"))
				}
				c.wantEqual("events of "+query, got, want)
			}
			c.wantEqual("an unknown endpoint", len(c.list("/v1/events?endpoint=ep_nope", 5)), 0)
			c.wantError(400, "invalid_request", "status", "GET", "/v1/events?status=lost", nil)
			c.wantError(400, "invalid_request", "statuss", "GET", "/v1/events?statuss=failed", nil)
			c.wantError(400, "invalid_request", "until", "GET", "/v1/events?since=2026-01-02&until=2026-01-01", nil)
		}},
		{"Route 6", "GET /v1/events searches in bodies and headers", func(c *C) {
			ep := c.endpoint(nil)
			needle := "needle-" + text(ep, "id")
			id := c.send(ep, "a.b", object{"order": object{"id": needle, "n": 7}})
			c.send(ep, "a.b", object{"order": object{"id": "hay"}})
			for _, query := range []string{
				"q=" + needle, "q=" + strings.ToUpper(needle), "body[data.order.id]=" + needle, "body[data.order.n]=7&q=" + needle,
				"header[content-type]=application/json&q=" + needle} {
				got := c.must(200, "GET", "/v1/events?endpoint_id="+text(ep, "id")+"&"+query, nil)
				if found := rows(got, "data"); len(found) != 1 || found[0]["id"] != id {
					c.Errorf("%s finds %v", query, got)
				}
			}
			c.wantEqual("a wildcard is text", len(c.list("/v1/events?endpoint_id="+text(ep, "id")+"&q=needle%25", 5)), 0)
			c.wantError(400, "invalid_request", "q", "GET", "/v1/events?q="+strings.Repeat("x", 201), nil)
		}},
		{"Route 7", "GET /v1/events/{id} shows headers, body and attempts; all attempts are paged", func(c *C) {
			r := c.receiver(failFirst(2))
			id := c.send(c.endpoint(nil, r), "a.b", object{})
			c.awaitStatus(id, "delivered")
			all := c.list("/v1/events/"+id+"/attempts", 2)
			if len(all) != 3 {
				c.Fatalf("%d attempts", len(all))
			}
			for i, a := range all {
				c.wantEqual("attempt_number", a["attempt_number"], 3-i)
			}
		}},
		{"Route 8", "GET /v1/recoveries has older history by cursor", func(c *C) {
			ep := c.endpoint(nil)
			var made []string
			for range 3 {
				made = append(made, text(c.prepareJob(ep, nil), "id"))
			}
			slices.Reverse(made)
			var listed []string
			for _, job := range c.list("/v1/recoveries?endpoint_id="+text(ep, "id"), 1) {
				listed = append(listed, text(job, "id"))
			}
			c.wantEqual("jobs", listed, made)
			c.wantEqual("completed ones", len(c.list("/v1/recoveries?state=completed&endpoint_id="+text(ep, "id"), 10)), 0)
		}},
		{"Route 9", "events can be sent in batches, each validated by itself", func(c *C) {
			ep := c.endpoint(nil)
			route := "/v1/endpoints/" + text(ep, "id") + "/events/batch"
			got := c.must(202, "POST", route,
				object{"events": []object{
					{"type": "a", "data": object{"n": 1}}, {"type": "not a type", "data": object{}}, {"type": "b", "data": object{}}}})
			all := rows(got, "data")
			if len(all) != 3 || !strings.HasPrefix(text(all[0], "id"), "evt_") || member(all[1], "error", "param") == nil ||
				!strings.HasPrefix(text(all[2], "id"), "evt_") {
				c.Fatalf("batch: %v", got)
			}
			lines := c.must(202, "POST", route, "{\"type\":\"c\",\"data\":{}}\n{\"type\":\"d\",\"data\":{}}\n", "Content-Type",
				"application/x-ndjson")
			if len(rows(lines, "data")) != 2 {
				c.Errorf("NDJSON: %v", lines)
			}
			c.wantEqual("stored", len(c.list("/v1/events?endpoint_id="+text(ep, "id"), 50)), 4)
		}},
		{"Route 10", "a test event is delivered like any other, and not billed", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			row := c.must(202, "POST", "/v1/endpoints/"+text(ep, "id")+"/test", object{"provider": "stripe"})
			c.wantEqual("source", row["source"], "test")
			e := c.awaitStatus(text(row, "id"), "delivered")
			c.wantEqual("trigger", member(e, "attempts", 0, "trigger"), "test")
			c.wantError(400, "invalid_request", "provider", "POST", "/v1/endpoints/"+text(ep, "id")+"/test",
				object{"provider": "nobody"})
		}},
		{"Route 11", "destinations have routes of their own", func(c *C) {
			ep := c.endpoint(nil)
			route := "/v1/endpoints/" + text(ep, "id") + "/destinations"
			d := c.must(201, "POST", route, object{"url": "https://example.com/two"})
			one := route + "/" + text(d, "id")
			c.wantEqual("name", c.must(200, "PATCH", one, object{"name": "second"})["name"], "second")
			rotated := c.must(200, "POST", one+"/rotate_secret", object{"overlap_seconds": 60})
			if s := text(rotated, "signing", "secret"); s == "" || s == text(d, "signing", "secret") {
				c.Errorf("rotated to %q", s)
			}
			c.wantEqual("deleted", c.must(200, "DELETE", one, nil)["deleted"], true)
			c.wantError(400, "invalid_request", "destinations", "DELETE", route+"/"+text(ep, "destinations", 0, "id"), nil)
		}},
		{"Route 12", "the stream shows every event from ready on, and resumes", streamResumes},
		{"Route 13", "the OpenAPI document is served as JSON and YAML, without a key", func(c *C) {
			doc := c.withKey("").do("GET", "/openapi.json", nil)
			if doc.status != 200 || !strings.Contains(string(doc.raw), `"openapi"`) ||
				!strings.Contains(string(doc.raw), "/v1/recoveries/{") {
				c.Errorf("openapi.json: %d %.200s", doc.status, doc.raw)
			}
			if yaml := c.withKey("").do("GET", "/openapi.yaml", nil); yaml.status != 200 ||
				!strings.Contains(string(yaml.raw), "openapi: ") {
				c.Errorf("openapi.yaml: %d %.200s", yaml.status, yaml.raw)
			}
		}},
		{"Route 14", "the audit log tells who changed what", func(c *C) {
			ep := c.endpoint(nil)
			me := c.must(200, "GET", "/v1/me", nil)
			c.eventually(waitLimit, func() string {
				for _, entry := range c.list("/v1/audit?since="+ago(time.Hour), 100) {
					if strings.Contains(string(mustJSON(entry)), text(ep, "id")) &&
						strings.Contains(string(mustJSON(entry)), text(me, "key_id")) {
						return ""
					}
				}
				return fmt.Sprintf("no entry names %v and %v", ep["id"], me)
			})
		}},
		{"Route 15", "the ingest URL can be changed; the one before it goes on for its overlap", func(c *C) {
			ep := c.endpoint(nil)
			id, first := text(ep, "id"), text(ep, "ingest_url")
			second := text(c.must(200, "POST", "/v1/endpoints/"+id+"/rotate-token", nil), "ingest_url")
			third := text(c.must(200, "POST", "/v1/endpoints/"+id+"/rotate-token", object{"overlap_seconds": 3600}),
				"ingest_url")
			for url, want := range map[string]int{first: 404, second: 200, third: 200} {
				c.wantEqual("status at an ingest URL", c.postAsProvider(object{"ingest_url": url}, `{"n":1}`).status, want)
			}
			last := text(c.must(200, "POST", "/v1/endpoints/"+id+"/rotate-token", object{"overlap_seconds": 0}), "ingest_url")
			for url, want := range map[string]int{second: 404, third: 404, last: 200} {
				c.wantEqual("status at an ingest URL", c.postAsProvider(object{"ingest_url": url}, `{"n":1}`).status, want)
			}
			c.wantError(400, "invalid_request", "overlap_seconds", "POST", "/v1/endpoints/"+id+"/rotate-token",
				object{"overlap_seconds": 86401})
		}},
	}
}
