package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// engines holds the addresses of Kafka, Redis and ClickHouse.
type engines struct{ kafka, redis, clickhouse string }

// cluster is a relay of several nodes, with its own topics and tables on the engines.
type cluster struct {
	t      *testing.T
	binary string // of its commands; "" = the test binary
	kafka  string // brokers, separated by commas
	prefix string
	env    []string
	// network is where the nodes run, each on its own host; nil = on this machine.
	network *kit.Network
	hosts   map[string]*kit.Host
}

// newCluster prepares a cluster with a name. Its topics and tables are created by migrate.
func newCluster(t *testing.T, e engines, name string, env ...string) *cluster {
	name = unusedName(name)
	c := &cluster{t: t, kafka: e.kafka, prefix: name + "."}
	c.env = append([]string{
		"RELAY_KAFKA_BROKERS=" + e.kafka, "RELAY_REDIS_URL=redis://" + e.redis, "RELAY_CLICKHOUSE_URL=http://" +
			e.clickhouse +
			"/" + name,
		"RELAY_TOPIC_PREFIX=" + c.prefix, "RELAY_MASTER_KEYS=" + seal.GenerateKey("test"),
		"RELAY_PARTITIONS=4", "RELAY_REPLICATION_FACTOR=1",
	}, env...)
	return c
}

// node prepares a node with its own name and data directory and the settings of the cluster.
func (c *cluster) node(name string, flags ...string) *process {
	c.t.Helper()
	dir := nodeDir(c.t)
	p := newProcess(c.t, dir, append([]string{"serve", "--node-name", name, "--data-dir", dir}, flags...), c.env...)
	p.binary = cmp.Or(c.binary, p.binary)
	if c.network != nil {
		p.host, p.transport = c.network.Hub, c.network.Hub.Transport()
		if h := c.hosts[name]; h != nil {
			p.host = h
		}
	}
	return p
}

// nodeDir creates a data directory with a short path. The path of the socket in it may have 103 bytes, and t.TempDir
// contains the name of the test.
func nodeDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "node"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // runs after the process has ended
	return dir
}

func (c *cluster) migrate(flags ...string) {
	c.t.Helper()
	if out, err := c.node("").output(append([]string{"migrate"}, flags...)...); err != nil ||
		!strings.Contains(string(out), "topics and tables are ready") {
		c.t.Fatalf("migrate: %v\n%s", err, out)
	}
}

// start migrates, starts nodes, and waits until they share the partitions.
func (c *cluster) start(names ...string) []*process {
	c.t.Helper()
	c.migrate()
	nodes := make([]*process, len(names))
	for i, name := range names {
		nodes[i] = c.node(name)
		nodes[i].start()
	}
	c.awaitBalanced(len(nodes))
	return nodes
}

// brokers returns an admin client of the cluster's Kafka.
func (c *cluster) brokers() *kadm.Client {
	c.t.Helper()
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(c.kafka, ",")...)}
	if c.network != nil {
		options = append(options, kgo.Dialer(c.network.Hub.DialContext))
	}
	cl := must.Get(kadm.NewOptClient(options...))(c.t)
	return cl
}

