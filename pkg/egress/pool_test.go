package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// gateway is one host with many destinations, each with its own path.
type gateway struct {
	*httptest.Server
	url     string
	opened  atomic.Int64 // connections
	hanging atomic.Int64 // requests to /hang, whose bodies are not read
	release chan struct{}
}

// startGateway starts a gateway that allows this number of streams per HTTP/2 connection; 0 for HTTP/1.1.
func startGateway(t *testing.T, streams int) *gateway {
	t.Helper()
	g := &gateway{release: make(chan struct{})}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hang" {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		g.hanging.Add(1)
		select {
		case <-g.release:
		case <-r.Context().Done():
		}
	}))
	g.EnableHTTP2 = streams > 0
	g.Config.ErrorLog = discardLog
	g.Config.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams, MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10,
	}
	g.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			g.opened.Add(1)
		}
	}
	g.StartTLS()
	t.Cleanup(g.Close)
	_, port, _ := net.SplitHostPort(g.Listener.Addr().String())
	g.url = "https://example.com:" + port
	return g
}

// postAs posts a body for a destination and reads the response.
func postAs(ctx context.Context, tr *Transport, dest, url string, body []byte) error {
	req, err := http.NewRequestWithContext(WithDestination(ctx, dest), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Request != req {
		return fmt.Errorf("status %d, for the request %v", res.StatusCode, res.Request.URL)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// A destination that hangs and reads no bodies does not delay requests to another destination of the same host, whether
// the host allows few or many streams per connection. A request that waited for a hanging one would wait forever, so
// the limit is generous for slow machines.
func TestHangingDestinationDoesNotSlowNeighbours(t *testing.T) {
	const allowed = 30 * time.Second
	f := func(streams, hanging int) {
		t.Helper()
		g := startGateway(t, streams)
		tr := transportTo(t, g.Server)
		ctx, cancel := context.WithCancel(t.Context())
		body := make([]byte, 8<<10)
		must.Do(t, postAs(ctx, tr, "a", g.url+"/", body))
		var a sync.WaitGroup
		for range hanging {
			a.Go(func() { _ = postAs(ctx, tr, "a", g.url+"/hang", body) })
		}
		for g.hanging.Load() < 3 {
			runtime.Gosched()
		}
		var slowest time.Duration
		for n := range 50 {
			began := time.Now()
			attempt, end := context.WithTimeout(ctx, allowed)
			err := postAs(attempt, tr, "b", g.url+"/", body)
			if slowest = max(slowest, time.Since(began)); err != nil {
				t.Errorf("%d streams, request %d beside a hanging destination: %v", streams, n, err)
			}
			if end(); t.Failed() {
				break
			}
		}
		t.Logf("%d streams: %d requests hang, %d connections, the slowest beside them took %v",
			streams, g.hanging.Load(), g.opened.Load(), slowest)
		close(g.release)
		cancel()
		a.Wait()
	}
	f(0, 300)
	f(1, 20)
	f(250, 50)
}

// 200 destinations of one host with few requests share a few connections.
func TestQuietDestinationsShareConnections(t *testing.T) {
	for _, streams := range []int{0, 250} {
		g := startGateway(t, streams)
		tr := transportTo(t, g.Server)
		for n := range 200 {
			must.Do(t, postAs(t.Context(), tr, fmt.Sprint("dst_", n), g.url+"/", []byte("{}")))
		}
		is.Equal(t, g.opened.Load(), 1, "%d streams … connections for 200 destinations in turn", streams)
	}
}

// 25 destinations of one host that send at the same time each have their own connections. Afterwards any of them uses
// these connections.
func TestFreedPoolsAreReused(t *testing.T) {
	const destinations, each = 25, 2
	for _, streams := range []int{0, 250} {
		g := startGateway(t, streams)
		tr := transportTo(t, g.Server)
		burst := func() {
			var wg sync.WaitGroup
			for n := range destinations * each {
				wg.Go(func() {
					is.OK(t, postAs(t.Context(), tr, fmt.Sprint("dst_", n%destinations), g.url+"/", []byte("{}")))
				})
			}
			wg.Wait()
		}
		burst()
		if n := g.opened.Load(); n > destinations*each {
			t.Errorf("%d streams: %d connections for %d requests", streams, n, destinations*each)
		}
		before := g.opened.Load()
		for n := range destinations {
			is.OK(t, postAs(t.Context(), tr, fmt.Sprint("new_", n), g.url+"/", nil))
		}
		if n := g.opened.Load() - before; n > 0 {
			t.Errorf("%d streams: %d more connections for other destinations, after %d", streams, n, before)
		}
		t.Logf("%d streams: %d connections for %d requests at once", streams, before, destinations*each)
	}
}

// A connection on which a request timed out is not used for another destination, because it may be dead.
func TestPoolsWithTimeoutsAreNotReused(t *testing.T) {
	g := startGateway(t, 250)
	tr := transportTo(t, g.Server)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := postAs(ctx, tr, "a", g.url+"/hang", nil); Classify(err) != "timeout" {
		t.Fatalf("the hanging one: %v", err)
	}
	must.Do(t, postAs(t.Context(), tr, "b", g.url+"/", nil))
	if n := g.opened.Load(); n != 2 {
		t.Errorf("%d connections, want one for each destination", n)
	}
}

// An idle connection is not used in the last second before the server closes it, if the server says when.
func TestAnnouncedTimeOutsAreHeeded(t *testing.T) {
	for _, c := range []struct {
		header string
		after  time.Duration // from which on another connection is used
	}{
		{"timeout=5", 4 * time.Second},
		{"max=100, Timeout = 3", 2 * time.Second},
		{"timeout=1", time.Second},
		{"timeout=300", idleTimeout},
		{"timeout=0", time.Second},
		{"timeout=-1", idleTimeout},
		{"timeout=99999999999999999999", idleTimeout},
		{"max=5", idleTimeout},
		{"", idleTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			ps := pools{origins: make(map[origin]*originPools), lastSweep: time.Now()}
			use := func(dest string) *pool {
				p := ps.acquire(mustParse(t, "https://example.com/hook"), dest)
				ps.heedKeepAlive(p, []string{c.header})
				ps.release(p, false)
				return p
			}
			first := use("a")
			time.Sleep(c.after - 1)
			is.Equal(t, use("a"), first, "%q: another connection before %s", c.header, c.after)
			time.Sleep(c.after)
			if use("a") == first {
				t.Errorf("%q: the same connection after %s", c.header, c.after)
			}
		})
	}
	var kept time.Duration
	g := startGateway(t, 0)
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Keep-Alive", "timeout=5, max=1000")
	})
	tr := transportTo(t, g.Server)
	must.Do(t, postAs(t.Context(), tr, "a", g.url+"/", nil))
	for _, o := range tr.pools.origins {
		kept = o.free[0].keepFor
	}
	is.Equal(t, kept, 4*time.Second, "an idle connection is used for … after an answer with timeout=5")
}

