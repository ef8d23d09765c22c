package conformance

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// serviceCases test the sentences of "What the service does" and of "Events".
func serviceCases() []testCase {
	return []testCase{
		{"Service 1", "an endpoint receives events from a provider", func(c *C) {
			ep := c.endpoint(nil)
			if a := c.postAsProvider(ep, `{"a":1}`); a.status != http.StatusOK || string(a.raw) != `{"received":true}` {
				c.Fatalf("the answer to the provider is %d %s", a.status, a.raw)
			}
			all := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)
			if len(all) != 1 || all[0]["source"] != "provider" {
				c.Fatalf("listed: %v", all)
			}
		}},
		{"Service 2", "each endpoint has destinations, a retry policy and alert settings", func(c *C) {
			ep := c.endpoint(nil)
			c.wantMembers("endpoint", c.must(200, "GET", "/v1/endpoints/"+text(ep, "id"), nil), "destinations",
				"retry_policy", "alerts")
		}},
		{"Service 3", "every event is stored with its headers and body, byte for byte", storedAsReceived},
		{"Service 4", "an event goes to the enabled destinations, and to no other", func(c *C) {
			one, two, off := c.receiver(nil), c.receiver(nil), c.receiver(nil)
			ep := c.endpoint(
				object{"destinations": []object{{"url": one.URL}, {"url": two.URL}, {"url": off.URL, "enabled": false}}})
			e := c.awaitStatus(c.send(ep, "a.b", object{"n": 1}), "delivered")
			c.wantEqual("destinations", e["destinations"], object{"total": 2, "delivered": 2, "failed": 0, "pending": 0})
			if len(one.deliveries()) != 1 || len(two.deliveries()) != 1 || len(off.deliveries()) != 0 {
				c.Errorf("%d, %d and %d requests", len(one.deliveries()), len(two.deliveries()), len(off.deliveries()))
			}
		}},
		{"Service 5", "attempts are recorded, failed ones are made again by themselves", attemptsAreRecorded},
		{"Service 6", "delivery is at least once: a retry has the same event id and the next attempt", func(c *C) {
			r := c.receiver(failFirst(1))
			id := c.send(c.endpoint(nil, r), "a.b", object{})
			got := r.wait(c, 2)
			for i, d := range got[:2] {
				if d.Header.Get("Webhook-Id") != id || d.Header.Get("Relay-Attempt") != []string{"1", "2"}[i] {
					c.Errorf("request %d: id %s, attempt %s", i, d.Header.Get("Webhook-Id"), d.Header.Get("Relay-Attempt"))
				}
			}
		}},
		{"Service 7", "a stored event can be replayed", func(c *C) {
			r := c.receiver(nil)
			id := c.send(c.endpoint(nil, r), "a.b", object{"x": []int{1, 2}})
			first := r.wait(c, 1)[0]
			c.must(200, "POST", "/v1/events/"+id+"/replay", nil)
			again := r.wait(c, 2)[1]
			if !bytes.Equal(first.Body, again.Body) || again.Header.Get("Webhook-Id") != id ||
				again.Header.Get("Relay-Trigger") != "replay" {
				c.Errorf("replayed as %v %s", again.Header, again.Body)
			}
		}},
		{"Service 8", "a sent event is stored, signed, retried and replayed like one received", sentLikeReceived},
		{"Service 9", "delivery and processing are separate outcomes", func(c *C) {
			r := c.receiver(nil)
			id := c.send(c.endpoint(nil, r), "a.b", object{})
			c.awaitStatus(id, "delivered")
			c.must(200, "POST", "/v1/events/"+id+"/processing", object{"state": "failed"})
			e := c.event(id)
			c.wantEqual("status", e["status"], "delivered")
			c.wantEqual("processing", e["processing"], "failed")
		}},
		{"Events 1", "a retry or replay is another attempt of the same event, no new event", func(c *C) {
			r := c.receiver(failFirst(1))
			ep := c.endpoint(nil, r)
			id := c.send(ep, "a.b", object{})
			c.awaitStatus(id, "delivered")
			c.must(200, "POST", "/v1/events/"+id+"/replay", object{})
			r.wait(c, 3)
			if all := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10); len(all) != 1 {
				c.Errorf("%d events", len(all))
			}
			c.eventually(waitLimit, func() string {
				if e := c.event(id); len(rows(e, "attempts")) != 3 {
					return "the event has " + string(mustJSON(member(e, "attempts")))
				}
				return ""
			})
		}},
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// storedAsReceived posts a body that is neither JSON nor UTF-8, with a repeated header and one in Latin-1.
func storedAsReceived(c *C) {
	r := c.receiver(nil)
	ep := c.endpoint(nil, r)
	body := "\x00\xff\xfe binary \r\n"
	req, err := http.NewRequestWithContext(
		c.Context(), "POST", c.URL+"/in/"+strings.SplitN(text(ep, "ingest_url"), "/in/", 2)[1]+"?a=1&a=2",
		strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header["X-Twice"] = []string{"one", "two, three"}
	const latin1 = "Zo\xeb"
	req.Header["X-High"] = []string{latin1}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	resp.Body.Close()
	all := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)
	if len(all) != 1 {
		c.Fatalf("%d events", len(all))
	}
	e := c.event(text(all[0], "id"))
	stored, err := base64.StdEncoding.DecodeString(text(e, "body"))
	if err != nil || string(stored) != body || e["body_encoding"] != "base64" {
		c.Errorf("body %q (%v), stored as %v", stored, err, e["body_encoding"])
	}
	c.wantEqual("X-Twice", headerValues(e["headers_raw"], "X-Twice"), []string{"one", "two, three"})
	c.wantEqual("X-High", headerBytes(e, "X-High"), latin1)
	c.wantEqual("X-Twice joined", member(e, "headers", "X-Twice"), "one, two, three")
	c.wantEqual("query", e["query"], "a=1&a=2")
	c.wantEqual("method", e["method"], "POST")
	c.wantEqual("content type", e["content_type"], "application/octet-stream")
	if got := r.wait(c, 1)[0]; string(got.Body) != body || len(got.Header["X-Twice"]) != 2 ||
		got.Header.Get("X-High") != latin1 {
		c.Errorf("delivered as %q with %v and %q", got.Body, got.Header["X-Twice"], got.Header["X-High"])
	}
}

