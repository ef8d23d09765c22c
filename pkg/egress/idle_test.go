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

	"github.com/eventrelay/relay/test/kit"
)

// A receiver that sends PING frames after its response is cut off, and the next delivery succeeds on a new connection.
func TestIdleFloodIsCut(t *testing.T) {
	const most = 1_000_000 // pings of 39 bytes with their TLS record
	var sent atomic.Int64
	var sending sync.WaitGroup
	tr, url := frameServer(t, func(n int64, f *http2.Framer, stream uint32) {
		kit.WriteOK(f, stream)
		if n > 1 {
			return
		}
		sending.Go(func() { // while its caller reads what is answered
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

// What arrives while requests are in flight does not count, nor does what the next request follows: a connection is
// reused after large responses, whether they are read or closed early.
func TestLargeResponsesKeepTheConnection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		srv, url := startTLS(t, http2, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 256<<10)) })
		var opened atomic.Int64
		tr := transportTo(t, srv)
		dial := tr.dial
		tr.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			opened.Add(1)
			return dial(ctx, network, address)
		}
		for n := range 20 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if !http2 || n%2 == 0 {
				_, _ = io.Copy(io.Discard, res.Body)
			}
			res.Body.Close()
		}
		if opened.Load() != 1 {
			t.Errorf("HTTP/2 %t: %d connections", http2, opened.Load())
		}
		tr.CloseIdleConnections()
	}
}
