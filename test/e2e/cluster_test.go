package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

// TestCluster breaks nodes of a relay, and the brokers under it, while traffic flows: on an Apache Kafka of
// three brokers, where every partition has three copies. The cases share the brokers, which those that break them start
// again, one after the other. Short forms; RELAY_TORTURE=1 repeats the faults.
func TestCluster(t *testing.T) {
	t.Parallel()
	long(t)
	seed := faultSeed(t)
	brokers := kit.KafkaCluster(t, 3)
	on := engines{brokers.Addr, kit.Redis(t).Addr, startEngine(t, "clickhouse").url}
	run := func(t *testing.T, on engines, name, prefix string, test func(*testing.T, *cluster, uint64), env ...string) {
		t.Run(name, func(t *testing.T) {
			env = append([]string{"RELAY_REPLICATION_FACTOR=3", "RELAY_TAKEOVER_SECONDS=6", allowHTTP}, env...)
			test(t, newCluster(t, on, prefix, env...), seed)
		})
	}
	run(t, on, "a destination dies, and one of the nodes that tell of it", "alerts", alertsOfThreeNodes)
	limiter := kit.Redis(t)
	run(t, engines{on.kafka, limiter.Addr, on.clickhouse}, "key is revoked, one node hangs, Redis is away", "revoked",
		func(t *testing.T, c *cluster, seed uint64) { revokedWhileHung(t, c, limiter, seed) })
	run(t, on, "leader is killed", "leader", func(t *testing.T, c *cluster, seed uint64) {
		leaderKilled(t, c, brokers, seed)
	})
	run(t, on, "all brokers are restarted", "brokers", func(t *testing.T, c *cluster, seed uint64) {
		brokersRestarted(t, c, brokers, seed)
	})
	// Last, for each waits until one of the other tests that run beside has ended.
	t.Run("nodes break", func(t *testing.T) {
		beside := func(name, prefix string, test func(*testing.T, *cluster, uint64), env ...string) {
			run(t, on, name, prefix, func(t *testing.T, c *cluster, seed uint64) { t.Parallel(); test(t, c, seed) }, env...)
		}
		beside("nodes are restarted in turn", "turn", inTurn)
		beside("two nodes change one endpoint", "patches", concurrentPatches, "RELAY_API_RATE_WRITE=0")
		beside("clock an hour ahead", "ahead", func(t *testing.T, c *cluster, seed uint64) { clockApart(t, c, seed, "1h") })
		beside("clock an hour behind", "behind", func(t *testing.T, c *cluster, seed uint64) {
			clockApart(t, c, seed, "-1h")
		})
	})
}

// underFire is a cluster with load on it and a destination that counts what arrives.
type underFire struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	nodes   []*process
	topics  stream.Config
	dest    *tally
	load    *load
	more    []*load
	outages []outage
}

// endpointsUnderFire are enough for every partition to have some. Their paths at the destination begin alike.
const (
	endpointsUnderFire = 16
	sharedPaths        = "/shared/"
)

// fire puts load on nodes. Endpoints take turns, and so do the nodes. via is where the load comes from, nil =
// here.
func fire(t *testing.T, seed uint64, nodes []*process, dest *tally, rate int, via *http.Transport) *underFire {
	t.Helper()
	f := &underFire{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, uint64(len(t.Name())))), nodes: nodes, topics: nodes[0].topics(),
		dest: dest,
	}
	urls := ingestURLs(t, dest, sharedPaths, nodes...)
	if via == nil {
		via = &http.Transport{MaxIdleConnsPerHost: posters}
	}
	f.load = startLoadVia(via, rate, 600, urls...)
	return f
}

