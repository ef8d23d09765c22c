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
	// maxPendingRequests bounds the requests of a connection whose answers are not known to be out. kfake works on
	// one and reads one ahead; requests that want no answer (acks=0) stay until later ones push them out.
	maxPendingRequests = 4
	// maxHeldResponses bounds the answers of a connection that wait for the disk: kgo has five produce requests in
	// flight. When it is reached the connection reads no further request.
	maxHeldResponses = 8
	// closeTimeout bounds how long held answers may take to leave after the broker closed a connection.
	closeTimeout = 5 * time.Second
)

// gatedListener hands out connections that pass through the gate.
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

func (l *gatedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return l.Listener.Close()
}

// requestHeader is what a request says about its answer. The layout is the same in all versions of the protocol:
// length (4), key (2), version (2), correlation id (4), big-endian.
type requestHeader struct {
	key, version int16
	correlation  int32
	tracked      chan struct{} // of a produce request, see transit
}

const headerLen = 12

// A conn is one connection, seen from the broker: Read gives it requests, Write takes its answers. Both
// are called by one goroutine at a time each.
type conn struct {
	net.Conn
	gate *gate

	buf  [headerLen + fetchPeekBytes]byte
	head []byte // what is left of buf to hand out
	body int    // bytes of the request that follow buf

	mu            sync.Mutex      // guards the two below
	pending       []requestHeader // requests in order, at most maxPendingRequests
	pendingClosed bool            // nothing is asked any more

	held      chan heldResponse
	queued    atomic.Int32  // frames in held or being sent by send
	closing   chan struct{} // closed by Close: no more requests, send what is held
	closeOnce sync.Once
	sendDone  chan struct{} // closed when send has ended
}

// heldResponse is an answer that cannot leave at once.
type heldResponse struct {
	bytes []byte
	after *round     // nil: only behind the frames before it
	sent  chan error // not nil: bytes belong to the caller, who waits here
}

func newConn(raw net.Conn, g *gate) *conn {
	return &conn{
		Conn: raw, gate: g,
		held: make(chan heldResponse, maxHeldResponses), closing: make(chan struct{}), sendDone: make(chan struct{}),
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
	h := requestHeader{
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

// addPending notes a request; false when the connection has ended.
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

// dropPending forgets the oldest n requests. c.mu is held.
func (c *conn) dropPending(n int) {
	for _, h := range c.pending[:n] {
		c.gate.unanswered.finish(h.tracked)
	}
	c.pending = slices.Delete(c.pending, 0, n)
}

// dropAllPending forgets all requests: none will be answered.
func (c *conn) dropAllPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pendingClosed = true
	c.dropPending(len(c.pending))
}

// Write takes one whole answer, as kfake writes them, and sends it or queues it.
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
	// Only this goroutine adds frames, so when none is queued now the connection is ours.
	if after == nil && c.queued.Load() == 0 {
		return c.Conn.Write(p)
	}
	f := heldResponse{bytes: p, after: after}
	if after == nil {
		f.sent = make(chan error, 1)
	} else {
		f.bytes = slices.Clone(p) // kfake takes the buffer back; these answers are small
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

// requestOf finds the request that an answer belongs to. Those before it got none.
func (c *conn) requestOf(answer []byte) (requestHeader, error) {
	if len(answer) < 8 || int(binary.BigEndian.Uint32(answer)) != len(answer)-4 {
		return requestHeader{}, errors.New("answer is not written as one frame")
	}
	id := int32(binary.BigEndian.Uint32(answer[4:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.pending, func(h requestHeader) bool { return h.correlation == id })
	if i < 0 {
		return requestHeader{}, fmt.Errorf("answer %d to no request", id)
	}
	h := c.pending[i]
	c.pending[i].tracked = nil // it is over when the gate has seen the answer
	c.dropPending(i + 1)
	return h, nil
}

// send writes the held answers in order, each after its round. It ends after Close or when the connection
// or a round fails, and closes the connection.
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

// refuseLogin answers a login that the broker refuses by closing the connection, as kfake does, the way Kafka answers
// it: to a client, an end of the connection could be anything.
func (c *conn) refuseLogin() {
	c.mu.Lock()
	var login requestHeader
	if n := len(c.pending); n > 0 {
		login = c.pending[n-1]
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
	c.Conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	_, _ = c.Conn.Write(answer) // a client that has gone needs no answer
}

// Close lets the held answers leave, then closes the connection.
func (c *conn) Close() error {
	c.closeOnce.Do(func() {
		c.refuseLogin()
		now := time.Now()
		c.Conn.SetWriteDeadline(now.Add(closeTimeout))
		c.Conn.SetReadDeadline(now)
		close(c.closing)
	})
	return nil
}
