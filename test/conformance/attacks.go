package conformance

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// RunAttacks plays what somebody would try who wishes the service ill, as subtests: a stranger who knows an address or
// an ingest URL, a web page that a developer has open, the holder of a key that may read, of one that may write. Each
// case says in its title what is tried, and in its body what is sent and what must be answered.
//
// What would take hours or gigabytes is held by tests that move the clock or count the work, and is not here:
// bodies that arrive slowly (ingest.TestStalledBodiesHoldOneShare, TestMinimumRate), bounds of the configuration
// (conflog.TestApplyEnforcesBounds, config.TestAnswersAreBounded, TestRestrictionsIgnoreBounds), filters on bodies
// (dispatcher.TestParkedDeliveriesDoNotReadBodies, config.TestBodyFiltersAreBounded), replays of refused requests
// (api.TestReplayReadsABoundedNumberOfRejectedEvents), alert mail (alert.TestDigestsContinueWhenANodeDies,
// api.TestAlertTestsAreLimited), forged snapshots and heartbeats (conflog.TestForgedSnapshots, TestForgedHeartbeats),
// neighbours at one host (dispatcher.TestNeighboursAtOneHost), silent connections (node.TestConnectionsAreBounded),
// loops that fan out (dispatcher.TestFanOutOfALoopIsBounded), the relay itself as a destination
// (egress.TestOwnURLsAreNoDestinations).
//
// The service must run with RELAY_ALERT_DOMAINS=example.com. Cases change settings of the account and use up limits, so
// nothing else should play at the same time.
func RunAttacks(t *testing.T, target Target) {
	for _, group := range [][]testCase{pageAttacks(), readerAttacks(), writerAttacks(), ingestAttacks(), headerAttacks(),
		replayAttacks()} {
		for _, x := range group {
			t.Run(x.place+": "+x.title, func(t *testing.T) {
				t.Parallel()
				x.run(&C{T: t, Target: target, key: target.Key})
			})
		}
	}
}

// raw sends a request as any program can: to an address, with whatever Host and headers.
func (c *C) raw(method, address, host, body string, header ...string) answer {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, address, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		c.Fatalf("%s %s: %v", method, address, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		c.Fatalf("%s %s: %v", method, address, err)
	}
	return a
}

// sandboxed wants an answer that a browser neither runs nor shows to the page that asked.
func (c *C) sandboxed(what string, a answer) {
	c.Helper()
	h := a.header
	if !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") ||
		h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
		c.Errorf("%s: %d with the headers %v", what, a.status, h)
	}
}

// ofPage are the headers with which a browser sends what a page of another site asks for without being asked itself.
var ofPage = []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors",
	"Content-Type", "text/plain"}

// pageAttacks are those of a page in a browser on the same machine.
func pageAttacks() []testCase {
	return []testCase{
		{"Page 1", "a page posts text/plain to the API, with a cookie and without a key", func(c *C) {
			for _, route := range []string{"/v1/endpoints", "/v1/alerts/test", "/v1/replays"} {
				a := c.raw("POST", c.URL+route, "", `{"destinations":["https://evil.example/h"]}`, append(ofPage,
					"Cookie", "relay="+c.Key+"; __Host-relay="+c.Key)...)
				c.equal("status of "+route, a.status, 401)
				c.sandboxed(route, a)
			}
		}},
		{"Page 2", "a page asks whether it may send a key", func(c *C) {
			a := c.raw("OPTIONS", c.URL+"/v1/endpoints", "", "", "Origin", "https://evil.example",
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
			c.equal("status", a.status, 401)
			c.sandboxed("preflight", a)
		}},
		{"Page 3", "a name that leads to this machine since a moment ago is no name of the API", func(c *C) {
			a := c.raw("GET", c.URL+"/v1/endpoints", "evil.example", "", "Authorization", "Bearer "+c.Key)
			if a.status != 400 || !strings.Contains(string(a.raw), `"param":"host"`) {
				c.Errorf("%d %s", a.status, a.raw)
			}
		}},
		{"Page 4", "metrics and profiles are nobody's who comes by another name or from a page", func(c *C) {
			if c.Admin == "" {
				c.Fatal("the target names no address of metrics")
			}
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2",
				"/debug/pprof/heap?gc=1"} {
				c.equal("status of "+path+" by another name", c.raw("GET", c.Admin+path, "evil.example", "").status,
					403)
				c.equal("status of "+path+" from a page", c.raw("GET", c.Admin+path, "", "", ofPage...).status, 403)
				c.equal("status of "+path+" from another port", c.raw("GET", c.Admin+path, "", "", "Sec-Fetch-Site",
					"same-site").status, 403)
			}
			c.equal("status of a day's trace", c.raw("GET", c.Admin+"/debug/pprof/trace?seconds=99999", "", "").status,
				400)
			c.equal("status for monitoring", c.raw("GET", c.Admin+"/metrics", "", "").status, 200)
		}},
		{"Page 5", "what a customer chose or sent never runs as a page of this host", func(c *C) {
			ep := c.endpoint(object{"response": object{"status": 200, "content_type": "text/xml",
				"body": "<script>alert(1)</script>"}})
			a := c.provider(ep, "<script>alert(1)</script>")
			c.equal("status", a.status, 200)
			c.sandboxed("answer to a provider", a)
			c.sandboxed("challenge", c.raw("GET", text(ep, "ingest_url")+"?hub.challenge="+url.QueryEscape("<script>"),
				"", ""))
			c.sandboxed("unknown page", c.raw("GET", c.URL+"/<script>alert(1)</script>", "", ""))
			c.sandboxed("event", c.raw("GET", c.URL+"/v1/events/"+a.header.Get("Relay-Event-Id"), "", "",
				"Authorization", "Bearer "+c.Key))
		}},
		{"Page 6", "the reference page is an origin of its own, also when the browser has it already", func(c *C) {
			first := c.raw("GET", c.URL+"/docs", "", "")
			again := c.raw("GET", c.URL+"/docs", "", "", "If-None-Match", first.header.Get("Etag"))
			for _, a := range []answer{first, again} {
				if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy,
					"sandbox allow-scripts") || strings.Contains(policy, "allow-same-origin") {
					c.Errorf("%d: policy %q", a.status, policy)
				}
			}
			c.equal("status of the second", again.status, 304)
		}},
	}
}

