package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
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
		config Config
		want   time.Duration
	}{
		{Config{ShutdownDelay: Unset}, 5 * time.Second},
		{Config{ShutdownDelay: Unset, Embedded: true}, 0},
		{Config{ShutdownDelay: 0}, 0},
		{Config{ShutdownDelay: 20, Embedded: true}, 20 * time.Second},
	} {
		is.Equal(t, c.config.shutdownDelay(), c.want, "%d, embedded %t", c.config.ShutdownDelay, c.config.Embedded)
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
