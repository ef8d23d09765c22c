package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// hostile is a process under attack and the events that it has answered with 2xx.
type hostile struct {
	*process
	t *testing.T

	mu     sync.Mutex // guards stored
	stored map[string]bool
}

// reply is one HTTP response on a raw connection.
type reply struct {
	status int
	header http.Header
	body   []byte
	late   bool // it arrived after the client closed its sending half
}

func (r reply) String() string { return fmt.Sprintf("%d %.300s", r.status, r.body) }

// exchange sends bytes as they are, returns every answer until the connection ends, and records the events that they
// name. It closes its sending half only after a pause, because the server takes that for a client that no longer wants
// its answer.
func (h *hostile) exchange(text []byte) (replies []reply) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	must.Do(h.t, err, "the process refuses connections: %s", h.logs)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(busy * 20 * time.Second))
	_, _ = conn.Write(text) // an early refusal is an answer too
	// A request whose client has closed its sending half may be answered 503.
	var late atomic.Bool
	whole, wait := isCompleteRequest(text), 200*time.Millisecond
	if whole {
		wait = 15 * time.Second
	}
	patience := time.AfterFunc(wait, func() {
		late.Store(true)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	defer patience.Stop()
	for r := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return replies
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return replies
		}
		switch res.StatusCode {
		case http.StatusContinue:
			continue
		case http.StatusAccepted:
			var sent struct{ ID string }
			if json.Unmarshal(body, &sent) == nil {
				h.markStored(sent.ID)
			}
		default:
			if id := res.Header.Get("Relay-Event-Id"); id != "" {
				h.markStored(id)
			}
		}
		replies = append(replies, reply{res.StatusCode, res.Header, body, late.Load()})
		if whole {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}

// isCompleteRequest reports whether a text is exactly one complete request.
func isCompleteRequest(text []byte) bool {
	r := bufio.NewReader(bytes.NewReader(text))
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	_, more := r.Peek(1)
	return err == nil && more == io.EOF
}

func (h *hostile) markStored(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored[id] = true
}

// wantAnswer sends bytes and expects one answer with the status; under /v1 the answer must have the contract's shape.
func (h *hostile) wantAnswer(status int, name string, text []byte) reply {
	h.t.Helper()
	replies := h.exchange(text)
	if len(replies) == 0 || replies[0].status != status {
		h.t.Errorf("%s: answered %v, want %d", name, replies, status)
		return reply{}
	}
	return replies[0]
}

// wantAPIError sends a request to the API and expects an error in the contract's shape that names the parameter.
func (h *hostile) wantAPIError(status int, param, method, path, body string, headers ...string) {
	h.t.Helper()
	name := method + " " + path + " " + body[:min(len(body), 80)]
	got := h.wantAnswer(status, name, h.request(method, path, body, headers...))
	var answer struct {
		Error struct {
			Type, Message, Param string
			RequestID            string `json:"request_id"`
		}
	}
	if err := json.Unmarshal(got.body, &answer); err != nil || got.header.Get("Content-Type") != "application/json" {
		h.t.Errorf("%s: no JSON: %v %s", name, err, got.body)
	}
	if status >= 400 && (answer.Error.Type == "" || answer.Error.Message == "" || answer.Error.RequestID == "" ||
		answer.Error.Param != param) {
		h.t.Errorf("%s: %s, want param %q", name, got.body, param)
	}
}

// request returns the text of a request with the API key and Content-Length.
func (h *hostile) request(method, path, body string, headers ...string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+
		"%s\r\nContent-Length: %d\r\n%s\r\n%s",
		method, path, h.key, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

// listStatuses lists all events, or those of one endpoint, and returns their statuses by id.
func (h *hostile) listStatuses(endpoint string) map[string]string {
	h.t.Helper()
	all, cursor := map[string]string{}, ""
	for {
		page := h.must(http.StatusOK, "GET", "/v1/events?limit=100&endpoint_id="+endpoint+cursor, nil)
		for _, row := range page["data"].([]any) {
			e := row.(map[string]any)
			all[e["id"].(string)] = e["status"].(string)
		}
		next, more := page["next_cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// Bounds of what all attacks together may add to resident memory and to the heap in use after a garbage collection.
// Most resident memory is garbage: a body becomes a record, a produce request, a row, and their copies. Short runs do
// not check the bounds, because they use the race detector, which needs memory itself.
const (
	maxResident = 768 << 20
	maxInUse    = 64 << 20
)

// Malformed requests to the API and the ingest URLs, while hundreds of clients send theirs byte by byte: answers are
// clear, memory stays bounded, the process survives, and exactly the events that were answered 2xx are listed.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	h := &hostile{process: startDevProcess(t, t.TempDir()), t: t, stored: map[string]bool{}}
	capture := []any{map[string]any{"url": "https://example.com/h", "enabled": false}}
	ep, in, _ := h.endpoint(map[string]any{"destinations": capture})
	signed, signedIn, _ := h.endpoint(
		map[string]any{"destinations": capture, "verification": map[string]any{"type": "github", "secret": "s3cret"}})
	wild, wildIn, _ := h.endpoint(map[string]any{"destinations": capture})
	path := strings.TrimPrefix(in, h.url)
	h.exchange(h.request("POST", path, "warm"))
	before, inUse := h.rss(), h.heapInUse()

	slow := startSlowClients(h, path)
	step := func(name string, f func()) {
		started := time.Now()
		f()
		t.Logf("%-28s %5d ms, memory %+d MB", name, time.Since(started).Milliseconds(), (h.rss()-before)>>20)
	}
	step("ingest", func() { h.attackIngest(path, strings.TrimPrefix(signedIn, h.url)) })
	step("API, requests", func() { h.attackAPI(ep) })
	step("API, values", func() { h.attackValues() })
	step("full bodies", func() { h.attackConcurrently(path) })
	good := len(h.stored)
	exact := maps.Clone(h.stored)
	step("altered requests", func() { h.attackWithMutations(wild, strings.TrimPrefix(wildIn, h.url)) })
	if !testing.Short() {
		step("slow clients are cut off", slow)
	}

	if status, answer, _ := h.call("GET", "/readyz", nil); status != http.StatusOK {
		t.Errorf("not ready afterwards: %v", answer)
	}
	if grown := h.rss() - before; grown > maxResident && !testing.Short() {
		t.Errorf("resident memory grew by %d MB", grown>>20)
	}
	grown := h.heapInUse() - inUse
	for range 60 { // rows wait ten seconds for a flush, and records for the evaluation of alerts
		if grown <= maxInUse || testing.Short() {
			break
		}
		time.Sleep(time.Second)
		grown = h.heapInUse() - inUse
	}
	if t.Logf("memory in use grew by %d MB", grown>>20); grown > maxInUse && !testing.Short() {
		t.Errorf("memory in use grew by %d MB", grown>>20)
	}
	rows := h.listStatuses(ep)
	for id := range exact {
		if rows[id] != "skipped" { // skipped: the only destination is disabled
			t.Errorf("%s was answered 2xx and is listed as %q", id, rows[id])
		}
	}
	is.Equal(t, len(rows), good, "events are listed, %d were answered 2xx", good)
	for id, status := range h.listStatuses(signed) {
		is.Equal(t, status, "rejected", "%s of the signed endpoint is", id)
	}
	rows = h.listStatuses("")
	for id := range h.stored {
		if rows[id] == "" {
			t.Errorf("%s was answered 2xx and is not listed", id)
		}
	}
	t.Logf("%d events were answered 2xx, %d are listed", len(h.stored), len(rows))
}

// heapInUse returns the bytes of heap in use after a garbage collection, from the process's metrics.
func (h *hostile) heapInUse() int {
	h.t.Helper()
	h.admin("/debug/pprof/heap?gc=1")
	for line := range strings.Lines(h.admin("/metrics")) {
		if value, ok := strings.CutPrefix(line, "go_memstats_heap_inuse_bytes "); ok {
			bytes := must.Get(strconv.ParseFloat(strings.TrimSpace(value), 64))(h.t)
			return int(bytes)
		}
	}
	h.t.Fatal("no go_memstats_heap_inuse_bytes")
	return 0
}

// slowClients is how many clients of each kind hold a connection throughout the test.
const slowClients = 200

// startSlowClients opens clients that never finish their headers, and some that never finish their bodies, on the API
// and an ingest URL. The returned function waits until the server has disconnected the first kind.
func startSlowClients(h *hostile, path string) (wait func()) {
	var headers []net.Conn
	for _, beginning := range []string{
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nX-A: ", "G",
		"POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{",
		// without a key: the body is not read
		"POST /v1/endpoints HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
	} {
		for range slowClients {
			conn := must.Get(net.Dial("tcp", strings.TrimPrefix(h.url, "http://")))(h.t)
			h.t.Cleanup(func() { conn.Close() })
			must.Get(io.WriteString(conn, beginning))(h.t)
			if !strings.Contains(beginning, "\r\n\r\n") {
				headers = append(headers, conn)
			}
		}
	}
	return func() {
		deadline := time.Now().Add(busy * time.Minute) // the server allows 10 s for headers
		for _, conn := range headers {
			conn.SetReadDeadline(deadline)
			if _, err := io.Copy(io.Discard, conn); err != nil {
				h.t.Fatalf("a client that does not finish its headers is still connected: %v", err)
			}
		}
	}
}

func (h *hostile) attackIngest(path, signed string) {
	raw := func(lines, body string) []byte {
		return []byte("POST " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + lines + "\r\n" + body)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte("0"), 10<<20)) // 10 MiB of zeros in 10 KB, which nothing unpacks
	z.Close()
	binary := make([]byte, 100_000)
	rand.Read(binary)

	h.wantAnswer(200, "compressed", h.request("POST", path, packed.String(), "Content-Encoding: gzip"))
	h.wantAnswer(200, "binary", h.request("PUT", path, string(binary)))
	h.wantAnswer(200, "chunked", raw("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"))
	h.wantAnswer(200, "empty", h.request("DELETE", path, ""))
	h.wantAnswer(200, "whole, then garbage",
		append([]byte("POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwhole"), binary...))
	h.wantAnswer(200, "length beside chunks",
		raw("Content-Length: 99\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"))
	h.wantAnswer(413, "one byte too many", h.request("POST", path, strings.Repeat("x", 1<<20+1)))
	h.wantAnswer(413, "a terabyte promised", raw("Content-Length: 1099511627776\r\n", "x"))
	h.wantAnswer(413, "chunks without end",
		raw("Transfer-Encoding: chunked\r\n", strings.Repeat("10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n", 17)))
	h.wantAnswer(431, "10,000 header lines", raw(strings.Repeat("a: b\r\n", 10_000), ""))
	h.wantAnswer(431, "a header of 100 KB", raw("A: "+strings.Repeat("b", 100<<10)+"\r\n", ""))
	h.wantAnswer(431, "headers without end", raw(strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 1000), ""))
	h.wantAnswer(400, "body cut off", raw("Content-Length: 10\r\n", "12345"))
	h.wantAnswer(400, "chunk cut off", raw("Transfer-Encoding: chunked\r\n", "ff\r\n12345"))
	h.wantAnswer(400, "no chunk", raw("Transfer-Encoding: chunked\r\n", "nonsense\r\n"))
	h.wantAnswer(400, "two lengths", raw("Content-Length: 1\r\nContent-Length: 2\r\n", "xy"))
	h.wantAnswer(400, "negative length", raw("Content-Length: -1\r\n", ""))
	h.wantAnswer(501, "unknown coding", raw("Transfer-Encoding: br\r\n", ""))
	h.wantAnswer(417, "unknown expectation", raw("Expect: miracles\r\n", ""))
	h.wantAnswer(405, "GET", h.request("GET", path, ""))
	h.wantAnswer(405, "OPTIONS", h.request("OPTIONS", path, ""))
	for _, unknown := range []string{"/in/", "/in/nope", "/in/" + strings.Repeat("x", 10_000), path + "/", path + "%00",
		"/in/%ff%fe", "/in/..%2f..%2fv1%2fme"} {
		h.wantAnswer(404, unknown[:min(len(unknown), 40)], h.request("POST", unknown, "x"))
	}
	for _, headers := range [][]string{
		nil, {"X-Hub-Signature-256: sha256=00"}, {"X-Hub-Signature-256: sha256=" + strings.Repeat("0", 64)},
		{"X-Hub-Signature-256: a", "X-Hub-Signature-256: b"}} {
		h.wantAnswer(401, "forged", h.request("POST", signed, strings.Repeat("x", 100_000), headers...))
	}
	h.wantAnswer(400, "no HTTP", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n"))
	h.exchange(binary)
	h.exchange([]byte("\r\n\r\n\r\n\r\n"))
	h.exchange(bytes.Repeat([]byte{0}, 1<<20))
	h.exchange(bytes.Repeat([]byte("GET "), 100_000))
}

func (h *hostile) attackAPI(ep string) {
	send := "/v1/endpoints/" + ep + "/events"
	h.wantAPIError(400, "content-encoding", "POST", send, "\x1f\x8b\x08\x00", "Content-Encoding: gzip")
	h.wantAPIError(400, "content-type", "POST", send, "a=b", "Content-Type: application/x-www-form-urlencoded")
	h.wantAPIError(400, "", "POST", send, strings.Repeat(" ", 1<<20+1))
	h.wantAPIError(400, "", "POST", send, strings.Repeat("[", 100_000))
	h.wantAPIError(400, "", "POST", send, `{"type":"a.b","data":`+strings.Repeat(`{"a":`, 1000)+`1`+
		strings.Repeat(`}`, 1001))
	h.wantAPIError(400, "", "POST", send, "\x00\xff\xfe")
	for body, param := range map[string]string{
		`{}`: "type", `{"type":1,"data":{}}`: "type", `{"type":"a b","data":{}}`: "type", `{"type":"a.b"}`: "data",
		`{"type":"a.b","data":[]}`:  "data",
		`{"type":"a.b","data":"x"}`: "data", `{"type":"a.b","data":null}`: "data",
		`{"type":"a.b","type":"c","data":{}}`: "type", `{"id":"evt_1","type":"a.b","data":{}}`: "id",
		`[]`: "", `{`: "", `null`: "", `{"type":"a.b","data":{}}x`: "", `{"type":"a.b","data":{"a":01}}`: "",
	} {
		h.wantAPIError(400, param, "POST", send, body)
	}
	h.wantAPIError(202, "", "POST", send, `{"type":"a.b","data":{"text":"\u0000 \ud800 <script>","a":1,"a":2}}`)
	h.wantAnswer(202, "chunked", []byte(
		"POST "+send+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+h.key+
			"\r\nTransfer-Encoding: chunked\r\n\r\n19\r\n{\"type\":\"a.b\",\"data\":{}} \r\n0\r\n\r\n"))
	h.wantAPIError(400, "", "POST", send, "{}", slices.Repeat([]string{"a: b"}, 10_000)...)
	for _, id := range []string{"evt_nope", "evt_", "ep_1", ep, "%00", "..", "%2e%2e", strings.Repeat("x", 5000),
		"evt_01jd0000000000000000000000", "evt_8zzzzzzzzzzzzzzzzzzzzzzzzz"} {
		for _, route := range []string{
			"GET /v1/events/%s", "GET /v1/events/%s/attempts", "GET /v1/endpoints/x%s", "DELETE /v1/endpoints/x%s",
			"PATCH /v1/endpoints/x%s", "POST /v1/endpoints/x%s/events", "GET /v1/%s/x"} {
			method, path, _ := strings.Cut(fmt.Sprintf(route, id), " ")
			h.wantAPIError(404, "", method, path, "")
		}
	}
	for query, param := range map[string]string{
		"limit=0": "limit", "limit=x": "limit", "limit=1e9": "limit", "limit=-1": "limit", "cursor=x": "cursor",
		"cursor=%00":     "cursor",
		"since=tomorrow": "since", "until=9999-99-99": "until", "status=nope": "status", "nope=1": "nope",
		"since=2027-01-01&until=2026-01-01": "until",
	} {
		h.wantAPIError(400, param, "GET", "/v1/events?"+query, "")
	}
	key := h.key
	for _, wrong := range []string{"", "x", strings.Repeat("k", 50_000), "\x80\xff", key + "0"} {
		h.key = wrong
		h.wantAPIError(401, "", "POST", send, `{"type":"a.b","data":{}}`)
		h.wantAPIError(401, "", "GET", "/v1/nope", "")
	}
	h.key = testReadKey
	h.wantAPIError(403, "", "POST", send, `{"type":"a.b","data":{}}`)
	h.wantAPIError(403, "", "DELETE", "/v1/endpoints/nope", "")
	h.key = key
}

// attackValues gives every member of an endpoint invalid and unusual values. Each is either rejected or accepted; none
// may be answered 5xx.
func (h *hostile) attackValues() {
	for _, url := range []string{
		"http://example.com/h", "https://127.0.0.2:99999/h", "ftp://example.com", "https://", "//example.com",
		"https://u:p@example.com/", "https://example.com/#f", "javascript:alert(1)", "https://10.0.0.1/", "https://[::1]/",
		"https://0x7f.1/", strings.Repeat("h", 3000)} {
		h.wantAPIError(400, "destinations[0].url", "POST", "/v1/endpoints", fmt.Sprintf(`{"destinations":[{"url":%q}]}`, url))
	}
	members := []string{
		"name", "description", "provider", "verification", "verification.type", "verification.secret", "verification.secrets",
		"verification.tolerance_seconds",
		"verification.mode", "type_source", "dedup", "dedup.key", "dedup.window_seconds", "ingest_limit",
		"ingest_limit.events_per_second", "ingest_limit.bytes_per_second", "destinations", "retry_policy",
		"retry_policy.strategy", "retry_policy.schedule_seconds", "retry_policy.max_attempts",
		"retry_policy.jitter", "retry_policy.retry_on", "alerts", "alerts.enabled", "transformation", "response",
		"response.status", "response.content_type", "response.body",
		"enabled", "paused", "scan_payloads", "metadata", "id", "created_at",
	}
	values := []string{`null`, `1`, `-1.5e300`, `""`, `"\u0000"`, `[]`, `[null]`, `{}`, `{"a":{"a":[]}}`, `true`,
		strconv.Quote(strings.Repeat("ü", 20_000))}
	statuses := map[int]int{}
	for _, m := range members {
		for _, v := range values {
			name, inner, nested := strings.Cut(m, ".")
			value := v
			if nested {
				value = fmt.Sprintf(`{%q:%s}`, inner, v)
			}
			body := fmt.Sprintf(`{"url":"https://example.com/h",%q:%s}`, name, value)
			replies := h.exchange(h.request("POST", "/v1/endpoints", body))
			if len(replies) != 1 || replies[0].status != 201 && replies[0].status != 400 {
				h.t.Errorf("%s: %v\n%s", body[:min(len(body), 200)], replies, h.logs)
				continue
			}
			statuses[replies[0].status]++
		}
	}
	h.t.Logf("values: %v", statuses)
}

// attackConcurrently sends many complete bodies and many truncated ones at the same time.
func (h *hostile) attackConcurrently(path string) {
	full := strings.Repeat("x", 1<<20)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 3 {
				h.wantAnswer(200, "full body", h.request("POST", path, full))
				whole := h.request("POST", path, full)
				h.wantAnswer(400, "full body cut off", whole[:len(whole)-1])
			}
		})
	}
	wg.Wait()
}

