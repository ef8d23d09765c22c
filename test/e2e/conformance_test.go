package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eventrelay/relay/test/conformance"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestConformance checks the documents against three nodes behind a round-robin load balancer. With RELAY_TORTURE=1 it
// checks them against `relay dev` too, and the nodes run on Apache Kafka.
func TestConformance(t *testing.T) {
	t.Parallel()
	skipShort(t)
	torture := rounds(0, 0, 1) > 0
	t.Run("embedded", func(t *testing.T) {
		if !torture {
			t.Skip("the nodes run the same API; set RELAY_TORTURE")
		}
		p := startDevProcess(t, t.TempDir())
		conformance.Run(t, target(t, p.url, p))
	})
	t.Run("three nodes", func(t *testing.T) {
		on := sharedEngines(t)
		if torture {
			on = engines{kit.Kafka(t).Addr, kit.Redis(t).Addr, startEngine(t, "clickhouse").url}
		}
		// The public address is the balancer's. The nodes need it before the balancer knows their addresses.
		var next http.Handler
		balancer := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r) }))
		t.Cleanup(balancer.Close)
		c := newCluster(t, on, "conformance", "RELAY_BASE_URL="+balancer.URL, "RELAY_API_RATE_READ=100")
		c.migrate()
		var nodes []*process
		var addresses []string
		for _, name := range []string{"a", "b", "c"} {
			n := c.node(name)
			n.url = fmt.Sprintf("http://127.0.0.1:%d", kit.FreePort(t)) // its ready line shows the balancer's address
			nodes, addresses = append(nodes, n), append(addresses, n.url)
			n.start()
		}
		c.awaitBalanced(len(nodes))
		next = roundRobin(t, addresses)
		tg := target(t, balancer.URL, nodes[0])
		tg.Limited = true
		conformance.Run(t, tg)
	})
}

// target describes a relay at an address. Its keys are created through process p.
func target(t *testing.T, address string, p *process) conformance.Target {
	keys := func(t *testing.T, args ...string) string {
		caller := process{client: p.forTest(t), dir: p.dir}
		return caller.keys(args...)
	}
	return conformance.Target{
		URL: address, Key: testKey, ReadKey: testReadKey, Sink: conformance.NewSink(t),
		NewKey: func(t *testing.T) (string, func()) {
			words := strings.Fields(keys(t, "create", "--name", "conformance", "--scope", "read"))
			return words[2], func() { keys(t, "revoke", words[0]) }
		},
	}
}

// roundRobin returns a proxy that forwards requests to the addresses in turn.
func roundRobin(t *testing.T, addresses []string) http.Handler {
	t.Helper()
	proxies := make([]*httputil.ReverseProxy, len(addresses))
	for i, address := range addresses {
		to := must.Get(url.Parse(address))(t)
		proxies[i] = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		}}
	}
	var turn atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[turn.Add(1)%uint64(len(proxies))].ServeHTTP(w, r)
	})
}
