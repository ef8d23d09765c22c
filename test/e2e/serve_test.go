package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/kit"
)

// engines are addresses of Kafka, Redis and ClickHouse.
type engines struct{ kafka, redis, clickhouse string }

// cluster is a relay of several nodes, with topics and tables of its own on the engines.
type cluster struct {
	t      *testing.T
	kafka  string // brokers, with commas between
	prefix string
	env    []string
	// network is where the nodes run, each on the host of its name; nil = on this machine.
	network *kit.Network
	hosts   map[string]*kit.Host
}

// newCluster names a cluster; nothing of it is there before migrate.
func newCluster(t *testing.T, e engines, name string, env ...string) *cluster {
	c := &cluster{t: t, kafka: e.kafka, prefix: name + "."}
	c.env = append([]string{
		"RELAY_KAFKA_BROKERS=" + e.kafka, "RELAY_REDIS_URL=redis://" + e.redis, "RELAY_CLICKHOUSE_URL=http://" +
			e.clickhouse +
			"/" + name,
		"RELAY_TOPIC_PREFIX=" + c.prefix, "RELAY_MASTER_KEYS=" + config.GenerateMasterKey("test"),
		"RELAY_PARTITIONS=4", "RELAY_REPLICATION_FACTOR=1",
	}, env...)
	return c
}

// node prepares one: its own name and data directory, the same settings as the others'.
func (c *cluster) node(name string, flags ...string) *process {
	c.t.Helper()
	dir := nodeDir(c.t)
	p := newProcess(c.t, dir, append([]string{"serve", "--node-name", name, "--data-dir", dir}, flags...), c.env...)
	if c.network != nil {
		p.host, p.via = c.network.Hub, c.network.Hub.Transport()
		if h := c.hosts[name]; h != nil {
			p.host = h
		}
	}
	return p
}

// nodeDir is a data directory with a short path: the socket in it may have 103 bytes, and that of t.TempDir names the
// test.
func nodeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // after the process has ended
	return dir
}

func (c *cluster) migrate(flags ...string) {
	c.t.Helper()
	if out, err := c.node("").output(append([]string{"migrate"}, flags...)...); err != nil ||
		!strings.Contains(string(out), "topics and tables are ready") {
		c.t.Fatalf("migrate: %v\n%s", err, out)
	}
}

// start migrates and starts nodes, and waits until they share the work.
func (c *cluster) start(names ...string) []*process {
	c.t.Helper()
	c.migrate()
	nodes := make([]*process, len(names))
	for i, name := range names {
		nodes[i] = c.node(name)
		nodes[i].start()
	}
	c.balanced(len(nodes))
	return nodes
}

// brokers returns a client of the cluster's Kafka.
func (c *cluster) brokers() *kadm.Client {
	c.t.Helper()
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(c.kafka, ",")...)}
	if c.network != nil {
		options = append(options, kgo.Dialer(c.network.Hub.DialContext))
	}
	cl, err := kadm.NewOptClient(options...)
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// balanced waits until so many members share the partitions of every group.
func (c *cluster) balanced(members int) {
	c.t.Helper()
	cl := c.brokers()
	defer cl.Close()
	groups := []string{c.prefix + "dispatch", c.prefix + "store"}
	eventually(c.t, time.Minute, func() string {
		described, err := cl.DescribeGroups(c.t.Context(), groups...)
		if err != nil {
			return err.Error()
		}
		for _, g := range groups {
			if d := described[g]; d.State != "Stable" || len(d.Members) != members {
				return fmt.Sprintf("group %s is %s with %d members, want %d", g, d.State, len(d.Members), members)
			}
		}
		return ""
	})
}

// lags says how far behind the groups are, and who has what.
func (c *cluster) lags() string {
	cl := c.brokers()
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	described, err := cl.Lag(ctx, c.prefix+"dispatch", c.prefix+"store")
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, g := range described.Sorted() {
		fmt.Fprintf(&text, "group %s is %s\n", g.Group, g.State)
		for _, l := range g.Lag.Sorted() {
			owner := "nobody"
			if l.Member != nil {
				owner = l.Member.MemberID
			}
			if l.Lag != 0 || l.Member == nil {
				fmt.Fprintf(&text, "  %s[%d] at %d of %d: lag %d, %s\n", l.Topic, l.Partition, l.Commit.At, l.End.Offset,
					l.Lag, owner)
			}
		}
	}
	return text.String()
}

