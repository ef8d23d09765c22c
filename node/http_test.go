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

// A server keeps at most as many connections as its limit. One more replaces the connection that has had no request for
// the longest time: one that has sent nothing, half a header, or a request that was answered. A connection whose
// request is being answered is not replaced.
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, release := make(chan error, 1), make(chan struct{})
	srv := &server{
		listener: listener, connections: 2, log: slog.New(slog.DiscardHandler),
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			if r.URL.Path == "/slow" {
				_ = http.NewResponseController(w).Flush()
				<-release
			}
		}),
	}
	go func() { ended <- srv.Run(ctx) }()
	send := func(text string) net.Conn {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	answered := func(c net.Conn, wait time.Duration) bool {
		if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadAtLeast(c, make([]byte, 1<<10), 1)
		return err == nil
	}
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	slow := send(request("/slow"))
	if !answered(slow, 10*time.Second) {
		t.Fatal("a connection within the bound is not served")
	}
	for _, quiet := range []string{"", "G", request("/")} { // each has the last slot, then loses it
		for range 20 {
			send(quiet)
		}
		if !answered(send(request("/")), 10*time.Second) {
			t.Errorf("after connections that sent %q a new one is not served", quiet)
		}
	}
	second := send(request("/slow"))
	if !answered(second, 10*time.Second) {
		t.Error("an idle connection was not replaced")
	}
	third := send(request("/"))
	if answered(third, 200*time.Millisecond) {
		t.Error("a third connection was served beside two with requests")
	}
	close(release)
	if !answered(third, 10*time.Second) {
		t.Error("the third connection was not served after the others had their answers")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, ok := any(&limitedConn{}).(interface{ CloseWrite() error }); !ok {
		t.Error("a client that is still sending would not read why it was refused")
	}
	if n := maxConnections(); n < 100 || n > 16_384 {
		t.Errorf("the default limit is %d connections", n)
	}
}
