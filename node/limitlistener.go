package node

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// limitListener bounds how many connections are open at once; further ones wait in the system's backlog. A waiting
// connection replaces the one that has been idle (without a request) the longest, so that a client that opens many
// connections and sends nothing, or half a header, keeps nobody out.
//
// One address, or /64 of IPv6, has at most a part of the connections; more of it are closed at once. Otherwise one
// client with as many requests as there are connections, each with a body that hardly arrives, would keep others out.
// Trusted proxies and this machine have no such bound: others are behind them.
//
// A connection of HTTP/2 carries hundreds of requests, each with a goroutine and its buffers. So the requests that are
// being answered have the bounds of the connections too, except that each connection may have one. An address beyond
// its bound loses the connection: it could keep even a refusal from being sent.
//
// Its connections support CloseWrite: net/http uses it so that a client that is still sending can read why its request
// was refused.
type limitListener struct {
	net.Listener
	limit     int
	ofPeer    int // of the limit
	proxies   []netip.Prefix
	slotFreed chan struct{} // signalled after a connection was closed or became idle
	closed    chan struct{}
	once      sync.Once

	mu              sync.Mutex // guards what follows
	open            int
	peers           map[netip.Addr]int // open connections of those that have a bound
	requests        int                // that handlers are answering
	peerRequests    map[netip.Addr]int // of requests, those of peers that have a bound
	idleConnections list.List          // of *limitedConn without a request, the longest idle first
}

// minOfPeer is the least bound of an address, where few files may be open.
const minOfPeer = 256

func newLimitListener(l net.Listener, limit int, proxies []netip.Prefix) *limitListener {
	return &limitListener{Listener: l, limit: limit, ofPeer: max(limit/4, minOfPeer), proxies: proxies,
		peers: map[netip.Addr]int{}, peerRequests: map[netip.Addr]int{},
		slotFreed: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Accept waits for a connection of an address that may have one more, then for a slot.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		half, ok := raw.(halfCloser)
		if !ok {
			_ = raw.Close()
			return nil, fmt.Errorf("accept: %T cannot be closed in one direction", raw)
		}
		c := &limitedConn{halfCloser: half, listener: l, peer: l.peerOf(raw)}
		if l.countPeer(c) {
			return l.awaitSlot(c)
		}
		_ = raw.Close()
	}
}

// peerOf returns the address whose connections are bounded; invalid: they are not.
func (l *limitListener) peerOf(c net.Conn) netip.Addr {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	addr := peer.Addr().Unmap().WithZone("")
	isProxy := func(p netip.Prefix) bool { return p.Contains(addr) }
	if addr.IsLoopback() || slices.ContainsFunc(l.proxies, isProxy) {
		return netip.Addr{}
	}
	return web.NetworkOf(addr)
}

// countPeer counts a connection of its address. If that has as many as it may, it replaces its longest idle one;
// without an idle one countPeer reports false.
func (l *limitListener) countPeer(c *limitedConn) bool {
	if !c.peer.IsValid() {
		return true
	}
	for {
		l.mu.Lock()
		if l.peers[c.peer] < l.ofPeer {
			l.peers[c.peer]++
			l.mu.Unlock()
			return true
		}
		e := l.idleConnections.Front()
		for e != nil && e.Value.(*limitedConn).peer != c.peer {
			e = e.Next()
		}
		l.mu.Unlock()
		if e == nil {
			return false
		}
		_ = e.Value.(*limitedConn).Close()
	}
}

// uncountPeerLocked ends what countPeer has counted.
func (l *limitListener) uncountPeerLocked(c *limitedConn) {
	if !c.peer.IsValid() {
		return
	}
	if l.peers[c.peer]--; l.peers[c.peer] == 0 {
		delete(l.peers, c.peer)
	}
}

// awaitSlot waits for a slot.
func (l *limitListener) awaitSlot(c *limitedConn) (net.Conn, error) {
	for !l.admit(c) {
		select {
		case <-l.slotFreed:
		case <-l.closed:
			_ = c.halfCloser.Close()
			return nil, net.ErrClosed
		}
	}
	return c, nil
}