// TestServe runs nodes on Apache Kafka, redis-server and the ClickHouse engine, each a process of its own.
func TestServe(t *testing.T) {
	t.Parallel()
	broker, limiter := kit.Kafka(t), kit.Redis(t)
	on := engines{broker.Addr, limiter.Addr, startEngine(t, "clickhouse").url}
	away := on
	away.redis = "127.0.0.1:1"

	run := func(name, prefix string, e engines, test func(*testing.T, *cluster), env ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCluster(t, e, prefix, env...))
		})
	}
	run("two nodes", "two", on, func(t *testing.T, c *cluster) {
		nodes := c.start("a", "b")
		testPipeline(t, nodes[0], nodes[1], rounds(10, 30, 100))
		t.Run("what comes twice is delivered once", func(t *testing.T) { repeats(t, nodes[0].in(t), nodes[1].in(t)) })
		t.Run("events are streamed by every node", func(t *testing.T) { eventStreams(t, nodes[0], nodes[1]) })
		t.Run("revoked key is refused on the other node", func(t *testing.T) { revokedKeys(t, nodes[0], nodes[1]) })
	})
	run("node is killed", "killed", on, killedNode, "RELAY_TAKEOVER_SECONDS=6")
	run("nodes are restarted in turn", "rolling", on, restartedNodes)
	if testing.Short() {
		return
	}
	run("one node, Redis away", "one", away, func(t *testing.T, c *cluster) {
		nodes := c.start("a")
		testPipeline(t, nodes[0], nodes[0], 10)
	})
	run("roles apart", "roles", on, func(t *testing.T, c *cluster) {
		c.migrate()
		front, back := c.node("front", "--roles", "ingest,api"), c.node("back", "--roles", "dispatch,write")
		back.start()
		front.start()
		testPipeline(t, front, front, 10)
	})
	run("topics are missing", "missing", on, missingTopics)
	run("two nodes of one name", "twins", on, twins)
	run("bodies of 10 MiB", "large", on, largeBodies, "RELAY_MAX_BODY=10485760")
}

// The broker is stopped, then killed, in the middle of traffic: nothing accepted is lost.
func TestBrokerRestart(t *testing.T) {
	t.Parallel()
	long(t)
	broker := kit.Kafka(t)
	c := newCluster(t, engines{broker.Addr, "127.0.0.1:1", startEngine(t, "clickhouse").url}, "restarted")
	nodes := c.start("a", "b")
	dest := newSink(t, nil)
	tr := startTraffic(8, 5*time.Millisecond, spread(t, dest, nodes...)...)
	var outages []outage
	for i, end := range []func(testing.TB){broker.Stop, broker.Kill} {
		time.Sleep(1500 * time.Millisecond)
		from := time.Now()
		end(t)
		time.Sleep(time.Second)
		broker.Start(t)
		up := time.Now()
		tr.wait(t, tr.count()+50)
		outages = append(outages, outage{from: from, to: time.Now()})
		t.Logf("end %d: the broker was away for %v, events were accepted %v later", i, up.Sub(from).Round(time.Millisecond),
			time.Since(up).Round(time.Millisecond))
	}
	accepted := tr.finish()
	eventually(t, arrival, func() string { // events are accepted a moment before keys are
		status, answer, _ := nodes[1].call("GET", "/v1/endpoints?limit=1", nil)
		if status != http.StatusOK {
			return fmt.Sprintf("the node that is asked answers %d %v", status, answer)
		}
		return ""
	})
	settle(t, nodes[1].client, dest, "", accepted, time.Minute)
	settledDeliveries(t, nodes[1].topics(), len(accepted), dest)
	t.Logf("%d accepted, 0 lost, %d delivered twice", len(accepted), redelivered(t, dest, outages...))
}

// The same nodes on the engines that the binary carries.
func TestServeOnEmbeddedEngines(t *testing.T) {
	t.Parallel()
	long(t)
	on := engines{startEngine(t, "kafka").url, startEngine(t, "redis").url, startEngine(t, "clickhouse").url}
	nodes := newCluster(t, on, "embedded").start("a", "b")
	testPipeline(t, nodes[0], nodes[1], 10)
}

