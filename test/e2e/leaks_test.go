package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// drain creates a log drain and returns the path of its URL: the address of a process changes.
func (c client) drain(name string) (path string) {
	c.t.Helper()
	made := c.must(http.StatusCreated, "POST", "/v1/drains", map[string]any{"name": name})
	return strings.TrimPrefix(made["url"].(string), c.url)
}

// sendLines sends lines to a drain until it has accepted them, as a log shipper does.
func sendLines(url string, lines []byte, stop <-chan struct{}) (attempts int) {
	for {
		attempts++
		resp, err := http.Post(url, "text/plain", bytes.NewReader(lines))
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusAccepted {
				return attempts
			}
		}
		select {
		case <-stop:
			return attempts
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leakOf is a secret that the rules know; it is another one for each n.
func leakOf(n int) string {
	return "sk_" + fmt.Sprintf("live_%dQ8zkT2vN4xW7yR1mB5cJ9dL3fH%d", n, n*7919)
}

// 2,000 secrets arrive in 100 requests while the process is killed at random points. Each request is sent until it is
// accepted. Every secret is then counted exactly once, each finding was announced once, and usage has each once.
func TestLeaksSurviveKills(t *testing.T) {
	t.Parallel()
	skipShort(t)
	const secrets, requests, each = 10, 100, 20
	var mu sync.Mutex
	announced := map[string]map[string]bool{} // ids of messages by finding
	channel := newSink(t, func(r received) int {
		var body struct {
			ID, Type string
			Data     struct {
				FindingID string `json:"finding_id"`
			}
		}
		if json.Unmarshal(r.body, &body) == nil && body.Type == "alert.finding.opened" {
			mu.Lock()
			defer mu.Unlock()
			if announced[body.Data.FindingID] == nil {
				announced[body.Data.FindingID] = map[string]bool{}
			}
			announced[body.Data.FindingID][body.ID] = true
		}
		return http.StatusOK
	})
	p := startDevProcess(t, nodeDir(t))
	p.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{"webhook_url": channel.URL + "/hook"})
	path := p.drain("production")
	url := p.url + path

	var accepted, attempts atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for sender := range 4 {
		wg.Go(func() {
			for i := sender; i < requests; i += 4 {
				var lines bytes.Buffer
				for k := range each {
					fmt.Fprintf(&lines, `{"app":"web-%d","request":%d,"msg":"failed with %s"}`+"\n", k%3, i, leakOf((i+k)%secrets))
				}
				attempts.Add(int64(sendLines(url, lines.Bytes(), stop)))
				accepted.Add(1)
			}
		})
	}
	random := kit.Rand(t)
	for kill := range rounds(1, 2, 20) {
		after := int64(1 + (kill+random.IntN(2))*requests/(rounds(1, 2, 20)+1))
		eventually(t, arrival, func() string {
			if n := accepted.Load(); n < after && n < requests {
				return fmt.Sprintf("%d requests were accepted", n)
			}
			return ""
		})
		<-time.After(time.Duration(random.IntN(300)) * time.Millisecond) // anywhere between two acknowledgements
		p.kill()
		p.start()
	}
	finished := make(chan struct{})
	wg.Go(func() {
		eventually(t, arrival, func() string {
			if n := accepted.Load(); n < requests {
				return fmt.Sprintf("%d of %d requests were accepted", n, requests)
			}
			return ""
		})
		close(finished)
	})
	<-finished
	close(stop)
	wg.Wait()
	t.Logf("%d attempts for %d requests", attempts.Load(), requests)

	eventually(t, arrival, func() string {
		list := p.must(http.StatusOK, "GET", "/v1/findings?limit=100", nil)["data"].([]any)
		total := 0.0
		for _, f := range list {
			total += f.(map[string]any)["occurrences"].(float64)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(list) != secrets || total != requests*each || len(announced) != secrets {
			return fmt.Sprintf("%d findings of %v secrets, %d announced", len(list), total, len(announced))
		}
		return ""
	})
	for _, f := range p.must(http.StatusOK, "GET", "/v1/findings?limit=100", nil)["data"].([]any) {
		f := f.(map[string]any)
		if f["occurrences"] != float64(requests*each/secrets) || f["status"] != "open" {
			t.Errorf("%v", f)
		}
	}
	mu.Lock()
	for finding, messages := range announced {
		is.Equal(t, len(messages), 1, "%s was announced by … messages", finding)
	}
	mu.Unlock()
	usage := p.must(http.StatusOK, "GET", "/v1/usage", nil)["events"].(map[string]any)
	if days := usage["findings"].(float64) / secrets; days != 1 && days != 2 { // the test may run at midnight
		t.Errorf("usage %v, want each finding once a day", usage)
	}
	p.sendKeyThreeWays(leakOf(secrets), channel.URL)
}

// sendKeyThreeWays sends a key to drains as Heroku and Vercel do, and in an event. It is one finding, in three places.
func (c client) sendKeyThreeWays(key, destination string) {
	c.t.Helper()
	heroku, vercel := c.drain("heroku"), c.drain("vercel")
	message := "<40>1 2026-03-04T05:05:00+00:00 host app web.1 - " + key + "\n"
	for path, x := range map[string][2]string{
		heroku: {"Logplex-Frame-Id", fmt.Sprintf("%d %s", len(message), message)},
		vercel: {"X-Vercel-Signature", `[{"message":"` + key + `"}]`},
	} {
		if resp := c.post(c.url+path, map[string]string{x[0]: "1"}, []byte(x[1])); resp.StatusCode != http.StatusOK {
			c.t.Errorf("%s is answered %d", x[0], resp.StatusCode)
		}
	}
	endpoint := c.must(http.StatusCreated, "POST", "/v1/endpoints", map[string]any{"name": "leaks", "provider": "generic",
		"destinations": []any{map[string]any{"url": destination}}})
	if endpoint["scan_payloads"] != true {
		c.t.Errorf("%v", endpoint)
	}
	resp := c.post(endpoint["ingest_url"].(string), nil, []byte(`{"list":[{"note":"`+key+`"}]}`))
	is.Equal(c.t, resp.StatusCode, http.StatusOK, "the event is answered")
	mask := "sk_live_***" + key[len(key)-4:]
	eventually(c.t, arrival, func() string {
		list := c.must(http.StatusOK, "GET", "/v1/findings?source=event", nil)["data"].([]any)
		if len(list) != 1 {
			return fmt.Sprintf("%d findings", len(list))
		}
		f := list[0].(map[string]any)
		text := fmt.Sprint(f["sources"], len(f["locations"].([]any)), f["occurrences"], f["unverified"])
		if f["masked"] != mask || text != "[drain event] 3 3 false" {
			return fmt.Sprint(f["masked"], " ", text)
		}
		return ""
	})
	for _, path := range []string{heroku, vercel} {
		id, _, _ := strings.Cut(strings.TrimPrefix(path, "/drain/"), "/")
		want := map[string]any{heroku: "heroku", vercel: "vercel"}[path]
		eventually(c.t, arrival, func() string {
			if d := c.must(http.StatusOK, "GET", "/v1/drains/"+id, nil); d["detected_platform"] != want ||
				d["lines_24h"] != 1.0 {
				return fmt.Sprint(d)
			}
			return ""
		})
	}
}

// leakEverywhere sends a secret by every path on which a caller could leak it, and waits for its finding. It returns
// paths whose answers must not have it.
func (c client) leakEverywhere(secret string) (paths []string) {
	c.t.Helper()
	text := "sk_" + "live_" + secret
	path := c.drain("production " + text)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = fmt.Fprintf(z, "compressed %s\n", text) // a buffer takes everything
	_ = z.Close()
	for _, x := range []struct {
		path, agent string
		body        []byte
		want        int
	}{
		{path, "shipper", []byte("key=" + text), http.StatusAccepted},
		{path + "?key=" + text, text, []byte(`{"app":"` + text + `","env":"` + text + `","msg":"` + text + `"}`),
			http.StatusAccepted},
		{path, "shipper", packed.Bytes(), http.StatusAccepted},
		{path, "shipper", append([]byte{0x1f, 0x8b, 8}, text...), http.StatusBadRequest},
		{path + text, "shipper", []byte(text), http.StatusNotFound},
		{"/drain/" + text + "/" + text, "shipper", []byte(text), http.StatusNotFound},
	} {
		if resp := c.post(c.url+x.path, map[string]string{"User-Agent": x.agent}, x.body); resp.StatusCode != x.want {
			c.t.Errorf("%s is answered %d, want %d", strings.ReplaceAll(x.path, text, "…"), resp.StatusCode, x.want)
		}
	}
	var finding map[string]any
	eventually(c.t, arrival, func() string {
		list := c.must(http.StatusOK, "GET", "/v1/findings", nil)["data"].([]any)
		if len(list) == 0 {
			return "no finding"
		}
		if finding = list[0].(map[string]any); finding["occurrences"].(float64) < 3 {
			return fmt.Sprint(finding["occurrences"], " occurrences")
		}
		return ""
	})
	name := "/v1/findings/" + finding["id"].(string)
	c.must(http.StatusOK, "PATCH", name, map[string]any{"status": "acknowledged", "note": "rolled " + text})
	return []string{"/v1/findings", name, name + "/occurrences", "/v1/drains", "/v1/audit"}
}

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
