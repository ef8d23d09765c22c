package node

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A server keeps at most as many connections as its limit. One more replaces the connection that has had no request for
// the longest time: one that has sent nothing, half a header, or a request that was answered. A connection whose
// request is being answered is not replaced.
func TestConnectionsAreBounded(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended, release := make(chan error, 1), make(chan struct{})
	srv := &server{
		listener: listener, connections: 2, log: slog.New(slog.DiscardHandler), drain: time.Minute,
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			if r.URL.Path == "/slow" {
				_ = http.NewResponseController(w).Flush()
				<-release
			}
		}),
	}
	go func() { ended <- srv.Run(ctx) }()
	send := func(text string) net.Conn {
		c := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
		t.Cleanup(func() { _ = c.Close() })
		must.Get(io.WriteString(c, text))(t)
		return c
	}
	answered := func(c net.Conn, wait time.Duration) bool {
		must.Do(t, c.SetReadDeadline(time.Now().Add(wait)))
		_, err := io.ReadAtLeast(c, make([]byte, 1<<10), 1)
		return err == nil
	}
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	slow := send(request("/slow"))
	if !answered(slow, 10*time.Second) {
		t.Fatal("a connection within the bound is not served")
	}
	for _, quiet := range []string{"", "G", request("/")} { // each has the last slot, then loses it
		for range 20 {
			send(quiet)
		}
		if !answered(send(request("/")), 10*time.Second) {
			t.Errorf("after connections that sent %q a new one is not served", quiet)
		}
	}
	second := send(request("/slow"))
	if !answered(second, 10*time.Second) {
		t.Error("an idle connection was not replaced")
	}
	third := send(request("/"))
	if answered(third, 200*time.Millisecond) {
		t.Error("a third connection was served beside two with requests")
	}
	close(release)
	if !answered(third, 10*time.Second) {
		t.Error("the third connection was not served after the others had their answers")
	}
	stop()
	is.OK(t, <-ended)
	if _, ok := any(&limitedConn{}).(interface{ CloseWrite() error }); !ok {
		t.Error("a client that is still sending would not read why it was refused")
	}
	if n := maxConnections(); n < 100 || n > 16_384 {
		t.Errorf("the default limit is %d connections", n)
	}
}

// Until clients have left, a server that stops takes requests, and closes each connection with its next answer, so that
// no client sends a request on a connection that is just being closed.
func TestServerTakesRequestsUntilClientsHaveLeft(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	leaving, left, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	srv := &server{
		listener: listener, log: slog.New(slog.DiscardHandler), handler: http.NotFoundHandler(), drain: time.Minute,
		beforeShutdown: func() {
			close(leaving)
			<-left
		},
	}
	go func() { ended <- srv.Run(ctx) }()
	clients := []*http.Client{{Transport: &http.Transport{}}, {Transport: &http.Transport{}}}
	f := func(cl *http.Client, closes bool) {
		t.Helper()
		resp := must.Get(cl.Get("http://" + listener.Addr().String()))(t)
		_ = resp.Body.Close()
		is.Equal(t, resp.Close, closes, "the answer closes its connection")
	}
	f(clients[0], false)
	stop()
	<-leaving
	f(clients[0], true) // on a connection from before
	f(clients[1], true)
	close(left)
	is.OK(t, <-ended)
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("the server has ended and accepts connections")
	}
}

// A server that stops waits for requests in flight. One that would not end loses its connection after the drain, and
// the stop is no failure.
func TestStopIsBounded(t *testing.T) {
	for _, c := range []struct {
		drain  time.Duration
		cutOff bool
	}{{time.Minute, false}, {50 * time.Millisecond, true}} {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ctx, stop := context.WithCancel(t.Context())
		arrived, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		srv := &server{
			listener: listener, log: slog.New(slog.DiscardHandler), drain: c.drain,
			handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}),
		}
		go func() { ended <- srv.Run(ctx) }()
		answered := make(chan error, 1)
		go func() {
			resp, err := (&http.Client{Transport: &http.Transport{}}).Get("http://" + listener.Addr().String())
			if err == nil {
				err = resp.Body.Close()
			}
			answered <- err
		}()
		<-arrived
		stop()
		if !c.cutOff {
			select {
			case err := <-ended:
				t.Fatalf("the server ended before its request: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			close(release)
		}
		is.OK(t, <-ended, "drain %v: the stop is a failure", c.drain)
		if err := <-answered; (err != nil) != c.cutOff {
			t.Errorf("drain %v: the request ended with %v", c.drain, err)
		}
	}
}