// ingestURLs makes endpoints, each with a path of its own at the destination that begins with the prefix, and
// returns their URLs on all nodes.
func ingestURLs(t *testing.T, dest *tally, prefix string, nodes ...*process) (urls []string) {
	t.Helper()
	for i := range endpointsUnderFire {
		_, in, _ := nodes[0].in(t).endpoint(map[string]any{
			"destinations": []any{fmt.Sprintf("%s%s%d", dest.URL, prefix, i)},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
		})
		for _, n := range nodes {
			urls = append(urls, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	return urls
}

// calm lets the load run for a while, by chance up to twice as long.
func (f *underFire) calm(least time.Duration) {
	time.Sleep(least + time.Duration(f.rand.Int64N(int64(least))))
}

// broke notes a time that explains duplicates: from then until now.
func (f *underFire) broke(from time.Time) {
	f.outages = append(f.outages, outage{from: from, to: time.Now()})
}

// accepts waits until the cluster has taken n more events.
func (f *underFire) accepts(n int) {
	f.t.Helper()
	before := f.load.count()
	eventually(f.t, time.Minute, func() string {
		if have := f.load.count(); have < before+n {
			return fmt.Sprintf("%d events were accepted, want %d", have, before+n)
		}
		return ""
	})
}

// account stops the load, waits until everything accepted has been delivered and shown so, and prints what
// came of it. Nothing may be lost, no status wrong, and no duplicate without an outage that explains it.
func (f *underFire) account() {
	f.t.Helper()
	accepted := f.load.finish()
	for _, l := range f.more {
		maps.Copy(accepted, l.finish())
	}
	eventually(f.t, 3*time.Minute, func() string {
		if n := f.dest.missing(accepted); n > 0 {
			return fmt.Sprintf("%d of %d accepted events were never taken", n, len(accepted))
		}
		return ""
	})
	wrong := wrongStatuses(f.t, f.nodes[0].in(f.t), len(accepted), 2*time.Minute)
	settledLedger(f.t, f.topics)
	duplicates, unexplained := f.dest.duplicates(f.outages)
	f.t.Logf("RELAY_SEED=%d: accepted %d, delivered %d, duplicates %d (at most %d), lost 0, wrong statuses %d, worst "+
		"recovery %v; answers %v",
		f.seed, len(accepted), len(accepted), duplicates, f.dest.repeatable(f.outages), wrong,
		f.recovery().Round(time.Millisecond), f.load.statuses)
	if len(unexplained) > 0 || wrong > 0 {
		f.t.Errorf("%d statuses are wrong; no outage explains these duplicates:\n%s", wrong,
			strings.Join(unexplained[:min(len(unexplained), 20)], "\n"))
	}
}

// recovery is the longest time from the beginning of an outage until an endpoint had an event delivered that
// was posted after it.
func (f *underFire) recovery() (worst time.Duration) {
	for _, o := range f.outages {
		first := map[string]time.Time{}
		f.dest.each(func(_ int64, hits []hit) {
			for _, h := range hits {
				if !strings.HasPrefix(h.path, sharedPaths) {
					return
				}
				if at := first[h.path]; h.posted.After(o.from) && h.status == http.StatusOK && (at.IsZero() || h.at.Before(at)) {
					first[h.path] = h.at
				}
			}
		})
		for _, at := range first {
			worst = max(worst, at.Sub(o.from))
		}
		if n := endpointsUnderFire - len(first); n > 0 {
			f.t.Errorf("%d of %d endpoints got nothing after %v", n, endpointsUnderFire, o.from)
		}
	}
	return worst
}

// repeatable counts what may be delivered again because of outages: for each, what was posted before it was over
// and not committed before it began.
func (s *tally) repeatable(outages []outage) (n int) {
	for _, o := range joined(outages) {
		s.each(func(_ int64, hits []hit) {
			if h := hits[0]; h.at.After(o.from.Add(-uncommitted)) && h.posted.Before(o.to.Add(rejoined)) {
				n++
			}
		})
	}
	return n
}

// inTurn: SIGTERM lets what is in flight finish, and a node that comes back in time finds its partitions
// where it left them. Nobody else had them, so nothing is delivered twice.
func inTurn(t *testing.T, c *cluster, seed uint64) {
	nodes := c.start("a", "b", "c")
	f := fire(t, seed, nodes, newTally(t, func(hit) int {
		time.Sleep(100 * time.Millisecond)
		return http.StatusOK
	}), rounds(100, 100, 200), nil)
	var away []outage
	for range rounds(1, 1, 5) {
		for _, n := range nodes {
			f.calm(500 * time.Millisecond)
			from := time.Now()
			if err := n.stop(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM ended with %v\n%s", err, n.logs)
			}
			n.start()
			away = append(away, outage{from: from, to: time.Now()})
			f.accepts(50)
		}
	}
	f.account() // no outage explains a duplicate
	f.outages = away
	t.Logf("worst recovery %v", f.recovery().Round(time.Millisecond))
}
