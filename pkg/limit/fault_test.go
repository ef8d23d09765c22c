package limit

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// traffic takes all tokens that one owner gets, and waits as long as each answer says.
type traffic struct {
	owner atomic.Pointer[Limiter]
	taken atomic.Int64
	began time.Time
}

const (
	trafficRate  = 200
	trafficBurst = 20
)

func startTraffic(t *testing.T, l *Limiter) *traffic {
	tr := &traffic{began: time.Now()}
	tr.owner.Store(l)
	background(t, "traffic", func(ctx context.Context) error {
		for {
			wait := tr.owner.Load().TakeToken("dst_a", trafficRate, trafficBurst)
			if wait == 0 {
				tr.taken.Add(1)
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
	})
	return tr
}

// quarter is the number of tokens of a quarter of a second.
const quarter = trafficRate / 4

// during runs a part of a test, and waits until traffic has gone on for a quarter of a second after it.
func (tr *traffic) during(t *testing.T, what string, part func()) {
	t.Helper()
	part()
	tr.goesOn(t, what)
}

// goesOn waits until as many more tokens are admitted as in a quarter of a second.
func (tr *traffic) goesOn(t *testing.T, what string) {
	t.Helper()
	before := tr.taken.Load()
	kit.WaitFor(t, "traffic goes on "+what, func() bool { return tr.taken.Load() >= before+quarter })
}

// bounded fails if more than the rate and that many bursts were admitted. A slow machine can only lower the number.
func (tr *traffic) bounded(t *testing.T, bursts float64) {
	t.Helper()
	got := tr.taken.Load()
	if most := 1.05*trafficRate*time.Since(tr.began).Seconds() + bursts*trafficBurst; float64(got) > most {
		t.Errorf("%d admitted, want at most %.0f", got, most)
	}
}

func quick(reg prometheus.Registerer) func(*Config, *Deps) {
	return func(c *Config, d *Deps) { c.Timeout, d.Metrics = DefaultConfig().Timeout, reg }
}

// value returns a metric's value, summed over its labels.
func value(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families := must.Get(reg.Gather())(t)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// faults break a Redis in mid-traffic, and repair it.
var faults = map[string]struct {
	begin, end func(testing.TB, *kit.Engine)
}{
	"frozen": {func(t testing.TB, e *kit.Engine) { e.Freeze(t) }, func(t testing.TB, e *kit.Engine) { e.Thaw(t) }},
	"killed": {func(t testing.TB, e *kit.Engine) { e.Kill(t) }, func(t testing.TB, e *kit.Engine) { e.Start(t) }},
}

func TestRedisUnavailableInTraffic(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := kit.Redis(t)
			engine.RequireOwned(t)
			reg := prometheus.NewRegistry()
			l := node(t, "redis://"+engine.Addr, quick(reg))
			kit.WaitFor(t, "leases", func() bool { return l.leasePeriod.Load() != 0 })
			tr := startTraffic(t, l)
			granted := func() float64 { return value(t, reg, "relay_limit_tokens_granted_total") }
			tr.during(t, "before", func() {
				kit.WaitFor(t, "tokens are leased", func() bool { return granted() > quarter })
			})
			fault.begin(t, engine)
			tr.during(t, name, func() {
				kit.WaitFor(t, "the breaker is open", func() bool { return value(t, reg, "relay_limit_breaker_open") == 1 })
				tr.goesOn(t, "with an open breaker")
				for range 100 { // of which few ask Redis
					if got := l.Claim(t.Context(), "k", newID(t), "", 30*time.Second); got.State != claim.Unavailable {
						t.Fatalf("claim is in state %d", got.State)
					}
				}
			})
			fault.end(t, engine)
			before := granted()
			tr.during(t, "after", func() {
				kit.WaitFor(t, "tokens are leased again", func() bool { return granted() > before+quarter })
			})
			if value(t, reg, "relay_limit_local_seconds_total") <= 0 ||
				value(t, reg, "relay_limit_redis_errors_total") < breakAfter {
				t.Error("no metric counted it")
			}
			kit.WaitFor(t, "claims work again", func() bool {
				return l.Claim(t.Context(), "k", newID(t), "", 30*time.Second).State != claim.Unavailable
			})
			tr.bounded(t, 1)
		})
	}
}

