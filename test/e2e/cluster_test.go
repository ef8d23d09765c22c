package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
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
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		on, limiter := sharedEngines(t), startEngine(t, "redis")
		on.redis = limiter.url
		mail := kit.NewMailServer(t, nil, kit.MailOptions{})
		c := newCluster(t, on, "three",
			append(env, "RELAY_API_RATE_WRITE=0", "RELAY_SMTP_URL=smtp://"+mail.Addr+"?from=relay@example.com")...)
		nodes := c.start("a", "b", "c")
		t.Run("two of them change one endpoint", func(t *testing.T) { concurrentPatches(t, nodes, seed) })
		t.Run("a destination dies, and one of the nodes that tell of it", func(t *testing.T) {
			alertsOfThreeNodes(t, c, nodes, mail)
		})
		t.Run("key is revoked, one node hangs, Redis is away", func(t *testing.T) {
			revokedWhileHung(t, nodes, limiter, seed)
		})
	})
	t.Run("three brokers", func(t *testing.T) {
		t.Parallel()
		brokers := kit.KafkaCluster(t, 3)
		on := engines{brokers.Addr, sharedEngine(t, "redis"), sharedEngine(t, "clickhouse")}
		c := newCluster(t, on, "brokers", append(env, "RELAY_REPLICATION_FACTOR=3")...)
		nodes := c.start([]string{"a", "b", "c"}[:rounds(2, 2, 3)]...) // it is brokers that break, and one node more
		t.Run("the leader is killed", func(t *testing.T) { leaderKilled(t, c, nodes, brokers, seed) })
		for _, offset := range []string{"1h", "-1h"}[:rounds(1, 1, 2)] { // the embedded engine sets no append times
			t.Run("a clock is off by "+offset, func(t *testing.T) { nodeWithWrongClock(t, c, nodes, seed, offset) })
		}
		for range rounds(0, 0, 1) { // TestBrokerRestart and TestServe show it with fewer processes
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

// nodeWithWrongClock adds a node whose clock is an hour off to a cluster. That node refuses events and is not ready,
// but delivers what its partitions hold. After it is killed the others deliver the rest. No retry is early or late.
func nodeWithWrongClock(t *testing.T, c *cluster, nodes []*process, seed uint64, offset string) {
	odd := c.node("odd")
	odd.env = append(odd.env, "RELAY_FAULT_CLOCK="+offset)
	odd.start()
	c.awaitBalanced(len(nodes) + 1)
	dest := newTally(t, func(h hit) int {
		if h.number%4 == 0 && h.attempt == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	f := putUnderLoad(t, seed, nodes, dest, rounds(50, 50, 200), nil)
	endpoint, in, _ := odd.forTest(t).endpoint(map[string]any{"destinations": []any{"https://example.com/h"}})
	for path, body := range map[string]string{
		in: `{}`, odd.url + "/v1/endpoints/" + endpoint + "/events": `{"type":"a","data":{}}`} {
		if resp := odd.forTest(t).post(path, map[string]string{"Authorization": "Bearer " + testKey},
			[]byte(body)); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a node whose clock is off by %s answered %s to %s", offset, resp.Status, path)
		}
	}
	if status, answer, _ := odd.forTest(t).call("GET", "/readyz", nil); status != http.StatusServiceUnavailable ||
		!strings.Contains(fmt.Sprint(answer), "clock") {
		t.Errorf("a node whose clock is off by %s says it is ready: %d %v", offset, status, answer)
	}
	for range rounds(1, 1, 4) {
		f.runFor(time.Second)
		from := time.Now()
		odd.kill()
		c.awaitBalanced(len(nodes))
		f.awaitAccepted(100)
		odd.start()
		c.awaitBalanced(len(nodes) + 1)
		f.addOutage(from)
	}
	f.awaitAccepted(100)
	f.finishAndCheck()
	early, earliest, latest := dest.retryPunctuality(time.Second)
	t.Logf("clock %s: of the retries after 1 s %d were early, by %v at most, the latest %v after its time",
		offset, early, earliest.Round(time.Millisecond), latest.Round(time.Millisecond))
	// Clocks are compared by heartbeats, which are late on a busy machine. A clock that is not corrected at all makes a
	// retry early by its whole wait.
	if limit := 700 * time.Millisecond; earliest > limit {
		t.Errorf("a retry was %v early", earliest)
	}
	if limit := 2 * time.Minute; latest > limit {
		t.Errorf("a retry was %v late, at most %v: the wrong clock must not matter", latest, limit)
	}
}

// retryPunctuality compares the second attempts with their due time, wait after the first. It returns how many were
// early, by how much at most, and how late the latest was.
func (s *tally) retryPunctuality(wait time.Duration) (early int, earliest, latest time.Duration) {
	s.each(func(_ int64, hits []hit) {
		for _, h := range hits {
			if h.attempt != 2 {
				continue
			}
			gap := h.at.Sub(hits[0].at)
			if gap < wait {
				early++
			}
			earliest, latest = max(earliest, wait-gap), max(latest, gap-wait)
		}
	})
	return early, earliest, latest
}

// concurrentPatches changes one endpoint through two nodes at the same time; each node counts up its own number in the
// metadata. Every answer shows both numbers and so which changes came before it. The answers must fit into one order,
// and none may be missing at the end.
func concurrentPatches(t *testing.T, nodes []*process, seed uint64) {
	each := rounds(50, 50, 500)
	endpoint, _, _ := nodes[0].forTest(t).endpoint(
		map[string]any{"destinations": []any{"https://example.com/h"}, "metadata": map[string]any{"a": "0", "b": "0"}})
	began := time.Now()
	shown := make([][]changeCounts, 2) // what the answers to each node's changes showed
	conflicts := make([]int, 2)
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b"} {
		wg.Go(func() { shown[i], conflicts[i] = patchRepeatedly(t, nodes[i].forTest(t), endpoint, name, each) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, n := range nodes[:2] {
		got, err := metadataCounts(n.forTest(t).must(http.StatusOK, "GET", "/v1/endpoints/"+endpoint, nil))
		if err != nil || got != (changeCounts{each, each}) {
			t.Errorf("at the end node %d shows %v (%v), want %d changes of each", i, got, err, each)
		}
	}
	is.Equal(t, checkSerial(shown[0], shown[1]), "")
	t.Logf("RELAY_SEED=%d: accepted %d changes, lost 0, all in one order; retried %d conflicts; %v per change",
		seed, 2*each, conflicts[0]+conflicts[1], (time.Since(began) / time.Duration(2*each)).Round(time.Microsecond))
}

// changeCounts says how many changes of each node an endpoint shows.
type changeCounts struct{ a, b int }

// patchRepeatedly makes n changes, one after the other, and returns the counts in their answers.
func patchRepeatedly(t *testing.T, c client, endpoint, name string, n int) (shown []changeCounts, conflicts int) {
	for i := 1; i <= n; i++ {
		for {
			status, answer, _ := c.call(
				"PATCH", "/v1/endpoints/"+endpoint, map[string]any{"metadata": map[string]any{name: strconv.Itoa(i)}})
			if fault, _ := answer["error"].(map[string]any); status == http.StatusBadRequest && fault["type"] == "conflict" {
				conflicts++ // the node gave up after too many concurrent changes; nothing was changed
				continue
			}
			got, err := metadataCounts(answer)
			if status != http.StatusOK || err != nil {
				t.Errorf("change %s%d: the answer is %d %v: %v", name, i, status, answer, err)
				return shown, conflicts
			}
			shown = append(shown, got)
			break
		}
	}
	return shown, conflicts
}

func metadataCounts(endpoint map[string]any) (changeCounts, error) {
	metadata, ok := endpoint["metadata"].(map[string]any)
	if !ok {
		return changeCounts{}, fmt.Errorf("no metadata in %v", endpoint)
	}
	a, errA := strconv.Atoi(fmt.Sprint(metadata["a"]))
	b, errB := strconv.Atoi(fmt.Sprint(metadata["b"]))
	if errA != nil || errB != nil {
		return changeCounts{}, fmt.Errorf("metadata is %v", metadata)
	}
	return changeCounts{a, b}, nil
}

// checkSerial says why the answers to the changes of a and b fit into no serial order; "" if they fit. Change i of a
// comes before change j of b if its answer does not show j; then the answer to j must show i, and vice versa.
func checkSerial(a, b []changeCounts) (fault string) {
	for i, x := range a {
		if x.a != i+1 {
			return fmt.Sprintf("the answer to change a%d shows %v", i+1, x)
		}
		for j, y := range b {
			if y.b != j+1 {
				return fmt.Sprintf("the answer to change b%d shows %v", j+1, y)
			}
			if before, after := x.b < j+1, y.a >= i+1; before != after {
				return fmt.Sprintf("changes a%d (showed %v) and b%d (showed %v) have no order", i+1, x, j+1, y)
			}
		}
	}
	return ""
}

// revokedWhileHung revokes keys while Redis is down and one node is frozen. The revocation is answered when that node's
// lease has expired. From then on no node accepts the key, not even the frozen one for requests that waited in its
// queue.
func revokedWhileHung(t *testing.T, nodes []*process, limiter *process, seed uint64) {
	a, b, hung := nodes[0], nodes[1], nodes[2]
	limiter.kill()
	var worst time.Duration
	taken := 0
	for range rounds(1, 1, 20) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		id, key := words[0], words[2]
		for _, n := range nodes {
			eventually(t, arrival, func() string {
				if status, answer, _ := n.forTest(t).withKey(key).call("GET", "/v1/me", nil); status != http.StatusOK {
					return fmt.Sprintf("a request with a new key is answered %d %v", status, answer)
				}
				return ""
			})
		}
		hung.signal(syscall.SIGSTOP)
		began := time.Now()
		a.keys("revoke", id)
		worst = max(worst, time.Since(began))
		for _, n := range []*process{a, b} {
			n.forTest(t).withKey(key).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
		}
		var wg sync.WaitGroup
		waiting := make(chan int, 32) // capacity: all requests
		for range cap(waiting) {
			wg.Go(func() {
				status, _, _ := hung.forTest(t).withKey(key).call("GET", "/v1/me", nil)
				waiting <- status
			})
		}
		time.Sleep(200 * time.Millisecond) // most requests are in its queue now
		hung.signal(syscall.SIGCONT)
		wg.Wait()
		for range cap(waiting) {
			if <-waiting == http.StatusOK {
				taken++
			}
		}
		eventually(t, arrival, func() string {
			if status, answer, _ := hung.forTest(t).withKey(key).call("GET", "/v1/me", nil); status != http.StatusUnauthorized {
				return fmt.Sprintf("the thawed node answers a revoked key with %d %v", status, answer)
			}
			return ""
		})
	}
	t.Logf("RELAY_SEED=%d: accepted revoked keys 0, longest revocation %v", seed, worst.Round(time.Millisecond))
	if taken > 0 {
		t.Errorf("the thawed node accepted revoked keys %d times", taken)
	}
}
