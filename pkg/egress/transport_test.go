package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var loopbackAllowed = Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// startTLS starts a server with a certificate for example.com and returns it with its URL, https://example.com:port.
// http2 enables HTTP/2.
func startTLS(t *testing.T, http2 bool, handler http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(handler)
	srv.EnableHTTP2 = http2
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	return srv, "https://example.com:" + port
}

// caFile writes the server's certificate to a file of root certificates and returns its path.
func caFile(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	must.Do(t, os.WriteFile(file, block, 0o600))
	return file
}

// transportTo returns a Transport that trusts srv and resolves every name to 127.0.0.1.
func transportTo(t *testing.T, srv *httptest.Server) *Transport {
	t.Helper()
	return newTransport(t, Config{
		Policy: loopbackAllowed, CAFile: caFile(t, srv), DNSServer: startDNS(t, always("127.0.0.1"))})
}

// read reads and closes the body of a response and returns it.
func read(t *testing.T, res *http.Response) string {
	t.Helper()
	body := must.Get(io.ReadAll(res.Body))(t)
	res.Body.Close()
	return string(body)
}

func TestConnectionsAreReused(t *testing.T) {
	f := func(http2 bool, proto string) {
		t.Helper()
		var opened atomic.Int64
		srv := httptest.NewUnstartedServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
		srv.EnableHTTP2 = http2
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		srv.StartTLS()
		defer srv.Close()
		tr := transportTo(t, srv)
		defer tr.CloseIdleConnections()
		_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
		for range 5 {
			req := must.Get(http.NewRequestWithContext(
				t.Context(), http.MethodPost, "https://example.com:"+port, strings.NewReader("body")))(t)
			res := must.Get(tr.RoundTrip(req))(t)
			if got := read(t, res); got != "body" || res.Proto != proto || res.TLS.Version < tls.VersionTLS12 {
				t.Errorf("%s: body %q over %s", proto, got, res.Proto)
			}
		}
		is.Equal(t, opened.Load(), 1, "%s: connections for 5 requests", proto)
	}
	f(false, "HTTP/1.1")
	f(true, "HTTP/2.0")
}

// If a receiver closes each connection, only the first one needs a full handshake.
func TestTLSSessionsAreResumed(t *testing.T) {
	srv, url := startTLS(t, false, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	tr := transportTo(t, srv)
	for i, want := range []bool{false, true} {
		res := must.Get(get(t, tr, url))(t)
		read(t, res)
		is.Equal(t, res.TLS.DidResume, want, "connection %d: resumed is", i)
	}
}

// A handshake needs a slot for what it computes, and none while it waits: silent receivers delay no other.
func TestHandshakesThatComputeAreLimited(t *testing.T) {
	srv, url := startTLS(t, true, func(http.ResponseWriter, *http.Request) {})
	tr := transportTo(t, srv)
	silent := make(chan struct{}, 2*maxHandshakes)
	_, port, _ := net.SplitHostPort(rawServer(t, func(c net.Conn) {
		silent <- struct{}{}
		io.Copy(io.Discard, c)
	}))
	send := func(url string, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url, nil))(t)
		res, err := tr.RoundTrip(req)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for range 2 * maxHandshakes {
		waiting.Go(func() {
			if send("https://example.com:"+port, 4*time.Second) == nil {
				t.Error("a silent receiver answered")
			}
		})
	}
	for range 2 * maxHandshakes {
		<-silent
	}
	must.Do(t, send(url, 3*time.Second))

	tr.CloseIdleConnections()
	for range cap(tr.handshakes) { // as many compute
		tr.handshakes <- struct{}{}
	}
	if send(url, 100*time.Millisecond) == nil {
		t.Error("a handshake computed beside as many as may")
	}
	for range cap(tr.handshakes) {
		<-tr.handshakes
	}
	must.Do(t, send(url, 3*time.Second))
}

func TestRedirectIsNotFollowed(t *testing.T) {
	port, connections := canary(t)
	srv, url := startTLS(t, true, func(w http.ResponseWriter, r *http.Request) {
		is.Equal(t, r.URL.Path, "/", "%s was asked for", r.URL)
		w.Header().Set("Location", map[string]string{
			"a": "https://127.0.0.1:" + port + "/", "b": "/next", "c": "http://169.254.169.254/"}[r.URL.RawQuery])
		w.WriteHeader(map[string]int{"a": 302, "b": 307, "c": 301}[r.URL.RawQuery])
	})
	tr := transportTo(t, srv)
	for query, want := range map[string]int{"a": 302, "b": 307, "c": 301} {
		res := must.Get(get(t, tr, url+"/?"+query))(t)
		is.Equal(t, res.StatusCode, want, "status")
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the redirect's target was reached %d times", n)
	}
}

