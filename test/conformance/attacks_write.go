package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// githubSecret signs the requests of the endpoints of these cases.
const githubSecret = "a-secret-of-32-characters-or-more"

// githubEndpoint creates an endpoint that verifies GitHub's signatures. mode is observe or enforce.
func (c *C) githubEndpoint(mode string, more object, receivers ...*Receiver) object {
	c.Helper()
	definition := object{"provider": "github", "verification": object{"type": "github", "secret": githubSecret,
		"mode": mode}}
	for name, value := range more {
		definition[name] = value
	}
	return c.endpoint(definition, receivers...)
}

// writerAttacks are attacks with a write key: on the nodes, on other people and on other keys.
func writerAttacks() []testCase {
	return []testCase{
		{"Writer 1", "parsing a mebibyte of distinct members is quick", manyMembersAreCheap},
		{"Writer 2", "an answer stored for an Idempotency-Key does not hold the request", func(c *C) {
			name := randomText(120 << 10)
			a := c.do("POST", "/v1/recoveries", `{"`+name+`":1}`, "Idempotency-Key", randomText(16))
			if a.status != 400 || len(a.raw) > 4<<10 {
				c.Errorf("%d with %d bytes", a.status, len(a.raw))
			}
		}},
		{"Writer 3", "an entity of the configuration has a bounded size", func(c *C) {
			destinations := make([]object, 50)
			for i := range destinations {
				headers := object{}
				for n := range 10 {
					headers[fmt.Sprintf("x-%d", n)] = randomText(500)
				}
				destinations[i] = object{"url": fmt.Sprintf("https://example.com/%d", i), "headers": headers}
			}
			e := c.wantError(400, "invalid_request", "", "POST", "/v1/endpoints", object{"destinations": destinations})
			if !strings.Contains(text(e, "message"), "too large") {
				c.Errorf("rejected for another reason: %v", e["message"])
			}
		}},
		{"Writer 4", "credentials of a destination do not follow it to another server", func(c *C) {
			ep := c.must(201, "POST", "/v1/endpoints", object{"destinations": []object{{"url": "https://example.com/h",
				"headers": object{"Authorization": basicAuth("a", "b")}}}})
			d := "/v1/endpoints/" + text(ep, "id") + "/destinations/" + text(ep, "destinations", 0, "id")
			for _, elsewhere := range []string{"https://evil.example/h", "https://example.com:8443/h"} {
				a := c.do("PATCH", d, object{"url": elsewhere})
				if a.status != 400 || !strings.Contains(strings.ToLower(string(a.raw)), "authorization") {
					c.Errorf("%s: %d %s", elsewhere, a.status, a.raw)
				}
			}
			c.must(200, "PATCH", d, object{"url": "https://evil.example/h", "headers": object{"Authorization": nil}})
		}},
		{"Writer 5", "no private address is a destination, however it is written", func(c *C) {
			for _, to := range []string{
				"https://169.254.169.254/latest", "https://10.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/",
				"https://0x7f.1/", "https://2130706433/",
				"https://user:pass@example.com/", "http://example.com/", "https://example.com:22/",
				"file:///etc/passwd", "gopher://example.com/",
			} {
				c.wantError(400, "invalid_request", "destinations[0].url", "POST", "/v1/endpoints",
					object{"destinations": []object{{"url": to}}})
			}
			for _, channel := range []string{"slack_webhook_url", "webhook_url"} {
				c.wantError(400, "invalid_request", channel, "PATCH", "/v1/alerts",
					object{channel: "https://169.254.169.254/"})
			}
		}},
		{"Writer 6", "a delivery loop stops", deliveryLoopStops},
		{"Writer 7", "a repeated answer shows its secret only to the key that made the request", func(c *C) {
			ep := c.endpoint(nil)
			route := "/v1/endpoints/" + text(ep, "id") + "/destinations/" + text(ep, "destinations", 0, "id") +
				"/rotate_secret"
			secret := text(c.must(200, "POST", route, object{}, "Idempotency-Key", "rotate-1"), "signing", "secret")
			other := c.withKey(c.Keys(c.T, "read_write", false)).do("POST", route, object{}, "Idempotency-Key", "rotate-1")
			if secret == "" || strings.Contains(string(other.raw), secret) {
				c.Errorf("%d %s", other.status, other.raw)
			}
		}},
		{"Writer 8", "a type source has a bounded number of alternatives", func(c *C) {
			const source = "body:$.a|body:$.b|body:$.c|body:$.d|body:$.e"
			c.wantError(400, "invalid_request", "type_source", "POST", "/v1/endpoints",
				object{"url": "https://example.com/h", "type_source": source})
		}},
		{"Writer 9", "alerts cannot be used to send mass mail", alertTestsAreLimited},
	}
}

