package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// faultInjector breaks the parts of a cluster at random and independently of each other, from one seed.
type faultInjector struct {
	t    *testing.T
	stop chan struct{}
	wg   sync.WaitGroup
	// pause is held by runLong while nothing may break, and for reading by each fault.
	pause sync.RWMutex

	mu      sync.Mutex // guards what follows
	outages []outage
	limiter []outage // of the limiter
	history []string
}

// fault is one way in which a part breaks. It returns when the part works again.
type fault struct {
	name string
	// repeats says that the fault may repeat deliveries whose offsets were not committed.
	repeats bool
	run     func(hold time.Duration)
}

// breakRepeatedly breaks one part until stopFaults: it waits about calm, then injects a fault for about hold.
func (c *faultInjector) breakRepeatedly(seed uint64, part string, calm, hold time.Duration, faults ...fault) {
	r := rand.New(rand.NewPCG(seed, uint64(len(part))<<8|uint64(part[len(part)-1])))
	between := func(d time.Duration) time.Duration { return d/4 + time.Duration(r.Int64N(int64(d))) }
	c.wg.Go(func() {
		for {
			pause, f, held := between(calm), faults[r.IntN(len(faults))], between(hold)
			select {
			case <-c.stop:
				return
			case <-time.After(pause):
			}
			c.pause.RLock()
			from := time.Now()
			f.run(held)
			c.pause.RUnlock()
			c.mu.Lock()
			c.history = append(c.history,
				fmt.Sprintf("%s: %s %s for %v", from.Format("15:04:05.000"), f.name, part,
					time.Since(from).Round(time.Millisecond)))
			if f.repeats {
				c.outages = append(c.outages, outage{from: from, to: time.Now()})
			}
			if part == "limiter" {
				c.limiter = append(c.limiter, outage{from: from, to: time.Now()})
			}
			c.mu.Unlock()
		}
	})
}

// runLong returns after RELAY_FAULTS faults, or without it after ten minutes. After each storm nothing breaks for so
// long that offsets are certainly committed: otherwise any fault would explain any duplicate.
func (c *faultInjector) runLong(storm time.Duration) {
	began, faults := time.Now(), numberSetting(c.t, "RELAY_FAULTS", 0)
	for {
		time.Sleep(storm)
		c.mu.Lock()
		n := len(c.history)
		c.mu.Unlock()
		if faults > 0 && n >= faults || faults == 0 && time.Since(began) > 10*time.Minute {
			return
		}
		c.pause.Lock()
		time.Sleep(rejoinLimit + 2*commitLimit)
		c.pause.Unlock()
		c.t.Logf("%d faults after %v", n, time.Since(began).Round(time.Second))
	}
}

// stopFaults stops the faults and returns their outages. All parts work again when it returns.
func (c *faultInjector) stopFaults() []outage {
	close(c.stop)
	c.wg.Wait()
	return c.outages
}

// processFaults returns the faults of a process: killed and restarted, and frozen.
func processFaults(p *process, repeats bool) []fault {
	return []fault{
		{"kill", repeats, func(hold time.Duration) {
			p.kill()
			time.Sleep(hold)
			p.start() // waits for the log if that is down too
		}},
		{"freeze", repeats, func(hold time.Duration) {
			p.signal(syscall.SIGSTOP)
			time.Sleep(hold)
			p.signal(syscall.SIGCONT)
		}},
	}
}

// flushRedis deletes all keys of a Redis server.
func flushRedis(t *testing.T, addr string) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return // it is down at the moment
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		t.Logf("flush Redis: %v", err)
	}
	_, _ = conn.Read(make([]byte, 64))
}

// Under load, nodes, log, store and Redis are killed, frozen, flushed and restarted at random and at the same time, and
// the destination is slow or answers errors. No accepted event is lost, every status is right at the end, every second
// endpoint's transformation was applied, and every duplicate delivery is explained by a fault. Every line that a drain
// has accepted is counted. The long form also scans a website, touches tripwires, lets an agent read and ask for
// changes, and uses what belongs to customers; see faultFeatures.
//
// The long form ends after RELAY_FAULTS faults, or after ten minutes without it. Runs add up: each is a row of
// test/torture.md with the number of its faults.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	log := startEngine(t, "kafka")
	breakAtRandom(t, "chance", log.url, 30*time.Second, func(*cluster) []fault { return processFaults(log, true) })
}

