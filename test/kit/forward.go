package kit

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Forward listens on a free port of the host and forwards connections to an address that only the host itself reaches,
// such as its loopback. It returns the address it listens on.
func (h *Host) Forward(t testing.TB, to string) (address string) {
	t.Helper()
	l := h.Listen(t)
	f := &forward{host: h, to: to, open: map[net.Conn]bool{}}
	f.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			f.wg.Go(func() { f.forwardConn(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.close()
		f.wg.Wait()
	})
	return l.Addr().String()
}

type forward struct {
	host *Host
	to   string
	wg   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	open   map[net.Conn]bool
}

// track registers a connection for close and reports whether it may be used: false once close was called.
func (f *forward) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = true
	return !f.closed
}

func (f *forward) closeConn(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

func (f *forward) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
}

func (f *forward) forwardConn(near net.Conn) {
	defer f.closeConn(near)
	far, err := f.host.Dial("tcp", f.to)
	if err != nil {
		return // the client sees a closed connection
	}
	defer f.closeConn(far)
	if !f.track(near) || !f.track(far) {
		return
	}
	var wg sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		wg.Go(func() {
			_, _ = io.Copy(to, from) // closing one direction closes both
			near.Close()
			far.Close()
		})
	}
	wg.Wait()
}
