package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestBodyLimit(t *testing.T) {
	w := newWorld(t, options{})
	full := strings.Repeat("x", maxBody)
	w.want(w.do("POST", "", strings.NewReader(full)), 200)
	chunked := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }
	w.want(w.do("POST", "", chunked(full)), 200)

	a := w.want(w.do("POST", "", strings.NewReader(full+"x")), 413)
	is.Has(t, a.body, `"type":"payload_too_large"`)
	w.want(w.do("POST", "", chunked(full+"x")), 413)
	w.want(w.do("POST", "", chunked(full+full)), 413)
	// Announced but not sent: the response does not wait for the body, and no memory is allocated for it.
	answers := w.raw(request("POST", []string{"Content-Length: 999999999999"}, "x"))
	if len(answers) != 1 || answers[0].StatusCode != 413 {
		t.Errorf("%+v", answers)
	}
	events := w.stored()
	if len(events) != 2 || len(events[0].Body) != maxBody || len(events[1].Body) != maxBody {
		t.Errorf("%d events are stored: something was truncated", len(events))
	}
	is.Equal(t, w.ingest.bodies.readingBytes.Load(), 0, "bytes still count as being read")
}

// A body of RELAY_MAX_BODY's upper limit (10 MiB) passes through the log unchanged.
func TestLargestBodyIsStored(t *testing.T) {
	w := newWorld(t, options{maxBody: 10 << 20})
	body := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	w.want(w.do("POST", "", bytes.NewReader(body)), 200)
	w.want(w.do("POST", "", bytes.NewReader(append(body, 'x'))), 413)
	if e := w.only(); !bytes.Equal(e.Body, body) {
		t.Error("other bytes are stored")
	}
}

// With a full body, full headers and a long query the record still fits into the log.
func TestEverythingAtItsLimit(t *testing.T) {
	w := newWorld(t, options{})
	headers := []string{}
	for i := range 190 {
		headers = append(headers, fmt.Sprintf("X-%03d", i), strings.Repeat("v", 300))
	}
	w.want(w.do("POST", "?"+strings.Repeat("q", 150<<10), bytes.NewReader(make([]byte, maxBody)), headers...), 200)
	if e := w.only(); len(e.Query) != 150<<10 || len(e.Header) < 190 {
		t.Errorf("query of %d, %d header lines", len(e.Query), len(e.Header))
	}
}

func TestHeaderLimits(t *testing.T) {
	w := newWorld(t, options{})
	f := func(lines, size, status int) {
		t.Helper()
		var text []string
		for range lines {
			text = append(text, "X-A: "+strings.Repeat("v", size))
		}
		answers := w.raw(request("POST", append(text, "Content-Length: 1"), "x"))
		if len(answers) != 1 || answers[0].StatusCode != status {
			t.Errorf("%d lines of %d: %+v", lines, size, answers)
		}
	}
	f(199, 10, 200)
	f(200, 10, 431) // with Content-Length 201
	f(10_000, 1, 431)
	f(1, 63<<10, 200)
	f(1, 64<<10, 431)
	f(1, 1<<20, 431) // net/http's own
	f(30_000, 20, 431)
	is.Equal(t, len(w.stored()), 2, "events are stored")
}

