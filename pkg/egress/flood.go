package egress

import (
	"errors"
	"net"
)

// maxUnread is what a connection may receive that no caller reads until the next request of its pool ends: once, and
// once more for each request in flight. A body that was closed early may still arrive: connWindow, plus frames and TLS
// records around it. A request is answered with headers, and its body with WINDOW_UPDATE frames: some kilobytes for a
// megabyte. A receiver that sends more keeps net/http busy: it answers each PING and SETTINGS frame of HTTP/2, which
// took half a core for as long as a request waited, or the connection was pooled.
const maxUnread = connWindow + 64<<10

var errFlood = errors.New("the receiver sends too much beside responses; the connection is closed")

// floodLimiter is a connection of a pool that ends when it receives too much; see maxUnread. TLS is above it. Only one
// goroutine reads at a time.
type floodLimiter struct {
	net.Conn
	pool       *pool
	ended      uint64 // pool.ended at the last read
	received   int64  // since a request ended
	readBefore int64  // pool.read at that time
}

// Read reads, and counts what arrives. Bytes of bodies that are read count twice in its favour, for the frames around
// them.
func (c *floodLimiter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if ended := c.pool.ended.Load(); ended != c.ended {
		c.ended, c.received, c.readBefore = ended, 0, c.pool.read.Load()
	}
	c.received += int64(n)
	unread := c.received - 2*(c.pool.read.Load()-c.readBefore)
	if unread > maxUnread*(1+c.pool.inFlight.Load()) {
		return 0, errFlood // net/http takes the connection out of its pool and closes it
	}
	return n, err
}