// attackWithMutations changes random bytes of valid requests. The seed is fixed, so a failure can be repeated.
func (h *hostile) attackWithMutations(ep, path string) {
	seeds := [][]byte{
		h.request("POST", path, `{"type":"a.b"}`, "Content-Type: application/json", "X-GitHub-Event: push"),
		h.request("PUT", path, "3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
		h.request("POST", "/v1/endpoints/"+ep+"/events", `{"type":"a.b","data":{"a":[1,2,{"b":null}]}}`,
			"Content-Type: application/json"),
		h.request("GET", "/v1/events?limit=2&since=2026-01-01T00:00:00Z&status=delivered", ""),
		h.request("PATCH", "/v1/endpoints/"+ep,
			`{"retry_policy":{"strategy":"linear","interval_seconds":5},"metadata":{"a":"b"}}`),
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		random := mathrand.New(mathrand.NewPCG(1, uint64(worker)))
		wg.Go(func() {
			for i := range 60 {
				text := slices.Clone(seeds[i%len(seeds)])
				for range 1 + random.IntN(4) {
					at := random.IntN(len(text))
					switch random.IntN(3) {
					case 0:
						text[at] = byte(random.Uint32())
					case 1:
						text = slices.Delete(text, at, min(at+1+random.IntN(8), len(text)))
					default:
						text = slices.Insert(text, at, text[at:min(at+1+random.IntN(8), len(text))]...)
					}
				}
				for _, r := range h.exchange(text) {
					if r.status >= 500 && !r.late && r.status != http.StatusNotImplemented &&
						r.status != http.StatusHTTPVersionNotSupported {
						h.t.Errorf("%d %s for %q", r.status, r.body, text)
					}
				}
			}
		})
	}
	wg.Wait()
}

// quantile returns the q-quantile of sorted values, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// rss returns the resident memory of the process without its children, in bytes.
func (p *process) rss() int {
	p.t.Helper()
	for line := range strings.Lines(string(readFile(p.t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kb := must.Get(strconv.Atoi(fields[1]))(p.t)
			return kb << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// openFiles returns how many file descriptors the process has open.
func (p *process) openFiles() int {
	p.t.Helper()
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)))(p.t)
	return len(entries)
}

// hungSink is a destination that does not answer until release is called, and from then on answers at once.
type hungSink struct {
	*httptest.Server
	release func()
	waiting atomic.Int64 // requests without an answer
}

func newHungSink(t *testing.T) *hungSink {
	t.Helper()
	released := make(chan struct{})
	s := &hungSink{release: sync.OnceFunc(func() { close(released) })}
	s.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-released
	}))
	t.Cleanup(func() {
		s.release()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// neighbours are healthy and hung destinations of one relay, with as much traffic to each.
type neighbours struct {
	t            *testing.T
	p            *process
	dest         *tally
	rate         int // events a second to the healthy ones, and as many to the others
	span         time.Duration
	healthy, bad []string // ingest URLs
}

// ingest creates endpoints, each with its own path at base.
func (n *neighbours) ingest(base string, endpoints int) (urls []string) {
	n.t.Helper()
	for i := range endpoints {
		_, in, _ := n.p.endpoint(map[string]any{
			"destinations": []any{map[string]any{"url": fmt.Sprintf("%s/%d", base, i), "timeout_seconds": 60}}})
		urls = append(urls, in)
	}
	return urls
}

// measure sends to the healthy destinations for a while, waits until all has arrived, and returns the sorted latencies.
func (n *neighbours) measure(name string) (took []time.Duration) {
	n.t.Helper()
	from := time.Now()
	l := startLoad(n.t, n.rate, 900, n.healthy...)
	time.Sleep(n.span)
	accepted := l.finish()
	// What waits for a hung destination waits for its timeout, a minute.
	eventually(n.t, 10*time.Second, func() string {
		if missing := n.dest.missing(accepted); missing > 0 {
			return fmt.Sprintf("%s: %d of %d events have not arrived\n%s", name, missing, len(accepted), n.p.logs)
		}
		return ""
	})
	n.dest.each(func(_ int64, hits []hit) {
		if hits[0].posted.After(from) {
			took = append(took, hits[0].at.Sub(hits[0].posted))
		}
	})
	slices.Sort(took)
	n.t.Logf("%s: %d accepted and delivered, p50 %v, p99 %v, worst %v; %d MB, %d files", name, len(accepted),
		quantile(took, .5).Round(10*time.Microsecond), quantile(took, .99).Round(10*time.Microsecond),
		quantile(took, 1).Round(time.Millisecond), n.p.rss()>>20, n.p.openFiles())
	return took
}

// Destinations that never answer, as many as healthy ones and with as much traffic, do not stop the healthy ones. Their
// memory and connections are bounded, and freed when they end. With RELAY_TORTURE=1 the test also measures the latency
// without them and with them, while no other test runs.
func TestHungNeighbours(t *testing.T) {
	torture, each := rounds(0, 0, 1) > 0, rounds(0, 50, 500)
	if !torture {
		t.Parallel()
	}
	skipShort(t)
	n := &neighbours{t: t, p: startDevProcess(t, t.TempDir(), allowHTTP), dest: newTally(t, nil),
		rate: rounds(0, 50, 500), span: time.Duration(rounds(0, 2, 60)) * time.Second}
	hung := newHungSink(t)
	n.healthy, n.bad = n.ingest(n.dest.URL, each), n.ingest(hung.URL, each)
	if torture {
		n.measure("warm")
	}
	alone := n.measure("alone")
	before := n.p.openFiles()
	l := startLoad(t, n.rate, 900, n.bad...)
	eventually(t, time.Minute, func() string {
		if waiting := hung.waiting.Load(); waiting < int64(each) {
			return fmt.Sprintf("%d requests hang at %d destinations", waiting, each)
		}
		return ""
	})
	beside := n.measure("beside hung ones")
	besideMB := n.p.rss() >> 20
	if again := n.measure("still beside them"); quantile(again, 1) > quantile(beside, 1) {
		beside = again
	}
	grown := n.p.rss()>>20 - besideMB
	l.finish()
	t.Logf("p99 with %d hung destinations is %.2f times that without, %d requests still hang; memory grew by %d MB in %v",
		each, float64(quantile(beside, .99))/float64(quantile(alone, .99)), hung.waiting.Load(), grown, n.span)
	// A delivery that waits for a hung one takes a minute. What it takes otherwise depends on the machine.
	if worst, most := quantile(beside, 1), max(time.Second, 4*quantile(alone, 1)); worst > most && torture {
		t.Errorf("a healthy delivery took %v, more than %v", worst, most)
	}
	if grown > 150 {
		t.Errorf("memory grew by %d MB while the destinations hung", grown)
	}
	hung.release()
	eventually(t, 5*time.Minute, func() string { // parked deliveries still arrive
		hung.CloseClientConnections() // the relay would keep idle ones for 90 s
		if now := n.p.openFiles(); now > before+100 {
			return fmt.Sprintf("%d files are open, %d before the destinations hung", now, before)
		}
		return ""
	})
}