// Truncated or malformed requests are not stored. Complete ones are stored once, whatever follows on the connection.
func TestBrokenRequests(t *testing.T) {
	w := newWorld(t, options{})
	var want []string
	f := func(name, text string, statuses []int, stored ...string) {
		t.Helper()
		answers := w.raw(text)
		var got []int
		for _, a := range answers {
			got = append(got, a.StatusCode)
		}
		if fmt.Sprint(got) != fmt.Sprint(statuses) {
			t.Errorf("%s: answered %v, want %v", name, got, statuses)
		}
		want = append(want, stored...)
	}
	chunked := []string{"Transfer-Encoding: chunked"}
	f("body cut off", request("POST", []string{"Content-Length: 10"}, "12345"), []int{400})
	f("chunk cut off", request("POST", chunked, "a\r\n12345"), []int{400})
	f("last chunk missing", request("POST", chunked, "1\r\nx\r\n"), []int{400})
	f("chunk size is no number", request("POST", chunked, "zz\r\nx\r\n0\r\n\r\n"), []int{400})
	f("chunk longer than its size", request("POST", chunked, "1\r\nxyz\r\n0\r\n\r\n"), []int{400})
	f("chunk size overflows", request("POST", chunked, "ffffffffffffffff1\r\nx\r\n0\r\n\r\n"), []int{400})
	f("endless chunk extension", request("POST", chunked, "1;"+strings.Repeat("e", 100<<10)+"\r\nx\r\n0\r\n\r\n"),
		[]int{400})
	f("negative length", request("POST", []string{"Content-Length: -1"}, "x"), []int{400})
	f("two lengths", request("POST", []string{"Content-Length: 1", "Content-Length: 2"}, "xy"), []int{400})
	f("unknown transfer encoding", request("POST", []string{"Transfer-Encoding: gzip"}, "x"), []int{501})
	f("header without colon", request("POST", []string{"nonsense"}, ""), []int{400})
	f("header name with a space", request("POST", []string{"X A: 1"}, ""), []int{400})
	f("header value with a NUL", request("POST", []string{"X-A: \x00"}, ""), []int{400})
	f("no host", "POST /in/tok HTTP/1.1\r\n\r\n", []int{400})
	f("HTTP/3.0", "POST /in/tok HTTP/3.0\r\nHost: a\r\n\r\n", []int{505})
	f("no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400})
	f("unknown expectation", request("POST", []string{"Expect: miracles", "Content-Length: 1"}, "x"), []int{417})
	f("nothing", "", nil)
	f("half a header", "POST /in/tok HTTP/1.1\r\nHost: a\r\nX-A: ", []int{400})

	f("whole, then garbage", request("POST", []string{"Content-Length: 3"}, "one")+"garbage\r\n\r\n",
		[]int{200, 400}, "one")
	f("two in one packet", request("POST", []string{"Content-Length: 3"}, "two")+
		request("PUT", chunked, "5\r\nthree\r\n0\r\n\r\n"), []int{200, 200}, "two", "three")
	f("length beside chunks",
		request("POST", []string{"Content-Length: 1", "Transfer-Encoding: chunked"}, "4\r\nfour\r\n0\r\n\r\n"),
		[]int{200}, "four")
	f("HTTP/1.0 without a length", "POST /in/tok HTTP/1.0\r\n\r\nignored", []int{200}, "")
	f("trailers", request("POST", append(chunked, "Trailer: X-T"), "4\r\nfive\r\n0\r\nX-T: 1\r\n\r\n"), []int{200}, "five")
	f("100-continue", request("POST", []string{"Content-Length: 3", "Expect: 100-continue"}, "six"),
		[]int{100, 200}, "six")
	f("absolute target", "POST http://elsewhere/in/tok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nseven",
		[]int{200}, "seven")

	events := w.stored()
	must.Equal(t, len(events), len(want), "events are stored")
	for i, e := range events {
		is.Equal(t, string(e.Body), want[i], "stored %q", e.Body)
	}
}

// A client that sends Expect: 100-continue sends its body only if the request is accepted.
func TestExpectContinue(t *testing.T) {
	w := newWorld(t, options{})
	f := func(path, length string, status int) {
		t.Helper()
		conn := w.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %s\r\n\r\n", path, length)
		first, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(first, fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%s of %s: %q %v", path, length, first, err)
		}
	}
	f("/in/tok", "3", 100)
	f("/in/tok", "1048577", 413)
	f("/in/nope", "3", 404)
}

// A slow body times out at the deadline, in both framings, and its connection is closed.
func TestSlowBody(t *testing.T) {
	w := newWorld(t, options{bodyTimeout: 100 * time.Millisecond})
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		for _, part := range []string{"", "5\r\nhello"} {
			conn := w.dial()
			io.WriteString(conn, request("POST", []string{framing}, part))
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must.Do(t, err, "%s %q", framing, part)
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != 408 || !res.Close || !strings.Contains(string(body), `"type":"timeout"`) {
				t.Errorf("%s %q: %s, close %t, %s %v", framing, part, res.Status, res.Close, body, err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s %q: the connection is open: %v", framing, part, err)
			}
		}
	}
	is.Equal(t, len(w.stored()), 0, "events are stored")
	is.Equal(t, w.ingest.bodies.readingBytes.Load(), 0, "bytes still count as being read")
}

// The limits also hold over HTTP/2, which a node with a certificate offers.
func TestHTTP2(t *testing.T) {
	var srv *httptest.Server
	serve := func(o options) *world {
		w := newWorld(t, o)
		srv = httptest.NewUnstartedServer(w.ingest.Handler())
		srv.EnableHTTP2 = true
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return w
	}
	post := func(body io.Reader, length int64) *http.Response {
		t.Helper()
		req := must.Get(http.NewRequest("POST", srv.URL+PathPrefix+token, body))(t)
		req.ContentLength = length
		req.Header["X-A"] = []string{"2", "1"}
		res := must.Get(srv.Client().Do(req))(t)
		res.Body.Close()
		must.Equal(t, res.ProtoMajor, 2, "spoke %s", res.Proto)
		return res
	}
	w := serve(options{})
	if res := post(strings.NewReader("hello"), -1); res.StatusCode != 200 {
		t.Errorf("a good request: %s", res.Status)
	}
	if res := post(bytes.NewReader(make([]byte, maxBody+1)), -1); res.StatusCode != 413 {
		t.Errorf("a byte too many: %s", res.Status)
	}
	e := w.only()
	if string(e.Body) != "hello" || e.HeaderValue("Host") != srv.Listener.Addr().String() || e.HeaderValue("X-A") != "2" {
		t.Errorf("stored %q with %v", e.Body, e.Header)
	}
	serve(options{bodyTimeout: 300 * time.Millisecond})
	endless, end := io.Pipe()
	defer end.Close()
	if res := post(endless, 100); res.StatusCode != 408 {
		t.Errorf("a body that does not come: %s", res.Status)
	}
}

// Requests whose bodies exceed maxReadingBytes are answered 503; requests with small bodies are still accepted.
func TestBodyMemoryLimit(t *testing.T) {
	w := newWorld(t, options{})
	w.ingest.bodies.readingBytes.Store(maxReadingBytes - 64<<10)
	w.want(w.post("small"), 200)
	a := w.want(w.do("POST", "", bytes.NewReader(make([]byte, 200<<10))), 503)
	is.Equal(t, a.Header.Get("Retry-After"), "1", a.Header)
	is.Equal(t, w.ingest.bodies.readingBytes.Load(), maxReadingBytes-64<<10, "bytes count as being read")
	is.Equal(t, w.metric(w.ingest.metrics.refused.WithLabelValues("body_memory")), 1, "refusals are counted")
	w.only()
}

// A client that disconnects after the last byte of its body has sent its event: it is stored.
func TestEventIsStoredAfterClientDisconnects(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, options{produce: func(next Producer) Producer {
		return producerFunc(func(topic string, p int32, r *record, done func(*record, error)) {
			close(entered)
			<-release
			next.Produce(topic, p, r, done)
		})
	}})
	conn := w.dial()
	io.WriteString(conn, request("POST", []string{"Content-Length: 1"}, "x"))
	<-entered
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	close(release)
	for deadline := time.Now().Add(2 * time.Minute); len(w.stored()) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the event is lost")
		}
	}
}