// All faults of the settings are named at once.
func TestServeRefusesMissingSettings(t *testing.T) {
	for name, want := range map[string][]string{
		"serve":   {"RELAY_NODE_NAME", "RELAY_KAFKA_BROKERS", "RELAY_CLICKHOUSE_URL", "RELAY_MASTER_KEYS", "RELAY_MAX_BODY"},
		"migrate": {"RELAY_KAFKA_BROKERS", "RELAY_CLICKHOUSE_URL", "RELAY_MAX_BODY"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{name, "--max-body", "1"}, func(string) string { return "" }, &out, &errs)
		if code != command.ExitMisused {
			t.Errorf("%s: exit code %d, want %d", name, code, command.ExitMisused)
		}
		for _, setting := range want {
			if strings.Count(errs.String(), setting+":") != 1 {
				t.Errorf("%s: %s is not named once in:\n%s", name, setting, errs.String())
			}
		}
	}
}

func missingTopics(t *testing.T, c *cluster) {
	n := c.node("a")
	out, err := n.command(n.args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "run `relay migrate` first") ||
		!strings.Contains(string(out), c.prefix+"control.snapshots") {
		t.Fatalf("without topics: %v\n%s", err, out)
	}
	c.migrate()
	c.migrate() // a second time changes nothing
	n.start()
}

// keys runs a command against the running node.
func (p *process) keys(args ...string) string {
	p.t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"keys"}, append(args, "--data-dir", p.dir)...)
	if code := run(p.t.Context(), args, func(string) string { return "" }, &out, &errs); code != command.ExitDone {
		p.t.Fatalf("relay %v: %d %s", args, code, errs.String())
	}
	return out.String()
}

// revokedKeys: from the answer to the revocation on, no node takes the key, a hanging one included.
func revokedKeys(t *testing.T, a, b *process) {
	make := func() (id string, other client) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		other = b.in(t).with(words[2])
		eventually(t, arrival, func() string {
			if status, answer, _ := other.call("GET", "/v1/me", nil); status != http.StatusOK {
				return fmt.Sprintf("the other node answers a new key with %d %v", status, answer)
			}
			return ""
		})
		return words[0], other
	}
	for range 5 {
		id, other := make()
		a.keys("revoke", id)
		other.must(http.StatusUnauthorized, "GET", "/v1/me", nil)
	}
	id, other := make()
	b.signal(syscall.SIGSTOP)
	began := time.Now()
	a.keys("revoke", id)
	t.Logf("revoked in %v while the other node hung", time.Since(began).Round(time.Millisecond))
	b.signal(syscall.SIGCONT)
	if status, answer, _ := other.call("GET", "/v1/me", nil); status == http.StatusOK {
		t.Errorf("a node that hung took a revoked key: %v", answer)
	}
}