// TestBrokerFaults is TestRandomFaults on three brokers of Apache Kafka. One at a time is killed or frozen.
func TestBrokerFaults(t *testing.T) {
	if rounds(0, 0, 1) == 0 {
		t.Skip("TestCluster kills brokers in less time; set RELAY_TORTURE")
	}
	brokers := kit.KafkaCluster(t, 3)
	const storm = 2 * time.Minute // a pause waits for a broker's start, for up to minutes on a busy machine
	breakAtRandom(t, "brokerfaults", brokers.Addr, storm, func(c *cluster) []fault {
		return brokerFaults(t, c, brokers)
	}, "RELAY_REPLICATION_FACTOR=3")
}

// brokerFaults returns the faults of one broker after the other. Each ends when all replicas are in sync again.
func brokerFaults(t *testing.T, c *cluster, brokers *kit.Brokers) []fault {
	turn := 0
	next := func() *kit.Engine {
		turn++
		return brokers.Engines[turn%len(brokers.Engines)]
	}
	return []fault{
		{"kill", true, func(hold time.Duration) {
			b := next()
			b.Kill(t)
			time.Sleep(hold)
			b.Start(t)
			awaitInSync(t, c, brokers)
		}},
		{"freeze", true, func(hold time.Duration) {
			b := next()
			b.Freeze(t)
			time.Sleep(hold)
			b.Thaw(t)
			awaitInSync(t, c, brokers)
		}},
	}
}

// brokenCluster is a cluster whose parts break at random: two nodes, the engines and the destination.
type brokenCluster struct {
	*cluster
	t              *testing.T
	seed           uint64
	limiter, store *process
	nodes          []*process
	dest           *tally
	slow, refusing atomic.Bool
	tools          *faultTools
	features       *faultFeatures // nil in the short form
	load           *load
	faults         *faultInjector
}