// If no file descriptor is left, the idle connections are closed.
func TestIdleConnectionsFreeFileDescriptors(t *testing.T) {
	g := startGateway(t, 0)
	tr := transportTo(t, g.Server)
	dial, full := tr.dial, atomic.Bool{}
	tr.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if full.Swap(false) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return dial(ctx, network, address)
	}
	for _, dest := range []string{"a", "b"} {
		is.OK(t, postAs(t.Context(), tr, dest, g.url+"/", nil))
		full.Store(true)
		url := strings.Replace(g.url, "example.com", "localhost", 1) // another host, without an open connection
		if err := postAs(t.Context(), tr, dest, url, nil); Classify(err) != "tls_error" || full.Load() {
			t.Errorf("without files: %v", err)
		}
	}
	if n := g.opened.Load(); n != 4 {
		t.Errorf("%d connections, want 4: none was kept", n)
	}
}

// The pools of a host are deleted after its connections have expired.
func TestUnusedPoolsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := pools{origins: make(map[origin]*originPools), lastSweep: time.Now()}
		use := func(host string, dest string) *pool {
			return ps.acquire(mustParse(t, "https://"+host+"/hook"), dest)
		}
		held := use("held.example", "a")
		for n := range 100 {
			ps.release(use(fmt.Sprintf("host-%d.example", n), "a"), false)
		}
		first := use("[2606:4700::1]", "a")
		ps.release(first, false)
		if again := use("[2606:4700::1]", "b"); again != first || first.address != "[2606:4700::1]:443" {
			t.Errorf("a free pool was not used again, or leads to %s", first.address)
		}
		time.Sleep(idleTimeout)
		if use("new.example", "a"); len(ps.origins) != 3 {
			t.Errorf("%d hosts are remembered, of which 3 are in use", len(ps.origins))
		}
		if use("held.example", "a") != held || held.inFlight.Load() != 2 {
			t.Error("a destination has two pools at one host")
		}
	})
}

