package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A receiver that sends PING frames after its response is cut off, and the next delivery succeeds on a new connection.
func TestIdleFloodIsCut(t *testing.T) {
	const most = 1_000_000 // pings of 39 bytes with their TLS record
	var sent atomic.Int64
	var sending sync.WaitGroup
	tr, url := frameServer(t, func(n int64, f *http2.Framer, stream uint32) {
		if n > 1 {
			kit.WriteOK(f, stream)
			return
		}
		sending.Go(func() { // while its caller reads what is answered
			kit.WriteOK(f, stream)
			for sent.Load() < most && f.WritePing(false, [8]byte{}) == nil {
				sent.Add(1)
			}
		})
	})
	if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	began := time.Now()
	sending.Wait()
	if n, took := sent.Load(), time.Since(began); n == most || took > 15*time.Second {
		t.Errorf("%d pings within %v were not too many", n, took)
	}
	if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %v %v", res, err)
	}
}

// A receiver that sends PING frames instead of its response is cut off long before the request times out.
func TestFloodBeforeTheResponseIsCut(t *testing.T) {
	const most = 1_000_000
	var sent atomic.Int64
	var sending sync.WaitGroup
	tr, url := frameServer(t, func(n int64, f *http2.Framer, stream uint32) {
		if n > 1 {
			kit.WriteOK(f, stream)
			return
		}
		sending.Go(func() {
			for sent.Load() < most && f.WritePing(false, [8]byte{}) == nil {
				sent.Add(1)
			}
			kit.WriteOK(f, stream)
		})
	})
	_, err := deliver(t, tr, url, time.Minute)
	if sending.Wait(); Classify(err) != event.CodeNetwork || sent.Load() == most {
		t.Errorf("%d pings were not too many: %v", sent.Load(), err)
	}
	if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %v %v", res, err)
	}
}

// A receiver may send much before and after a response: what it sent to one request does not count for the next.
func TestSomePingsKeepTheConnection(t *testing.T) {
	var sending sync.WaitGroup
	tr, url := frameServer(t, func(_ int64, f *http2.Framer, stream uint32) {
		sending.Go(func() {
			for n := range 50_000 {
				if n == 40_000 { // pings of 39 bytes
					kit.WriteOK(f, stream)
				}
				_ = f.WritePing(false, [8]byte{})
			}
		})
	})
	opened := countDials(tr)
	for range 3 {
		if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%v %v", res, err)
		}
		sending.Wait()
	}
	is.Equal(t, opened.Load(), 1, "connections")
}

// countDials counts the connections that a Transport opens.
func countDials(tr *Transport) *atomic.Int64 {
	var opened atomic.Int64
	dial := tr.dial
	tr.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		opened.Add(1)
		return dial(ctx, network, address)
	}
	return &opened
}

// Responses keep their connection: those that are read, however large they are, and over HTTP/2 those that are closed
// early, although the rest of them arrives.
func TestLargeResponsesKeepTheConnection(t *testing.T) {
	f := func(name string, http2 bool, requests, size int, isRead bool) {
		t.Run(name, func(t *testing.T) {
			srv, url := startTLS(t, http2, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
			tr := transportTo(t, srv)
			defer tr.CloseIdleConnections()
			opened := countDials(tr)
			for range requests {
				req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody))(t)
				res := must.Get(tr.RoundTrip(req))(t)
				if isRead {
					if n, err := io.Copy(io.Discard, res.Body); n != int64(size) || err != nil {
						t.Errorf("%d bytes are read: %v", n, err)
					}
				}
				res.Body.Close()
			}
			is.Equal(t, opened.Load(), 1, "connections")
		})
	}
	f("HTTP/1.1", false, 3, 8<<20, true)
	f("HTTP/2", true, 3, 8<<20, true)
	f("HTTP/2, closed early", true, 100, streamWindow, false)
}