func TestProxyIsIgnored(t *testing.T) {
	req := must.Get(http.NewRequest(http.MethodGet, "https://example.com/", nil))(t)
	if proxy, err := http.ProxyFromEnvironment(req); err != nil || proxy.String() != deadProxy {
		t.Fatalf("the environment names the proxy %v, %v", proxy, err)
	}
	srv, url := startTLS(t, true, func(http.ResponseWriter, *http.Request) {})
	if _, err := get(t, transportTo(t, srv), url); err != nil {
		t.Error(err)
	}
}

func TestResponsesAreNotDecompressed(t *testing.T) {
	srv, url := startTLS(t, true, func(w http.ResponseWriter, r *http.Request) {
		is.Equal(t, r.Header.Get("Accept-Encoding"), "", "accept-encoding")
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "not gzip at all")
	})
	res := must.Get(get(t, transportTo(t, srv), url))(t)
	is.Equal(t, read(t, res), "not gzip at all", "body")
}

// http needs AllowHTTP. A blocked request's body is closed, as http.RoundTripper requires.
func TestPlainHTTP(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	defer srv.Close()
	body := &closeRecorder{Reader: strings.NewReader("x")}
	send := func(p Policy) (*http.Response, error) {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body))(t)
		return newTransport(t, Config{Policy: p}).RoundTrip(req)
	}
	if _, err := send(loopbackAllowed); err == nil || !strings.Contains(err.Error(), "only https") {
		t.Errorf("without AllowHTTP: %v", err)
	}
	if !body.closed {
		t.Error("the body of a blocked request is not closed")
	}
	res := must.Get(send(Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true}))(t)
	is.Equal(t, read(t, res), "x", "body")
}

type closeRecorder struct {
	io.Reader
	closed bool
}

func (c *closeRecorder) Close() error { c.closed = true; return nil }

// The connections per host are not limited: all requests are in flight at the same time. Later requests use their
// connections again, up to maxPoolIdle.
func TestConnectionsPerHostAreNotLimited(t *testing.T) {
	const requests = 600
	var open, opened atomic.Int64
	full := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open.Add(1) == requests {
			close(full)
		}
		select { // no response is sent before all requests are in flight
		case <-full:
		case <-r.Context().Done():
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	tr := newTransport(t, Config{Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true}})
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only for hangs
	defer cancel()
	burst := func(n int) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { post(ctx, t, tr, srv.URL) })
		}
		wg.Wait()
	}
	burst(requests)
	before := opened.Load()
	for range 3 {
		burst(maxPoolIdle / 4)
	}
	is.Equal(t, opened.Load()-before, 0, "new connections for a quarter of those that are kept")
}

// More concurrent requests than an HTTP/2 connection allows streams use further connections instead of waiting for the
// first.
func TestHTTP2OpensFurtherConnections(t *testing.T) {
	const streams, requests = 4, 10
	var open, opened atomic.Int64
	all := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		if open.Add(1) == requests {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = discardLog
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	srv.StartTLS()
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	url := "https://example.com:" + port
	tr := transportTo(t, srv)
	// Without a first connection each request would open one, and their handshakes at once could take too long.
	must.Get(get(t, tr, url))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only for hangs
	defer cancel()
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() { post(ctx, t, tr, url) })
	}
	wg.Wait()
	if n := opened.Load(); n < (requests+streams-1)/streams {
		t.Errorf("%d requests at once used %d connections of %d streams", requests, n, streams)
	}
}

// post sends a request and reads only the header of the response.
func post(ctx context.Context, t *testing.T, tr *Transport, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Error(err)
		return
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	res.Body.Close()
}

// TestStreamWindow measures how much a receiver can send to a caller that does not read.
func TestStreamWindow(t *testing.T) {
	sent := make(chan int, 1)
	srv, url := startTLS(t, true, func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		rc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, chunk := 0, make([]byte, 16<<10)
		for {
			m, err := w.Write(chunk)
			if err == nil {
				err = rc.Flush()
			}
			if n += m; err != nil || n > 8<<20 {
				sent <- n
				return
			}
		}
	})
	must.Get(get(t, transportTo(t, srv), url))(t)
	if n := <-sent; n > 4*streamWindow {
		t.Errorf("the receiver could send %d bytes unread", n)
	}
}

