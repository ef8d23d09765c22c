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

	mu      sync.Mutex // guards what follows
	outages []outage
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
			from := time.Now()
			f.run(held)
			c.mu.Lock()
			c.history = append(c.history,
				fmt.Sprintf("%s: %s %s for %v", from.Format("15:04:05.000"), f.name, part,
					time.Since(from).Round(time.Millisecond)))
			if f.repeats {
				c.outages = append(c.outages, outage{from: from, to: time.Now()})
			}
			c.mu.Unlock()
		}
	})
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
// the destination is slow or answers errors. No accepted event is lost, every status is right at the end, and every
// duplicate delivery is explained by a fault.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	seed := faultSeed(t)
	log, limiter, store := startEngine(t, "kafka"), startEngine(t, "redis"), startEngine(t, "clickhouse")
	relay := newCluster(t, engines{log.url, limiter.url, store.url}, "chance", allowHTTP, "RELAY_TAKEOVER_SECONDS=6",
		"RELAY_LOG_LEVEL=warn")
	relay.migrate()
	var nodes []*process
	for _, name := range []string{"a", "b"} {
		n := relay.node(name)
		n.adminAt = fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))
		n.args = append(n.args, "--admin-listen", n.adminAt)
		n.start()
		nodes = append(nodes, n)
	}
	relay.awaitBalanced(len(nodes))

	var slow, refusing atomic.Bool
	dest := newTally(t, func(hit) int {
		if slow.Load() {
			time.Sleep(200 * time.Millisecond)
		}
		if refusing.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	var urls []string
	for i := range 8 {
		_, in, _ := nodes[0].endpoint(map[string]any{
			"destinations": []any{fmt.Sprintf("%s/%d", dest.URL, i)},
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50},
		})
		for _, n := range nodes {
			urls = append(urls, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	flag := func(b *atomic.Bool) func(time.Duration) {
		return func(hold time.Duration) {
			b.Store(true)
			time.Sleep(hold)
			b.Store(false)
		}
	}

	span := time.Duration(rounds(10, 12, 600)) * time.Second
	c := &faultInjector{t: t, stop: make(chan struct{})}
	tr := startLoad(t, rounds(100, 100, 2000), 900, urls...)
	c.breakRepeatedly(seed, "node a", 6*time.Second, 2*time.Second, processFaults(nodes[0], true)...)
	c.breakRepeatedly(seed, "node b", 6*time.Second, 2*time.Second, processFaults(nodes[1], true)...)
	c.breakRepeatedly(seed, "log", 8*time.Second, time.Second, processFaults(log, true)...)
	c.breakRepeatedly(seed, "store", 6*time.Second, 2*time.Second, processFaults(store, false)...)
	c.breakRepeatedly(seed, "limiter", 4*time.Second, time.Second, append(processFaults(limiter, false),
		fault{"flush", false, func(time.Duration) { flushRedis(t, limiter.url) }})...)
	c.breakRepeatedly(seed, "destination", 3*time.Second, 2*time.Second, fault{"slow", false, flag(&slow)},
		fault{"refusing", false, flag(&refusing)})
	time.Sleep(span)
	outages := c.stopFaults()
	accepted := tr.finish()
	healed := time.Now()
	defer func() {
		if t.Failed() {
			t.Logf("RELAY_SEED=%d, in order:\n%s\n%s", seed, strings.Join(c.history, "\n"), relay.describeLags())
			for _, n := range nodes {
				t.Logf("%v:\n%s\n%s", n.args, n.logs, n.admin("/debug/pprof/goroutine?debug=1"))
			}
		}
	}()

	eventually(t, 3*time.Minute, func() string {
		if n := dest.missing(accepted); n > 0 {
			return fmt.Sprintf("%d of %d accepted events were never taken", n, len(accepted))
		}
		return ""
	})
	recovered := time.Since(healed)
	wrong := wrongStatuses(t, nodes[1].client, len(accepted), 2*time.Minute)
	duplicates, unexplained := dest.duplicates(outages)
	t.Logf("%v, %d faults: %d accepted, all delivered, %d delivered twice, %d of them unexplained; lost 0, wrong "+
		"%d; all arrived %v after the last fault; answers %v",
		span, len(c.history), len(accepted), duplicates, len(unexplained), wrong, recovered.Round(time.Millisecond),
		tr.statuses)
	if len(unexplained) > 0 || wrong > 0 {
		t.Errorf("%d statuses are wrong; no fault explains these duplicates:\n%s", wrong,
			strings.Join(unexplained[:min(len(unexplained), 20)], "\n"))
	}
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
