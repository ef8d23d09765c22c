package conformance

import (
	"net/http"
	"regexp"
	"strings"
	"time"
)

var utc = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// resourceCases test the sentences of "Resources and their fields".
func resourceCases() []testCase {
	return []testCase{
		{"Resources 1", "ids are a prefix and an opaque text, times are ISO 8601 in UTC", func(c *C) {
			ep := c.endpoint(nil)
			id := c.send(ep, "a.b", object{})
			e := c.event(id)
			if !strings.HasPrefix(text(ep, "id"), "ep_") || !strings.HasPrefix(id, "evt_") ||
				!strings.HasPrefix(text(ep, "destinations", 0, "id"), "dst_") {
				c.Errorf("ids %v, %v, %v", ep["id"], id, member(ep, "destinations", 0, "id"))
			}
			for _, at := range []any{ep["created_at"], ep["updated_at"], e["received_at"], e["expires_at"]} {
				if s, _ := at.(string); !utc.MatchString(s) {
					c.Errorf("a time is %v", at)
				}
			}
		}},
		{"Endpoint 1", "each destination has an id and can be disabled and enabled", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			id, dest := text(ep, "id"), text(ep, "destinations", 0, "id")
			for _, enabled := range []bool{false, true} {
				after := c.must(200, "PATCH", "/v1/endpoints/"+id,
					object{"destinations": []object{{"id": dest, "enabled": enabled}}})
				c.wantEqual("enabled", member(after, "destinations", 0, "enabled"), enabled)
				e := c.send(ep, "a.b", object{})
				c.awaitStatus(e, map[bool]string{false: "skipped", true: "delivered"}[enabled])
			}
			if n := len(r.deliveries()); n != 1 {
				c.Errorf("%d requests", n)
			}
		}},
		{"Endpoint 2", "a destination URL must use https", func(c *C) {
			ep := c.endpoint(nil)
			for _, bad := range []string{
				"http://example.com/h", "ftp://example.com/", "example.com/h", "https://", "https://user:pw@example.com/",
				"https://example.com/#f"} {
				c.wantError(400, "invalid_request", "destinations[0].url", "POST", "/v1/endpoints",
					object{"destinations": []any{bad}})
				c.wantError(400, "invalid_request", "url", "POST", "/v1/endpoints/"+text(ep, "id")+"/destinations",
					object{"url": bad})
			}
		}},
		{"Endpoint 3", "the retry policy can be updated", func(c *C) {
			ep := c.endpoint(nil)
			after := c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"), object{"retry_policy": object{"max_attempts": 7}})
			c.wantEqual("max_attempts", member(after, "retry_policy", "max_attempts"), 7)
			c.wantEqual("schedule", member(after, "retry_policy", "schedule_seconds"), []int{1})
		}},
		{"Endpoint 4", "alert settings can be updated", func(c *C) {
			ep := c.endpoint(nil)
			after := c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"),
				object{"alerts": object{"enabled": false, "consecutive_failures": 3}})
			c.wantEqual("enabled", member(after, "alerts", "enabled"), false)
			c.wantEqual("consecutive_failures", member(after, "alerts", "consecutive_failures"), 3)
		}},
		{"Endpoint 5", "reading an endpoint returns its configuration", func(c *C) {
			ep := c.endpoint(object{"name": "orders", "description": "of the shop", "metadata": object{"team": "a"}})
			got := c.must(200, "GET", "/v1/endpoints/"+text(ep, "id"), nil)
			c.wantMembers("endpoint", got, "id", "object", "name", "description", "provider", "verification",
				"type_source", "dedup",
				"ingest_limit", "destinations", "retry_policy",
				"alerts", "response", "enabled", "paused", "metadata", "ingest_url", "created_at", "updated_at")
			c.wantEqual("name", got["name"], "orders")
			c.wantEqual("metadata", got["metadata"], object{"team": "a"})
			if member(got, "destinations", 0, "signing", "secret") != nil {
				c.Error("a read shows the signing secret")
			}
			c.wantEqual("last four of the secret", member(got, "destinations", 0, "signing", "secret_last4"),
				lastFour(text(ep, "destinations", 0, "signing", "secret")))
		}},
		{"Event 1", "attempts are a number in lists and the attempts themselves in the single read", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			id := c.send(ep, "a.b", object{"n": 1})
			e := c.awaitStatus(id, "delivered")
			row := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)[0]
			c.wantEqual("attempts of the row", row["attempts"], 1)
			if len(rows(e, "attempts")) != 1 {
				c.Errorf("attempts of the event: %v", e["attempts"])
			}
			c.wantMembers("row", row, "id", "object", "endpoint_id", "type", "status", "attempts", "source", "destinations",
				"processing",
				"size_bytes",
				"received_at", "last_attempt_at", "next_attempt_at", "reason", "why")
			c.wantMembers("event", e, "headers", "headers_raw", "body", "body_encoding", "content_type", "method", "query",
				"remote_ip",
				"idempotency_key", "expires_at", "deliveries", "attempts", "receipt", "data")
		}},
		{"Event 2", "type and data are the sender's", func(c *C) {
			id := c.send(c.endpoint(nil), "order.paid", object{"big": 12345678901234567, "s": "é"})
			e := c.event(id)
			c.wantEqual("type", e["type"], "order.paid")
			c.wantEqual("text of data", member(e, "data", "s"), "é")
			if !strings.Contains(text(e, "body"), `"big":12345678901234567`) {
				c.Errorf("the body lost digits: %v", e["body"])
			}
		}},
		{"List 1", "data and an opaque next_cursor, present only when there is more", func(c *C) {
			ep := c.endpoint(nil)
			for range 3 {
				c.send(ep, "a.b", object{})
			}
			list := "/v1/events?endpoint_id=" + text(ep, "id")
			if all := c.list(list, 3); len(all) != 3 {
				c.Errorf("%d events in one page", len(all))
			}
			page := c.must(200, "GET", list+"&limit=3", nil)
			if _, more := page["next_cursor"]; more || len(page) != 1 {
				c.Errorf("a full last page is %v", page)
			}
			c.wantError(400, "invalid_request", "cursor", "GET", list+"&cursor=evt_1", nil)
			other := text(c.must(200, "GET", list+"&limit=1", nil), "next_cursor")
			c.wantError(400, "invalid_request", "cursor", "GET", "/v1/events?limit=1&cursor="+other, nil)
			c.wantError(400, "invalid_request", "cursor", "GET", "/v1/endpoints?cursor="+other, nil)
		}},
		{"List 2", "cursors are stable across inserts: nothing is skipped or repeated", pagesWhileSending},
		{"Receipt 1", "state, reference and details of a receipt are kept as they were sent", func(c *C) {
			id := c.send(c.endpoint(nil), "a.b", object{})
			for _, details := range []any{"done in two steps", object{"invoice": "in_1", "lines": []any{1, 2.5, nil, true}}} {
				got := c.must(200, "POST", "/v1/events/"+id+"/processing",
					object{"state": "processing", "reference": "job-7", "details": details})
				wanted := object{"event_id": id, "state": "processing", "reference": "job-7", "details": details, "applied": true}
				for name, want := range wanted {
					c.wantEqual(name, got[name], want)
				}
				c.wantMembers("receipt", got, "created_at", "updated_at")
				receipt := c.event(id)["receipt"]
				c.wantEqual("details in the event", member(receipt, "details"), details)
				c.wantEqual("reference in the event", member(receipt, "reference"), "job-7")
			}
		}},
		{"Receipt 2", "reference and details must not hold secrets", func(c *C) {
			id := c.send(c.endpoint(nil), "a.b", object{})
			const secret = "sk_" + "live_" + "51HxQb2eZvKYlo2C0aBcDeFgH"
			c.wantError(400, "invalid_request", "reference", "POST", "/v1/events/"+id+"/processing",
				object{"state": "processed", "reference": secret})
			c.wantError(400, "invalid_request", "details", "POST", "/v1/events/"+id+"/processing",
				object{"state": "processed", "details": "paid with " + secret})
			c.wantEqual("receipt", c.event(id)["receipt"], nil)
		}},
		{"Alerts 1", "webhook URLs of alerts are masked when they are read", func(c *C) {
			// The settings belong to the account, so all checks that change them are in this one case.
			alertSettings(c)
		}},
		{"Usage 1", "usage is that of the current period, with a projection", func(c *C) {
			c.send(c.endpoint(nil), "a.b", object{})
			var u object
			c.eventually(waitLimit, func() string {
				if u = c.must(200, "GET", "/v1/usage", nil); number(u, "events", "sent") < 1 {
					return "the event is not in the usage"
				}
				return ""
			})
			c.wantMembers("usage", u, "period_start", "period_end", "as_of", "events", "deliveries", "attempts", "bytes",
				"allowance",
				"remaining", "overage", "projection", "by_endpoint", "daily")
			c.wantMembers("projection", u["projection"].(object), "events", "overage_events", "method", "confidence",
				"overage_amount",
				"currency")
			start, err := time.Parse(time.RFC3339, text(u, "period_start"))
			if err != nil || start.Day() != 1 || start.Hour() != 0 || start.Location() != time.UTC &&
				text(u, "period_start")[len(text(u, "period_start"))-1] != 'Z' {
				c.Errorf("the period begins at %v", u["period_start"])
			}
			if number(u, "events", "received")+number(u, "events", "sent")+
				number(u, "events", "findings") != number(u, "events", "total") {
				c.Errorf("the events do not add up: %v", u["events"])
			}
		}},
	}
}