// readerAttacks are those of a key that may read, and of an agent's.
func readerAttacks() []testCase {
	return []testCase{
		{"Reader 1", "a key that may not write finds no URL to post a forged event to", func(c *C) {
			secret := "tok" + randomText(24)
			ep := c.must(201, "POST", "/v1/endpoints",
				object{"destinations": []object{{"url": "https://example.com/hooks/" + secret + "?token=" + secret,
					"enabled": false}}})
			_, token, _ := strings.Cut(text(ep, "ingest_url"), "/in/")
			for _, key := range []string{c.ReadKey, c.Keys(c.T, "read", true)} {
				one := c.as(key).do("GET", "/v1/endpoints/"+text(ep, "id"), nil)
				list := c.as(key).do("GET", "/v1/endpoints", nil)
				if strings.Contains(string(one.raw)+string(list.raw), token) ||
					strings.Contains(string(one.raw)+string(list.raw), secret) {
					c.Errorf("the answers show a capability: %s", one.raw)
				}
				shown := text(one.body, "ingest_url")
				if !strings.HasSuffix(shown, "/in/****"+token[len(token)-4:]) {
					c.Errorf("ingest_url is %s", shown)
				}
				c.equal("status of a post to it", c.raw("POST", shown, "", `{"type":"order.paid"}`).status, 404)
			}
			c.as(c.Keys(c.T, "read_write", true)).refused(403, "insufficient_scope", "", "PATCH",
				"/v1/endpoints/"+text(ep, "id"), object{"name": "x"})
		}},
		{"Reader 2", "an ingest URL that became known is replaced", func(c *C) {
			ep := c.endpoint(nil)
			next := c.must(200, "POST", "/v1/endpoints/"+text(ep, "id")+"/rotate-token", object{"overlap_seconds": 0})
			c.equal("status at the old one", c.provider(ep, "{}").status, 404)
			c.equal("status at the new one", c.provider(next, "{}").status, 200)
		}},
		{"Reader 3", "many wide lists of one key leave room for others", func(c *C) {
			filter := "?processing=missing&type=" + strings.TrimSuffix(strings.Repeat("x.*,", 90), ",")
			c.endpoint(nil)
			greedy := c.as(c.Keys(c.T, "read", false))
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					for range 3 {
						if a := greedy.do("GET", "/v1/events"+filter, nil); a.status != 200 && a.status != 429 &&
							a.status != 503 {
							c.Errorf("%d %.200s", a.status, a.raw)
						}
					}
				})
			}
			c.quickly("a list of another key", func() { c.must(200, "GET", "/v1/events?limit=1", nil) })
			all.Wait()
		}},
		{"Reader 4", "whoever asks for readiness costs nothing", func(c *C) {
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() { c.equal("status", c.raw("GET", c.URL+"/readyz", "", "").status, 200) })
			}
			c.quickly("a list beside it", func() { c.must(200, "GET", "/v1/events?limit=1", nil) })
			all.Wait()
		}},
	}
}

// quickly wants something to be done within what nobody waits for; machines that run tests are slow.
func (c *C) quickly(what string, do func()) {
	c.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > 5*time.Second {
		c.Errorf("%s took %v", what, took)
	}
}

func randomText(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// distinct are the members "m000001":0, … until the text has so many bytes.
func distinct(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, `,"m%06d":0`, i)
	}
	return b.String()[1:]
}

// signed is a header line as GitHub signs a body.
func signed(secret, body string) []string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(m.Sum(nil))}
}

// basic is a header line of HTTP's own authentication.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
