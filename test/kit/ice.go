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

// Keys of requests in Kafka's protocol.
const (
	ProduceKey = 0
	FetchKey   = 1
)

// Ice stops the connections of one node: what is read or written waits until it thaws.
type Ice struct {
	Only  func(uint16) bool // which connections, by their requests; nil = all
	Reads bool              // only answers wait, requests pass
	mu    sync.Mutex        // guards solid
	solid chan struct{}     // closed when it thaws; nil while it is liquid
}

// Freeze lasts until Thaw, or the end of the test, before its nodes are stopped.
func (i *Ice) Freeze(t *testing.T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.solid = make(chan struct{})
	t.Cleanup(i.Thaw)
}

// Thaw lets everything go on.
func (i *Ice) Thaw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.solid != nil {
		close(i.solid)
		i.solid = nil
	}
}

// Dialer returns a dialer whose connections it stops.
func (i *Ice) Dialer(dial Dial) Dial {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &iceConn{Conn: conn, ice: i, stops: i.Only == nil, closed: make(chan struct{})}, nil
	}
}

// Dial makes a connection.
type Dial = func(ctx context.Context, network, host string) (net.Conn, error)

type iceConn struct {
	net.Conn
	ice    *Ice
	mu     sync.Mutex // guards what follows
	stops  bool
	read   time.Time // deadlines
	write  time.Time
	once   sync.Once
	closed chan struct{}
}

func (c *iceConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *iceConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	c.read = at
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(at)
}

func (c *iceConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.write = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
}

// pass waits while it is frozen, as long as the deadline allows.
func (c *iceConn) pass(deadline *time.Time) error {
	c.mu.Lock()
	stops, at := c.stops, *deadline
	c.mu.Unlock()
	c.ice.mu.Lock()
	solid := c.ice.solid
	c.ice.mu.Unlock()
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

func (c *iceConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if frozen := c.pass(&c.read); frozen != nil {
		return 0, frozen
	}
	return n, err
}

// Write looks at the request's key: 4 bytes of length, 2 of key.
func (c *iceConn) Write(p []byte) (int, error) {
	if c.ice.Only != nil && len(p) > 6 && c.ice.Only(binary.BigEndian.Uint16(p[4:])) {
		c.mu.Lock()
		c.stops = true
		c.mu.Unlock()
	}
	if !c.ice.Reads {
		if frozen := c.pass(&c.write); frozen != nil {
			return 0, frozen
		}
	}
	return c.Conn.Write(p)
}
