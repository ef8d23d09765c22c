package webhook

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A receiver that says of every request that it has not processed it gets a bounded number of requests, with and
// without a body.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	roots := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "with a body"} {
		var requests atomic.Int64
		port := kit.ServeFrames(t, srv.TLS.Certificates, func(n int64, f *http2.Framer, _ uint32) {
			requests.Store(n)
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
		})
		transport := must.Get(egress.NewTransport(egress.Config{Policy: loopback(), CAFile: roots}))(t)
		t.Cleanup(transport.CloseIdleConnections)
		c := newTestClient(transport)
		work := testWork(t, []byte(body))
		target := testTarget(t, fmt.Sprintf("https://127.0.0.1:%d/hook", port), sign.NewSecret())
		target.Timeout = 20 * time.Second
		began := time.Now()
		attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
		if attempt.Code != 0 || attempt.ErrorCode != event.CodeConnectionReset || requests.Load() > maxConnections ||
			time.Since(began) > 15*time.Second {
			t.Errorf("body %q: %s %q after %v and %d requests, at most %d", body, attempt.ErrorCode, attempt.ErrorMessage,
				time.Since(began),
				requests.Load(), maxConnections)
		}
		if classified := Classify(attempt.Code, attempt.ErrorCode, nil); classified.Class != destination.Retryable {
			t.Errorf("it is not retried")
		}
	}
}