// frameServer returns a Transport that connects to a server, and its URL. The server calls answer for each request,
// which writes HTTP/2 frames.
func frameServer(t *testing.T, answer func(n int64, f *http2.Framer, stream uint32)) (*Transport, string) {
	t.Helper()
	srv, _ := startTLS(t, true, http.NotFound)
	port := kit.ServeFrames(t, srv.TLS.Certificates, answer)
	tr := transportTo(t, srv)
	t.Cleanup(tr.CloseIdleConnections)
	return tr, fmt.Sprintf("https://example.com:%d/hook", port)
}

func deliver(t *testing.T, tr *Transport, url string, limit time.Duration) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte("{}"))))(t)
	res, err := tr.RoundTrip(req)
	if err == nil {
		read(t, res)
	}
	return res, err
}

// GOAWAY (RFC 9113, 6.8) names the last request that the server processes. Requests up to it are answered on the old
// connection; the next one uses a new connection.
func TestGoAway(t *testing.T) {
	tr, url := frameServer(t, func(_ int64, f *http2.Framer, stream uint32) {
		_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil) // a restart of the receiver
		kit.WriteOK(f, stream)
	})
	for n := range 3 {
		if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("request %d beside a GOAWAY: %v %v", n, res, err)
		}
	}
}

// A request that the receiver reports as not processed is sent again; this is not a second attempt.
func TestGoAwayBeforeTheRequest(t *testing.T) {
	var sent atomic.Int64
	tr, url := frameServer(t, func(n int64, f *http2.Framer, stream uint32) {
		sent.Store(n)
		if n == 1 {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return
		}
		kit.WriteOK(f, stream)
	})
	if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK || sent.Load() != 2 {
		t.Fatalf("%v %v after %d requests", res, err, sent.Load())
	}
}

// A GOAWAY with an error ends the requests in flight with an error, not with a response.
func TestGoAwayWithError(t *testing.T) {
	tr, url := frameServer(t, func(_ int64, f *http2.Framer, stream uint32) {
		_ = f.WriteGoAway(stream, http2.ErrCodeEnhanceYourCalm, []byte("calm down"))
		_ = f.WriteRSTStream(stream, http2.ErrCodeEnhanceYourCalm)
	})
	_, err := deliver(t, tr, url, time.Minute)
	if err == nil {
		t.Fatal("answered")
	}
	if code := Classify(err); code == "" || code == "internal" {
		t.Errorf("classified as %q: %v", code, err)
	}
}

// The receiver closes its half of the connection instead of responding, or sends one byte at a time. Both requests
// fail, the second at its deadline, and the next request succeeds.
func TestHalfClosedAndSlowResponses(t *testing.T) {
	var mode atomic.Value
	mode.Store("half-close")
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	answerOne := func(conn net.Conn) {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			return
		}
		answer := []byte("HTTP/1.1 200 OK\r\nX-Slow: very\r\nContent-Length: 0\r\n\r\n")
		switch mode.Load() {
		case "half-close":
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		case "drip":
			for _, b := range answer {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		default:
			_, _ = conn.Write(answer)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerOne(conn) })
		}
	})
	policy := loopbackAllowed
	policy.AllowHTTP = true
	tr := newTransport(t, Config{Policy: policy})
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		l.Close()
		serving.Wait()
	})
	url := "http://" + l.Addr().String()
	if _, err := deliver(t, tr, url, time.Minute); err == nil || Classify(err) == "timeout" {
		t.Errorf("half-closed: %v", err)
	}
	mode.Store("drip")
	began := time.Now()
	if _, err := deliver(t, tr, url, time.Second); err == nil || Classify(err) != "timeout" ||
		time.Since(began) > time.Minute {
		t.Errorf("dripping, after %v: %v", time.Since(began), err)
	}
	mode.Store("fine")
	if res, err := deliver(t, tr, url, time.Minute); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %v %v", res, err)
	}
}
