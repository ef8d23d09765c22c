package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFrame bounds a request, in bytes; Kafka's default of socket.request.max.bytes. kfake allocates
	// whatever length a client names.
	maxFrame = 100 << 20
	// maxAsked bounds the requests of a connection whose answers are not known to be out. kfake works on
	// one and reads one ahead; requests that want no answer (acks=0) stay until later ones push them out.
	maxAsked = 4
	// maxHeld bounds the answers of a connection that wait for the disk: kgo has five produce requests in
	// flight. When it is reached the connection reads no further request.
	maxHeld = 8
	// closeGrace bounds how long held answers may take to leave after the broker closed a connection.
	closeGrace = 5 * time.Second
)

// A listener hands out connections that pass through the gate.
type listener struct {
	net.Listener
	gate  *gate
	conns sync.WaitGroup // the senders of all connections; no more are added after Close

	mu     sync.Mutex // guards closed
	closed bool
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	c := newConn(raw, l.gate)
	l.conns.Go(c.send)
	return c, nil
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Listener.Close()
}

// header is what a request says about its answer. The layout is the same in all versions of the protocol:
// length (4), key (2), version (2), correlation id (4), big-endian.
type header struct {
	key, version int16
	correlation  int32
	over         chan struct{} // of a produce request, see transit
}

const headerLen = 12

// A conn is one connection, seen from the broker: Read gives it requests, Write takes its answers. Both
// are called by one goroutine at a time each.
type conn struct {
	net.Conn
	gate *gate

	buf  [headerLen + fetchPeek]byte
	head []byte // what is left of buf to hand out
	body int    // bytes of the request that follow buf

	mu    sync.Mutex // guards the two below
	asked []header   // requests in order, at most maxAsked
	ended bool       // nothing is asked any more

	held    chan frame
	queued  atomic.Int32  // frames in held or being sent by send
	closing chan struct{} // closed by Close: no more requests, send what is held
	close   sync.Once
	gone    chan struct{} // closed when send has ended
}

// A frame is an answer that cannot leave at once.
type frame struct {
	bytes []byte
	after *round     // nil: only behind the frames before it
	sent  chan error // not nil: bytes belong to the caller, who waits here
}

func newConn(raw net.Conn, g *gate) *conn {
	return &conn{
		Conn: raw, gate: g,
		held: make(chan frame, maxHeld), closing: make(chan struct{}), gone: make(chan struct{}),
	}
}

// Read passes requests on, each only when the gate admits it.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.head) == 0 && c.body == 0 {
		if err := c.nextRequest(); err != nil {
			return 0, err
		}
	}
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.body)])
	c.body -= n
	return n, err
}

func (c *conn) nextRequest() error {
	if _, err := io.ReadFull(c.Conn, c.buf[:headerLen]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(c.buf[:])
	h := header{
		key:         int16(binary.BigEndian.Uint16(c.buf[4:])),
		version:     int16(binary.BigEndian.Uint16(c.buf[6:])),
		correlation: int32(binary.BigEndian.Uint32(c.buf[8:])),
	}
	if size < headerLen-4 || size > maxFrame {
		return fmt.Errorf("request of %d bytes", size)
	}
	if kmsg.NameForKey(h.key) == "Unknown" { // kfake would panic
		return fmt.Errorf("request of unknown kind %d", h.key)
	}
	c.gate.count(kmsg.Key(h.key))
	if c.gate.on && isCommit(h.key) {
		c.gate.transit.wait(c.closing)
	}
	for _, r := range c.gate.admit(h.key) {
		select {
		case <-r.done:
		case <-c.closing: // the barriers may have stopped
			return net.ErrClosed
		}
		if r.err != nil {
			return r.err
		}
	}
	if h.key == int16(kmsg.Produce) {
		h.over = c.gate.transit.enter()
	}
	if !c.ask(h) {
		c.gate.transit.leave(h.over)
		return net.ErrClosed
	}
	c.head, c.body = c.buf[:headerLen], int(size)-(headerLen-4)
	if h.key != int16(kmsg.Fetch) {
		return nil
	}
	peek := c.buf[headerLen : headerLen+min(fetchPeek, c.body)]
	if _, err := io.ReadFull(c.Conn, peek); err != nil {
		return err
	}
	declineSession(h.version, peek)
	c.head, c.body = c.buf[:headerLen+len(peek)], c.body-len(peek)
	return nil
}

// ask notes a request; false when the connection has ended.
func (c *conn) ask(h header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if len(c.asked) == maxAsked {
		c.drop(1)
	}
	c.asked = append(c.asked, h)
	return true
}

// drop forgets the oldest n requests. c.mu is held.
func (c *conn) drop(n int) {
	for _, h := range c.asked[:n] {
		c.gate.transit.leave(h.over)
	}
	c.asked = slices.Delete(c.asked, 0, n)
}

// end forgets all requests: none will be answered.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.drop(len(c.asked))
}

