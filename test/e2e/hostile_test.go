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
