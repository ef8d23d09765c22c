package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// pipes is a listener for in-memory connections, which synctest needs for its fake clock.
type pipes struct{ conns chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// exchange sends one request to the handler and returns the client's end of the connection.
func exchange(t *testing.T, handler http.Handler) net.Conn {
	t.Helper()
	client, served := net.Pipe()
	listener := &pipes{conns: make(chan net.Conn, 1)}
	listener.conns <- served
	srv := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(listener) }()
	t.Cleanup(func() {
		close(listener.conns)
		_ = srv.Close()
		_ = client.Close()
		<-ended
	})
	must.Get(io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	return client
}

// A client has one minute to read a response, from its first byte on. The time before that does not count, and a
// handler that streams extends the deadline before each write.
func TestWriteDeadline(t *testing.T) {
	t.Run("a client that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began, failed := time.Now(), make(chan time.Duration, 1)
			exchange(t, new(Front).Wrap(func(w http.ResponseWriter, _ *http.Request) error {
				_, err := w.Write(make([]byte, 1<<20))
				if err == nil {
					t.Error("writing to a client that does not read succeeded")
				}
				failed <- time.Since(began)
				return nil
			}))
			if took := <-failed; took != time.Minute {
				t.Errorf("the write failed after %v, want one minute", took)
			}
		})
	})
	t.Run("a handler that runs for an hour", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := exchange(t, new(Front).Wrap(func(w http.ResponseWriter, _ *http.Request) error {
				time.Sleep(time.Hour)
				WriteJSON(w, http.StatusOK, "done")
				return nil
			}))
			resp := must.Get(http.ReadResponse(bufio.NewReader(client), nil))(t)
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "\"done\"\n" {
				t.Errorf("%q, %v", body, err)
			}
		})
	})
	t.Run("a stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := exchange(t, new(Front).Wrap(func(w http.ResponseWriter, _ *http.Request) error {
				out := http.NewResponseController(w)
				for range 5 {
					time.Sleep(40 * time.Second)
					is.OK(t, out.SetWriteDeadline(time.Now().Add(time.Second)))
					if _, err := io.WriteString(w, "x"); err != nil {
						t.Error(err)
					}
					is.OK(t, out.Flush())
				}
				return nil
			}))
			resp := must.Get(http.ReadResponse(bufio.NewReader(client), nil))(t)
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "xxxxx" {
				t.Errorf("%q, %v", body, err)
			}
		})
	})
}

// Strict-Transport-Security is sent only if the base URL is https.
func TestTransportSecurity(t *testing.T) {
	for base, want := range map[string]string{
		"https://relay.example.com": "max-age=31536000", "http://relay.example.com": "", "": ""} {
		w := httptest.NewRecorder()
		(&Front{BaseURL: base}).Wrap(func(http.ResponseWriter, *http.Request) error { return Missing("nothing") }).
			ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		is.Equal(t, w.Header().Get("Strict-Transport-Security"), want, "%q: Strict-Transport-Security is", base)
	}
}