func attemptsAreRecorded(c *C) {
	r := c.receiver(failFirst(1))
	id := c.send(c.endpoint(nil, r), "a.b", object{})
	e := c.awaitStatus(id, "delivered")
	all := rows(e, "attempts")
	if len(all) != 2 {
		c.Fatalf("%d attempts: %v", len(all), all)
	}
	for i, want := range []object{
		{"attempt_number": 1, "trigger": "initial", "status": "failed", "response_status": 500, "error_code": "http_status"},
		{"attempt_number": 2, "trigger": "retry", "status": "succeeded", "response_status": 200, "error_code": nil},
	} {
		for name, value := range want {
			c.wantEqual(name, all[i][name], value)
		}
		c.wantMembers("attempt", all[i], "id", "event_id", "endpoint_id", "destination_id", "delivery_id", "run_id",
			"recovery_id",
			"error_message",
			"started_at", "duration_ms", "ttfb_ms", "request", "response", "remote_ip", "next_attempt_at", "retry_after_seconds")
		c.wantEqual("the event of an attempt", all[i]["event_id"], id)
	}
	if all[0]["next_attempt_at"] == nil || all[1]["next_attempt_at"] != nil {
		c.Errorf("next attempts: %v, %v", all[0]["next_attempt_at"], all[1]["next_attempt_at"])
	}
}

// sentLikeReceived checks the signature as Standard Webhooks defines it: HMAC-SHA256 of id.timestamp.body with the
// base64-decoded part after whsec_ as the key.
func sentLikeReceived(c *C) {
	r := c.receiver(failFirst(1))
	ep := c.endpoint(nil, r)
	secret, err := base64.StdEncoding.DecodeString(
		strings.TrimPrefix(text(ep, "destinations", 0, "signing", "secret"), "whsec_"))
	if err != nil {
		c.Fatalf("the signing secret: %v", err)
	}
	id := c.send(ep, "order.paid", object{"n": 1})
	c.awaitStatus(id, "delivered")
	c.must(200, "POST", "/v1/events/"+id+"/replay", nil)
	stored := text(c.event(id), "body")
	for i, d := range r.wait(c, 3) {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(d.Header.Get("Webhook-Id") + "." + d.Header.Get("Webhook-Timestamp") + "."))
		mac.Write(d.Body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if d.Header.Get("Webhook-Signature") != want || d.Header.Get("Relay-Webhook-Signature") != want {
			c.Errorf("request %d is signed %s", i, d.Header.Get("Webhook-Signature"))
		}
		if string(d.Body) != stored {
			c.Errorf("request %d has the body %s, stored is %s", i, d.Body, stored)
		}
	}
	var envelope object
	if err := json.Unmarshal([]byte(stored), &envelope); err != nil {
		c.Fatal(err)
	}
	c.wantEqual("id of the envelope", envelope["id"], id)
	c.wantEqual("type of the envelope", envelope["type"], "order.paid")
	c.wantEqual("data of the envelope", envelope["data"], object{"n": 1})
}
