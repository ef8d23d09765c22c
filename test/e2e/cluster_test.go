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
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// TestCluster breaks nodes and brokers under traffic. RELAY_TORTURE=1 breaks more, and more often.
func TestCluster(t *testing.T) {
	t.Parallel()
	skipShort(t)
	seed := kit.Seed(t)
	env := []string{"RELAY_TAKEOVER_SECONDS=6", allowHTTP}
	t.Run("three brokers", func(t *testing.T) {
		t.Parallel()
		brokers := kit.KafkaCluster(t, 3)
		on := engines{brokers.Addr, sharedEngine(t, "redis"), sharedEngine(t, "clickhouse")}
		c := newCluster(t, on, "brokers", append(env, "RELAY_REPLICATION_FACTOR=3")...)
		nodes := c.start([]string{"a", "b", "c"}[:rounds(2, 2, 3)]...) // it is brokers that break
		t.Run("the leader is killed", func(t *testing.T) { leaderKilled(t, c, nodes, brokers, seed) })
		for range rounds(0, 0, 1) { // TestServe shows it with fewer processes
			t.Run("all are restarted", func(t *testing.T) { brokersRestarted(t, c, nodes, brokers, seed) })
			t.Run("nodes are restarted in turn", func(t *testing.T) { rollingRestart(t, nodes, seed) })
		}
	})
}

// clusterUnderLoad is a cluster under load with a destination that counts the requests.
type clusterUnderLoad struct {
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

// endpointsUnderLoad are so many that every partition has some. Their paths at the destination share a prefix.
const (
	endpointsUnderLoad = 16
	sharedPaths        = "/shared/"
)

// putUnderLoad starts load on nodes, which take turns as endpoints do. via connects from another host; nil = from this
// machine.
func putUnderLoad(t *testing.T, seed uint64, nodes []*process, dest *tally, rate int,
	via *http.Transport) *clusterUnderLoad {
	t.Helper()
	f := &clusterUnderLoad{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, uint64(len(t.Name())))), nodes: nodes,
		topics: nodes[0].streamConfig(),
		dest:   dest,
	}
	urls := ingestURLs(t, dest, sharedPaths, nodes...)
	if via == nil {
		via = &http.Transport{MaxIdleConnsPerHost: posters}
	}
	f.load = startLoadVia(via, rate, 600, urls...)
	return f
}

