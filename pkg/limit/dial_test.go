package limit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A failed dial whose caller has given up does not count as a failure once Redis is available again.
func TestStaleDialsDoNotCount(t *testing.T) {
	l := node(t, "redis://127.0.0.1:1")
	kit.WaitFor(t, "the breaker is open", l.breaker.isOpen)
	stale := dialError{text: "of before", at: time.Now().Add(-time.Minute)}
	calls := 0
	err := l.exchange(t.Context(), "probe", func(context.Context) error {
		if calls++; calls < 5 {
			return stale
		}
		return nil
	})
	if err != nil || calls != 5 {
		t.Errorf("%d calls end with %v", calls, err)
	}
}

// A running dial ends with the limiter.
func TestDialEndsWithTheLimiter(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer listener.Close()
	d, cancelDials := newDialer(nil, nil, 0)
	cancelDials()
	conn, err := d.dial(t.Context(), "tcp", listener.Addr().String())
	must.Do(t, err)
	if _, err = conn.Read(nil); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("the dial ended with %v, want that it was cancelled", err)
	}
}

// A dial may take a second, or as long as an exchange if that is longer.
func TestDialIsBounded(t *testing.T) {
	for exchange, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: time.Second, 10 * time.Second: 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			d, cancelDials := newDialer(nil, func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, exchange)
			defer cancelDials()
			began := time.Now()
			if _, err := d.dial(t.Context(), "tcp", "redis:6379"); err != nil || time.Since(began) != want {
				t.Errorf("exchanges of %v: a dial took %v, %v", exchange, time.Since(began), err)
			}
		})
	}
}

func TestDialTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	d, cancelDials := newDialer(server.Client().Transport.(*http.Transport).TLSClientConfig, nil, 0)
	defer cancelDials()
	conn := must.Get(d.dial(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer conn.Close()
	c, ok := conn.(secureConn)
	if !ok {
		t.Fatalf("it is a %T", conn)
	}
	if c, ok := c.Conn.(*tls.Conn); !ok || !c.ConnectionState().HandshakeComplete {
		t.Errorf("it has a %T", c)
	}
}
