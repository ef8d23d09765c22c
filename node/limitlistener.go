package node

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// limitListener accepts a bounded number of connections at once; more wait in the system's queue. One that waits takes
// the place of the connection that has gone the longest without a request: a client that opens connections and sends
// nothing, or half a header, keeps nobody else out.
//
// Its connections can be closed in one direction: net/http does that so that a client which is still sending reads why
// its request was refused.
type limitListener struct {
	net.Listener
	most   int
	room   chan struct{} // holds a signal after a connection has ended or finished its request
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex // guards what follows
	open  int
	quiet list.List // of *limitedConn: those without a request, the longest first
}

func newLimitListener(l net.Listener, most int) *limitListener {
	return &limitListener{Listener: l, most: most, room: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Accept waits for a connection, then for a place for it.
func (l *limitListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	half, ok := raw.(halfCloser)
	if !ok {
		_ = raw.Close()
		return nil, fmt.Errorf("accept: %T cannot be closed in one direction", raw)
	}
	c := &limitedConn{halfCloser: half, listener: l}
	for !l.admit(c) {
		select {
		case <-l.room:
		case <-l.closed:
			_ = raw.Close()
			return nil, net.ErrClosed
		}
	}
	return c, nil
}

// admit gives a connection a place, if need be that of the quietest one.
func (l *limitListener) admit(c *limitedConn) bool {
	for {
		l.mu.Lock()
		if l.open < l.most {
			l.open++
			c.setQuiet(true)
			l.mu.Unlock()
			return true
		}
		oldest := l.quiet.Front()
		l.mu.Unlock()
		if oldest == nil {
			return false
		}
		_ = oldest.Value.(*limitedConn).Close()
	}
}

// Close ends Accept as well.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// signal lets Accept look for a place again.
func (l *limitListener) signal() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// halfCloser is a connection of TCP.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	halfCloser
	listener *limitListener

	// Guarded by the listener's mutex.
	place    *list.Element // in the listener's quiet ones
	requests int           // that a handler answers
	writing  bool          // an answer that its handler has left may not be sent yet
	ended    bool
}

func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if !c.ended {
		c.ended = true
		l.open--
		c.setQuiet(false)
		l.signal()
	}
	l.mu.Unlock()
	return c.halfCloser.Close()
}

// setQuiet puts the connection at the end of the quiet ones, or takes it out.
func (c *limitedConn) setQuiet(quiet bool) {
	if c.place != nil {
		c.listener.quiet.Remove(c.place)
		c.place = nil
	}
	if quiet && !c.ended {
		c.place = c.listener.quiet.PushBack(c)
		c.listener.signal()
	}
}

// began and finished enclose a request. An answer by HTTP/1 is sent after its handler has left it; the server says
// when, by idle. With HTTP/2 the connection may be idle already, and nothing would say it again.
func (c *limitedConn) began() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.requests++
	c.setQuiet(false)
}

func (c *limitedConn) finished(major int) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.requests--
	c.writing = major == 1
	c.setQuiet(c.requests == 0 && !c.writing)
}

func (c *limitedConn) idle() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.writing = false
	c.setQuiet(c.requests == 0)
}

// limitedOf is the connection below one of the server's, which may be of TLS.
func limitedOf(c net.Conn) *limitedConn {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	limited, _ := c.(*limitedConn)
	return limited
}

type limitedKey struct{}

// watchRequests tells the connections of a limitListener when they have a request.
func watchRequests(srv *http.Server) {
	next := srv.Handler
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, limitedKey{}, limitedOf(c))
	}
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		if limited := limitedOf(c); limited != nil && state == http.StateIdle {
			limited.idle()
		}
	}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _ := r.Context().Value(limitedKey{}).(*limitedConn); c != nil {
			c.began()
			defer c.finished(r.ProtoMajor)
		}
		next.ServeHTTP(w, r)
	})
}