// TestSilentHTTP2ConnectionIsClosed checks that requests to a peer that vanished silently fail within a limited time,
// whatever their deadline, and that the next request uses a new connection.
func TestSilentHTTP2ConnectionIsClosed(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	file, serverTLS := caFile(t, cert), cert.TLS.Clone()
	cert.Close()
	synctest.Test(t, func(t *testing.T) {
		tr, err := NewTransport(Config{Policy: loopbackAllowed, CAFile: file})
		must.Do(t, err)
		var muted atomic.Bool
		listener := newPipeListener()
		tr.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			client, server := net.Pipe()
			listener.conns <- &mutedConn{Conn: server, muted: &muted}
			return client, nil
		}
		srv := &http.Server{
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/mute" {
					muted.Store(true)
					<-r.Context().Done()
				}
			}),
			TLSConfig: serverTLS, ErrorLog: discardLog,
		}
		serverTLS.NextProtos = []string{"h2"}
		var wg sync.WaitGroup
		wg.Go(func() { srv.ServeTLS(listener, "", "") })

		if _, err := get(t, tr, "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = get(t, tr, "https://example.com/mute")
		if err == nil {
			t.Fatal("a silent peer answered")
		}
		if d := time.Since(start); d < pingAfter || d > pingAfter+pingTimeout+writeTimeout {
			t.Errorf("given up after %s: %v", d, err)
		}
		muted.Store(false)
		if _, err := get(t, tr, "https://example.com/"); err != nil {
			t.Error("after it: ", err)
		}
		tr.CloseIdleConnections()
		srv.Close()
		wg.Wait()
	})
}

// A TLS handshake is limited even if the request is not; the connection is closed then.
func TestSilentHandshakeIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := NewTransport(Config{Policy: loopbackAllowed})
		must.Do(t, err)
		closed := make(chan error, 1)
		tr.dial = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				_, err := io.Copy(io.Discard, server)
				closed <- err
			}()
			return client, nil
		}
		var hooks []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			TLSHandshakeStart: func() { hooks = append(hooks, "start") },
			TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { hooks = append(hooks, fmt.Sprint("done ", err != nil)) },
		})
		start := time.Now()
		req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/", nil))(t)
		_, err = tr.RoundTrip(req)
		if Classify(err) != event.CodeTimeout || !strings.HasPrefix(Message(err), "TLS handshake: ") {
			t.Errorf("given up with %v", err)
		}
		is.Equal(t, time.Since(start), handshakeTimeout, "given up after")
		is.OK(t, <-closed)
		is.List(t, hooks, []string{"start", "done true"}, "hooks")
	})
}

// Idle connections, and silent ones, have limits that no other test reaches.
func TestTransportLimits(t *testing.T) {
	for _, c := range []struct{ set, want int }{{0, MaxIdle}, {7, 7}} {
		tr := newTransport(t, Config{MaxIdle: c.set})
		if tr.inner.MaxIdleConns != c.want || tr.inner.IdleConnTimeout != idleTimeout {
			t.Errorf("%d idle connections for %s", tr.inner.MaxIdleConns, tr.inner.IdleConnTimeout)
		}
		if h := tr.inner.HTTP2; h.PingTimeout != pingTimeout || h.WriteByteTimeout != writeTimeout ||
			h.MaxReceiveBufferPerConnection != connWindow {
			t.Errorf("HTTP/2: %+v", *h)
		}
	}
	g := newGuard(Policy{}, net.DefaultResolver)
	if g.dottedNames.Timeout != connectTimeout || g.allowedOnly.Timeout != connectTimeout {
		t.Errorf("a connection may take %s, %s", g.dottedNames.Timeout, g.allowedOnly.Timeout)
	}
	if err := g.checkCandidate("/run/engine.sock", true); Classify(err) != event.CodeAddressBlocked {
		t.Errorf("a socket that is no address: %v", err)
	}
}

// pipeListener accepts the server ends of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// mutedConn discards what the server writes while muted, like a network whose other end is gone.
type mutedConn struct {
	net.Conn
	muted *atomic.Bool
}

