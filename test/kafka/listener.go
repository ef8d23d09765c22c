package kafka

import (
	"context"
	"net"
	"sync"
)

// dualListener accepts connections from other processes and from this one. Those from this process are in-memory pipes,
// so that a record passes through the log with one system call, the write to its file.
type dualListener struct {
	net.Listener // TCP
	fromProcess  chan net.Conn
	fromOthers   chan net.Conn
	closed       chan struct{}
	close        sync.Once
	accepting    sync.WaitGroup
	err          error // of the listener; set before fromOthers is closed
}

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