// breakAtRandom breaks a cluster on that Kafka under load, and checks what it has done.
func breakAtRandom(t *testing.T, name, kafka string, storm time.Duration, logFaults func(*cluster) []fault,
	env ...string) {
	b := &brokenCluster{t: t, seed: kit.Seed(t), limiter: startEngine(t, "redis"), store: startEngine(t, "clickhouse"),
		faults: &faultInjector{t: t, stop: make(chan struct{})}}
	site := newWebsite(t)
	b.cluster = newCluster(t, engines{kafka, b.limiter.url, b.store.url}, name, append(env, allowHTTP,
		"RELAY_TAKEOVER_SECONDS=6", "RELAY_LOG_LEVEL=warn", "RELAY_DNS_SERVER="+site.dns.Address)...)
	b.startNodes()
	b.dest = newTally(t, func(hit) int {
		if b.slow.Load() {
			time.Sleep(200 * time.Millisecond)
		}
		if b.refusing.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	urls := endpointsToBreak(b.dest, b.nodes)
	b.tools = startTools(t, b.nodes, site)
	if rounds(0, 0, 1) > 0 {
		b.features = startFeatures(b)
	}
	b.load = startLoad(t, rounds(100, 100, 300), 900, urls...)
	began := time.Now()
	b.breakParts(logFaults(b.cluster))
	if rounds(0, 0, 1) == 0 {
		time.Sleep(10 * time.Second)
	} else {
		b.faults.runLong(storm)
	}
	b.check(time.Since(began).Round(time.Second), b.faults.stopFaults())
}

func (b *brokenCluster) startNodes() {
	b.migrate()
	for _, name := range []string{"a", "b"} {
		n := b.node(name)
		n.adminAt = fmt.Sprintf("127.0.0.1:%d", kit.FreePort(b.t))
		n.url = fmt.Sprintf("http://127.0.0.1:%d", kit.FreePort(b.t))
		b.nodes = append(b.nodes, n)
		n.args = append(n.args, "--admin-listen", n.adminAt)
		n.env = append(n.env, "RELAY_BASE_URL="+b.nodes[0].url) // a session opens pages of both
		n.start()
	}
	b.awaitBalanced(len(b.nodes))
}

// breakParts begins to break all parts. The long form breaks them more often, with pauses.
func (b *brokenCluster) breakParts(logFaults []fault) {
	flag := func(set *atomic.Bool) func(time.Duration) {
		return func(hold time.Duration) {
			set.Store(true)
			time.Sleep(hold)
			set.Store(false)
		}
	}
	flush := fault{"flush", false, func(time.Duration) { flushRedis(b.t, b.limiter.url) }}
	second := time.Second / time.Duration(rounds(1, 1, 2))
	for _, x := range []struct {
		part       string
		calm, hold time.Duration
		faults     []fault
	}{
		{"node a", 6, 2, processFaults(b.nodes[0], true)},
		{"node b", 6, 2, processFaults(b.nodes[1], true)},
		{"log", 8, 1, logFaults},
		{"store", 6, 2, processFaults(b.store, false)},
		{"limiter", 4, 1, append(processFaults(b.limiter, false), flush)},
		{"destination", 3, 2, []fault{{"slow", false, flag(&b.slow)}, {"refusing", false, flag(&b.refusing)}}},
	} {
		b.faults.breakRepeatedly(b.seed, x.part, x.calm*second, x.hold*second, x.faults...)
	}
}

// check stops the load, and checks that everything accepted has arrived and is listed, and what the tools have done.
func (b *brokenCluster) check(span time.Duration, outages []outage) {
	t := b.t
	t.Helper()
	accepted, healed := b.load.finish(), time.Now()
	defer func() {
		if t.Failed() {
			t.Logf("RELAY_SEED=%d, in order:\n%s\n%s", b.seed, strings.Join(b.faults.history, "\n"), b.describeLags())
			for _, n := range b.nodes {
				t.Logf("%v:\n%s\n%s", n.args, n.logs, n.admin("/debug/pprof/goroutine?debug=1"))
			}
		}
	}()
	eventually(t, 3*time.Minute, func() string {
		if n := b.dest.missing(accepted); n > 0 {
			return fmt.Sprintf("%d of %d accepted events were never taken", n, len(accepted))
		}
		return ""
	})
	recovered := time.Since(healed)
	used := b.tools.finish()
	if b.features != nil {
		used += "; " + b.features.finish(b.faults.limiter)
	}
	wrong := wrongStatuses(t, b.nodes[1].client, len(accepted), 2*time.Minute)
	if rounds(0, 0, 1) > 0 {
		awaitSettledLedger(t, b.nodes[0].streamConfig)
	}
	untransformed := b.dest.untransformed()
	duplicates, unexplained := b.dest.duplicates(outages)
	t.Logf("%v, %d faults: %d accepted, all delivered, %d delivered twice (at most %d), %d of them unexplained; lost 0, "+
		"wrong %d, not transformed %d; %s; all arrived %v after the last fault; answers %v",
		span, len(b.faults.history), len(accepted), duplicates, b.dest.countRepeatable(outages), len(unexplained), wrong,
		untransformed, used, recovered.Round(time.Millisecond), b.load.statuses)
	if len(unexplained) > 0 || wrong+untransformed > 0 {
		t.Errorf("%d statuses are wrong, %d bodies not as transformed; no fault explains these duplicates:\n%s", wrong,
			untransformed, strings.Join(unexplained[:min(len(unexplained), 20)], "\n"))
	}
}

// endpointsToBreak creates endpoints, every second with a transformation, and returns their ingest URLs on all nodes.
func endpointsToBreak(dest *tally, nodes []*process) (urls []string) {
	for i := range 8 {
		definition := map[string]any{
			"destinations": []any{fmt.Sprintf("%s/%d", dest.URL, i)},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50},
		}
		if i%2 == 1 {
			definition["destinations"] = []any{fmt.Sprintf("%s%s%d", dest.URL, changedPaths, i)}
			definition["transformation"] = []any{map[string]any{"op": "add", "path": "/changed", "value": true}}
		}
		_, in, _ := nodes[0].endpoint(definition)
		for _, n := range nodes {
			urls = append(urls, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	return urls
}

// changedPaths begins the paths of destinations whose endpoints have a transformation.
const changedPaths = "/changed/"

// untransformed counts the requests whose body does not have what the transformation adds, or has it without one.
func (s *tally) untransformed() (n int) {
	s.each(func(_ int64, hits []hit) {
		for _, h := range hits {
			if h.changed != strings.HasPrefix(h.path, changedPaths) {
				n++
			}
		}
	})
	return n
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