// A pool is shared in turn: while a request of its destination is in flight, or after one has timed out, it is not used
// for another destination.
func TestPoolsAreSharedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := pools{origins: make(map[origin]*originPools), lastSweep: time.Now()}
		use := func(dest string) *pool { return ps.acquire(mustParse(t, "http://example.com/hook"), dest) }
		a := use("a")
		x := &exchange{pools: &ps, pool: use("a"), ctx: t.Context()}
		if a != x.pool || a.address != "example.com:80" || a.inFlight.Load() != 2 {
			t.Errorf("%s, %d in flight", a.address, a.inFlight.Load())
		}
		x.release()
		x.release() // a body may be closed twice
		b := use("b")
		if b == a || a.inFlight.Load() != 1 {
			t.Error("two destinations share a pool at the same time")
		}
		ps.release(b, true)
		c := use("c")
		if c == b {
			t.Error("a pool is used after a timeout")
		}
		is.Equal(t, use("c"), c, "a destination has two pools")
		ps.release(c, true)
		ps.release(c, false)
		if use("d") == c {
			t.Error("a pool is used after a timeout of another request")
		}
		ps.release(a, false)

		// A sweep keeps a pool that was used less than idleTimeout ago.
		time.Sleep(idleTimeout - time.Second)
		is.Equal(t, use("e"), a, "an idle pool is not used")
		ps.release(a, false)
		time.Sleep(time.Second)
		for _, host := range []string{"https://one.example/", "https://two.example/"} { // the first one sweeps
			ps.release(ps.acquire(mustParse(t, host), "a"), false)
		}
		is.Equal(t, use("e"), a, "a sweep deletes a pool that was used lately")
	})
}

// inFlight returns the number of requests in flight.
func inFlight(tr *Transport) (n int64) {
	tr.pools.mu.Lock()
	defer tr.pools.mu.Unlock()
	for _, o := range tr.pools.origins {
		for _, p := range o.used {
			n += p.inFlight.Load()
		}
	}
	return n
}

// A request is in flight until the body of its response is closed, and none is after a failure. The receiver sees the
// host of the URL, or the one that the request names, and never the name of a pool.
func TestRequestsInFlight(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		hosts := make(chan string, 1)
		srv, url := startTLS(t, http2, func(w http.ResponseWriter, r *http.Request) {
			hosts <- r.Host
			_, _ = io.WriteString(w, "ok")
		})
		tr := transportTo(t, srv)
		for host, want := range map[string]string{"": strings.TrimPrefix(url, "https://"), "other.example": "other.example"} {
			req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
			req.Host = host
			res := must.Get(tr.RoundTrip(req))(t)
			if got := <-hosts; got != want || inFlight(tr) != 1 {
				t.Errorf("the receiver sees %q, want %q; %d in flight", got, want, inFlight(tr))
			}
			if read(t, res); inFlight(tr) != 0 {
				t.Errorf("%d in flight after the response", inFlight(tr))
			}
		}
		if _, err := get(t, tr, "https://10.0.0.1/"); err == nil || inFlight(tr) != 0 {
			t.Errorf("%v, %d in flight after a failure", err, inFlight(tr))
		}
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	return u
}
