package limit

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialTimeout bounds connecting. It goes on in the background when the caller's time is up, so that a
// server whose TLS handshake takes longer than one exchange may is reached all the same.
const dialTimeout = time.Second

// dialer connects for the client. A connection that cannot be made is handed over all the same and fails
// when it is first used: the client, when it is told of failed dials, refuses to dial for up to a second
// after Redis is back, and leaves a goroutine behind that tries for itself. When to try again is for the
// breaker to decide.
type dialer struct {
	connect    connector
	limiterCtx context.Context // of the limiter
}

type connector func(ctx context.Context, network, addr string) (net.Conn, error)

// newDialer returns a dialer, which connects by the network unless connect says otherwise, with TLS unless that is nil,
// and what ends its dials.
func newDialer(c *tls.Config, connect connector) (d *dialer, hangUp func()) {
	switch {
	case connect != nil:
	case c != nil:
		connect = (&tls.Dialer{Config: c}).DialContext
	default:
		connect = (&net.Dialer{}).DialContext
	}
	d = &dialer{connect: connect}
	d.limiterCtx, hangUp = context.WithCancel(context.Background())
	return d, hangUp
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(d.limiterCtx, cancel)()
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		return failedConn{dialError{text: err.Error(), at: time.Now()}}, nil
	}
	return conn, nil
}

// dialError is why a connection was not made. It does not unwrap: the client would strip it.
type dialError struct {
	text string
	at   time.Time
}

func (e dialError) Error() string { return e.text }

// failedConn is a connection that was not made.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
