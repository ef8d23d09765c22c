package dispatcher

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// paced gives the dispatcher the real limiter, without Redis, on fake time.
func paced(t *testing.T) func(*Deps) {
	t.Helper()
	l := must.Get(limit.New(limit.DefaultConfig(), limit.Deps{Log: testLog(), Now: time.Now}))(t)
	return func(d *Deps) { d.Limiter = l }
}

func (w *world) setRate(perSecond float64, burst int) {
	w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
		endpoint.Destinations[0].RateLimit = &config.RateLimit{PerSecond: perSecond, Burst: burst}
	})
}

// passes counts the records in the retry topics of partition 0.
func (w *bubbleWorld) passes() (n int64) {
	for _, t := range tierTopics() {
		n += w.cluster.PartitionInfo("t."+t, 0).HighWatermark
	}
	return n
}

// The rate is neither exceeded nor left unused as long as there are deliveries, with failures and retries among them.
// What waits long is parked and reported once.
func TestRateIsHeld(t *testing.T) {
	f := func(perSecond float64, burst, events int, seconds time.Duration) {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(n int, _ received) int {
					time.Sleep(50 * time.Millisecond)
					return []int{200, 500, 200}[n%3]
				}}
				url, _ := w.serve(80, s)
				w.endpoint(url).RetryPolicy.IntervalSeconds = 7
				w.setRate(perSecond, burst)
				w.start(testConfig(), paced(t))
				for range events {
					w.accept(w.newEvent(`{}`))
				}
				begin := time.Now()
				time.Sleep(seconds * time.Second)
				var at []float64 // seconds since the start
				for _, r := range s.all() {
					at = append(at, r.at.Sub(begin).Seconds())
				}
				n, want := len(at), perSecond*float64(seconds)+float64(burst)
				if float64(n) > want+1 || float64(n) < 0.95*want-1 {
					t.Errorf("%d requests in %d s, want %v", n, seconds, want)
				}
				for i := range at {
					for k := i + 1; k < len(at) && at[k]-at[i] < 5; k++ {
						most := float64(burst) + 1 + perSecond*(at[k]-at[i]+lane.MinBurst.Seconds())
						if float64(k-i+1) > most {
							t.Fatalf("%d requests within %v s of second %v", k-i+1, at[k]-at[i], at[i])
						}
					}
				}
				reported := map[string]int{}
				for _, outcome := range w.outcomes(count(events)) {
					if outcome.Reason != event.Paced {
						continue
					}
					if reported[outcome.Event.String()]++; !outcome.NextAt.After(outcome.At) || outcome.Status != event.Pending &&
						outcome.Status != event.Retrying {
						t.Fatalf("paced: %+v", outcome)
					}
				}
				if len(reported) < events/3 {
					t.Errorf("%d were reported as waiting for the rate", len(reported))
				}
			})
		})
	}
	f(20, 1, 750, 30)
	f(200, 20, 3000, 7)
	f(1.5, 1, 100, 60)
}

// At one delivery every ten seconds, a delivery arrives every ten seconds, and waiting ones are re-checked as seldom
// as other parked deliveries.
func TestSlowRate(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.setRate(0.1, 1)
		w.start(testConfig(), paced(t))
		const events = 12
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		begin := time.Now()
		time.Sleep((events*10 + 5) * time.Second)
		got := s.all()
		must.Equal(t, len(got), events, "of %d were delivered", events)
		for i, r := range got {
			if off := r.at.Sub(begin) - time.Duration(i)*10*time.Second; off < -time.Second || off > time.Second {
				t.Errorf("delivery %d was %v off", i, off)
			}
		}
		most := int64(0)
		for i := range int64(events) {
			most += 3 + i*10/5 // three retry passes at first, then one per interval
		}
		if n := w.passes(); n > most {
			t.Errorf("%d retry passes, want at most %d", n, most)
		}
	})
}

// A changed rate applies at once, also for a lane that waits for a token of the old one.
func TestRateChanges(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.setRate(0.1, 1)
		w.start(testConfig(), paced(t))
		const events = 60
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(11 * time.Second)
		must.Equal(t, len(s.all()), 2, "requests at the slow rate")
		w.setRate(1000, 1)
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		is.Equal(t, len(s.all()), events, "of %d were delivered at the new rate", events)
		w.setRate(0.5, 1)
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(20 * time.Second)
		if n := len(s.all()) - events; n < 10 || n > 12 {
			t.Errorf("%d requests in 20 s at 0.5 a second", n)
		}
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations[0].RateLimit = nil })
		time.Sleep(lane.MinRecheck + lane.Slack(lane.MinRecheck))
		if n := len(s.all()); n != 2*events {
			t.Errorf("%d of %d were delivered without a rate", n, 2*events)
		}
	})
}

// A burst to a new destination: starting with a small window costs it four round trips.
func TestBurstToANewLane(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		const events, trip = 1000, 20 * time.Millisecond
		s := &sink{answer: func(int, received) int { time.Sleep(trip); return 200 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		w.start(testConfig())
		all := w.outcomes(count(events, event.Delivered))
		is.Equal(t, len(all), events, "outcomes: some were parked")
		got := s.all()
		took := got[len(got)-1].at.Sub(got[0].at)
		full := events / 64 * trip // with 64 in flight all the time
		t.Logf("%d events in %v; %v with all requests from the start", events, took, full)
		if took > full+8*trip {
			t.Errorf("the burst took %v, %v would be without adapting", took, full)
		}
	})
}

// A hanging destination gets four requests, then one or two at a time. When it answers again, it gets as many as
// max_in_flight allows.
func TestHungDestinationGetsFewRequests(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var hangs atomic.Bool
		var flying, most, total atomic.Int64
		hangs.Store(true)
		url, _ := w.serve(80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			total.Add(1)
			kit.Raise(&most, flying.Add(1))
			defer flying.Add(-1)
			if io.Copy(io.Discard, r.Body); hangs.Load() {
				<-r.Context().Done()
				return
			}
			time.Sleep(100 * time.Millisecond)
		}))
		w.endpoint(url).RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 1, MaxAttempts: 50}
		w.start(testConfig())
		const events = 300
		for range events {
			w.accept(w.newEvent(`{}`))
		}
		time.Sleep(time.Second)
		is.Equal(t, most.Load(), lane.InitialWindow, "requests at first")
		time.Sleep(15 * time.Second)
		most.Store(0)
		time.Sleep(29 * time.Second)
		if n := most.Load(); n > lane.FailingWindow {
			t.Errorf("%d requests to a destination that does not answer", n)
		}
		is.Equal(t, w.metric("relay_dispatch_lanes", "window_reduced"), 1,
			"the metrics do not count the lane with a reduced window")
		hangs.Store(false)
		w.outcomes(count(events, event.Delivered))
		if n := most.Load(); n < 32 {
			t.Errorf("%d requests at once after it answers again", n)
		}
	})
}

// The lane of a destination that has no delivery any more is removed, with its opened secrets.
func TestUnusedLanesAreRemoved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		w.outcomes(count(1, event.Delivered))
		must.Equal(t, w.metric("relay_dispatch_lanes", "all"), 1, "lanes after a delivery")
		time.Sleep(3 * time.Minute)
		is.Equal(t, w.metric("relay_dispatch_lanes", "all"), 0, "lanes are left")
	})
}

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
