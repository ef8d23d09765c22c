package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// sink is an HTTPS destination that keeps the requests that it receives.
type sink struct {
	*httptest.Server
	answer func(received) (status int)

	mu   sync.Mutex // guards what follows
	got  []received
	seen map[string]int // requests by event
}

type received struct {
	path    string
	header  http.Header
	body    []byte
	at      time.Time
	earlier int // how many requests for the event arrived earlier
	status  int // of the answer; 0 until it is sent
}

func (r received) event() string { return r.header.Get("Webhook-Id") }

// newSink starts a sink that answers with the status that answer returns; nil answers 200.
func newSink(t *testing.T, answer func(received) (status int)) *sink {
	t.Helper()
	s := &sink{answer: answer, seen: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed relay leaves broken connections
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// sinkCA is a file with the certificate of all sinks, for RELAY_EGRESS_CA_FILE. TestMain sets it.
var sinkCA string

// writeSinkCA writes the certificate of all sinks into a directory and returns the file.
func writeSinkCA(dir string) (path string, err error) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	path = filepath.Join(dir, "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return path, os.WriteFile(path, block, 0o600)
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := received{path: r.URL.Path, header: r.Header.Clone(), body: body, at: time.Now()}
	s.mu.Lock()
	got.earlier = s.seen[got.event()]
	s.seen[got.event()]++
	at := len(s.got)
	s.got = append(s.got, got)
	s.mu.Unlock()
	status := http.StatusOK
	if s.answer != nil {
		status = s.answer(got)
	}
	s.mu.Lock()
	s.got[at].status = status
	s.mu.Unlock()
	w.WriteHeader(status)
}

func (s *sink) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// wait waits until n requests have arrived and returns them.
func (s *sink) wait(t *testing.T, n int, limit time.Duration) []received {
	t.Helper()
	for deadline := time.Now().Add(busy * limit); ; time.Sleep(10 * time.Millisecond) {
		if got := s.received(); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests arrived, want %d", len(s.received()), n)
		}
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// syslogConfig makes syslog-ng follow a file and send its lines to a drain, in batches that it sends again until they
// are accepted. It is that of the drain's page.
const syslogConfig = `@version: 3.35
source lines { file("%s" follow-freq(0.1) flags(no-parse) log-fetch-limit(1000) log-iw-size(10000)); };
destination drain {
  http(url("%s") method("POST") headers("Content-Type: text/plain") body("${MESSAGE}") delimiter("\n")
    batch-lines(500) batch-bytes(512Kb) batch-timeout(1000) timeout(10) time-reopen(1) retries(100000)
    log-fifo-size(20000));
};
log { source(lines); destination(drain); flags(flow-control); };
`

// An hour of log lines comes from syslog-ng, whose relay is killed once on the way. Every key in them is found, and
// counted at least as often as it was written.
func TestSyslogNGSendsAnHourOfLogs(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("set RELAY_TORTURE; it needs syslog-ng with its HTTP module")
	}
	const lines, every, secrets = 3600 * 20, 500, 12
	program, err := exec.LookPath("syslog-ng")
	if err != nil {
		t.Fatal("install the Debian packages syslog-ng-core and syslog-ng-mod-http: ", err)
	}
	p := startDevProcess(t, nodeDir(t))
	dir := t.TempDir()
	log, conf := filepath.Join(dir, "app.log"), filepath.Join(dir, "syslog-ng.conf")
	text := fmt.Sprintf(syslogConfig, log, p.url+p.drain("syslog-ng"))
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
	file := must.Get(os.Create(log))(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	sender := exec.Command(program, "--foreground", "--no-caps", "--cfgfile", conf, "--persist-file", at("persist"),
		"--control", at("control"), "--pidfile", at("pid"))
	sender.Stdout, sender.Stderr = os.Stderr, os.Stderr
	must.Do(t, sender.Start())
	defer func() {
		_ = sender.Process.Signal(syscall.SIGTERM)
		_ = sender.Wait()
	}()
	planted, started := map[string]float64{}, time.Now()
	out := bufio.NewWriter(file)
	for i := range lines {
		when := time.Unix(1_795_341_600, 0).Add(time.Duration(i) * time.Hour / lines).UTC().Format(time.RFC3339)
		fmt.Fprintf(out, `%s app=web-%d level=info msg="request %d served in %d ms" path=/orders/%d`, when, i%3, i, i%90, i)
		if i%every == 0 {
			key := leakOf(i / every % secrets)
			planted["sk_live_***"+key[len(key)-4:]]++
			fmt.Fprintf(out, ` authorization="%s"`, key)
		}
		_ = out.WriteByte('\n')
		if i == lines/2 {
			must.Do(t, out.Flush())
			occurrences(t, p, 1) // some lines have arrived, others are on the way
			p.kill()
			p.start()
		}
	}
	must.Do(t, out.Flush())
	found := occurrences(t, p, lines/every)
	total := 0.0
	for mask, n := range planted {
		if found[mask] < n || found[mask] > n+2 { // the batch on the way at the kill may be cut otherwise when sent again
			t.Errorf("%s was found %v times, and written %v times", mask, found[mask], n)
		}
		total += found[mask]
	}
	is.Equal(t, len(found), len(planted), "findings of %d keys", len(planted))
	t.Logf("%d lines, %d secrets of %d keys found as %v, one kill, in %v", lines, lines/every, len(planted), total,
		time.Since(started).Round(time.Second))
}

// occurrences waits until at least that many hits are listed, and returns them by the mask of their finding.
func occurrences(t *testing.T, p *process, least float64) (found map[string]float64) {
	t.Helper()
	eventually(t, 5*time.Minute, func() string {
		found = map[string]float64{}
		total := 0.0
		for _, f := range p.must(http.StatusOK, "GET", "/v1/findings?limit=100", nil)["data"].([]any) {
			f := f.(map[string]any)
			found[f["masked"].(string)] += f["occurrences"].(float64)
			total += f["occurrences"].(float64)
		}
		if total < least {
			return fmt.Sprintf("%v of %v hits are listed", total, least)
		}
		return ""
	})
	return found
}

// streamLine is one message of an event stream, with the fields that tests need.
type streamLine struct {
	id, kind string
	event    string // evt_…
	reason   string // of a message "end"
}

// eventStream is an open event stream.
type eventStream struct {
	t      *testing.T
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// openStream opens the event stream of an endpoint, after the message last unless that is empty, and waits until it is
// ready.
func (c client) openStream(endpoint, last string) *eventStream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/v1/endpoints/"+endpoint+"/stream", nil))(c.t)
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get((&http.Client{Transport: c.transport}).Do(r))(c.t)
	c.t.Cleanup(func() { cancel(); resp.Body.Close() })
	w := &eventStream{t: c.t, lines: bufio.NewScanner(resp.Body), cancel: cancel}
	w.lines.Buffer(nil, 4<<20)
	if first := w.next(); resp.StatusCode != http.StatusOK || first.kind != "ready" {
		c.t.Fatalf("the stream is answered %s and begins with %+v\n%s", resp.Status, first, c.logs)
	}
	return w
}

// next returns the next message; an empty one when the stream has ended.
func (w *eventStream) next() (l streamLine) {
	w.t.Helper()
	for w.lines.Scan() {
		name, value, _ := strings.Cut(w.lines.Text(), ": ")
		switch name {
		case "id":
			l.id = value
		case "event":
			l.kind = value
		case "data":
			var data struct{ ID, Reason string }
			must.Do(w.t, json.Unmarshal([]byte(value), &data), "%.200s", value)
			l.event, l.reason = data.ID, data.Reason
		default:
			if l.kind != "" {
				return l
			}
		}
	}
	return l
}

// awaitKnown waits until a node answers a GET with 200: configuration reaches other nodes a moment later.
func (c client) awaitKnown(path string) {
	c.t.Helper()
	eventually(c.t, arrival, func() string {
		if status, answer, _ := c.call("GET", path, nil); status != http.StatusOK {
			return fmt.Sprintf("%s: %d %v", path, status, answer)
		}
		return ""
	})
}

// eventStreams reads an endpoint's stream on one node and resumes it on the other, while both accept events. Each event
// is seen once, in the order of the log. Revoking the key and deleting the endpoint end open streams.
func eventStreams(t *testing.T, a, b *process) {
	near, far := a.forTest(t), b.forTest(t)
	dest := newSink(t, nil)
	ep, _, _ := near.endpoint(map[string]any{"destinations": []any{dest.URL}})
	far.awaitKnown("/v1/endpoints/" + ep)
	const each = 30
	w := near.openStream(ep, "")
	var sent, seen []string
	last := ""
	for n := range each {
		for _, c := range []client{near, far} {
			sent = append(sent, c.send(ep, n))
		}
		if n%10 == 9 { // disconnects before it reads the last message, and resumes on the other node
			for range 5 {
				l := w.next()
				seen, last = append(seen, l.event), l.id
			}
			w.cancel()
			near, far = far, near
			w = near.openStream(ep, last)
		}
	}
	for len(seen) < len(sent) {
		l := w.next()
		must.Equal(t, l.kind, "event", "after %d events: %+v", len(seen), l)
		seen = append(seen, l.event)
	}
	if strings.Join(seen, " ") != strings.Join(sent, " ") { // requests are sequential, so the log has the same order
		t.Errorf("seen %v\nsent %v", seen, sent)
	}
	made := strings.Fields(a.keys("create", "--name", "watcher", "--scope", "read"))
	far.withKey(made[2]).awaitKnown("/v1/me")
	revoked := far.withKey(made[2]).openStream(ep, "")
	a.keys("revoke", made[0])
	if l := revoked.next(); l.kind != "end" || l.reason != "key_revoked" {
		t.Errorf("after the revocation: %+v", l)
	}
	test := near.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/test",
		map[string]any{"provider": "github"})["id"].(string)
	if l := w.next(); l.event != test {
		t.Errorf("a test event is shown as %+v", l)
	}
	detail := near.awaitStatus(test, "delivered", arrival)
	if attempts := detail["attempts"].([]any); attempts[0].(map[string]any)["trigger"] != "test" {
		t.Errorf("a test event is delivered as %v", attempts[0])
	}
	far.must(http.StatusOK, "DELETE", "/v1/endpoints/"+ep, nil)
	if l := w.next(); l.kind != "end" || l.reason != "endpoint_deleted" {
		t.Errorf("after the deletion: %+v", l)
	}
}