// Write takes one whole answer, as kfake writes them, and sends it or queues it.
func (c *conn) Write(p []byte) (int, error) {
	req, err := c.requestOf(p)
	if err != nil {
		return 0, err
	}
	after, err := c.gate.release(req, p)
	c.gate.transit.leave(req.over)
	if err != nil {
		return 0, err
	}
	// Only this goroutine adds frames, so when none is queued now the connection is ours.
	if after == nil && c.queued.Load() == 0 {
		return c.Conn.Write(p)
	}
	f := frame{bytes: p, after: after}
	if after == nil {
		f.sent = make(chan error, 1)
	} else {
		f.bytes = slices.Clone(p) // kfake takes the buffer back; these answers are small
	}
	c.queued.Add(1)
	select {
	case c.held <- f:
	case <-c.gone:
		return 0, net.ErrClosed
	}
	if f.sent == nil {
		return len(p), nil
	}
	select {
	case err := <-f.sent:
		return len(p), err
	case <-c.gone:
		return 0, net.ErrClosed
	}
}

// requestOf finds the request that an answer belongs to. Those before it got none.
func (c *conn) requestOf(answer []byte) (header, error) {
	if len(answer) < 8 || int(binary.BigEndian.Uint32(answer)) != len(answer)-4 {
		return header{}, errors.New("answer is not written as one frame")
	}
	id := int32(binary.BigEndian.Uint32(answer[4:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.asked, func(h header) bool { return h.correlation == id })
	if i < 0 {
		return header{}, fmt.Errorf("answer %d to no request", id)
	}
	h := c.asked[i]
	c.asked[i].over = nil // it is over when the gate has seen the answer
	c.drop(i + 1)
	return h, nil
}

// send writes the held answers in order, each after its round. It ends after Close or when the connection
// or a round fails, and closes the connection.
func (c *conn) send() {
	defer c.end()
	defer close(c.gone)
	defer c.Conn.Close()
	for {
		select {
		case f := <-c.held:
			if !c.sendOne(f) {
				return
			}
			continue
		default:
		}
		select {
		case f := <-c.held:
			if !c.sendOne(f) {
				return
			}
		case <-c.closing:
			if len(c.held) == 0 {
				return
			}
		}
	}
}

func (c *conn) sendOne(f frame) bool {
	if f.after != nil {
		<-f.after.done
		if f.after.err != nil {
			return false
		}
	}
	_, err := c.Conn.Write(f.bytes)
	c.queued.Add(-1)
	if f.sent != nil {
		f.sent <- err
	}
	return err == nil
}

// refuseLogin answers a login that the broker refuses by closing the connection, as kfake does, the way Kafka answers
// it: to a client, an end of the connection could be anything.
func (c *conn) refuseLogin() {
	c.mu.Lock()
	var login header
	if n := len(c.asked); n > 0 {
		login = c.asked[n-1]
	}
	c.mu.Unlock()
	if login.key != int16(kmsg.SASLAuthenticate) {
		return
	}
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.SetVersion(login.version)
	resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
	answer := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(login.correlation))
	if resp.IsFlexible() {
		answer = append(answer, 0) // no tags in the header
	}
	answer = resp.AppendTo(answer)
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	c.Conn.SetWriteDeadline(time.Now().Add(closeGrace))
	_, _ = c.Conn.Write(answer) // a client that has gone needs no answer
}

// Close lets the held answers leave, then closes the connection.
func (c *conn) Close() error {
	c.close.Do(func() {
		c.refuseLogin()
		now := time.Now()
		c.Conn.SetWriteDeadline(now.Add(closeGrace))
		c.Conn.SetReadDeadline(now)
		close(c.closing)
	})
	return nil
}
