package config

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Keys of requests in Kafka's protocol.
const (
	produceKey = 0
	fetchKey   = 1
)

// ice stops the connections of one node: what is read or written waits until it thaws.
type ice struct {
	only  func(uint16) bool // which connections, by their requests; nil = all
	reads bool              // only answers wait, requests pass
	mu    sync.Mutex        // guards solid
	solid chan struct{}     // closed when it thaws; nil while it is liquid
}

// freeze lasts until thaw, or the end of the test, before its nodes are stopped.
func (i *ice) freeze(t *testing.T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.solid = make(chan struct{})
	t.Cleanup(i.thaw)
}

func (i *ice) thaw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.solid != nil {
		close(i.solid)
		i.solid = nil
	}
}

// around returns the configuration of a node whose connections it stops.
func (i *ice) around(t testing.TB, conf stream.Config) stream.Config {
	dial := conf.DialFunc
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conf.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &iceConn{Conn: conn, ice: i, stops: i.only == nil, closed: make(chan struct{})}, nil
	}
	return conf
}

type iceConn struct {
	net.Conn
	ice    *ice
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
	if c.ice.only != nil && len(p) > 6 && c.ice.only(binary.BigEndian.Uint16(p[4:])) {
		c.mu.Lock()
		c.stops = true
		c.mu.Unlock()
	}
	if !c.ice.reads {
		if frozen := c.pass(&c.write); frozen != nil {
			return 0, frozen
		}
	}
	return c.Conn.Write(p)
}
