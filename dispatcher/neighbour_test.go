package dispatcher

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// gateway is one host and port with two destinations. /a answers requests in rounds, each when as many as the
// in-flight window allows have arrived, until there are many, and then hangs. /b answers at once and measures how long
// its events took.
type gateway struct {
	*httptest.Server
	url     string
	hangs   chan struct{} // closed when /a hangs
	release chan struct{}

	mu    sync.Mutex    // guards the fields below
	came  int           // requests of this round
	round int           // size of a round
	full  chan struct{} // closed when the round is complete
	took  []time.Duration
}

// arrive counts a request to /a and returns the channel that it waits for.
func (g *gateway) arrive(most int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.full
	g.came++
	switch {
	case g.round > most && g.came == most:
		close(g.hangs)
	case g.came == g.round:
		close(full)
		g.came, g.round, g.full = 0, 2*g.round, make(chan struct{})
	}
	return full
}

func startGateway(t *testing.T, http2 bool, most int) *gateway {
	t.Helper()
	g := &gateway{hangs: make(chan struct{}), release: make(chan struct{}), round: lane.InitialWindow,
		full: make(chan struct{})}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/b" {
			sent, _ := strconv.ParseInt(string(body), 10, 64)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.took = append(g.took, time.Since(time.Unix(0, sent)))
			return
		}
		select {
		case <-g.arrive(most):
		case <-g.release:
		}
	}))
	if g.url = "http"; http2 {
		g.EnableHTTP2, g.url = true, "https"
		g.StartTLS()
	} else {
		g.Start()
	}
	g.url += "://" + g.Listener.Addr().String()
	t.Cleanup(g.Close)
	return g
}

// transportTo returns a transport that trusts the gateway.
func (g *gateway) transportTo(t *testing.T) *egress.Transport {
	t.Helper()
	cfg := egress.Config{Policy: loopbackPolicy()}
	if cert := g.Certificate(); cert != nil {
		cfg.CAFile = filepath.Join(t.TempDir(), "ca.pem")
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
		must.Do(t, os.WriteFile(cfg.CAFile, block, 0o600))
	}
	transport := must.Get(egress.NewTransport(cfg))(t)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// A destination with hundreds of hanging requests does not slow down its neighbour at the same host and port, and no
// request of the neighbour times out. RELAY_TORTURE makes it many more requests.
func TestNeighboursAtOneHost(t *testing.T) {
	hanging, events := 256, 60 // more than a limit per host would allow
	if full() {
		hanging, events = 900, 10_000
	}
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) { neighbours(t, http2, hanging, events) })
	}
}

// neighbours lets one destination hang with that many running requests, then sends events to the other.
func neighbours(t *testing.T, http2 bool, hanging, events int) {
	const most = time.Minute // without a share of its own an event takes until the other's requests time out, 5 minutes
	g := startGateway(t, http2, hanging)
	release := sync.OnceFunc(func() { close(g.release) })
	defer release()
	w := newWorld(t, 1)
	w.rt = g.transportTo(t)
	endpoint := w.endpoint(g.url+"/a", g.url+"/b")
	endpoint.Destinations[0].MaxInFlight, endpoint.Destinations[0].TimeoutSeconds = 1000, 300
	w.view.put(endpoint)
	w.start(testConfig())
	for range 3 * hanging {
		w.producer.Produce(stream.Events, 0, w.newEvent("{}", "dst_1").Record(), func(*stream.Record, error) {})
	}
	select {
	case <-g.hangs:
	case <-time.After(w.patience):
		t.Fatalf("the first destination never had %d requests in flight", hanging)
	}
	for range events {
		w.accept(w.newEvent(strconv.FormatInt(time.Now().UnixNano(), 10), "dst_2"))
	}
	outcomes := w.outcomes(func(all []*event.Outcome) bool { return len(of(all, "dst_2")) >= events })
	release()
	for _, outcome := range of(outcomes, "dst_2") {
		if outcome.Status != event.Delivered || outcome.Attempt.ErrorCode != "" {
			t.Errorf("beside the hanging destination: %s %s", outcome.Status, outcome.Attempt.ErrorCode)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var slowest time.Duration
	for _, d := range g.took {
		slowest = max(slowest, d)
	}
	if slowest > most {
		t.Errorf("the slowest event took %v beside the hanging destination, want %v at most", slowest, most)
	}
	t.Logf("the slowest of %d events took %v beside %d hanging requests", events, slowest, hanging)
}

// of returns the outcomes of one destination.
func of(all []*event.Outcome, dest string) (out []*event.Outcome) {
	for _, outcome := range all {
		if outcome.Dest == dest {
			out = append(out, outcome)
		}
	}
	return out
}