func (c *mutedConn) Write(p []byte) (int, error) {
	if c.muted.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestCAFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	must.Do(t, os.WriteFile(empty, []byte("no certificate here"), 0o600))
	f := func(file, want string) {
		t.Helper()
		if _, err := NewTransport(Config{CAFile: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	f(filepath.Join(dir, "missing.pem"), "no such file")
	f(empty, "no certificate in PEM form")
	// The CA file is added to the system's root certificates.
	srv, _ := startTLS(t, false, func(http.ResponseWriter, *http.Request) {})
	pool := must.Get(rootCAs(caFile(t, srv)))(t)
	subjects := pool.Subjects() //nolint:staticcheck // only the added certificate is checked
	if !bytes.Contains(bytes.Join(subjects, nil), srv.Certificate().RawSubject) {
		t.Error("the file's certificate is not in the pool")
	}
}

// BenchmarkRoundTrip measures one delivery of 1 KB over an open connection, with both ends in this process. The
// destinations of the host take turns.
func BenchmarkRoundTrip(b *testing.B) {
	srv := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer srv.Close()
	body := make([]byte, 1024)
	for _, destinations := range []int{1, 200} {
		b.Run(fmt.Sprint("destinations=", destinations), func(b *testing.B) {
			tr := newTransport(b, Config{Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true}})
			contexts := make([]context.Context, destinations)
			for n := range contexts {
				contexts[n] = WithDestination(b.Context(), fmt.Sprint("dst_", n))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				ctx := contexts[n%destinations]
				req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, bytes.NewReader(body)))(b)
				res := must.Get(tr.RoundTrip(req))(b)
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
}

// An operator's host is resolved by the configured server and reached although it is not public, with the configured
// root certificates.
func TestOperatorDialer(t *testing.T) {
	srv, _ := startTLS(t, false, nil)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	o := must.Get(NewOperatorDialer(caFile(t, srv), startDNS(t, always("127.0.0.1"))))(t)
	conn := must.Get(o.Dial(t.Context(), "tcp", "example.com:"+port))(t)
	defer conn.Close()
	conf := o.TLS().Clone()
	conf.ServerName = "example.com"
	is.OK(t, tls.Client(conn, conf).HandshakeContext(t.Context()))
	if conf.MinVersion != tls.VersionTLS12 || o.dialer.Timeout != connectTimeout {
		t.Errorf("TLS from %x on, %s for a connection", conf.MinVersion, o.dialer.Timeout)
	}
	if _, err := NewOperatorDialer(filepath.Join(t.TempDir(), "missing.pem"), ""); err == nil {
		t.Error("a missing file of certificates is accepted")
	}
	if _, err := NewOperatorDialer("", "dns.example.com"); err == nil {
		t.Error("a DNS server that is not an address is accepted")
	}
}

// The tools that run on a developer's machine refuse what specialPrefixes has, but private networks: a developer's
// target is there. Node.js checks an IPv4-mapped address as the IPv4 address that it holds.
func TestToolsRefuseTheSameAddresses(t *testing.T) {
	text := must.Get(os.ReadFile("../../sdk/shared/target.mjs"))(t)
	list := func(name string) (all []netip.Prefix) {
		statement := regexp.MustCompile(`(?s)const ` + name + ` = addressList\((.*?)\)`).FindSubmatch(text)
		if statement == nil {
			t.Fatalf("target.mjs has no list %s", name)
		}
		for _, m := range regexp.MustCompile(`'([^']+)'`).FindAllSubmatch(statement[1], -1) {
			all = append(all, netip.MustParsePrefix(string(m[1])))
		}
		return all
	}
	accepted := []TargetClass{Public, Loopback, Private, UniqueLocal, CGNAT, IPv4Mapped}
	reserved, metadata := list("reserved"), list("metadata")
	for _, s := range specialPrefixes {
		if slices.Contains(accepted, s.class) || s.prefix.Bits() == 0 {
			continue
		}
		if !slices.ContainsFunc(slices.Concat(reserved, metadata), func(p netip.Prefix) bool {
			return p.Bits() <= s.prefix.Bits() && p.Contains(s.prefix.Addr())
		}) {
			t.Errorf("target.mjs does not refuse %v (%s)", s.prefix, s.class)
		}
	}
	for _, p := range reserved {
		first := p.Addr()
		if p.Bits() == 96 {
			first = first.Next().Next() // ::/96 begins with :: and ::1
		}
		if class := ClassifyAddr(first); slices.Contains(accepted, class) {
			t.Errorf("target.mjs refuses %v, which is %s", p, class)
		}
	}
	for _, p := range metadata {
		if class := ClassifyAddr(p.Addr()); class == Public {
			t.Errorf("pkg/egress sends to %v", p)
		}
	}
}
