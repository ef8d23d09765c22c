package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/embedded/redis"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/test/must"
)

// runs runs a component until the test ends or calls stop.
func runs(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// Two nodes together let a key through at its rate, plus one burst. Then Redis fails under load: no request fails,
// and each node limits on its own.
func TestRatesAreSharedByNodes(t *testing.T) {
	const rate = 50
	store := must.Get(redis.New(redis.Config{Listen: "127.0.0.1:0"}, redis.Deps{}))(t)
	stop := runs(t, store.Run)
	<-store.Ready()
	var nodes [2]*client
	for i := range nodes {
		reg, cfg := prometheus.NewRegistry(), limit.DefaultConfig()
		cfg.URL, cfg.Timeout = "redis://"+store.Addr(), 5*time.Second // this test does not check the timeout
		limits := must.Get(limit.New(cfg, limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: reg}))(t)
		runs(t, limits.Run)
		nodes[i] = newClient(t, withRates(rate, 0, 0), func(_ *api.Config, d *api.Deps) { d.Limits = limits })
		nodes[i].do("GET", "/v1/me", nil).want(200)
		for deadline := time.Now().Add(2 * time.Minute); !leased(t, reg); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no lease after 20 s")
			}
		}
	}
	began := time.Now()
	through := countAllowed(t, nodes[:], rate, 3*time.Second, 2*rate)
	// The first and the last second are incomplete, and each may be used up early.
	if most := 2*rate + rate*(time.Since(began).Seconds()+1.5); float64(through) > most {
		t.Errorf("%d were let through, want at most %.0f", through, most)
	}
	stop()
	countAllowed(t, nodes[:], rate, 0, 1) // without Redis requests are let through too
}

// countAllowed sends requests to all nodes for d and until at least so many are allowed, and counts those that are.
func countAllowed(t *testing.T, nodes []*client, rate int, d time.Duration, least int) (through int) {
	for began := time.Now(); time.Since(began) < d || through < least; time.Sleep(2 * time.Millisecond) {
		for _, n := range nodes {
			a := n.do("GET", "/v1/me", nil)
			left, err := strconv.Atoi(a.Header.Get("X-RateLimit-Remaining"))
			reset, err2 := strconv.Atoi(a.Header.Get("X-RateLimit-Reset"))
			if err != nil || err2 != nil || left < 0 || left >= rate || reset < 0 || reset > 2 ||
				a.Header.Get("X-RateLimit-Limit") != strconv.Itoa(rate) {
				t.Fatalf("headers %v", a.Header)
			}
			switch {
			case a.Status == 200:
				through++
			case a.Status != 429 || a.Header.Get("Retry-After") == "":
				t.Fatalf("answer %d, %v", a.Status, a.Header)
			}
		}
	}
	return through
}

func leased(t *testing.T, reg *prometheus.Registry) bool {
	families := must.Get(reg.Gather())(t)
	for _, f := range families {
		if f.GetName() == "relay_limit_tokens_granted_total" {
			return f.GetMetric()[0].GetCounter().GetValue() > 0
		}
	}
	return false
}

// The store gets the API key of each read, and a key with too many concurrent reads gets 429.
func TestReadsOfAKeyAreBounded(t *testing.T) {
	c := newClient(t)
	var caller string
	c.fake.EventFunc = func(ctx context.Context, _ string, _ id.ID) (*event.Detail, error) {
		caller = event.Caller(ctx)
		return nil, fmt.Errorf("%w: 8 reads are running", event.ErrOverloaded)
	}
	a := c.do("GET", "/v1/events/"+id.NewGenerator(nil).NewUnbounded(1).Text(id.Event), nil).want(429)
	if a.text("error.type") != "rate_limited" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v", a.raw, a.Header)
	}
	if me := c.do("GET", "/v1/me", nil).want(200).text("key_id"); caller != me {
		t.Errorf("the store was asked for %q, the key is %q", caller, me)
	}
}