// A server that fails does not wait for clients to leave.
func TestFailedServerEndsAtOnce(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = listener.Close()
	srv := &server{
		listener: listener, log: slog.New(slog.DiscardHandler), handler: http.NotFoundHandler(),
		beforeShutdown: func() { t.Error("it waits") },
	}
	if err := srv.Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

// A node that is told to stop waits for load balancers only if a person stops it, and relay dev does not by itself.
func TestShutdownDelay(t *testing.T) {
	for _, c := range []struct {
		config nodeconfig.Config
		want   time.Duration
	}{
		{nodeconfig.Config{ShutdownDelay: nodeconfig.Unset}, 5 * time.Second},
		{nodeconfig.Config{ShutdownDelay: nodeconfig.Unset, Embedded: true}, 0},
		{nodeconfig.Config{ShutdownDelay: 0}, 0},
		{nodeconfig.Config{ShutdownDelay: 20, Embedded: true}, 20 * time.Second},
	} {
		is.Equal(t, c.config.StopDelay(), c.want, "%d, embedded %t", c.config.ShutdownDelay, c.config.Embedded)
	}
	st := NewStack(t.Context(), slog.New(slog.DiscardHandler))
	st.Start("works", func(ctx context.Context) error {
		<-ctx.Done()
		if !st.Failed() {
			t.Error("the stack does not know that a component has failed")
		}
		return nil
	})
	if st.Failed() {
		t.Error("nothing has failed yet")
	}
	st.Start("fails", func(context.Context) error { return io.ErrUnexpectedEOF })
	is.ErrorIs(t, st.Wait(), io.ErrUnexpectedEOF)
}

// peers is a listener with connections from given addresses.
type peers struct {
	net.Listener
	conns chan net.Conn
}

func (l *peers) Accept() (net.Conn, error) { return <-l.conns, nil }

type peerConn struct {
	net.Conn
	from string
}

func (c *peerConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}
func (c *peerConn) CloseWrite() error { return nil }

// One address has a part of the connections; one more replaces an idle one of them, or is closed. This machine and
// trusted proxies have all connections.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	inner := &peers{conns: make(chan net.Conn, 2)}
	l := newLimitListener(inner, 100, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")})
	if most := maxConnections(); newLimitListener(nil, most, nil).ofPeer > max(most/4, minOfPeer) {
		t.Error("one address may have most of the connections")
	}
	l.ofPeer = 2
	accept := func() net.Conn {
		t.Helper()
		c := must.Get(l.Accept())(t)
		return c
	}
	f := func(from string, want bool) (c *limitedConn) {
		t.Helper()
		ours, theirs := net.Pipe()
		inner.conns <- &peerConn{theirs, from}
		inner.conns <- &peerConn{theirs, "127.0.0.1:9"}
		c = accept().(*limitedConn)
		c.requestStarted()
		is.Equal(t, c.RemoteAddr().String() == from, want, "%s is accepted", from)
		if want {
			accept()
		} else if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s is not closed: %v", from, err)
		}
		return c
	}
	first := f("192.0.2.1:1", true)
	f("192.0.2.1:2", true)
	f("192.0.2.1:3", false)
	f("[::ffff:192.0.2.1]:4", false)
	f("192.0.2.2:1", true)
	f("[2001:db8::1]:1", true)
	f("[2001:db8::2]:1", true)
	f("[2001:db8::3]:1", false)
	for range 5 {
		f("198.51.100.7:1", true)
	}
	_ = first.Close()
	_ = first.Close()
	f("192.0.2.1:5", true)
	f("192.0.2.1:6", false)
	idle := f("192.0.2.2:2", true)
	idle.requestFinished(2)
	f("192.0.2.1:7", false) // it is of another address
	f("192.0.2.2:3", true)
	if !idle.closed {
		t.Error("an idle connection was not replaced")
	}
	f("192.0.2.2:4", false)
}

// A stranger orders no certificate, also if it pretends to be the CA.
func TestHandshakeOrdersNoCertificate(t *testing.T) {
	c := must.Get(newACME(&nodeconfig.Config{DataDir: t.TempDir(), ACMEHosts: []string{"relay.example"},
		ACMEURL: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler)))(t)
	for _, protocols := range [][]string{nil, {"h2"}, {acme.ALPNProto, "h2"}, {"h2", acme.ALPNProto}} {
		_, err := c.config().GetCertificate(&tls.ClientHelloInfo{ServerName: "relay.example", SupportedProtos: protocols})
		is.ErrorIs(t, err, errNoCertificate, protocols)
	}
}

// No redirect leads elsewhere, and none hides that a secret was sent in the clear.
func TestRedirects(t *testing.T) {
	f := func(target string, authorization string, code int, location string) {
		t.Helper()
		r := httptest.NewRequest("GET", "http://evil.example/", nil)
		r.URL.Path, r.URL.RawQuery = target, "a=1"
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		redirects("https://relay.example").ServeHTTP(w, r)
		if w.Code != code || w.Header().Get("Location") != location {
			t.Errorf("%s: %d %s", target, w.Code, w.Header().Get("Location"))
		}
	}
	f("/events", "", http.StatusMovedPermanently, "https://relay.example/events?a=1")
	f("//evil.example", "", http.StatusMovedPermanently, "https://relay.example//evil.example?a=1")
	f("*", "", http.StatusBadRequest, "")
	f("/in/token", "", http.StatusForbidden, "")
	f("/v1/events", "Bearer rk_secret", http.StatusForbidden, "")
}

