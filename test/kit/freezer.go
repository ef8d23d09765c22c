package kit

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// API keys of requests in Kafka's protocol.
const (
	ProduceKey = 0
	FetchKey   = 1
)

// Freezer suspends the connections of one node: reads and writes wait between Freeze and Thaw, or until their deadline.
type Freezer struct {
	Match     func(uint16) bool // selects connections by the API keys of their requests; nil selects all
	ReadsOnly bool              // only reads wait, writes pass
	mu        sync.Mutex        // guards thawed
	thawed    chan struct{}     // closed by Thaw; nil while not frozen
}

// Freeze suspends the connections until Thaw or the end of the test. Call it after the cleanup that stops the nodes is
// registered: cleanups run in reverse, so the nodes can stop.
func (i *Freezer) Freeze(t *testing.T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.thawed = make(chan struct{})
	t.Cleanup(i.Thaw)
}

// Thaw resumes all connections.
func (i *Freezer) Thaw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.thawed != nil {
		close(i.thawed)
		i.thawed = nil
	}
}

// Dialer returns a dialer whose connections the Freezer suspends. dial nil means net.Dialer.
func (i *Freezer) Dialer(dial Dial) Dial {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &freezerConn{Conn: conn, freezer: i, matched: i.Match == nil, closed: make(chan struct{})}, nil
	}
}

// Dial makes a connection.
type Dial = func(ctx context.Context, network, host string) (net.Conn, error)

type freezerConn struct {
	net.Conn
	freezer       *Freezer
	mu            sync.Mutex // guards what follows
	matched       bool
	readDeadline  time.Time
	writeDeadline time.Time
	once          sync.Once
	closed        chan struct{}
}

func (c *freezerConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *freezerConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	c.readDeadline = at
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(at)
}

func (c *freezerConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.writeDeadline = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
}

// awaitThaw waits while the Freezer is frozen, at most until the deadline.
func (c *freezerConn) awaitThaw(deadline *time.Time) error {
	c.mu.Lock()
	stops, at := c.matched, *deadline
	c.mu.Unlock()
	c.freezer.mu.Lock()
	solid := c.freezer.thawed
	c.freezer.mu.Unlock()
	if !stops || solid == nil {
		return nil
	}
	var late <-chan time.Time
	if !at.IsZero() {
		late = time.After(time.Until(at))
	}
	select {
	case <-solid:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *freezerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if frozen := c.awaitThaw(&c.readDeadline); frozen != nil {
		return 0, frozen
	}
	return n, err
}

// Write reads the request's API key, which follows 4 bytes of length.
func (c *freezerConn) Write(p []byte) (int, error) {
	if c.freezer.Match != nil && len(p) > 6 && c.freezer.Match(binary.BigEndian.Uint16(p[4:])) {
		c.mu.Lock()
		c.matched = true
		c.mu.Unlock()
	}
	if !c.freezer.ReadsOnly {
		if frozen := c.awaitThaw(&c.writeDeadline); frozen != nil {
			return 0, frozen
		}
	}
	return c.Conn.Write(p)
}
