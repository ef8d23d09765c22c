package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// compareDecoys sends what a thief would try to a decoy and to the real thing. The answers are equal, byte for byte.
func (p *process) compareDecoys(wires []plantedTripwire) {
	p.t.Helper()
	canary := wires[slices.IndexFunc(wires, func(x plantedTripwire) bool { return x.kind == "key" })]
	keys := func(args ...string) []string {
		p.t.Helper()
		out, err := p.output(append(append([]string{"keys"}, args...), "--data-dir", p.dir)...)
		must.Do(p.t, err, "keys %v: %s", args, out)
		return strings.Fields(string(out))
	}
	made := keys("create", "--name", "revoked", "--scope", "read") // id, scope, key
	keys("revoke", made[0])
	p.compareAnswers(thiefRequests("/v1", "/v1/me", "/v1/events", "/v1/keys", "/v1/tripwires/"+canary.id, "/v1/nope",
		"/mcp"), apikey.New(), made[2], canary.key)

	url := wires[slices.IndexFunc(wires, func(x plantedTripwire) bool { return x.kind == "url" })].url
	p.compareAnswers(thiefRequests("/in/SECRET", "/in/SECRET/", "/in/SECRET?a=b", "/in/SECRET/info/refs", "//in/SECRET",
		"/in/SECRET%2f", "/in/SECRET?hub.mode=subscribe&hub.challenge=1234"), tokenOf(p.newEndpoint()), tokenOf(url))
}

// newEndpoint creates an endpoint with default settings, as a tripwire's URL imitates it, and returns its URL. It
// delivers nothing: deliveries would slow down the requests that are timed after them.
func (p *process) newEndpoint() (url string) {
	p.t.Helper()
	_, url, _ = p.endpoint(map[string]any{"destinations": []any{
		map[string]any{"url": "https://app.example.com/hook", "enabled": false}}})
	return url
}

func tokenOf(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// thiefRequests returns requests to paths in every form that might be answered differently. SECRET stands for a secret.
func thiefRequests(paths ...string) (all []string) {
	add := func(line, headers, body string) {
		all = append(all, line+"\r\nHost: HOST\r\nConnection: close\r\n"+headers+"\r\n"+body)
	}
	const bearer, asJSON = "Authorization: Bearer SECRET\r\n", "Content-Type: application/json\r\n"
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			headers, body := bearer, ""
			if strings.HasPrefix(method, "P") {
				headers, body = bearer+asJSON+"Content-Length: 2\r\n", "{}"
			}
			add(method+" "+path+" HTTP/1.1", headers, body)
		}
	}
	for _, path := range paths[:3] {
		post := "POST " + path + " HTTP/1.1"
		add("GET "+path+" HTTP/1.0", bearer, "")
		add("GET http://HOST"+path+" HTTP/1.1", bearer, "")
		add(post, bearer+"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")
		add(post, bearer+"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\nx\r\n\r\n")
		add(post, bearer+"Transfer-Encoding: gzip\r\n", "{}")
		add(post, bearer+"Expect: 100-continue\r\nContent-Length: 2\r\n", "{}")
		add(post, bearer+"Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}")
		add(post, bearer+"Content-Length: 1000000000\r\n", "")
		add(post, bearer+asJSON+"Idempotency-Key: one\r\nContent-Length: 1\r\n", "{")
		add(post, bearer+"X-A: "+strings.Repeat("x", 70<<10)+"\r\n", "")
		add("OPTIONS "+path+" HTTP/1.1", "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"+
			"Access-Control-Request-Headers: authorization\r\n", "")
		add("GET "+path+" HTTP/1.1", bearer+"Origin: https://a.example\r\nSec-Fetch-Mode: cors\r\n", "")
		add("GET "+path+" HTTP/1.1", bearer+"Accept-Encoding: gzip\r\nAccept: text/event-stream\r\n", "")
		add("GET "+path+" HTTP/1.1", bearer+"Upgrade: h2c\r\n", "")
		for _, header := range []string{"Authorization: bearer  SECRET", "Authorization: SECRET", "X-Api-Key: SECRET",
			"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:")) + "SECRET", "Cookie: key=SECRET",
			"Authorization: Bearer SECRET\r\nAuthorization: Bearer SECRET", "Authorization: Bearer SECRETx"} {
			add("GET "+path+" HTTP/1.1", header+"\r\n", "")
		}
	}
	return all
}