// alertTestsAreLimited checks that mail goes to RELAY_ALERT_DOMAINS only and that test alerts are rate limited. It is
// one case because the alert settings belong to the account.
func alertTestsAreLimited(c *C) {
	hook := c.receiver(nil)
	c.wantError(400, "invalid_request", "channels.email.to[1]", "PATCH", "/v1/alerts",
		object{"channels": object{"email": object{"to": []string{"ops@example.com", "victim@evil.example"}}}})
	c.must(200, "PATCH", "/v1/alerts", object{"webhook_url": hook.URL})
	var mu sync.Mutex // guards counts
	counts := map[int]int{}
	var all sync.WaitGroup
	for range 10 { // in parallel: the service sends one at a time
		all.Go(func() {
			a := c.do("POST", "/v1/alerts/test", nil)
			mu.Lock()
			defer mu.Unlock()
			if counts[a.status]++; a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
				c.Error("429 without Retry-After")
			}
		})
	}
	all.Wait()
	for range 10 {
		a := c.do("POST", "/v1/alerts/test", nil)
		counts[a.status]++
	}
	tests := 0
	for _, d := range hook.deliveries() { // other cases may fire real alerts
		if strings.Contains(string(d.Body), `"alert.test"`) {
			tests++
		}
	}
	if counts[200] == 0 || counts[200] > 6 || counts[200]+counts[429] != 20 || tests != counts[200] {
		c.Errorf("answers %v, %d messages", counts, tests)
	}
}

// ingestAttacks are attacks by somebody who knows an ingest URL.
func ingestAttacks() []testCase {
	return []testCase{
		{"Ingest 1", "a destination learns the verification result and gets no forged proxy headers", func(c *C) {
			r := c.receiver(nil)
			ep := c.githubEndpoint("observe", nil, r)
			c.postAsProvider(ep, `{"n":1}`, "X-HTTP-Method-Override", "DELETE", "X-Original-URL", "/admin", "X-Remote-User",
				"root", "True-Client-IP", "127.0.0.1", "CF-Connecting-IP", "127.0.0.1",
				"X-Auth-Request-User", "root", "X-Forwarded-For", "127.0.0.1", "Relay-Verification", "verified",
				"Authorization", basicAuth("shop", "hook"))
			forged := r.wait(c, 1)[0].Header
			for _, name := range []string{"X-Http-Method-Override", "X-Original-Url", "X-Remote-User",
				"True-Client-Ip", "Cf-Connecting-Ip", "X-Auth-Request-User", "X-Forwarded-For"} {
				c.wantEqual(name, forged.Get(name), "")
			}
			c.wantEqual("relay-verification", forged.Values("Relay-Verification"), []string{"observed"})
			c.wantEqual("authorization", forged.Get("Authorization"), "")
			c.postAsProvider(ep, `{"n":2}`, githubSignature(githubSecret, `{"n":2}`)...)
			c.wantEqual("relay-verification of the signed request", r.wait(c, 2)[1].Header.Get("Relay-Verification"),
				"verified")
		}},
		{"Ingest 2", "a guessed id that was posted first does not suppress the real event", func(c *C) {
			r := c.receiver(nil)
			ep := c.githubEndpoint("observe", object{"dedup": object{"key": "body:$.id", "window_seconds": 3600}}, r)
			const body = `{"id":1001}`
			c.awaitStatus(c.postAsProvider(ep, body).header.Get("Relay-Event-Id"), "delivered")
			real := c.postAsProvider(ep, body, githubSignature(githubSecret, body)...).header.Get("Relay-Event-Id")
			c.awaitStatus(real, "delivered")
			c.wantEqual("the provider's own repeat", c.awaitStatus(c.postAsProvider(ep, body, githubSignature(githubSecret,
				body)...).header.Get("Relay-Event-Id"), "skipped")["reason"], "duplicate")
		}},
		{"Ingest 3", "rejected requests do not fill the disk", rejectedRequestsFillNoDisk},
		{"Ingest 4", "an endpoint accepts no more than its ingest_limit", func(c *C) {
			ep := c.endpoint(object{"ingest_limit": object{"events_per_second": 2}})
			var last answer
			for range 50 {
				if last = c.postAsProvider(ep, `{}`); last.status != 200 {
					break
				}
			}
			if last.status != 429 || last.header.Get("Retry-After") == "" {
				c.Errorf("%d, Retry-After %q", last.status, last.header.Get("Retry-After"))
			}
		}},
		{"Ingest 5", "deeply nested and malformed bodies are accepted as bytes", func(c *C) {
			ep := c.endpoint(object{"type_source": "body:$.type", "dedup": object{"key": "body:$.id",
				"window_seconds": 60}})
			for _, body := range []string{strings.Repeat("[", 500<<10), strings.Repeat(`{"a":`, 100<<10), "\x00\xff",
				`{"type":"` + strings.Repeat("x", 900<<10) + `"}`} {
				c.wantQuick("accepting it", func() { c.wantEqual("status", c.postAsProvider(ep, body).status, 200) })
			}
			c.wantEqual("status of a body that is too large", c.postAsProvider(ep, strings.Repeat("x", 1<<20+1)).status, 413)
		}},
	}
}

