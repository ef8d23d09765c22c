package webhook

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/spanstest"
)

// The request of a traced event names the attempt's span in place of a received traceparent; that of any other event
// has what was received.
func TestAttemptOfATracedEvent(t *testing.T) {
	const accepted = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	received := []event.Field{{Name: "Traceparent", Value: "00-" + "11111111111111111111111111111111-1111111111111111-01"},
		{Name: "Tracestate", Value: "vendor=1"}}
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.Do(t, os.WriteFile(ca, block, 0o600))
	transport, err := egress.NewTransport(egress.Config{CAFile: ca,
		Policy: egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	must.Do(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	collector, c := spanstest.New(t, nil), newTestClient(transport)
	recorder, stop := collector.Recorder(t)
	c.sender = destination.NewSender(time.Now, 1000, newWaited(), recorder)
	target := testTarget(t, server.URL+"/hook?q=1", sign.NewSecret())

	work := testWork(t, []byte("x"), received...)
	plain := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
	if plain.Trace != "" || got.Get("Traceparent") != received[0].Value || got.Get("Tracestate") != "vendor=1" {
		t.Errorf("not traced: %q, %v", plain.Trace, got)
	}
	transport.CloseIdleConnections() // the next attempt connects again
	work.Event.Trace = accepted
	traced := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
	if event.TraceID(traced.Trace) != event.TraceID(accepted) || traced.Trace == accepted ||
		got.Get("Traceparent") != traced.Trace || got.Get("Tracestate") != "" {
		t.Errorf("traced: %q, %v", traced.Trace, got)
	}
	stop()
	all := collector.Wait(t, map[string]int{"attempt": 1, "wait": 1, "connect": 1, "TLS": 1, "first byte": 1})
	attempt := spanstest.Named(all, "attempt")[0]
	if attempt.Traceparent() != traced.Trace || attempt.Parent != accepted[36:52] || !attempt.Failed ||
		attempt.Attributes["http.response.status_code"] != "418" ||
		attempt.Attributes["network.peer.address"] != "127.0.0.1" {
		t.Errorf("%+v", attempt)
	}
}