// Over its limit an endpoint answers 429, for provider events and for sent ones, and for each event of a batch
// separately. An event over the limit is not stored, claims no deduplication key, and is accepted later.
func TestIngestLimit(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_800_000_000)
	w := newWorld(t, options{
		redis: miniredis.RunT(t).Addr(), now: func() time.Time { return time.Unix(clock.Load(), 0) },
		endpoint: func(w *world, ep *config.Endpoint) {
			deduplicated("body:$.id")(w, ep)
			events, bytes := 3, 1024
			ep.IngestLimit = &config.IngestLimit{EventsPerSecond: &events, BytesPerSecond: &bytes}
		},
	})
	refused := func(a answer, limit, after string) {
		t.Helper()
		w.want(a, 429)
		text := "accepts at most " + limit + " per second (ingest_limit)"
		if a.Header.Get("Retry-After") != after || !strings.Contains(a.body, `"type":"rate_limited"`) ||
			!strings.Contains(a.body, text) {
			t.Errorf("answered %v %s", a.Header, a.body)
		}
	}
	for _, body := range []string{`{"id":1}`, `{"id":2}`, `{"id":1}`} {
		w.want(w.post(body), 200)
	}
	refused(w.post(`{"id":3}`), "3 events", "1")
	w.want(w.do("HEAD", "", nil), 200) // HEAD is not an event
	clock.Add(1)
	w.want(w.post(`{"id":3}`), 200)
	if e := w.stored()[3]; e.DuplicateOf != "" {
		t.Error("the event over the limit has claimed its deduplication key")
	}
	clock.Add(1)
	long := `{"long":"` + strings.Repeat("x", 3<<10) + `"}`
	w.want(w.post(long), 200) // one event larger than the bucket is accepted and leaves the bucket in debt
	clock.Add(1)
	refused(w.post(`{}`), "1024 bytes", "2")
	clock.Add(3)

	ep := w.EndpointByToken(token)
	var sent []*event.Event
	for range 5 {
		sent = append(sent, &event.Event{
			Source: event.SourceAPI, Verdict: event.VerdictUnverified, Method: "POST", Body: []byte("{}"),
		})
	}
	for i, err := range w.ingest.Acceptor().AcceptAll(t.Context(), sent, ep) {
		var limited *web.Error
		switch {
		case i < 3 && err != nil:
			t.Errorf("event %d of several: %v", i, err)
		case i >= 3 && (!errors.As(err, &limited) || limited.Status != http.StatusTooManyRequests ||
			!errors.Is(err, stream.ErrBufferFull)):
			t.Errorf("event %d of several: %v", i, err)
		}
	}
	is.Equal(t, len(w.stored()), 8, "events are stored")
	for limit, want := range map[string]float64{"events": 3, "bytes": 1} {
		is.Equal(t, w.metric(w.ingest.metrics.limited.WithLabelValues(limit)), want,
			"over the limit of %s are counted", limit)
	}
}