// headerAttacks are attacks through headers that a delivery forwards.
func headerAttacks() []testCase {
	return []testCase{
		{"Ingest 6", "a header that receivers may read as one of the relay's is not forwarded", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(object{"verification": nil}, r)
			names := []string{"Relay_Verification", "Relay_Webhook_Signature", "Webhook_Signature", "Relay_Hops", "Remote_User"}
			var header []string
			for _, name := range names {
				header = append(header, name, "verified")
			}
			c.postAsProvider(ep, `{}`, header...)
			got := r.wait(c, 1)[0].Header
			for _, name := range names {
				if got[http.CanonicalHeaderKey(name)] != nil {
					c.Errorf("%s is forwarded", name)
				}
			}
		}},
		{"Ingest 7", "an event that returns with all headers of its delivery is delivered only once more", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(object{"verification": nil}, r)
			var header []string
			for turn := range 3 {
				id := c.postAsProvider(ep, `{}`, header...).header.Get("Relay-Event-Id")
				if turn == 2 {
					c.wantEqual("reason", c.awaitStatus(id, "skipped")["reason"], "delivery_loop")
					return
				}
				got := r.wait(c, turn+1)[turn].Header
				header = []string{"Relay-Hops", got.Get("Relay-Hops"), "Relay-Path", got.Get("Relay-Path")}
			}
		}},
	}
}

// replayAttacks are attempts to get rejected events delivered by a replay.
func replayAttacks() []testCase {
	return []testCase{
		{"Replay 1", "a rejected event is not replayed after verification is switched off", func(c *C) {
			since := now()
			r := c.receiver(nil)
			ep := c.githubEndpoint("enforce", nil, r)
			const forged = `{"forged":true}`
			c.wantEqual("status", c.postAsProvider(ep, forged).status, 401)
			rejected := c.list("/v1/events?status=rejected&endpoint_id="+text(ep, "id"), 10)
			if len(rejected) != 1 {
				c.Fatalf("%d rejected events", len(rejected))
			}
			one := "/v1/events/" + text(rejected[0], "id") + "/replay"
			c.wantError(400, "invalid_state", "", "POST", one, object{})
			selection := object{"endpoint_id": ep["id"], "since": since}
			c.wantEqual("selected while the endpoint verifies", c.must(200, "POST", "/v1/replays", selection)["events"], 0)
			c.must(200, "PATCH", "/v1/endpoints/"+text(ep, "id"), object{"provider": "generic", "verification": nil})
			c.wantEqual("selected afterwards", c.must(200, "POST", "/v1/replays", selection)["events"], 0)
			c.wantEqual("deliveries", len(r.deliveries()), 0)
			selection["status"] = "rejected"
			named := c.must(200, "POST", "/v1/replays", selection)
			c.wantEqual("selected by status rejected", named["events"], 1)
			if len(rows(named, "warnings")) != 1 {
				c.Errorf("no warning: %s", mustJSON(named))
			}
		}},
		{"Replay 2", "a selection's range is bounded before anything is read", func(c *C) {
			c.wantError(400, "selection_too_large", "since", "POST", "/v1/replays", object{"status": "rejected",
				"since": ago(40 * 24 * time.Hour)})
		}},
		{"Replay 3", "the same wide selection does not run many times in parallel", func(c *C) {
			var all sync.WaitGroup
			body, _ := json.Marshal(object{"type": "no.such.type", "since": ago(time.Hour), "dry_run": true})
			for range 30 {
				all.Go(func() {
					if a := c.do("POST", "/v1/replays", string(body)); a.status != 200 && a.status != 429 {
						c.Errorf("%d %.200s", a.status, a.raw)
					}
				})
			}
			all.Wait()
		}},
	}
}

