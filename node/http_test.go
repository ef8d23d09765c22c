package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A server holds as many connections as its bound, and takes the next one when one of them ends; nobody is refused.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	srv := &server{
		listener: listener, connections: 2, log: slog.New(slog.DiscardHandler),
		handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }),
	}
	go func() { ended <- srv.Run(ctx) }()
	ask := func() (net.Conn, error) {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return c, err
	}
	answered := func(c net.Conn, wait time.Duration) bool {
		if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadAtLeast(c, make([]byte, 1<<10), 1)
		return err == nil
	}
	var held []net.Conn
	for range 2 {
		c, err := ask()
		if err != nil || !answered(c, 10*time.Second) {
			t.Fatalf("a connection within the bound is not served: %v", err)
		}
		held = append(held, c)
	}
	third, err := ask()
	if err != nil || answered(third, 200*time.Millisecond) {
		t.Errorf("a third connection was served beside two idle ones, or refused: %v", err)
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	if !answered(third, 10*time.Second) {
		t.Error("the third connection was not served after one of the others had ended")
	}
	for _, c := range []net.Conn{held[1], third} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, ok := any(&limitedConn{}).(interface{ CloseWrite() error }); !ok {
		t.Error("a client that is still sending would not read why it was refused")
	}
	if n := maxConnections(); n < 100 || n > 16_384 {
		t.Errorf("the usual bound is %d connections", n)
	}
}
