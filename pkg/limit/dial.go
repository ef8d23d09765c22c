package limit

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// dialTimeout bounds connecting, unless one exchange may take longer. A dial continues in the background when the
// caller's time is up, so that the client connects even to a server whose TLS handshake takes longer than one exchange.
const dialTimeout = time.Second

// dialer connects for the client. For a failed dial it returns a connection whose first use fails: after an error of
// its dialer go-redis does not dial for up to a second after Redis is available again, and starts a goroutine that
// dials on its own. The breaker alone must decide when to retry.
type dialer struct {
	connect    connector
	timeout    time.Duration
	limiterCtx context.Context // ends with the limiter
}

// connector opens a connection.
type connector func(ctx context.Context, network, addr string) (net.Conn, error)

// newDialer returns a dialer for exchanges that take at most that long, and a function that ends its dials. The dialer
// connects with connect. If that is nil, it connects through the network, with TLS if c is not nil.
func newDialer(c *tls.Config, connect connector, exchange time.Duration) (d *dialer, cancelDials func()) {
	switch {
	case connect != nil:
	case c != nil:
		secure := &tls.Dialer{Config: c}
		connect = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := secure.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return secureConn{conn}, nil
		}
	default:
		connect = (&net.Dialer{}).DialContext
	}
	d = &dialer{connect: connect, timeout: max(dialTimeout, exchange)}
	d.limiterCtx, cancelDials = context.WithCancel(context.Background())
	return d, cancelDials
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.limiterCtx, cancel)()
	if d.limiterCtx.Err() != nil { // AfterFunc calls cancel on another goroutine, which may be too late
		cancel()
	}
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		return failedConn{dialError{text: explainTLS(err).Error(), at: time.Now()}}, nil
	}
	return conn, nil
}

// dialError says why a dial failed. It does not unwrap: the client would report only the inner error.
type dialError struct {
	text string
	at   time.Time
}

func (e dialError) Error() string { return e.text }

// failedConn is a connection whose dial failed.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