// The owner changes and Redis is flushed in mid-traffic.
func TestFlushedAndMovedInTraffic(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		t.Parallel()
		old, reg := node(t, url), prometheus.NewRegistry()
		kit.WaitFor(t, "leases", func() bool { return old.leasePeriod.Load() != 0 })
		tr := startTraffic(t, old)
		tr.during(t, "before", func() {})
		tr.during(t, "flushed", func() {
			must.Do(t, old.client.FlushAll(t.Context()).Err())
		})
		next := node(t, url, quick(reg))
		tr.owner.Store(next)
		tr.during(t, "moved", func() {})
		tr.bounded(t, 2) // the next owner has a burst of its own
		keys, err := old.client.Keys(t.Context(), "tb:dst_a:*").Result()
		if err != nil || len(keys) == 0 {
			t.Fatal(keys, err)
		}
		for _, k := range keys {
			if ttl := old.client.PTTL(t.Context(), k).Val(); ttl == -1 || ttl > 3*time.Second {
				t.Errorf("%s lives for %v", k, ttl)
			}
		}
	})
}

// An exchange that its caller cancels does not count as a failure of Redis.
func TestCancelledCallersDoNotOpenTheBreaker(t *testing.T) {
	l := node(t, "redis://"+embedded(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * breakAfter {
		if got := l.Claim(ctx, "k", newID(t), "", 30*time.Second); got.State != claim.Unavailable {
			t.Fatal(got)
		}
	}
	if l.breaker.isOpen() || l.claimsBreaker.isOpen() {
		t.Error("a breaker is open")
	}
}

// A minute of traffic with a real Redis in real time keeps the rate, as in TestRateIsKept. RELAY_TORTURE=1 runs it.
func TestMinuteOfTraffic(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("left out: takes a minute; RELAY_TORTURE=1 runs it")
	}
	engine := kit.Redis(t)
	engine.RequireOwned(t)
	url := "redis://" + engine.Addr
	first := node(t, url, quick(nil))
	tr := startTraffic(t, first)
	time.Sleep(3 * time.Second) // the burst is gone
	began, before := time.Now(), tr.taken.Load()
	var report []string
	part := func(what string, until time.Duration, do func()) {
		do()
		n, at := tr.taken.Load(), time.Now()
		time.Sleep(time.Until(began.Add(until)))
		report = append(report, what,
			time.Duration(float64(time.Second)*float64(tr.taken.Load()-n)/time.Since(at).Seconds()/trafficRate).
				Round(time.Millisecond).String())
	}
	part("alone", 10*time.Second, func() {})
	part("frozen", 17*time.Second, func() { engine.Freeze(t) })
	part("thawed", 25*time.Second, func() { engine.Thaw(t) })
	part("moved", 35*time.Second, func() { tr.owner.Store(node(t, url, quick(nil))) })
	part("flushed", 42*time.Second, func() { tr.owner.Load().client.FlushAll(t.Context()) })
	part("killed", 48*time.Second, func() { engine.Kill(t) })
	part("restarted", time.Minute, func() { engine.Start(t) })
	passed := time.Since(began)
	got := int(tr.taken.Load() - before)
	near(t, "in a minute", got, trafficRate*passed.Seconds())
	t.Logf("%d in %v: %+.2f %%; seconds' worth a second: %s", got, passed.Round(time.Millisecond),
		100*(float64(got)/trafficRate/passed.Seconds()-1), strings.Join(report, " "))
}

// With many concurrent callers the tokens of one bucket add up.
func TestTakeTokenIsExactUnderContention(t *testing.T) {
	l := node(t, "", func(_ *Config, d *Deps) {
		at := time.Unix(1e9, 0)
		d.Now = func() time.Time { return at }
	})
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if l.TakeToken("dst_a", 10, 1000) == 0 {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	is.Equal(t, taken.Load(), 1000, "taken of a burst of 1000")
}
