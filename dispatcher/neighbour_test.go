package dispatcher

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/dispatcher/request"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
)

// gateway is one host and port with two destinations. /a answers requests in rounds, each when as many as the
// in-flight window allows have arrived, until there are many, and then hangs. /b answers at once and measures how long
// its events took.
type gateway struct {
	*httptest.Server
	url     string
	hangs   chan struct{} // closed when /a hangs
	release chan struct{}

	mu    sync.Mutex    // guards the fields below
	came  int           // requests of this round
	round int           // size of a round
	full  chan struct{} // closed when the round is complete
	took  []time.Duration
}

// arrive counts a request to /a and returns the channel that it waits for.
func (g *gateway) arrive(most int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.full
	g.came++
	switch {
	case g.round > most && g.came == most:
		close(g.hangs)
	case g.came == g.round:
		close(full)
		g.came, g.round, g.full = 0, 2*g.round, make(chan struct{})
	}
	return full
}

func startGateway(t *testing.T, http2 bool, most int) *gateway {
	t.Helper()
	g := &gateway{hangs: make(chan struct{}), release: make(chan struct{}), round: lane.InitialWindow,
		full: make(chan struct{})}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/b" {
			sent, _ := strconv.ParseInt(string(body), 10, 64)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.took = append(g.took, time.Since(time.Unix(0, sent)))
			return
		}
		select {
		case <-g.arrive(most):
		case <-g.release:
		}
	}))
	if g.url = "http"; http2 {
		g.EnableHTTP2, g.url = true, "https"
		g.StartTLS()
	} else {
		g.Start()
	}
	g.url += "://" + g.Listener.Addr().String()
	t.Cleanup(g.Close)
	return g
}