// manyMembersAreCheap sends a mebibyte of members where unknown ones are rejected, and as data of an event.
func manyMembersAreCheap(c *C) {
	ep := c.endpoint(nil)
	route := "/v1/endpoints/" + text(ep, "id") + "/events"
	members := distinctMembers(1000 << 10)
	c.wantQuick("rejecting them", func() {
		c.wantError(400, "invalid_request", "-", "POST", route, `{"type":"a","data":{},`+members+`}`)
	})
	c.wantQuick("accepting them as data", func() { c.must(202, "POST", route, `{"type":"a","data":{`+members+`}}`) })
	c.wantQuick("rejecting a batch of them", func() {
		c.wantError(400, "invalid_request", "-", "POST", route+"/batch", `{"events":[],`+members+`}`)
	})
	var unknown []string
	for i := range 500 {
		unknown = append(unknown, fmt.Sprintf(`"unknown%d":0`, i))
	}
	a := c.do("POST", route, `{"type":"a","data":{},`+strings.Join(unknown, ",")+`}`)
	if n := len(rows(a.body, "warnings")); a.status != 202 || n == 0 || n > 20 {
		c.Errorf("%d with %d warnings", a.status, n)
	}
}

// deliveryLoopStops posts an event again with the Relay-Hops header of its delivery, as a chain of relays would.
func deliveryLoopStops(c *C) {
	ep := c.endpoint(object{"verification": nil}, c.receiver(nil))
	var hops []string
	for turn := 0; ; turn++ {
		a := c.postAsProvider(ep, `{"n":1}`, hops...)
		id := a.header.Get("Relay-Event-Id")
		if turn == 5 {
			e := c.awaitStatus(id, "skipped")
			c.wantEqual("reason", e["reason"], "delivery_loop")
			return
		}
		e := c.awaitStatus(id, "delivered")
		next := text(e, "attempts", 0, "request", "headers", "Relay-Hops") + text(e, "attempts", 0, "request",
			"headers", "relay-hops")
		c.wantEqual("hops", next, fmt.Sprint(turn+1))
		hops = []string{"Relay-Hops", next}
	}
}

// rejectedRequestsFillNoDisk sends unsigned requests: first a large one, then up to 4,000.
func rejectedRequestsFillNoDisk(c *C) {
	ep := c.githubEndpoint("enforce", nil)
	c.wantEqual("status", c.postAsProvider(ep, `{"x":"`+strings.Repeat("x", 70<<10)+`"}`).status, 401)
	c.wantEqual("stored events after a large request", len(c.list("/v1/events?status=rejected&endpoint_id="+text(ep, "id"),
		10)), 0)
	const most = 4000
	var mu sync.Mutex // guards sent and refused
	sent, refused := 0, false
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				mu.Lock()
				sent++
				over := refused || sent > most
				mu.Unlock()
				if over {
					return
				}
				if a := c.postAsProvider(ep, `{}`); a.status == http.StatusTooManyRequests {
					mu.Lock()
					refused = true
					mu.Unlock()
				} else if a.status != http.StatusUnauthorized {
					c.Errorf("%d %.200s", a.status, a.raw)
				}
			}
		})
	}
	all.Wait()
	if !refused {
		c.Errorf("%d rejected requests, and none was answered 429", most)
	}
	other := c.githubEndpoint("enforce", nil)
	c.wantEqual("status at another endpoint", c.postAsProvider(other, `{}`, githubSignature(githubSecret, `{}`)...).status,
		200)
}
