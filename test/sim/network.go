package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// link is the way between one node and one engine. Faults act on it: while it is blocked, bytes wait and dials hang;
// after a cut it carries nothing any more.
type link struct {
	w    *World
	gate func() // returns when the node runs: bytes wait for a paused one; nil: it always does
	step func() // called whenever the node sends or receives; nil: nobody counts that

	mu      sync.Mutex
	blocked bool
	slow    time.Duration // more latency for each chunk
	lag     time.Duration // more latency for records of the configuration
	cut     bool
	changed chan struct{} // closed when one of these changes
	conns   []*conn       // of the node
	resets  int
	session context.Context // ends with the next reset
	end     context.CancelFunc
}

var (
	errCut     = errors.New("the network of this node is gone")
	errNotSent = errors.New("there is no connection")
)

func newLink(w *World, gate func()) *link {
	l := &link{w: w, gate: gate, changed: make(chan struct{})}
	l.session, l.end = context.WithCancel(context.Background())
	return l
}

// change applies f and wakes all who wait for the link.
func (l *link) change(f func()) {
	l.mu.Lock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
}

func (l *link) configurationLag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lag
}

func (l *link) state() (blocked, cut bool, changed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked, l.cut, l.changed
}

// reset breaks the connections; what is on its way is lost, so that one side may have done what the other asks again.
func (l *link) reset() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.resets++
	l.end()
	l.session, l.end = context.WithCancel(context.Background())
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	for _, c := range conns {
		c.in.fail(errReset)
		c.out.fail(errReset)
	}
}

var errReset = errors.New("connection reset")

// pass waits while the process is paused.
func (l *link) pass() {
	if l.gate != nil {
		l.gate()
	}
	if l.step != nil {
		l.step()
	}
}

// call makes a request and waits for its answer. After an error other than errNotSent it may have been made: a
// connection that breaks loses the request or its answer. The context of do ends when nobody waits for the answer.
func (l *link) call(ctx context.Context, do func(context.Context)) error {
	l.pass()
	l.mu.Lock()
	blocked, cut, resets, session := l.blocked, l.cut, l.resets, l.session
	l.mu.Unlock()
	if cut { // a process that has ended sends nothing
		return errCut
	}
	if err := l.travel(ctx, resets); err != nil {
		if blocked && !errors.Is(err, errCut) {
			return errors.Join(errNotSent, err)
		}
		if l.w.intn(2) == 0 { // the request had left
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			do(gone)
		}
		return err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session, cancel)()
	do(waiting)
	if err := l.travel(ctx, resets); err != nil {
		return err
	}
	l.pass()
	return nil
}

func (l *link) broken(cut bool) error {
	if cut {
		return errCut
	}
	return errReset
}

// travel returns when what is sent now arrives.
func (l *link) travel(ctx context.Context, resets int) error {
	arrives := time.Now().Add(l.w.latency())
	l.mu.Lock()
	arrives = arrives.Add(l.slow)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		cut, broken, blocked, changed := l.cut, l.resets != resets, l.blocked, l.changed
		l.mu.Unlock()
		left := time.Until(arrives)
		switch {
		case cut || broken:
			return l.broken(cut)
		case !blocked && left <= 0:
			return nil
		}
		var timer *time.Timer
		var fires <-chan time.Time
		if !blocked {
			timer = time.NewTimer(left)
			fires = timer.C
		}
		select {
		case <-fires:
		case <-changed:
		case <-ctx.Done():
			if timer != nil {
				timer.Stop()
			}
			return ctx.Err()
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// dial returns the two ends of a new connection.
func (l *link) dial(ctx context.Context) (ours, theirs net.Conn, err error) {
	for {
		blocked, cut, changed := l.state()
		if cut {
			return nil, nil, errCut
		}
		if !blocked {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	up, down := newHalf(), newHalf()
	a := &conn{link: l, in: down, out: up, gate: l.pass}
	b := &conn{link: l, in: up, out: down}
	l.mu.Lock()
	l.conns = append(l.conns, a)
	l.mu.Unlock()
	return a, b, nil
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.conns {
		if other == c {
			l.conns = append(l.conns[:i:i], l.conns[i+1:]...)
			return
		}
	}
}

// half is one direction of a connection.
type half struct {
	mu     sync.Mutex
	chunks []chunk
	err    error         // what follows the chunks
	wake   chan struct{} // for the one reader; capacity 1
}

type chunk struct {
	data []byte
	at   time.Time // when it arrives
}

func newHalf() *half { return &half{wake: make(chan struct{}, 1)} }

func (h *half) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *half) write(b []byte, at time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return io.ErrClosedPipe
	}
	if n := len(h.chunks); n > 0 && at.Before(h.chunks[n-1].at) {
		at = h.chunks[n-1].at // a connection keeps its order
	}
	h.chunks = append(h.chunks, chunk{append([]byte(nil), b...), at})
	h.signal()
	return nil
}

// end closes the half; what was written still arrives.
func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = io.EOF
	}
	h.signal()
}

