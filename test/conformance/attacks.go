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
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// RunAttacks runs attacks on the service as subtests. The attackers are somebody who knows an address or an ingest URL,
// a web page in a developer's browser, and the holder of a read key or of a write key. The title of a case says what is
// tried or what must hold; its body says what is sent and what must be answered.
//
// Attacks that would take hours or gigabytes are not here. Tests with fake clocks or counted work cover them: bodies
// that arrive slowly (ingest.TestStalledBodiesHoldOneShare, TestMinimumBodyRate), bounds of the configuration
// (conflog.TestApplyEnforcesBounds, config.TestAnswersAreBounded, TestRestrictionsIgnoreBounds), filters on bodies
// (dispatcher.TestParkedDeliveriesDoNotReadBodies, config.TestBodyFiltersAreBounded), replays of refused requests
// (api.TestReplayReadsABoundedNumberOfRejectedEvents), alert mail (alert.TestDigestsContinueWhenANodeDies,
// api.TestAlertTestsAreLimited), forged snapshots and heartbeats (conflog.TestForgedSnapshots, TestForgedHeartbeats),
// neighbours at one host (dispatcher.TestNeighboursAtOneHost), silent connections (node.TestConnectionsAreBounded),
// loops that fan out (webhook.TestFanOutOfALoopIsBounded), the relay itself as a destination
// (egress.TestOwnURLsAreRefused). The service must run with RELAY_ALERT_DOMAINS=example.com. Cases change
// settings of the account and exhaust rate limits, so nothing else should use the service at the same time.
func RunAttacks(t *testing.T, target Target) {
	for _, group := range [][]testCase{pageAttacks(), readerAttacks(), writerAttacks(), ingestAttacks(), headerAttacks(),
		replayAttacks()} {
		for _, tc := range group {
			t.Run(tc.reference+": "+tc.title, func(t *testing.T) {
				t.Parallel()
				tc.run(&C{T: t, Target: target, key: target.Key})
			})
		}
	}
}

// rawRequest sends a request to an address with any Host and headers. It adds no key and follows no redirect.
func (c *C) rawRequest(method, address, host, body string, header ...string) answer {
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

// wantSandboxed expects headers that keep a browser from running the answer or showing it to another site's page.
func (c *C) wantSandboxed(what string, a answer) {
	c.Helper()
	h := a.header
	if !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") ||
		h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
		c.Errorf("%s: %d with the headers %v", what, a.status, h)
	}
}

// crossSiteHeaders are a browser's headers of a request from another site's page that needs no CORS preflight.
var crossSiteHeaders = []string{
	"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors",
	"Content-Type", "text/plain"}

// pageAttacks are attacks by a web page in a browser on the same machine.
func pageAttacks() []testCase {
	return []testCase{
		{"Page 1", "a page posts text/plain to the API, with a cookie and without a key", func(c *C) {
			for _, route := range []string{"/v1/endpoints", "/v1/alerts/test", "/v1/replays"} {
				a := c.rawRequest("POST", c.URL+route, "", `{"destinations":["https://evil.example/h"]}`, append(crossSiteHeaders,
					"Cookie", "relay="+c.Key+"; __Host-relay="+c.Key)...)
				c.wantEqual("status of "+route, a.status, 401)
				c.wantSandboxed(route, a)
			}
		}},
		{"Page 2", "a page's CORS preflight for the Authorization header is refused", func(c *C) {
			a := c.rawRequest("OPTIONS", c.URL+"/v1/endpoints", "", "", "Origin", "https://evil.example",
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
			c.wantEqual("status", a.status, 401)
			c.wantSandboxed("preflight", a)
		}},
		{"Page 3", "DNS rebinding: the API refuses an unknown Host", func(c *C) {
			a := c.rawRequest("GET", c.URL+"/v1/endpoints", "evil.example", "", "Authorization", "Bearer "+c.Key)
			if a.status != 400 || !strings.Contains(string(a.raw), `"param":"host"`) {
				c.Errorf("%d %s", a.status, a.raw)
			}
		}},
		{"Page 4", "metrics and profiles are refused to unknown Hosts and to web pages", func(c *C) {
			if c.Admin == "" {
				c.Fatal("the target has no Admin address")
			}
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=2",
				"/debug/pprof/heap?gc=1"} {
				c.wantEqual("status of "+path+" with another Host", c.rawRequest("GET", c.Admin+path, "evil.example", "").status,
					403)
				c.wantEqual("status of "+path+" from a page", c.rawRequest("GET", c.Admin+path, "", "", crossSiteHeaders...).status,
					403)
				c.wantEqual("status of "+path+" from another port", c.rawRequest("GET", c.Admin+path, "", "", "Sec-Fetch-Site",
					"same-site").status, 403)
			}
			c.wantEqual("status of a trace of 99,999 s",
				c.rawRequest("GET", c.Admin+"/debug/pprof/trace?seconds=99999", "", "").status,
				400)
			c.wantEqual("status for monitoring", c.rawRequest("GET", c.Admin+"/metrics", "", "").status, 200)
		}},
		{"Page 5", "content that a customer configured or sent never runs as a page of this host", func(c *C) {
			ep := c.endpoint(object{"response": object{"status": 200, "content_type": "text/xml",
				"body": "<script>alert(1)</script>"}})
			a := c.postAsProvider(ep, "<script>alert(1)</script>")
			c.wantEqual("status", a.status, 200)
			c.wantSandboxed("answer to a provider", a)
			c.wantSandboxed("challenge",
				c.rawRequest("GET", text(ep, "ingest_url")+"?hub.challenge="+url.QueryEscape("<script>"),
					"", ""))
			c.wantSandboxed("unknown page", c.rawRequest("GET", c.URL+"/<script>alert(1)</script>", "", ""))
			c.wantSandboxed("event", c.rawRequest("GET", c.URL+"/v1/events/"+a.header.Get("Relay-Event-Id"), "", "",
				"Authorization", "Bearer "+c.Key))
		}},
		{"Page 6", "a page of the documents has its own origin and runs one script of ours, also from the cache", func(c *C) {
			// No allow-same-origin, no popup, no navigation of another window; the hash is all that may run.
			only := regexp.MustCompile(`^sandbox allow-scripts allow-forms; default-src 'none'; ` +
				`style-src 'sha256-[\w+/=]+'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; ` +
				`form-action 'self'; script-src 'sha256-[\w+/=]+'$`)
			first := c.rawRequest("GET", c.URL+"/docs", "", "")
			again := c.rawRequest("GET", c.URL+"/docs", "", "", "If-None-Match", first.header.Get("Etag"))
			for _, a := range []answer{first, again} {
				if policy := a.header.Get("Content-Security-Policy"); !only.MatchString(policy) {
					c.Errorf("%d: policy %q", a.status, policy)
				}
			}
			c.wantEqual("status of the second", again.status, 304)
		}},
	}
}

