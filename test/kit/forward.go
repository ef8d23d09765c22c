package kit

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Forward passes connections to a free port of the host's address on to an address that only the host itself
// reaches, such as one of its loopback, and returns the port's address.
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
			f.wg.Go(func() { f.pass(conn) })
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

// keep reports whether a connection may be used: not any more when all have been closed.
func (f *forward) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = true
	return !f.closed
}

func (f *forward) drop(c net.Conn) {
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

func (f *forward) pass(near net.Conn) {
	defer f.drop(near)
	far, err := f.host.Dial("tcp", f.to)
	if err != nil {
		return // as if it were not there
	}
	defer f.drop(far)
	if !f.keep(near) || !f.keep(far) {
		return
	}
	var wg sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		wg.Go(func() {
			_, _ = io.Copy(to, from) // the end of one direction ends both
			near.Close()
			far.Close()
		})
	}
	wg.Wait()
}
