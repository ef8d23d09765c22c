package egress

import (
	"context"
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
