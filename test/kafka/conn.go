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

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFrame bounds a request, in bytes; it is Kafka's default of socket.request.max.bytes. kfake itself
	// allocates any length that a client announces.
	maxFrame = 100 << 20
	// maxPendingRequests bounds the unanswered requests of a connection that are remembered. kfake works on one and reads
	// one ahead. A request without an answer (acks=0) stays pending until later ones displace it.
	maxPendingRequests = 4
	// maxHeldResponses bounds the answers of a connection that wait for a sync; kgo has five produce requests in flight.
	// At the limit the connection reads no further request.
	maxHeldResponses = 8
	// closeTimeout bounds how long held answers may take after the broker closed a connection.
	closeTimeout = 5 * time.Second
)

// gatedListener accepts connections and wraps each in a conn with the gate.
type gatedListener struct {
	net.Listener
	gate  *gate
	conns sync.WaitGroup // the senders of all connections; no more are added after Close

	mu     sync.Mutex // guards closed
	closed bool
}

func (l *gatedListener) Accept() (net.Conn, error) {
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

// Close stops accepting connections. It leaves the accepted ones open; see conn.Close.
func (l *gatedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Listener.Close()
}

// requestHeader is the part of a request that is needed to handle its answer. All versions of the protocol begin with
// length (4 bytes), API key (2), API version (2) and correlation id (4), big-endian.
type requestHeader struct {
	key, version int16
	correlation  int32
	tracked      chan struct{} // of a produce request, see produceTracker
}

const headerLen = 12

// A conn is one connection from the broker's side: the broker reads requests from it and writes answers to it. Read and
// Write are each called by one goroutine at a time.
type conn struct {
	net.Conn
	gate *gate

	buf  [headerLen + fetchPeekBytes]byte
	head []byte // the unread part of buf
	body int    // unread bytes of the request behind buf

	mu            sync.Mutex      // guards pending and pendingClosed
	pending       []requestHeader // requests without an answer, oldest first
	pendingClosed bool            // no request is added any more

	held      chan heldResponse
	queued    atomic.Int32  // answers in held or being sent by send
	closing   chan struct{} // closed by Close: no more requests, send the held answers
	closeOnce sync.Once
	sendDone  chan struct{} // closed when send has ended
}

// heldResponse is an answer that must wait for a sync or for answers before it.
type heldResponse struct {
	bytes []byte
	after *round     // nil: wait only for the answers before it
	sent  chan error // if not nil, bytes belong to the caller, which waits here
}

func newConn(raw net.Conn, g *gate) *conn {
	return &conn{
		Conn: raw, gate: g,
		held: make(chan heldResponse, maxHeldResponses), closing: make(chan struct{}), sendDone: make(chan struct{}),
	}
}

// Read returns the bytes of requests. It delays each request until the rounds that it needs are done.
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
	h := requestHeader{
		key:         int16(binary.BigEndian.Uint16(c.buf[4:])),
		version:     int16(binary.BigEndian.Uint16(c.buf[6:])),
		correlation: int32(binary.BigEndian.Uint32(c.buf[8:])),
	}
	if size < headerLen-4 || size > maxFrame {
		return fmt.Errorf("request of %d bytes, want %d to %d", size, headerLen-4, maxFrame)
	}
	if kmsg.NameForKey(h.key) == "Unknown" { // kfake would panic
		return fmt.Errorf("request of unknown kind %d", h.key)
	}
	if c.gate.enabled && isCommit(h.key) {
		c.gate.unanswered.wait(c.closing)
	}
	for _, r := range c.gate.roundsBeforeRequest(h.key) {
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
		h.tracked = c.gate.unanswered.start()
	}
	if !c.addPending(h) {
		c.gate.unanswered.finish(h.tracked)
		return net.ErrClosed
	}
	c.head, c.body = c.buf[:headerLen], int(size)-(headerLen-4)
	if h.key != int16(kmsg.Fetch) {
		return nil
	}
	peek := c.buf[headerLen : headerLen+min(fetchPeekBytes, c.body)]
	if _, err := io.ReadFull(c.Conn, peek); err != nil {
		return err
	}
	declineSession(h.version, peek)
	c.head, c.body = c.buf[:headerLen+len(peek)], c.body-len(peek)
	return nil
}

// addPending records a request; false if the connection has ended.
func (c *conn) addPending(h requestHeader) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pendingClosed {
		return false
	}
	if len(c.pending) == maxPendingRequests {
		c.dropPending(1)
	}
	c.pending = append(c.pending, h)
	return true
}

// dropPending removes the oldest n requests. The caller holds c.mu.
func (c *conn) dropPending(n int) {
	for _, h := range c.pending[:n] {
		c.gate.unanswered.finish(h.tracked)
	}
	c.pending = slices.Delete(c.pending, 0, n)
}

// dropAllPending removes all requests: none will get an answer.
func (c *conn) dropAllPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pendingClosed = true
	c.dropPending(len(c.pending))
}

// Write takes one whole answer, as kfake writes them, and sends or queues it.
func (c *conn) Write(p []byte) (int, error) {
	req, err := c.requestOf(p)
	if err != nil {
		return 0, err
	}
	after, err := c.gate.roundBeforeAnswer(req, p)
	c.gate.unanswered.finish(req.tracked)
	if err != nil {
		return 0, err
	}
	// Only this goroutine queues answers: if none is queued now, send is idle.
	if after == nil && c.queued.Load() == 0 {
		return c.Conn.Write(p)
	}
	f := heldResponse{bytes: p, after: after}
	if after == nil {
		f.sent = make(chan error, 1)
	} else {
		f.bytes = slices.Clone(p) // kfake reuses the buffer; these answers are small
	}
	c.queued.Add(1)
	select {
	case c.held <- f:
	case <-c.sendDone:
		return 0, net.ErrClosed
	}
	if f.sent == nil {
		return len(p), nil
	}
	select {
	case err := <-f.sent:
		return len(p), err
	case <-c.sendDone:
		return 0, net.ErrClosed
	}
}

// requestOf finds the request of an answer and drops it with the older ones, which got no answer.
func (c *conn) requestOf(answer []byte) (requestHeader, error) {
	if len(answer) < 8 || int(binary.BigEndian.Uint32(answer)) != len(answer)-4 {
		return requestHeader{}, errors.New("answer is not written as one frame")
	}
	id := int32(binary.BigEndian.Uint32(answer[4:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.pending, func(h requestHeader) bool { return h.correlation == id })
	if i < 0 {
		return requestHeader{}, fmt.Errorf("answer with correlation id %d belongs to no request", id)
	}
	h := c.pending[i]
	c.pending[i].tracked = nil // Write finishes it when the gate has seen the answer
	c.dropPending(i + 1)
	return h, nil
}

// send writes the held answers in order, each after its round. It ends after Close, or if the connection or a round
// fails, and then closes the connection.
func (c *conn) send() {
	defer c.dropAllPending()
	defer close(c.sendDone)
	defer c.Conn.Close()
	for {
		select {
		case f := <-c.held:
			if !c.sendResponse(f) {
				return
			}
			continue
		default:
		}
		select {
		case f := <-c.held:
			if !c.sendResponse(f) {
				return
			}
		case <-c.closing:
			if len(c.held) == 0 {
				return
			}
		}
	}
}

func (c *conn) sendResponse(f heldResponse) bool {
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

// Close makes send write the held answers, for at most closeTimeout, and then close the connection. It does not wait
// for that.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		now := time.Now()
		c.Conn.SetWriteDeadline(now.Add(closeTimeout))
		c.Conn.SetReadDeadline(now)
		close(c.closing)
	})
	return nil
}