// transportTo returns a transport that trusts the gateway.
func (g *gateway) transportTo(t *testing.T) *egress.Transport {
	t.Helper()
	cfg := egress.Config{Policy: loopback()}
	if cert := g.Certificate(); cert != nil {
		cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
		if err := os.WriteFile(cfg.CAFile, block, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	transport, err := egress.NewTransport(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// A destination with hundreds of hanging requests does not slow down its neighbour at the same host and port, and no
// request of the neighbour times out. RELAY_TORTURE makes it many more requests.
func TestNeighboursAtOneHost(t *testing.T) {
	hanging, events := 256, 60 // more than a limit per host would allow
	if full() {
		hanging, events = 900, 10_000
	}
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) { neighbours(t, http2, hanging, events) })
	}
}

// neighbours lets one destination hang with that many running requests, then sends events to the other.
func neighbours(t *testing.T, http2 bool, hanging, events int) {
	const most = time.Minute // without a share of its own an event takes until the other's requests time out, 5 minutes
	g := startGateway(t, http2, hanging)
	release := sync.OnceFunc(func() { close(g.release) })
	defer release()
	w := newWorld(t, 1)
	w.rt = g.transportTo(t)
	endpoint := w.endpoint(g.url+"/a", g.url+"/b")
	endpoint.Destinations[0].MaxInFlight, endpoint.Destinations[0].TimeoutSeconds = 1000, 300
	w.view.put(endpoint)
	w.start(testConfig())
	for range 3 * hanging {
		w.producer.Produce(stream.Events, 0, w.newEvent("{}", "dst_1").Record(), func(*stream.Record, error) {})
	}
	select {
	case <-g.hangs:
	case <-time.After(w.patience):
		t.Fatalf("the first destination never had %d requests in flight", hanging)
	}
	for range events {
		w.accept(w.newEvent(strconv.FormatInt(time.Now().UnixNano(), 10), "dst_2"))
	}
	outcomes := w.outcomes(func(all []*event.Outcome) bool { return len(of(all, "dst_2")) >= events })
	release()
	for _, outcome := range of(outcomes, "dst_2") {
		if outcome.Status != event.Delivered || outcome.Attempt.ErrorCode != "" {
			t.Errorf("beside the hanging destination: %s %s", outcome.Status, outcome.Attempt.ErrorCode)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var slowest time.Duration
	for _, d := range g.took {
		slowest = max(slowest, d)
	}
	if slowest > most {
		t.Errorf("the slowest event took %v beside the hanging destination, want %v at most", slowest, most)
	}
	t.Logf("the slowest of %d events took %v beside %d hanging requests", events, slowest, hanging)
}

// of returns the outcomes of one destination.
func of(all []*event.Outcome, dest string) (out []*event.Outcome) {
	for _, outcome := range all {
		if outcome.Dest == dest {
			out = append(out, outcome)
		}
	}
	return out
}

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// h2 behaves like net/http over HTTP/2: a connection, a wait for a stream, the header, an answer.
func h2(connect, stream, answer time.Duration) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		ctx, hooks := r.Context(), httptrace.ContextClientTrace(r.Context())
		for _, step := range []struct {
			takes time.Duration
			then  func()
		}{
			{connect, func() { hooks.GotConn(httptrace.GotConnInfo{Conn: noConn{}}) }},
			{stream, func() { hooks.WroteHeaders() }},
			{answer, func() { hooks.GotFirstResponseByte() }},
		} {
			timer := time.NewTimer(step.takes)
			select {
			case <-timer.C:
				step.then()
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			}
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	}
}

// The time-out of an attempt covers connecting and the answer. Waiting for a stream of an HTTP/2 connection has a
// bound of its own.
func TestStreamWaitIsNoTimeout(t *testing.T) {
	f := func(connect, stream, answer time.Duration, message string, duration, total time.Duration) {
		t.Helper()
		var code event.ErrorCode
		if message != "" {
			code = event.CodeTimeout
		}
		synctest.Test(t, func(t *testing.T) {
			work := testWork(t, []byte("{}"))
			target := testTarget(t, "https://example.com/h", sign.NewSecret())
			target.Timeout = 10 * time.Second
			began := time.Now()
			c := newTestClient(h2(connect, stream, answer))
			attempt := c.send(t.Context(), work.Event.ID, target, work, request.Stored(work))
			if attempt.ErrorCode != code || attempt.ErrorMessage != message || attempt.Duration != duration ||
				time.Since(began) != total {
				t.Errorf("connect %v, stream %v, answer %v: %q %q, %v of %v, want %q, %v of %v", connect, stream, answer,
					attempt.ErrorCode, attempt.ErrorMessage, attempt.Duration, time.Since(began), message, duration, total)
			}
		})
	}
	const s = time.Second
	f(0, 0, 9*s, "", 9*s, 9*s)
	f(0, 0, 11*s, "no answer of the destination within 10s", 10*s, 10*s)
	f(11*s, 0, 0, "no connection to the destination within 10s", 10*s, 10*s)
	f(1*s, 8*s, 8*s, "", 9*s, 17*s)
	f(1*s, 9*s+s/2, 8*s, "", 9*s, 18*s+s/2)
	f(1*s, 9*s+s/2, 10*s, "no answer of the destination within 10s", 10*s, 19*s+s/2)
	f(1*s, 30*s, 0, "the destination gave the request no HTTP/2 stream within 10s", 1*s, 11*s)
}

// A request that waits because the node has no free open files has its whole time-out afterwards.
func TestWaitForOpenFilesIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waited"})
		c := newClient(h2(0, 0, 8*time.Second), "test", time.Now, 1, waited)
		target := testTarget(t, "https://example.com/h", sign.NewSecret())
		target.Timeout = 10 * time.Second
		var wg sync.WaitGroup
		for range 3 {
			work := testWork(t, []byte("{}"))
			wg.Go(func() {
				if attempt := c.send(t.Context(), work.Event.ID, target, work, request.Stored(work)); attempt.Code != 200 ||
					attempt.Duration != 8*time.Second {
					t.Errorf("%d %s after %v", attempt.Code, attempt.ErrorCode, attempt.Duration)
				}
			})
		}
		wg.Wait()
		registry := prometheus.NewRegistry()
		registry.MustRegister(waited)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if sum := families[0].GetMetric()[0].GetHistogram().GetSampleSum(); sum != 24 { // 0, 8 and 16
			t.Errorf("requests waited %v s", sum)
		}
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		work := testWork(t, []byte("{}"))
		if attempt := c.send(stop, work.Event.ID, target, work, request.Stored(work)); attempt.Code != 0 ||
			attempt.ErrorCode != event.CodeInternal {
			t.Errorf("while the node stops: %d %s", attempt.Code, attempt.ErrorCode)
		}
	})
}

// Connecting and TLS count towards the time-out, and a request frees its slot however it ends.
func TestHostsThatDoNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are accepted by the kernel, TLS is never answered
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	fine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer fine.Close()
	c := testClient(t, loopback())
	c.requestSlots = semaphore.NewWeighted(1)
	f := func(address string, code event.ErrorCode) {
		t.Helper()
		work := testWork(t, []byte("{}"))
		target := testTarget(t, address, sign.NewSecret())
		if code == event.CodeTimeout {
			target.Timeout = 100 * time.Millisecond
		}
		attempt := c.send(t.Context(), work.Event.ID, target, work, request.Stored(work))
		if attempt.ErrorCode != code || code == event.CodeTimeout && attempt.Duration < target.Timeout ||
			attempt.Duration > time.Minute {
			t.Errorf("%s: %q %q after %v", address, attempt.ErrorCode, attempt.ErrorMessage, attempt.Duration)
		}
	}
	for range 2 {
		f("https://"+silent.Addr().String(), event.CodeTimeout)
		f("http://"+silent.Addr().String(), event.CodeTimeout)
		f("https://"+gone.Addr().String(), event.CodeConnectionRefused)
		f(fine.URL, "")
	}
}

// noConn is a connection without a peer.
type noConn struct{ net.Conn }

func (noConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