// readerAttacks are attacks with a read key or an agent's key.
func readerAttacks() []testCase {
	return []testCase{
		{"Reader 1", "a read key cannot find an ingest URL for forged events", func(c *C) {
			secret := "tok" + randomText(24)
			ep := c.must(201, "POST", "/v1/endpoints",
				object{"destinations": []object{{"url": "https://example.com/hooks/" + secret + "?token=" + secret,
					"enabled": false}}})
			_, token, _ := strings.Cut(text(ep, "ingest_url"), "/in/")
			for _, key := range []string{c.ReadKey, c.Keys(c.T, "read", true)} {
				one := c.withKey(key).do("GET", "/v1/endpoints/"+text(ep, "id"), nil)
				list := c.withKey(key).do("GET", "/v1/endpoints", nil)
				if strings.Contains(string(one.raw)+string(list.raw), token) ||
					strings.Contains(string(one.raw)+string(list.raw), secret) {
					c.Errorf("the answers show an ingest token or a secret URL: %s", one.raw)
				}
				shown := text(one.body, "ingest_url")
				if !strings.HasSuffix(shown, "/in/****"+token[len(token)-4:]) {
					c.Errorf("ingest_url is %s", shown)
				}
				c.wantEqual("status of a post to it", c.rawRequest("POST", shown, "", `{"type":"order.paid"}`).status, 404)
			}
			c.withKey(c.Keys(c.T, "read_write", true)).wantError(403, "insufficient_scope", "", "PATCH",
				"/v1/endpoints/"+text(ep, "id"), object{"name": "x"})
		}},
		{"Reader 2", "a leaked ingest URL can be replaced", func(c *C) {
			ep := c.endpoint(nil)
			next := c.must(200, "POST", "/v1/endpoints/"+text(ep, "id")+"/rotate-token", object{"overlap_seconds": 0})
			c.wantEqual("status at the old one", c.postAsProvider(ep, "{}").status, 404)
			c.wantEqual("status at the new one", c.postAsProvider(next, "{}").status, 200)
		}},
		{"Reader 3", "many expensive lists by one key do not slow other keys", func(c *C) {
			filter := "?processing=missing&type=" + strings.TrimSuffix(strings.Repeat("x.*,", 90), ",")
			c.endpoint(nil)
			greedy := c.withKey(c.Keys(c.T, "read", false))
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
			c.wantQuick("a list with another key", func() { c.must(200, "GET", "/v1/events?limit=1", nil) })
			all.Wait()
		}},
		{"Reader 4", "200 parallel readiness requests do not slow a list", func(c *C) {
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() { c.wantEqual("status", c.rawRequest("GET", c.URL+"/readyz", "", "").status, 200) })
			}
			c.wantQuick("a list meanwhile", func() { c.must(200, "GET", "/v1/events?limit=1", nil) })
			all.Wait()
		}},
	}
}

// wantQuick expects do to end within half a minute, for slow machines: what these attacks exploit takes minutes.
func (c *C) wantQuick(what string, do func()) {
	c.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > 30*time.Second {
		c.Errorf("%s took %v", what, took)
	}
}

func randomText(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// distinctMembers returns JSON members "m000001":0, … of at least that many bytes.
func distinctMembers(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, `,"m%06d":0`, i)
	}
	return b.String()[1:]
}

// githubSignature returns the header name and value with which GitHub signs a body.
func githubSignature(secret, body string) []string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(m.Sum(nil))}
}

// basicAuth returns the value of an Authorization header for HTTP Basic authentication (RFC 7617).
func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
