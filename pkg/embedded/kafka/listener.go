package kafka

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/eventrelay/relay/pkg/private"
)

// dualListener accepts connections from other processes and from this one. Those from this process are in-memory pipes,
// so that a record passes through the log with one system call, the write to its file.
type dualListener struct {
	net.Listener // TCP or unix
	fromProcess  chan net.Conn
	fromOthers   chan net.Conn
	closed       chan struct{}
	close        sync.Once
	accepting    sync.WaitGroup
	err          error // of the listener; set before fromOthers is closed
}

// listen opens the listener for other processes: TCP or a unix socket.
func listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, unixPrefix)
	if !unix {
		return net.Listen("tcp", address)
	}
	l, err := private.Listen(path)
	if err != nil {
		return nil, err
	}
	return socketListener{l}, nil
}

// socketListener is a unix socket with an address that the broker can return to clients as host and port.
type socketListener struct{ *private.Listener }

func (socketListener) Addr() net.Addr { return socketAddr{} }

type socketAddr struct{}

func (socketAddr) Network() string { return "unix" }

// String returns a name in .invalid (RFC 2606), which no resolver knows: a client that does not dial the socket fails.
func (socketAddr) String() string { return "embedded-kafka.invalid:9092" }

func newDualListener(l net.Listener) *dualListener {
	e := &dualListener{Listener: l, fromProcess: make(chan net.Conn), fromOthers: make(chan net.Conn),
		closed: make(chan struct{})}
	e.accepting.Go(e.acceptOthers)
	return e
}

func (e *dualListener) acceptOthers() {
	defer close(e.fromOthers)
	for {
		c, err := e.Listener.Accept()
		if err != nil {
			e.err = err
			return
		}
		select {
		case e.fromOthers <- c:
		case <-e.closed:
			c.Close()
		}
	}
}

func (e *dualListener) Accept() (net.Conn, error) {
	select {
	case c := <-e.fromProcess:
		return c, nil
	case c, open := <-e.fromOthers:
		if !open {
			return nil, e.err
		}
		return c, nil
	}
}

// dial connects from this process.
func (e *dualListener) dial(ctx context.Context) (net.Conn, error) {
	broker, client := net.Pipe()
	select {
	case e.fromProcess <- broker:
		return client, nil
	case <-e.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *dualListener) Close() (err error) {
	e.close.Do(func() {
		close(e.closed)
		err = e.Listener.Close()
		e.accepting.Wait()
	})
	return err
}

// DialContext connects to this server without the network if addr is its address, else through the network.
func (s *Server) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if own := s.Addr(); own == "" || addr != own {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	return s.listener.dial(ctx)
}
