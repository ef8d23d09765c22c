package node

import (
	"fmt"
	"net"
	"sync"
)

// limitListener accepts a bounded number of connections at once; more wait in the system's queue. It is netutil.LimitListener
// with connections that can be closed in one direction: net/http does that so that a client which is still sending reads why
// its request was refused.
type limitListener struct {
	net.Listener
	slots  chan struct{} // one element for each open connection
	closed chan struct{}
	once   sync.Once
}

func newLimitListener(l net.Listener, most int) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a free place, then for a connection.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	half, ok := c.(halfCloser)
	if !ok {
		<-l.slots
		return nil, fmt.Errorf("accept: %T cannot be closed in one direction", c)
	}
	return &limitedConn{halfCloser: half, leave: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept as well.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// halfCloser is a connection of TCP.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	halfCloser
	leave func()
}

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.halfCloser.Close()
}
