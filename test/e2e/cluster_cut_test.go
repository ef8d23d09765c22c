package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// newNetCluster is a cluster whose nodes have a host each, joined by a network of their own; engines and
// destinations are in its hub.
func newNetCluster(t *testing.T, name string, nodes []string, env ...string) *cluster {
	t.Helper()
	network := kit.NewNetwork(t)
	hub := network.Hub
	dir := t.TempDir()
	store := newProcess(t, dir,
		[]string{"engine", "clickhouse", "--data", dir, "--fsync=false", "--host", hub.Addr.String()})
	// without a key it binds loopback only; the nodes come by way of a forwarder
	store.host, store.url = hub, "127.0.0.1:0"
	store.start()
	on := engines{hub.Kafka(t).Addr, hub.Redis(t).Addr, hub.Forward(t, store.url)}
	c := newCluster(t, on, name,
		append([]string{allowHTTP, "RELAY_EGRESS_ALLOW=" + network.Prefix(), "RELAY_TAKEOVER_SECONDS=6"}, env...)...)
	c.network, c.hosts = network, map[string]*kit.Host{}
	for _, n := range nodes {
		c.hosts[n] = network.Host(t, n)
	}
	return c
}

// keyWatch asks a node again and again whether it takes a key, from the node's own host, so that it is heard
// while the node is cut off.
type keyWatch struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex // guards seen
	seen []keyAnswer
}

type keyAnswer struct {
	asked, answered time.Time
	status          int // 0 = none
}

func watchKey(url, key string, via http.RoundTripper) *keyWatch {
	w := &keyWatch{stop: make(chan struct{})}
	cl := &http.Client{Transport: via, Timeout: 5 * time.Second}
	w.wg.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(25 * time.Millisecond):
			}
			answer := keyAnswer{asked: time.Now()}
			req, err := http.NewRequest(http.MethodGet, url+"/v1/me", nil)
			if err != nil {
				return // BUG: the URL is the test's own
			}
			req.Header.Set("Authorization", "Bearer "+key)
			if resp, err := cl.Do(req); err == nil {
				resp.Body.Close()
				answer.status = resp.StatusCode
			}
			answer.answered = time.Now()
			w.mu.Lock()
			w.seen = append(w.seen, answer)
			w.mu.Unlock()
		}
	})
	return w
}

func (w *keyWatch) end() []keyAnswer {
	close(w.stop)
	w.wg.Wait()
	return w.seen
}

// lastTaken is when a key was asked for that was taken, within a time. Answers that came after it do not count: on a
// busy machine a request may wait until the link is back.
func lastTaken(seen []keyAnswer, from, to time.Time) (last time.Time) {
	for _, s := range seen {
		if s.status == http.StatusOK && s.asked.After(from) && s.answered.Before(to) {
			last = s.asked
		}
	}
	return last
}

// commitWatch sees every commit of the dispatchers, and whether any goes back.
type commitWatch struct {
	stop  chan struct{}
	wg    sync.WaitGroup
	fault string // set before the end
}

func (c *cluster) watchCommits() *commitWatch {
	w := &commitWatch{stop: make(chan struct{})}
	cl := c.brokers()
	w.wg.Go(func() {
		defer cl.Close()
		at := map[string]int64{}
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			offsets, err := cl.FetchOffsets(c.t.Context(), c.prefix+"dispatch")
			if err != nil {
				continue // the next one may work
			}
			for _, o := range offsets.Sorted() {
				name := fmt.Sprintf("%s-%d", o.Topic, o.Partition)
				if o.At < at[name] {
					w.fault = fmt.Sprintf("%s was committed at %d, then at %d", name, at[name], o.At)
				}
				at[name] = max(at[name], o.At)
			}
		}
	})
	return w
}

func (w *commitWatch) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	if w.fault != "" {
		t.Errorf("a commit went back: %s", w.fault)
	}
}

