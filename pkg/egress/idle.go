package egress

import (
	"errors"
	"net"
)

// maxIdleBytes is what a connection may receive after a request has ended, until its pool has the next one. A body
// that was closed early may still arrive: connWindow, plus frames and TLS records around it. A receiver that sends more
// keeps net/http busy: it answers each PING and SETTINGS frame of HTTP/2, which took half a core for as long as the
// connection was pooled.
const maxIdleBytes = connWindow + 64<<10

var errIdleFlood = errors.New("the receiver sends too much without a request; the connection is closed")

// idleLimiter is a connection of a pool that is closed when it receives more than maxIdleBytes between two requests.
// TLS is above it. Only one goroutine reads at a time.
type idleLimiter struct {
	net.Conn
	pool     *pool
	turn     uint64 // of the pool, at the last read
	received int    // in that turn
}

// Read reads, and counts what arrives while the pool has no request.
func (c *idleLimiter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	turn := c.pool.turn.Load()
	if turn != c.turn {
		c.turn, c.received = turn, 0
	}
	if isBusyTurn(turn) {
		return n, err
	}
	if c.received += n; c.received > maxIdleBytes {
		c.Conn.Close()
		return 0, errIdleFlood
	}
	return n, err
}

// isBusyTurn reports whether a pool has requests in flight in a turn.
func isBusyTurn(turn uint64) bool { return turn%2 == 1 }