// awaitBalanced waits until that many members share the partitions of every consumer group.
func (c *cluster) awaitBalanced(members int) {
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

// TestServe runs nodes on Apache Kafka, redis-server and the ClickHouse engine, all separate processes.
func TestServe(t *testing.T) {
	t.Parallel()
	broker, limiter := kit.Kafka(t), kit.Redis(t)
	on := engines{broker.Addr, limiter.Addr, sharedEngine(t, "clickhouse")}

	run := func(name, prefix string, e engines, test func(*testing.T, *cluster), env ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newCluster(t, e, prefix, env...))
		})
	}
	run("two nodes", "two", on, func(t *testing.T, c *cluster) {
		nodes := c.start("a", "b")
		testPipeline(t, nodes[0], nodes[1], rounds(10, 20, 100))
		t.Run("what comes twice is delivered once", func(t *testing.T) {
			repeatedEvents(t, nodes[0].forTest(t), nodes[1].forTest(t))
		})
		t.Run("events are streamed by every node", func(t *testing.T) { eventStreams(t, nodes[0], nodes[1]) })
		t.Run("a failure is one issue of all nodes", func(t *testing.T) { failingDestination(t, nodes[0], nodes[1]) })
		t.Run("revoked key is refused on the other node", func(t *testing.T) { revokedKeys(t, nodes[0], nodes[1]) })
	})
	run("node is killed", "killed", on, killedNode, "RELAY_TAKEOVER_SECONDS=6")
	run("nodes are restarted in turn", "rolling", on, restartedNodes)
	if testing.Short() {
		return
	}
	run("roles apart", "roles", on, func(t *testing.T, c *cluster) {
		c.migrate()
		front, back := c.node("front", "--roles", "ingest,api"), c.node("back", "--roles", "dispatch,write")
		back.start()
		front.start()
		shortPipeline(t, front)
	})
	run("topics are missing", "missing", on, missingTopics)
	run("two nodes of one name", "twins", on, duplicateNodeName)
	run("bodies of 10 MiB", "large", on, largeBodies, "RELAY_MAX_BODY=10485760")
}

// Failures that one node counts are an issue on every node, and what one node is told of it, the others know.
func failingDestination(t *testing.T, nodes ...*process) {
	down := newSink(t, func(received) int { return http.StatusServiceUnavailable })
	ep, _, _ := nodes[0].forTest(t).endpoint(map[string]any{"destinations": []any{down.URL}})
	for n := range 8 {
		nodes[n%2].forTest(t).send(ep, n)
	}
	paths := map[string]bool{}
	issue := func(node *process, status string) {
		t.Helper()
		eventually(t, arrival, func() string {
			found := node.forTest(t).must(http.StatusOK, "GET", "/v1/issues?endpoint_id="+ep, nil)["data"].([]any)
			if len(found) != 1 {
				return fmt.Sprintf("%d issues", len(found))
			}
			x := found[0].(map[string]any)
			if paths["/v1/issues/"+x["id"].(string)] = true; x["cause"] != "http_503" || x["status"] != status {
				return fmt.Sprint(x)
			}
			return ""
		})
	}
	for _, node := range nodes {
		issue(node, "open")
	}
	for path := range paths {
		nodes[1].forTest(t).must(http.StatusOK, "PATCH", path, map[string]any{"status": "acknowledged"})
	}
	issue(nodes[0], "acknowledged")
	is.Equal(t, len(paths), 1, "the nodes have different issues: %v", paths)
}

// The error of relay serve names all missing settings at once.
func TestServeRefusesMissingSettings(t *testing.T) {
	for name, want := range map[string][]string{
		"serve --kafka-brokers kafka:9092": {"RELAY_NODE_NAME", "RELAY_CLICKHOUSE_URL", "RELAY_MASTER_KEYS",
			"RELAY_MAX_BODY"},
		"migrate": {"RELAY_KAFKA_BROKERS", "RELAY_CLICKHOUSE_URL", "RELAY_MAX_BODY"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append(strings.Fields(name), "--max-body", "1"), func(string) string { return "" },
			&out, &errs)
		is.Equal(t, code, cli.ExitMisused, "%s: exit code", name)
		for _, setting := range want {
			if strings.Count(errs.String(), setting+":") != 1 {
				t.Errorf("%s: the error must name %s exactly once:\n%s", name, setting, errs.String())
			}
		}
	}
}

func missingTopics(t *testing.T, c *cluster) {
	n := c.node("a")
	out, err := n.command(append(n.args, "--listen", "127.0.0.1:0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "run `relay migrate` first") ||
		!strings.Contains(string(out), c.prefix+"control.snapshots") {
		t.Fatalf("without topics: %v\n%s", err, out)
	}
	c.migrate()
	c.migrate() // a repeated migrate changes nothing
	n.start()
}

// keys runs relay keys on the running node and returns what it printed.
func (p *process) keys(args ...string) string {
	p.t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"keys"}, append(args, "--data-dir", p.dir)...)
	if code := run(p.t.Context(), args, func(string) string { return "" }, &out, &errs); code != cli.ExitDone {
		p.t.Fatalf("relay %v: %d %s", args, code, errs.String())
	}
	return out.String()
}