// A node that is cut off from the others takes no API key when its lease has run out, acknowledges nothing
// and commits nothing; the others take its partitions over. When its link is back it joins them again. A key
// that was revoked meanwhile is refused everywhere from the answer on.
func TestCutOff(t *testing.T) {
	t.Parallel()
	long(t)
	seed := faultSeed(t)
	c := newNetCluster(t, "cut", []string{"a", "b", "c"})
	nodes := c.start("a", "b", "c")
	a, b, host := nodes[0], nodes[1], c.hosts["c"]
	local := nodes[2].in(t)
	local.via = host.Transport()

	dest := newTallyOn(t, c.network.Hub.Listen(t), nil)
	f := fire(t, seed, nodes[:2], dest, rounds(100, 100, 200), c.network.Hub.Transport())
	f.topics.DialFunc = c.network.Hub.DialContext
	// What the node's own host posts to it, before, during and after.
	lonely := startLoadVia(host.Transport(), 10, 600, ingestURLs(t, dest, "/lonely/", nodes[2])...)
	f.more = append(f.more, lonely)
	commits := c.watchCommits()

	for range rounds(1, 1, 6) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		id, revoked := words[0], words[2]
		eventually(t, arrival, func() string {
			if status, answer, _ := local.with(revoked).call("GET", "/v1/me", nil); status != http.StatusOK {
				return fmt.Sprintf("a new key is answered %d %v", status, answer)
			}
			return ""
		})
		f.calm(time.Second)
		steady, gone := watchKey(local.url, testKey, host.Transport()), watchKey(local.url, revoked, host.Transport())
		cut := time.Now()
		host.Cut(t)
		time.Sleep(500 * time.Millisecond)
		asked := time.Now()
		a.keys("revoke", id)
		answered := time.Now()
		for _, n := range []*process{a, b} {
			n.in(t).with(revoked).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
		}
		lonelyBefore := lonely.count()
		time.Sleep(time.Until(cut.Add(12 * time.Second)))
		if n := lonely.count() - lonelyBefore; n > 0 {
			t.Errorf("a node that is cut off acknowledged %d events", n)
		}
		f.accepts(100)
		healed := time.Now()
		host.Heal(t)
		eventually(t, time.Minute, func() string {
			if status, answer, _ := local.call("GET", "/v1/me", nil); status != http.StatusOK {
				return fmt.Sprintf("after the link came back a key is answered %d %v", status, answer)
			}
			return ""
		})
		trusted := time.Since(healed)
		local.with(revoked).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
		c.balanced(3)
		f.outages = append(f.outages, outage{from: cut, to: time.Now(), cut: true})
		t.Logf("revoked in %v; the node took keys for %v after the cut, and again %v after the link came back; it shares "+
			"the work %v after that",
			answered.Sub(asked).Round(time.Millisecond),
			f.checkKeys(steady.end(), gone.end(), cut, answered, healed).Round(time.Millisecond),
			trusted.Round(time.Millisecond), time.Since(healed).Round(time.Millisecond))
	}
	f.accepts(100)
	f.account()
	commits.end(t)
}

// checkKeys checks the answers of the node that was cut off, and returns for how long it still accepted keys.
func (f *underFire) checkKeys(steady, gone []keyAnswer, cut, answered, healed time.Time) time.Duration {
	f.t.Helper()
	const lease = 5500 * time.Millisecond
	last := lastTaken(steady, cut, healed)
	if took := last.Sub(cut); took > lease {
		f.t.Errorf("a node that is cut off took a key %v after the cut, at most %v", took, lease)
	}
	statuses := map[int]int{}
	for _, s := range steady {
		if s.asked.After(cut.Add(lease)) && s.answered.Before(healed) {
			statuses[s.status]++
		}
	}
	if len(statuses) != 1 || statuses[http.StatusServiceUnavailable] == 0 {
		f.t.Errorf("without a lease keys were answered %v, want 503 only", slices.Sorted(maps.Keys(statuses)))
	}
	if again := lastTaken(gone, answered, time.Now()); !again.IsZero() {
		f.t.Errorf("a revoked key was taken %v after the answer to its revocation", again.Sub(answered))
	}
	return max(0, last.Sub(cut))
}

// No partition has two owners: what an endpoint gets comes from one node, then from another, and never from
// both in turn. A restart within the takeover time changes no owner, a longer one changes it and back.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	long(t)
	seed := faultSeed(t)
	c := newNetCluster(t, "owner", []string{"a", "b", "c"}, "RELAY_TAKEOVER_SECONDS=15") // a restart takes no longer
	nodes := c.start("a", "b", "c")
	dest := newTallyOn(t, c.network.Hub.Listen(t), func(hit) int {
		time.Sleep(50 * time.Millisecond)
		return http.StatusOK
	})
	f := fire(t, seed, nodes, dest, rounds(100, 100, 200), c.network.Hub.Transport())
	f.topics.DialFunc = c.network.Hub.DialContext
	absences := 0
	for range rounds(1, 1, 4) {
		for i, n := range nodes {
			f.calm(500 * time.Millisecond)
			if err := n.stop(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM ended with %v\n%s", err, n.logs)
			}
			if i == 1 {
				c.balanced(2) // the others have its partitions
				absences++
			}
			n.start()
			c.balanced(3)
			f.accepts(50)
		}
	}
	f.account() // nobody died, so no outage explains a duplicate
	most, changes := 0, 0
	for path, owners := range dest.owners() {
		changes += len(owners) - 1
		if most = max(most, len(owners)-1); len(owners)-1 > 2*absences {
			t.Errorf("endpoint %s changed its owner %d times though a node was away %d times: %v", path, len(owners)-1,
				absences, owners)
		}
	}
	t.Logf("%d restarts, %d of them longer than the takeover: owners changed %d times, of one endpoint %d times at most",
		3*absences, absences, changes, most)
}

// owners are the senders of what came to each path, in turn.
func (s *tally) owners() map[string][]string {
	all := map[string][]hit{}
	s.each(func(_ int64, hits []hit) {
		for _, h := range hits {
			all[h.path] = append(all[h.path], h)
		}
	})
	owners := map[string][]string{}
	for path, hits := range all {
		slices.SortFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) })
		for _, h := range hits {
			if had := owners[path]; len(had) == 0 || had[len(had)-1] != h.from {
				owners[path] = append(had, h.from)
			}
		}
	}
	return owners
}