// compareAnswers sends each request with every secret. The answers must be those to the first one. Many are sent at
// once, because some have a body that does not come, for which the server waits.
func (p *process) compareAnswers(requests []string, secrets ...string) {
	p.t.Helper()
	host := strings.TrimPrefix(p.url, "http://")
	answers := make([][]string, len(requests)) // to each request, by secret
	slots := make(chan struct{}, 64)           // more than there are requests without their body
	var wg sync.WaitGroup
	for i, text := range requests {
		answers[i] = make([]string, len(secrets))
		for k, secret := range secrets {
			if len(secret) != len(secrets[0]) {
				p.t.Fatalf("secrets of %d and %d characters", len(secrets[0]), len(secret))
			}
			slots <- struct{}{}
			wg.Go(func() {
				answers[i][k] = rawAnswer(host, strings.NewReplacer("HOST", host, "SECRET", secret).Replace(text))
				<-slots
			})
		}
	}
	wg.Wait()
	for i, text := range requests {
		for k, got := range answers[i] {
			if want := answers[i][0]; got != want || !strings.HasPrefix(got, "HTTP/1.") {
				p.t.Errorf("%.200s\nsecret %d:\n%s\nwant\n%s", text, k, got, want)
			}
		}
	}
}

// varying matches what differs from answer to answer.
var varying = regexp.MustCompile(`Date: [^\r]*|(?:req|evt)_[0-9A-Za-z]+`)

// rawAnswer sends a request as it is written and returns the whole answer, up to times and ids. It returns an error as
// text.
func rawAnswer(host, request string) string {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(busy * arrival)); err != nil {
		return err.Error()
	}
	_, _ = io.WriteString(conn, request) // the server may answer before it has read all
	answer, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Sprintf("%s: %v", answer, err)
	}
	return varying.ReplaceAllString(string(answer), "…")
}

// timeDecoys sends 10,000 requests with a key or to a URL, each to a tripwire or to the real thing at random: so either
// follows on either as often. The medians of the times to the answer differ by less than 5 %.
func (p *process) timeDecoys(t *testing.T, wires []plantedTripwire) {
	for _, x := range wires {
		switch x.kind {
		case "key":
			p.timeRequests(t, "key", "GET", [2]string{p.url + "/v1/events", p.url + "/v1/events"},
				[2]string{apikey.New(), x.key})
		case "url":
			p.timeRequests(t, "URL", "POST", [2]string{p.newEndpoint(), x.url}, [2]string{})
		}
	}
}

// timeRequests times requests to the real thing and to the tripwire, in this order in urls and keys.
func (p *process) timeRequests(t *testing.T, name, method string, urls, keys [2]string) {
	const requests, most = 10_000, 0.05
	var times [2][]time.Duration
	random := kit.Rand(t)
	for range requests {
		i := random.IntN(2)
		req := must.Get(http.NewRequest(method, urls[i], strings.NewReader(`{"type":"ping"}`)))(t)
		if keys[i] != "" {
			req.Header.Set("Authorization", "Bearer "+keys[i])
		}
		begin := time.Now()
		res := must.Get(http.DefaultClient.Do(req))(t)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		times[i] = append(times[i], time.Since(begin))
	}
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	real, decoy := median(times[0]), median(times[1])
	difference := float64(decoy-real) / float64(real)
	t.Logf("%s: %d requests, median %v, of a tripwire %v: %+.1f %%", name, requests, real, decoy, 100*difference)
	if difference > most || difference < -most {
		t.Errorf("%s: the medians differ by more than %.0f %%", name, 100*most)
	}
}