// revokedKeys checks that from the answer to a revocation on no node accepts the key, not even a frozen one.
func revokedKeys(t *testing.T, a, b *process) {
	make := func() (id string, other client) {
		words := strings.Fields(a.keys("create", "--name", "short-lived", "--scope", "read"))
		other = b.forTest(t).withKey(words[2])
		eventually(t, arrival, func() string {
			if status, answer, _ := other.call("GET", "/v1/me", nil); status != http.StatusOK {
				return fmt.Sprintf("the other node answers a request with a new key %d %v", status, answer)
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
	t.Logf("revoked in %v while the other node was frozen", time.Since(began).Round(time.Millisecond))
	b.signal(syscall.SIGCONT)
	if status, answer, _ := other.call("GET", "/v1/me", nil); status == http.StatusOK {
		t.Errorf("the thawed node accepted a revoked key: %v", answer)
	}
}

// spreadEndpoints creates so many endpoints that every partition should have some, each with its own path at the sink,
// and returns their ingest URLs on all nodes.
func spreadEndpoints(t *testing.T, dest *sink, nodes ...*process) (ingest []string) {
	t.Helper()
	const endpoints = 16
	for i := range endpoints {
		_, in, _ := nodes[0].forTest(t).endpoint(map[string]any{"destinations": []any{fmt.Sprintf("%s/%d", dest.URL, i)}})
		for _, n := range nodes {
			ingest = append(ingest, n.url+strings.TrimPrefix(in, nodes[0].url))
		}
	}
	return ingest
}

// killedNode checks that after a kill all accepted events are delivered by the other node, and that the restarted node
// gets its own partitions back.
func killedNode(t *testing.T, c *cluster) {
	nodes := c.start("a", "b")
	a, b := nodes[0], nodes[1]
	dest := newSink(t, nil)
	tr := startTraffic(8, 10*time.Millisecond, spreadEndpoints(t, dest, a, b)...)
	tr.awaitCount(t, 200)
	a.kill()
	killed := time.Now()
	time.Sleep(time.Second)
	accepted := tr.finish()
	awaitDelivered(t, b.client, dest, "", accepted, time.Minute)
	awaitAllDelivered(t, b.streamConfig, len(accepted), dest)
	duplicates := redelivered(t, dest, outage{from: killed, to: killed})
	took := longestSilence(dest, killed)
	t.Logf("%d accepted, 0 lost, %d duplicates, partitions taken over after %v", len(accepted), duplicates,
		took.Round(time.Millisecond))

	a.start()
	c.awaitBalanced(2)
	first, before := dest, len(accepted)
	dest = newSink(t, nil)
	urls := spreadEndpoints(t, dest, b)
	tr = startTraffic(8, 10*time.Millisecond, urls...)
	time.Sleep(500 * time.Millisecond)
	a.kill()
	killed = time.Now()
	a.start()
	accepted = tr.finish()
	awaitDelivered(t, b.client, dest, "", accepted, time.Minute)
	awaitAllDelivered(t, b.streamConfig, before+len(accepted), first, dest)
	duplicates = redelivered(t, dest, outage{from: killed, to: killed})
	t.Logf("killed and restarted: %d accepted, 0 lost, %d duplicates, partitions were idle for %v", len(accepted),
		duplicates, longestSilence(dest, killed).Round(time.Millisecond))
}

// longestSilence returns the longest time for which an endpoint got nothing after a node was killed.
func longestSilence(dest *sink, died time.Time) (longest time.Duration) {
	next := map[string]bool{}
	for _, r := range dest.received() {
		// The sink may still read what the node sent just before the kill.
		if gap := r.at.Sub(died); gap > 50*time.Millisecond && !next[r.path] {
			next[r.path] = true
			longest = max(longest, gap)
		}
	}
	return longest
}

// restartedNodes checks that a node finishes its requests in flight after SIGTERM and exits with 0. A node that returns
// in time gets its partitions back. No other node owned them, so there are no duplicates.
func restartedNodes(t *testing.T, c *cluster) {
	nodes := c.start("a", "b", "c")
	dest := newSink(t, func(received) int {
		time.Sleep(300 * time.Millisecond)
		return http.StatusOK
	})
	tr := startTraffic(8, 20*time.Millisecond, spreadEndpoints(t, dest, nodes...)...)
	for _, n := range nodes[:rounds(1, 3, 3)] {
		tr.awaitCount(t, tr.count()+100)
		began := time.Now()
		is.OK(t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
		stopped := time.Now()
		n.start()
		t.Logf("stopped in %v, started in %v", stopped.Sub(began).Round(time.Millisecond),
			time.Since(stopped).Round(time.Millisecond))
	}
	accepted := tr.finish()
	if duplicates := awaitDelivered(t, nodes[0].client, dest, "", accepted, time.Minute); duplicates > 0 {
		t.Errorf("%d duplicates, though no node was killed", duplicates)
	}
	awaitAllDelivered(t, nodes[0].streamConfig, len(accepted), dest)
	t.Logf("%d accepted, 0 lost", len(accepted))
}

// duplicateNodeName checks that of two processes with the same node name the older one ends with an error that says so.
func duplicateNodeName(t *testing.T, c *cluster) {
	a := c.start("a")[0]
	twin := c.node("a")
	twin.start()
	if err := a.awaitExit(time.Minute); err == nil ||
		!strings.Contains(a.logs.String(), "another process uses this node's name") {
		t.Fatalf("ended with %v\n%s", err, a.logs)
	}
	must.Do(t, twin.stop(syscall.SIGTERM), "the newer process ended with: %s", twin.logs)
}

// largeBodies checks that the largest body that RELAY_MAX_BODY allows passes through all topics that carry bodies.
func largeBodies(t *testing.T, c *cluster) {
	a := c.start("a")[0]
	dest := newSink(t, onceUnavailable)
	ep, in, _ := a.forTest(t).endpoint(map[string]any{
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 3, "jitter": 0},
	})
	body := randomBytes(t, 10<<20)
	if resp := a.forTest(t).post(in, nil, body); resp.StatusCode != http.StatusOK {
		t.Fatalf("a body of 10 MiB was answered %s\n%s", resp.Status, a.logs)
	}
	id := dest.wait(t, 2, arrival)[1].event()
	// A list, which has no bodies: reading the event again and again would keep the node from storing it.
	delivered := "&status=delivered&endpoint_id=" + ep
	for began := time.Now(); len(a.forTest(t).list(delivered, 1)) == 0 && time.Since(began) < busy*arrival; {
		time.Sleep(time.Second / 10)
	}
	a.forTest(t).awaitStatus(id, "delivered", arrival)
	a.forTest(t).must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", map[string]any{})
	for i, r := range dest.wait(t, 3, arrival) {
		if sum(r.body) != sum(body) {
			t.Errorf("request %d has other bytes (%d, want %d)", i, len(r.body), len(body))
		}
	}
}

// pausedByHand pauses a destination and its endpoint through the API. Events sent meanwhile are stored, and delivered
// when the pause ends. Purged ones are never delivered.
func pausedByHand(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, _, _ := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	path := "/v1/endpoints/" + ep
	first := func(answer map[string]any) map[string]any { return answer["destinations"].([]any)[0].(map[string]any) }
	target := path + "/destinations/" + first(write.must(http.StatusOK, "GET", path, nil))["id"].(string)
	held := func(id string) {
		t.Helper()
		eventually(t, arrival, func() string {
			e := read.event(id)
			d := e["deliveries"].([]any)[0].(map[string]any)
			if e["status"] != "pending" || d["status"] != "held" || d["reason"] != "manual" ||
				d["why"] != "held: paused by hand, delivered when unpaused" {
				return fmt.Sprintf("%v: %v", e["status"], d)
			}
			return ""
		})
	}
	const step = 30 * time.Second // parked deliveries are re-checked every 5 s, later on a busy machine

	write.must(http.StatusOK, "PATCH", target, map[string]any{"paused": true})
	if d := first(read.must(http.StatusOK, "GET", path, nil)); d["state"] != "paused" || d["state_reason"] != "manual" {
		t.Fatalf("%v", d)
	}
	purged := write.send(ep, 1)
	held(purged)
	write.must(http.StatusOK, "POST", target+"/purge", nil)
	kept := write.send(ep, 2)
	held(kept)
	if e := read.awaitStatus(purged, "skipped", step); e["reason"] != "purged" ||
		e["why"] != "skipped: it was still open when the destination was purged" {
		t.Errorf("%v", e)
	}
	write.must(http.StatusOK, "PATCH", path, map[string]any{"paused": true})
	write.must(http.StatusOK, "PATCH", target, map[string]any{"paused": false})
	later := write.send(ep, 3)
	held(later)
	must.Equal(t, len(dest.received()), 0, "requests during the pauses")
	write.must(http.StatusOK, "PATCH", path, map[string]any{"paused": false})
	read.awaitStatus(kept, "delivered", step)
	read.awaitStatus(later, "delivered", step)
	if got := dest.received(); len(got) != 2 {
		t.Errorf("%d requests, want 2", len(got))
	}
}

// Disaster recovery: an export that is imported into a new log with the same master keys restores the service, with the
// same answers, API keys, ingest URLs and signatures.
func TestConfigMovesToANewLog(t *testing.T) {
	t.Parallel()
	skipShort(t)
	master := "RELAY_MASTER_KEYS=" + seal.GenerateKey("main")
	old := startDevProcess(t, t.TempDir(), master)
	dest := newSink(t, nil)
	ep, in, secret := old.endpoint(map[string]any{
		"name": "kept", "provider": "github",
		"verification": map[string]any{"type": "github", "secret": "planted-provider-secret"},
		"destinations": []any{map[string]any{"url": dest.URL, "headers": map[string]any{"X-Planted": "planted-header"}}},
	})
	old.endpoint(map[string]any{"destinations": []any{"https://example.com/second"}})
	old.must(http.StatusOK, "PATCH", "/v1/alerts",
		map[string]any{"slack_webhook_url": "https://hooks.slack.com/services/planted-webhook-path"})
	out, code := runToEnd(t, old.command(
		"keys", "create", "--name", "app", "--scope", "read_write", "--data-dir", old.dir))
	app := strings.Fields(out)
	if code != cli.ExitDone || len(app) != 3 {
		t.Fatalf("%d %s", code, out)
	}
	file := filepath.Join(t.TempDir(), "configuration.json")
	out, code = runToEnd(t, old.command("config", "export", "--file", file, "--data-dir", old.dir, "--json"))
	var said command.Exported
	if code != cli.ExitDone || json.Unmarshal([]byte(out), &said) != nil || said.Entities < 5 ||
		len(said.MasterKeys) != 1 || !strings.HasPrefix(said.MasterKeys[0], "main:") {
		t.Fatalf("%d %s", code, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	doc, err := os.ReadFile(file)
	if err != nil || !json.Valid(doc) || strings.Contains(string(doc), "planted") ||
		strings.Contains(string(doc), secret) || strings.Contains(string(doc), app[2]) {
		t.Fatalf("%s, %v", doc, err)
	}

	young := startDevProcess(t, t.TempDir(), master)
	load := func(want int, words string, flags ...string) {
		t.Helper()
		out, code := runToEnd(t, young.command(append([]string{"config", "import", "--data-dir", young.dir}, flags...)...))
		if code != want || !strings.Contains(out, words) {
			t.Fatalf("import ended with %d: %s", code, out)
		}
	}
	damaged := filepath.Join(t.TempDir(), "damaged.json")
	must.Do(t, os.WriteFile(damaged, []byte(strings.Replace(string(doc), "kept", "Kept", 1)), 0o600))
	load(cli.ExitRefused, "checksum", damaged)
	load(cli.ExitDone, fmt.Sprintf("imported %d entities", said.Entities), file)
	as, before := young.withKey(app[2]), old.withKey(app[2])
	for _, path := range []string{"/v1/endpoints", "/v1/endpoints/" + ep, "/v1/alerts", "/v1/me"} {
		want := before.must(http.StatusOK, "GET", path, nil)
		got := as.must(http.StatusOK, "GET", path, nil)
		text := func(v any, url string) string { // ingest URLs differ only in the process's address
			raw, _ := json.Marshal(v)
			return strings.ReplaceAll(string(raw), url, "")
		}
		if a, b := text(want, old.url), text(got, young.url); !reflect.DeepEqual(a, b) {
			t.Errorf("%s after the import: %s\nbefore: %s", path, b, a)
		}
	}
	young.awaitStatus(young.send(ep, 1), "delivered", arrival)
	got := dest.wait(t, 1, arrival)[0]
	verifyDelivery(t, secret, got)
	is.Equal(t, got.header.Get("X-Planted"), "planted-header", "the delivery has lost its header")
	token := in[strings.LastIndex(in, "/in/"):]
	if resp := young.post(young.url+token, map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)},
		[]byte("{}")); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong signature was answered %s", resp.Status)
	}
	young.endpoint(map[string]any{"destinations": []any{"https://example.com/later"}})
	load(cli.ExitRefused, "there is a configuration already", file)
	load(cli.ExitDone, "removed 1 that were there before", "--replace", file)
}

func TestConfigRejectsMisuse(t *testing.T) {
	f := func(want string, code int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"config"}, args...), func(string) string { return "" }, &out, &errs)
		if text := out.String() + errs.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("%q: %d, want %d\n%s", args, got, code, text)
		}
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	f("Exit codes", cli.ExitDone, "--help")
	f(`unexpected argument "x"`, cli.ExitMisused, "export", "x")
	f("import takes one file", cli.ExitMisused, "import")
	f("import takes one file", cli.ExitMisused, "import", "a", "b")
	f("no such file", cli.ExitRefused, "import", nowhere)
	f("no running process", cli.ExitNoProcess, "export", "--data-dir", nowhere)
}