// fail closes the half and loses what was written.
func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chunks, h.err = nil, err
	h.signal()
}

// conn is one end of a connection.
type conn struct {
	link    *link
	in, out *half
	gate    func()
	before  func() // a write; nil: nothing

	mu     sync.Mutex
	until  time.Time // deadline of reads; zero: none
	closed bool
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		until, closed := c.until, c.closed
		c.mu.Unlock()
		if closed {
			return 0, net.ErrClosed
		}
		now := time.Now()
		if !until.IsZero() && !now.Before(until) {
			return 0, os.ErrDeadlineExceeded
		}
		blocked, cut, changed := c.link.state()
		if cut {
			return 0, errCut
		}
		n, wait, err := 0, time.Duration(-1), error(nil)
		if !blocked {
			n, wait, err = c.in.take(b, now)
		}
		if n > 0 || err != nil {
			if c.gate != nil {
				c.gate()
			}
			return n, err
		}
		if !until.IsZero() && (wait < 0 || until.Sub(now) < wait) {
			wait = until.Sub(now)
		}
		var timer <-chan time.Time
		var stop func() bool
		if wait >= 0 {
			t := time.NewTimer(wait)
			timer, stop = t.C, t.Stop
		}
		select {
		case <-c.in.wake:
		case <-changed:
		case <-timer:
		}
		if stop != nil {
			stop()
		}
	}
}

// take returns what has arrived, or how long the next chunk takes; -1: none is on its way.
func (h *half) take(b []byte, now time.Time) (n int, wait time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.chunks) == 0 {
		return 0, -1, h.err
	}
	if wait := h.chunks[0].at.Sub(now); wait > 0 {
		return 0, wait, nil
	}
	first := &h.chunks[0]
	n = copy(b, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		h.chunks = h.chunks[1:]
	}
	return n, 0, nil
}

// Write implements net.Conn. It never waits for the reader.
func (c *conn) Write(b []byte) (int, error) {
	if c.gate != nil {
		c.gate()
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	c.link.mu.Lock()
	cut, slow := c.link.cut, c.link.slow
	c.link.mu.Unlock()
	if cut {
		return 0, errCut
	}
	if c.before != nil {
		c.before()
	}
	if err := c.out.write(b, time.Now().Add(c.link.w.latency()+slow)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.out.end()
	c.in.signal()
	c.in.fail(io.ErrClosedPipe)
	c.link.forget(c)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.until = t
	c.mu.Unlock()
	c.in.signal()
	return nil
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn: writes do not wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return addr("node") }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return addr("engine") }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) + ":1" }

// listener is where an engine accepts connections.
type listener struct {
	port   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener(port string) *listener {
	return &listener{port: port, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return engineAddr(l.port) }

type engineAddr string

func (engineAddr) Network() string  { return "sim" }
func (a engineAddr) String() string { return string(a) }

// connect is a dialer to the listener over a link.
func (l *listener) connect(ctx context.Context, over *link) (net.Conn, error) {
	ours, theirs, err := over.dial(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, fmt.Errorf("%s: connection refused", l.port)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