// Requests with an invalid signature use up nothing of the endpoint's ingest_limit.
func TestRejectedRequestsDoNotUseTheLimit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	w := newWorld(t, options{now: func() time.Time { return now }, endpoint: func(w *world, ep *config.Endpoint) {
		events := 2
		ep.IngestLimit = &config.IngestLimit{EventsPerSecond: &events}
		ep.Verification = w.verification("github", "secret")
	}})
	for range 5 {
		w.want(w.post("x"), 401)
	}
	for range 2 {
		w.want(w.post("x", "X-Hub-Signature-256", githubSignature("secret", "x")), 200)
	}
	w.want(w.post("x", "X-Hub-Signature-256", githubSignature("secret", "x")), 429)
}

// All endpoints of a tenant share its limit; those of others are not concerned.
func TestTenantLimit(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(),
		now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	w.tenantRate = 2
	ep := *w.EndpointByToken(token)
	ep.Tenant = "customer"
	other := ep
	other.ID = "ep_other"
	accept := func(ep *config.Endpoint) error {
		return w.ingest.Acceptor().Accept(t.Context(), &event.Event{Body: []byte("{}")}, ep)
	}
	for i, of := range []*config.Endpoint{&ep, &other, &ep, &other} {
		err := accept(of)
		refused, is := errors.AsType[*web.Error](err)
		if i < 2 && err != nil || i >= 2 && (!is || refused.Status != http.StatusTooManyRequests ||
			!strings.Contains(refused.Message, "limits.events_per_second")) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	other.Tenant = "unlimited"
	must.Do(t, accept(&other))
}

// inUse returns the bytes of heap and stacks after a garbage collection.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// 2,000 clients announce a body of 1 MiB each and send one byte. Each uses no more than a connection and its first
// buffers, other clients are served, and everything is freed when they disconnect.
func TestSlowClientsUseLittleMemory(t *testing.T) {
	const clients, each = 2000, 64 << 10 // bytes; both ends of the connection are in this process
	w := newWorld(t, options{bodyTimeout: time.Minute})
	w.want(w.post("before"), 200)
	goroutines, before := runtime.NumGoroutine(), inUse()
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i] = w.dial()
		framing := "Transfer-Encoding: chunked"
		part := "1\r\nx"
		if i%2 == 0 {
			framing, part = fmt.Sprint("Content-Length: ", maxBody), "x"
		}
		io.WriteString(conns[i], request("POST", []string{framing}, part))
	}
	eventually(t, "all are being read", func() bool { return w.ingest.bodies.readingBytes.Load() == clients })
	held := inUse() - before
	t.Logf("%d slow clients: %d KB in use, %d bytes each, %d goroutines", clients, held>>10, held/clients,
		runtime.NumGoroutine()-goroutines)
	if held > clients*each {
		t.Errorf("a slow client uses more than %d bytes", each)
	}
	w.want(w.post("meanwhile"), 200)
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "nothing is left", func() bool {
		return runtime.NumGoroutine() <= goroutines+5 && w.ingest.bodies.readingBytes.Load() == 0
	})
	is.Equal(t, len(w.stored()), 2, "events are stored")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}