// startEngine starts `relay engine`, or the Kafka for tests, on a new directory, without fsync: these tests cut no
// power.
func startEngine(t *testing.T, name string) *process {
	t.Helper()
	dir := t.TempDir()
	p := newProcess(t, dir, []string{"engine", name, "--data", dir, "--fsync=false"})
	p.start()
	return p
}

// Each engine prints its address, answers there, refuses a second process on the same data, and exits with 0.
func TestEngineRunsAlone(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"redis":      "address already in use", // it stores no data, so only its address conflicts
		"clickhouse": "is locked by another process",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startEngine(t, name)
			conn := must.Get(net.DialTimeout("tcp", p.url, time.Second))(t)
			conn.Close()
			// ClickHouse waits ten seconds for a holder that may be ending; clickhouse.TestLockedDirectoryIsRefused shows it.
			if name != "clickhouse" || rounds(0, 0, 1) > 0 {
				listen := "127.0.0.1:0"
				if name == "redis" {
					listen = p.url
				}
				out, err := p.command(append(p.args, "--listen", listen)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), refusal) {
					t.Errorf("a second process on the same data: %v\n%s", err, out)
				}
			}
			is.OK(t, p.stop(syscall.SIGTERM), "SIGTERM ended with: %s", p.logs)
			p.start()
		})
	}
}

// A key file may lie anywhere. ClickHouse's process confines itself to its directories and then reads the file again.
func TestEngineReadsItsKeyFile(t *testing.T) {
	t.Parallel()
	const secret = "a-key-of-32-characters-or-more-00"
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "engine.key")
	must.Do(t, os.WriteFile(key, []byte(secret+"\n"), 0o600))
	p := newProcess(t, dir, []string{"engine", "clickhouse", "--data", dir, "--fsync=false", "--key-file", key})
	p.start()
	address := "http://" + p.url + "/"
	if status, text := sendRequest(t, "POST", address, "", "SELECT 1"); status == 200 {
		t.Errorf("without the key: %d %s", status, text)
	}
	if status, text := sendRequest(t, "POST", address, "", "SELECT 1", "X-ClickHouse-Key", secret); status != 200 {
		t.Errorf("with the key: %d %s", status, text)
	}
}