// ingestURLs creates endpoints, each with its own path at the destination that begins with prefix, and returns their
// ingest URLs on all nodes.
func ingestURLs(t *testing.T, dest *tally, prefix string, nodes ...*process) (urls []string) {
	t.Helper()
	for i := range endpointsUnderLoad {
		_, in, _ := nodes[0].forTest(t).endpoint(map[string]any{
			"destinations": []any{fmt.Sprintf("%s%s%d", dest.URL, prefix, i)},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50, "jitter": 0},
		})
		for _, n := range nodes {
			urls = append(urls, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	return urls
}

// runFor lets the load run for a random time between least and twice that.
func (f *clusterUnderLoad) runFor(least time.Duration) {
	time.Sleep(least + time.Duration(f.rand.Int64N(int64(least))))
}

// addOutage records an outage from then until now, which explains duplicates.
func (f *clusterUnderLoad) addOutage(from time.Time) {
	f.outages = append(f.outages, outage{from: from, to: time.Now()})
}

func (f *clusterUnderLoad) logOfTopics() stream.Config { return f.topics }

// awaitAccepted waits until the cluster has accepted n more events.
func (f *clusterUnderLoad) awaitAccepted(n int) {
	f.t.Helper()
	before := f.load.count()
	eventually(f.t, time.Minute, func() string {
		if have := f.load.count(); have < before+n {
			return fmt.Sprintf("%d events were accepted, want %d", have, before+n)
		}
		return ""
	})
}

// finishAndCheck stops the load, waits until all accepted events are delivered and listed as delivered, and logs the
// counts. No event may be lost, no status wrong, and no duplicate unexplained.
func (f *clusterUnderLoad) finishAndCheck() {
	f.t.Helper()
	accepted := f.load.finish()
	for _, l := range f.more {
		maps.Copy(accepted, l.finish())
	}
	eventually(f.t, 3*time.Minute, func() string {
		if n := f.dest.missing(accepted); n > 0 {
			return fmt.Sprintf("%d of %d accepted events were never delivered", n, len(accepted))
		}
		return ""
	})
	wrong := wrongStatuses(f.t, f.nodes[0].forTest(f.t), len(accepted), 2*time.Minute)
	awaitSettledLedger(f.t, f.logOfTopics)
	duplicates, unexplained := f.dest.duplicates(f.outages)
	f.t.Logf("RELAY_SEED=%d: accepted %d, delivered %d, duplicates %d (at most %d), lost 0, wrong statuses %d, worst "+
		"recovery %v; answers %v",
		f.seed, len(accepted), len(accepted), duplicates, f.dest.countRepeatable(f.outages), wrong,
		f.worstRecovery().Round(time.Millisecond), f.load.statuses)
	if len(unexplained) > 0 || wrong > 0 {
		f.t.Errorf("%d statuses are wrong; no outage explains these duplicates:\n%s", wrong,
			strings.Join(unexplained[:min(len(unexplained), 20)], "\n"))
	}
}

// worstRecovery returns the longest time from the start of an outage until every endpoint got an event that was posted
// after it.
func (f *clusterUnderLoad) worstRecovery() (worst time.Duration) {
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
		if n := endpointsUnderLoad - len(first); n > 0 {
			f.t.Errorf("%d of %d endpoints got nothing after the outage at %v", n, endpointsUnderLoad, o.from)
		}
	}
	return worst
}

// countRepeatable counts deliveries that outages may repeat: those posted before an outage ended and not committed
// before it began.
func (s *tally) countRepeatable(outages []outage) (n int) {
	for _, o := range mergeOutages(outages) {
		s.each(func(_ int64, hits []hit) {
			if h := hits[0]; h.at.After(o.from.Add(-commitLimit)) && h.posted.Before(o.to.Add(rejoinLimit)) {
				n++
			}
		})
	}
	return n
}

// rollingRestart stops nodes with SIGTERM and restarts them, one after the other. A node finishes its requests in
// flight, and gets its partitions back if it returns in time. No other node owned them, so there are no duplicates.
func rollingRestart(t *testing.T, nodes []*process, seed uint64) {
	f := putUnderLoad(t, seed, nodes, newTally(t, func(hit) int {
		time.Sleep(100 * time.Millisecond)
		return http.StatusOK
	}), 200, nil)
	var away []outage
	for range 5 {
		for _, n := range nodes {
			f.runFor(500 * time.Millisecond)
			from := time.Now()
			is.OK(t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
			n.start()
			away = append(away, outage{from: from, to: time.Now()})
			f.awaitAccepted(50)
		}
	}
	f.finishAndCheck() // no outage explains a duplicate
	f.outages = away
	t.Logf("worst recovery %v", f.worstRecovery().Round(time.Millisecond))
}

// awaitInSync waits until all replicas of all partitions are in sync, so that the next broker may stop.
func awaitInSync(t *testing.T, c *cluster, b *kit.Brokers) {
	t.Helper()
	eventually(t, 2*time.Minute, func() string {
		behind, err := b.OutOfSync(t.Context(), c.prefix)
		switch {
		case err != nil:
			return err.Error()
		case len(behind) > 0:
			return fmt.Sprintf("%d partitions lack an in-sync replica: %s", len(behind), behind[0])
		}
		return ""
	})
}

// leaderKilled kills the broker that leads a partition of the events topic. The other two take over; the killed one
// restarts and catches up.
func leaderKilled(t *testing.T, c *cluster, nodes []*process, brokers *kit.Brokers, seed uint64) {
	f := putUnderLoad(t, seed, nodes, newTally(t, nil), rounds(50, 50, 400), nil)
	for range rounds(1, 1, 8) {
		f.runFor(time.Second)
		leader := brokers.Leader(t, c.prefix+"events", int32(f.rand.IntN(4)))
		from := time.Now()
		leader.Kill(t)
		f.awaitAccepted(100) // without the killed broker
		led := time.Since(from)
		leader.Start(t)
		awaitInSync(t, c, brokers)
		f.addOutage(from)
		t.Logf("%s was killed, 100 more events were accepted after %v, its replicas were in sync again after %v",
			leader.Description, led.Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
}

// brokersRestarted kills all brokers at once, then restarts them one after the other. The nodes stay up.
func brokersRestarted(t *testing.T, c *cluster, nodes []*process, brokers *kit.Brokers, seed uint64) {
	f := putUnderLoad(t, seed, nodes, newTally(t, nil), 400, nil)
	for range 4 {
		f.runFor(time.Second)
		from := time.Now()
		for _, b := range brokers.Engines {
			b.Kill(t)
		}
		if len(brokers.Engines) == 0 {
			kit.SkipMissing(t, "a test cannot stop the brokers at RELAY_TEST_KAFKA_BROKERS")
		}
		brokers.Start(t)
		up := time.Since(from)
		f.awaitAccepted(100)
		f.addOutage(from)
		t.Logf("all brokers were killed and started in %v, 100 more events were accepted after %v",
			up.Round(time.Millisecond),
			time.Since(from).Round(time.Millisecond))
		awaitInSync(t, c, brokers)
		for _, b := range brokers.Engines {
			from := time.Now()
			b.Stop(t)
			f.awaitAccepted(100)
			b.Start(t)
			awaitInSync(t, c, brokers)
			f.addOutage(from)
		}
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
}

// wrongStatuses waits until the store lists at least want events as delivered and none with another status. It returns
// how many have another status at the limit.
func wrongStatuses(t *testing.T, c client, want int, limit time.Duration) (wrong int) {
	t.Helper()
	const others = "&status=pending,retrying,failed,skipped,rejected"
	eventually(t, limit, func() string {
		rows := c.list(others, 100)
		if wrong = len(rows); wrong > 0 {
			return fmt.Sprintf("%d events are not delivered, such as %v", wrong, rows[0])
		}
		return ""
	})
	eventually(t, limit, func() string {
		if have := len(c.list("&status=delivered", 100)); have < want {
			return fmt.Sprintf("%d events are delivered, want %d", have, want)
		}
		return ""
	})
	return 0
}