func lastFour(s string) string { return s[max(0, len(s)-4):] }

// pagesWhileSending reads pages of one event while new events arrive.
func pagesWhileSending(c *C) {
	ep := c.endpoint(nil)
	want := map[string]bool{}
	for range 8 {
		want[c.send(ep, "a.b", object{})] = true
	}
	seen := map[string]int{}
	cursor := ""
	for {
		page := c.must(http.StatusOK, "GET", "/v1/events?limit=1&endpoint_id="+text(ep, "id")+cursor, nil)
		for _, e := range rows(page, "data") {
			seen[text(e, "id")]++
		}
		c.send(ep, "late", object{})
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	for id := range want {
		if seen[id] != 1 {
			c.Errorf("event %s was seen %d times", id, seen[id])
		}
	}
	for id, n := range seen {
		if n != 1 {
			c.Errorf("event %s was seen %d times", id, n)
		}
	}
}

// alertSettings reads, changes, masks and tests the account's alert settings.
func alertSettings(c *C) {
	r := c.receiver(nil)
	const hook = "https://hooks.slack.com/services/T000/B000/abcdef1234"
	after := c.must(200, "PATCH", "/v1/alerts",
		object{"channels": object{
			"slack": object{"webhook_url": hook, "enabled": false}, "webhook": object{"url": r.URL + "/alerts/of/the/account"}}})
	masked := text(after, "channels", "slack", "webhook_url")
	if masked != "https://hooks.slack.com/****1234" {
		c.Errorf("masked as %q", masked)
	}
	read := c.must(200, "GET", "/v1/alerts", nil)
	c.wantEqual("the masked URL of a read", member(read, "channels", "slack", "webhook_url"), masked)
	if strings.Contains(string(mustJSON(read)), "abcdef") {
		c.Error("a read shows the URL")
	}
	c.must(200, "PATCH", "/v1/alerts", read)
	c.wantEqual("after the answer of a read was sent back", member(c.must(200, "GET", "/v1/alerts", nil), "channels"),
		read["channels"])
	c.must(200, "PATCH", "/v1/alerts", object{"channels": object{"webhook": object{"url": r.URL}}})

	result := c.must(200, "POST", "/v1/alerts/test", nil)
	byChannel := map[string]object{}
	for _, x := range rows(result, "results") {
		byChannel[text(x, "channel")] = x
		c.wantMembers("result", x, "channel", "target", "ok", "status", "error", "duration_ms")
	}
	if len(byChannel) != 2 || byChannel["webhook"]["ok"] != true || number(result, "sent") != 1 {
		c.Errorf("the test reports %v", result)
	}
	got := r.wait(c, 1)[0]
	if got.Header.Get("Webhook-Signature") == "" {
		c.Error("the test alert is not signed")
	}
	c.wantError(400, "invalid_request", "channels.slack.webhook_url", "PATCH", "/v1/alerts",
		object{"channels": object{"slack": object{"webhook_url": "http://hooks.slack.com/x"}}})
	c.wantError(400, "invalid_request", "rules.failure_rate.percent", "PATCH", "/v1/alerts",
		object{"rules": object{"failure_rate": object{"percent": 101}}})
	gone := c.must(200, "PATCH", "/v1/alerts", object{"channels": object{"slack": nil, "webhook": nil}})
	if len(gone["channels"].(object)) != 0 &&
		(member(gone, "channels", "slack") != nil || member(gone, "channels", "webhook") != nil) {
		c.Errorf("removed channels are still there: %v", gone["channels"])
	}
	if n := len(rows(c.must(200, "POST", "/v1/alerts/test", nil), "results")); n != 0 {
		c.Errorf("%d results without a channel", n)
	}
}