// admit takes a slot for a connection, and closes the longest idle one if there is none left. It reports false when no
// connection is idle.
func (l *limitListener) admit(c *limitedConn) bool {
	for {
		l.mu.Lock()
		if l.open < l.limit {
			l.open++
			c.setIdleLocked(true)
			l.mu.Unlock()
			return true
		}
		oldest := l.idleConnections.Front()
		l.mu.Unlock()
		if oldest == nil {
			return false
		}
		_ = oldest.Value.(*limitedConn).Close()
	}
}

// Close closes the listener and ends a waiting Accept.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// signal makes a waiting Accept try again.
func (l *limitListener) signal() { wait.Wake(l.slotFreed) }

// halfCloser is a connection whose write side can be closed alone, as with TCP and unix sockets.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// limitedConn returns its slot when it is closed.
type limitedConn struct {
	halfCloser
	listener *limitListener
	peer     netip.Addr // see limitListener.peerOf

	// Guarded by the listener's mutex.
	idleEntry *list.Element // in the listener's idleConnections; nil = it has a request
	requests  int           // that handlers are answering
	writing   bool          // the handler has returned, but its answer may not be sent yet
	closed    bool
}

func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if !c.closed {
		c.closed = true
		l.open--
		l.uncountPeerLocked(c)
		c.setIdleLocked(false)
		l.signal()
	}
	l.mu.Unlock()
	return c.halfCloser.Close()
}

// setIdleLocked appends the connection to the idle ones, or removes it.
func (c *limitedConn) setIdleLocked(idle bool) {
	if c.idleEntry != nil {
		c.listener.idleConnections.Remove(c.idleEntry)
		c.idleEntry = nil
	}
	if idle && !c.closed {
		c.idleEntry = c.listener.idleConnections.PushBack(c)
		c.listener.signal()
	}
}

// requestStarted and requestFinished enclose a request. With HTTP/1 the answer is sent after the handler has returned,
// and the server then calls connectionIdle. With HTTP/2 the connection may be idle already, and no call would follow.
//
// requestStarted reports whether the request may be answered. It closes the connection of an address that has too many.
func (c *limitedConn) requestStarted() (admitted bool) {
	l := c.listener
	l.mu.Lock()
	c.requests++
	c.setIdleLocked(false)
	l.requests++
	if c.peer.IsValid() {
		l.peerRequests[c.peer]++
	}
	isMore := c.requests > 1 // as only HTTP/2 has
	closes := isMore && l.peerRequests[c.peer] > l.ofPeer
	refused := isMore && l.requests > l.limit
	l.mu.Unlock()
	if closes {
		_ = c.Close()
	}
	return !closes && !refused
}

// requestFinished gets the major version of HTTP.
func (c *limitedConn) requestFinished(major int) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.requests--
	c.listener.requests--
	if c.peer.IsValid() {
		if c.listener.peerRequests[c.peer]--; c.listener.peerRequests[c.peer] == 0 {
			delete(c.listener.peerRequests, c.peer)
		}
	}
	c.writing = major == 1
	c.setIdleLocked(c.requests == 0 && !c.writing)
}

func (c *limitedConn) connectionIdle() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.writing = false
	c.setIdleLocked(c.requests == 0)
}

// limitedOf returns the limitedConn below a connection of the server, which may be a TLS connection.
func limitedOf(c net.Conn) *limitedConn {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	limited, _ := c.(*limitedConn)
	return limited
}

// refuseTimeout is how long a client may take to read a refusal.
const refuseTimeout = 5 * time.Second

// refuseRequest answers 503 without a body, which the client's flow control could hold up.
func refuseRequest(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(refuseTimeout)) // every connection supports it
	h := w.Header()
	web.SetSandbox(h)
	h.Set("X-Request-Id", id.Random("req_"))
	h.Set("Retry-After", "1")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusServiceUnavailable)
}

type limitedKey struct{}

// watchRequests makes the server report to the connections of a limitListener when requests start and finish.
func watchRequests(srv *http.Server) {
	next := srv.Handler
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, limitedKey{}, limitedOf(c))
	}
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		if limited := limitedOf(c); limited != nil && state == http.StateIdle {
			limited.connectionIdle()
		}
	}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _ := r.Context().Value(limitedKey{}).(*limitedConn); c != nil {
			defer c.requestFinished(r.ProtoMajor)
			if !c.requestStarted() {
				refuseRequest(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