// spread makes endpoints until every partition should have some, each with a path of its own at the
// sink, and returns their ingest URLs on all nodes.
func spread(t *testing.T, dest *sink, nodes ...*process) (ingest []string) {
	t.Helper()
	const endpoints = 16
	for i := range endpoints {
		_, in, _ := nodes[0].in(t).endpoint(map[string]any{"destinations": []any{fmt.Sprintf("%s/%d", dest.URL, i)}})
		for _, n := range nodes {
			ingest = append(ingest, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	return ingest
}

// killedNode: everything accepted is delivered through the other node, and a node that comes back takes
// up its own partitions.
func killedNode(t *testing.T, c *cluster) {
	nodes := c.start("a", "b")
	a, b := nodes[0], nodes[1]
	dest := newSink(t, nil)
	tr := startTraffic(8, 5*time.Millisecond, spread(t, dest, a, b)...)
	time.Sleep(time.Duration(rounds(300, 1500, 1500)) * time.Millisecond)
	a.kill()
	killed := time.Now()
	time.Sleep(time.Second)
	accepted := tr.finish()
	settle(t, b.client, dest, "", accepted, time.Minute)
	settledDeliveries(t, b.topics(), len(accepted), dest)
	duplicates := redelivered(t, dest, outage{from: killed, to: killed})
	took := silence(dest, killed)
	t.Logf("%d accepted, 0 lost, %d duplicates, partitions taken over after %v", len(accepted), duplicates,
		took.Round(time.Millisecond))
	if limit := 6*time.Second + 10*time.Second; took > limit {
		t.Errorf("partitions were taken over after %v, at most %v", took, limit)
	}

	a.start()
	c.balanced(2)
	first, before := dest, len(accepted)
	dest = newSink(t, nil)
	urls := spread(t, dest, b)
	tr = startTraffic(8, 5*time.Millisecond, urls...)
	time.Sleep(500 * time.Millisecond)
	a.kill()
	killed = time.Now()
	a.start()
	accepted = tr.finish()
	settle(t, b.client, dest, "", accepted, time.Minute)
	settledDeliveries(t, b.topics(), before+len(accepted), first, dest)
	duplicates = redelivered(t, dest, outage{from: killed, to: killed})
	t.Logf("killed and started again: %d accepted, 0 lost, %d duplicates, partitions rested for %v", len(accepted),
		duplicates, silence(dest, killed).Round(time.Millisecond))
}

// silence is the longest time that an endpoint got nothing after the death of a node.
func silence(dest *sink, died time.Time) (longest time.Duration) {
	next := map[string]bool{}
	for _, r := range dest.received() {
		// What the node had sent just before it died may still be read by the sink.
		if gap := r.at.Sub(died); gap > 50*time.Millisecond && !next[r.path] {
			next[r.path] = true
			longest = max(longest, gap)
		}
	}
	return longest
}

// restartedNodes: SIGTERM lets what is in flight finish and ends with 0. A node that comes back finds its
// partitions where it left them; nobody else had them, so nothing is delivered twice.
func restartedNodes(t *testing.T, c *cluster) {
	nodes := c.start("a", "b", "c")
	dest := newSink(t, func(received) int {
		time.Sleep(300 * time.Millisecond)
		return http.StatusOK
	})
	tr := startTraffic(8, 20*time.Millisecond, spread(t, dest, nodes...)...)
	for _, n := range nodes[:rounds(1, 3, 3)] {
		time.Sleep(time.Second)
		began := time.Now()
		if err := n.stop(syscall.SIGTERM); err != nil {
			t.Errorf("SIGTERM ended with %v\n%s", err, n.logs)
		}
		stopped := time.Now()
		n.start()
		t.Logf("stopped in %v, started in %v", stopped.Sub(began).Round(time.Millisecond),
			time.Since(stopped).Round(time.Millisecond))
	}
	accepted := tr.finish()
	if duplicates := settle(t, nodes[0].client, dest, "", accepted, time.Minute); duplicates > 0 {
		t.Errorf("%d duplicates, though nobody died", duplicates)
	}
	settledDeliveries(t, nodes[0].topics(), len(accepted), dest)
	t.Logf("%d accepted, 0 lost", len(accepted))
}

// twins: the older of two processes with one name ends with an error that says so.
func twins(t *testing.T, c *cluster) {
	a := c.start("a")[0]
	twin := c.node("a")
	twin.start()
	if err := a.ended(time.Minute); err == nil ||
		!strings.Contains(a.logs.String(), "another process uses this node's name") {
		t.Fatalf("ended with %v\n%s", err, a.logs)
	}
	if err := twin.stop(syscall.SIGTERM); err != nil {
		t.Fatalf("the newer one ended with %v\n%s", err, twin.logs)
	}
}

// largeBodies: the largest body that can be set passes through every topic that carries it.
func largeBodies(t *testing.T, c *cluster) {
	a := c.start("a")[0]
	dest := newSink(t, onceUnavailable)
	_, in, _ := a.in(t).endpoint(map[string]any{
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 3, "jitter": 0},
	})
	body := randomBytes(t, 10<<20)
	if resp := a.in(t).post(in, nil, body); resp.StatusCode != http.StatusOK {
		t.Fatalf("10 MiB were answered %s\n%s", resp.Status, a.logs)
	}
	id := dest.wait(t, 2, arrival)[1].event()
	a.in(t).waitStatus(id, "delivered", arrival)
	a.in(t).must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", map[string]any{})
	for i, r := range dest.wait(t, 3, arrival) {
		if sum(r.body) != sum(body) {
			t.Errorf("request %d has other bytes (%d, want %d)", i, len(r.body), len(body))
		}
	}
}