// The error for an address in use names the address, its setting and how to choose another.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = taken.Close() }()
	n := &Node{Host: features.Host{Settings: &nodeconfig.Config{Listen: taken.Addr().String()}}}
	if _, err = newListener(n); err == nil {
		_ = n.listener.Close()
		t.Fatal("listens at an address that is in use")
	}
	for _, want := range []string{"RELAY_LISTEN", taken.Addr().String(), "choose another with --listen"} {
		is.Has(t, err.Error(), want, "%q does not name %q", err, want)
	}
}

// fromListener makes each connection one of an address.
type fromListener struct {
	net.Listener
	from string
}

func (l *fromListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &peerConn{c, l.from}, nil
}

// statusOverHTTP2 returns the status of the answer to a GET; 0: the connection has ended.
func statusOverHTTP2(t *testing.T, client *http.Client, url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	is.Equal(t, resp.ProtoMajor, 2, "HTTP/")
	return resp.StatusCode
}

// Requests on connections of HTTP/2 are bounded as connections are. One more of an address ends its connection, one
// more of all is refused. Each connection may have one.
func TestRequestsOnHTTP2AreBounded(t *testing.T) {
	for _, c := range []struct {
		from         string
		most, ofPeer int
		status       int // of one request more; 0: the connection ends
	}{
		{from: "192.0.2.1:1", most: 100, ofPeer: 3},
		{from: "127.0.0.1:1", most: 3, ofPeer: 1, status: http.StatusServiceUnavailable},
	} {
		arrived, release := make(chan struct{}, 100), make(chan struct{})
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		limited := newLimitListener(&fromListener{srv.Listener, c.from}, c.most, nil)
		limited.ofPeer = c.ofPeer
		srv.Listener, srv.EnableHTTP2 = limited, true
		watchRequests(srv.Config)
		srv.StartTLS()
		defer srv.Close()
		first := srv.Client()
		second := &http.Client{Transport: first.Transport.(*http.Transport).Clone()} // with a connection of its own
		answers, others := make(chan int, 100), make(chan int, 100)
		ask := func(client *http.Client, answers chan<- int) { answers <- statusOverHTTP2(t, client, srv.URL) }
		wait := func(what string, of chan int, want int) {
			t.Helper()
			select {
			case got := <-of:
				is.Equal(t, got, want, "%s from %s: status", what, c.from)
			case <-time.After(time.Minute):
				t.Errorf("%s from %s: no answer", what, c.from)
			}
		}
		for range 3 {
			go ask(first, answers)
			<-arrived
		}
		go ask(second, others)
		select {
		case <-arrived:
		case status := <-others:
			t.Errorf("the first request of a connection from %s: status %d", c.from, status)
		}
		go ask(first, answers)
		wait("one more", answers, c.status)
		beside := http.StatusOK
		if c.status == 0 {
			beside = 0
		}
		close(release)
		for range 3 {
			wait("one beside it", answers, beside)
		}
		wait("one of another connection", others, http.StatusOK)
		go ask(first, answers)
		wait("after them", answers, http.StatusOK)
		// Handlers end after their clients have the answers, or the end of their connection.
		kit.WaitFor(t, "no request is counted", func() bool {
			limited.mu.Lock()
			defer limited.mu.Unlock()
			return limited.requests == 0 && len(limited.peerRequests) == 0
		})
	}
}

// A request that is refused before it reaches a handler has the headers of every answer.
func TestRefusedRequestHasAnID(t *testing.T) {
	answer := httptest.NewRecorder()
	refuseRequest(answer)
	h := answer.Header()
	if _, err := id.Parse("req_", h.Get("X-Request-Id")); answer.Code != http.StatusServiceUnavailable || err != nil ||
		h.Get("Retry-After") != "1" || h.Get("X-Content-Type-Options") == "" {
		t.Errorf("status %d, %v, %v", answer.Code, h, err)
	}
}

// Without ClickHouse a node with the role api still takes events and changes of the configuration: it stays ready,
// also with a damaged one. No other check is optional.
func TestStoreIsNotRequired(t *testing.T) {
	n := &Node{Host: features.Host{Settings: &nodeconfig.Config{Roles: []string{"api"}}, Reader: &read.Reader{}}}
	found := false
	for _, c := range n.checks() {
		found = found || c.Name == "store"
		is.Equal(t, c.Optional, c.Name == "store" || c.Name == "stored data", "%s: optional is", c.Name)
	}
	if !found {
		t.Error("the store is not checked")
	}
	n = &Node{Host: features.Host{Settings: &nodeconfig.Config{Roles: []string{"ingest", "dispatch", "write"}}}}
	for _, c := range n.checks() {
		if c.Name == "store" {
			t.Error("a node without the role api does not read the store")
		}
	}
}
