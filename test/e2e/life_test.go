package e2e

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// lifeDrill is a cluster under steady load to which happens what happens to clusters: three nodes behind a load
// balancer, each on its own host; three Kafka brokers, Redis and ClickHouse on another; clients and destinations on a
// third.
type lifeDrill struct {
	*clusterUnderLoad
	c        *cluster
	brokers  *kit.Brokers
	front    *kit.Host
	balancer *balancer
	pause    time.Duration // shortest time that a step takes
	old      string        // binary of the version before; "" if no step needs it
}

// lifeStep is one thing that happens. In a planned step no request may fail.
type lifeStep struct {
	name    string
	planned bool
	run     func(*lifeDrill)
}

var lifeSteps = []lifeStep{
	{"steady", true, func(*lifeDrill) {}},
	{stepUpgrade, true, func(d *lifeDrill) { d.replaceAll(d.old, "") }},
	{stepDowngrade, true, func(d *lifeDrill) { d.replaceAll("", d.old) }},
	{stepFinalize, true, (*lifeDrill).finalize},
	{"rolling restart", true, (*lifeDrill).restartAll},
	{"broker restart", false, (*lifeDrill).restartBroker},
	{"node cut from the engines", false, (*lifeDrill).cutNode},
}

// The steps that need the version before. It runs before the first of them, and none of it after the last.
const (
	stepUpgrade   = "upgrade"
	stepDowngrade = "downgrade"
	stepFinalize  = "upgrade to stay"
)

// TestLife runs for RELAY_LIFE_MINUTES (10) at RELAY_LIFE_SHARE (60) percent of what the set-up sustains, which it
// measures first, or at RELAY_LIFE_RATE events a second. RELAY_LIFE_STEPS names the steps, separated by commas; by
// default all.
func TestLife(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("takes 15 minutes and three Apache Kafka brokers; set RELAY_TORTURE")
	}
	steps := chosenSteps(t)
	old := ""
	if slices.ContainsFunc(steps, func(s lifeStep) bool { return s.name == stepUpgrade }) {
		old = buildOldRelay(t)
	}
	d := newLifeDrill(t, old)
	rate := d.startLoad(t)
	d.pause = time.Duration(numberSetting(t, "RELAY_LIFE_MINUTES", 10)) * time.Minute / time.Duration(len(steps))
	from := make([]time.Time, len(steps)+1)
	for i, s := range steps {
		from[i] = time.Now()
		s.run(d)
		time.Sleep(time.Until(from[i].Add(d.pause)))
	}
	from[len(steps)] = time.Now()
	d.settle(t)
	for i, s := range steps {
		t.Run(s.name, func(t *testing.T) { d.check(t, s, from[i], from[i+1]) })
	}
	duplicates, unexplained := d.dest.duplicates(d.outages)
	if len(unexplained) > 0 {
		t.Errorf("no outage explains these duplicates:\n%s", strings.Join(unexplained[:min(len(unexplained), 20)], "\n"))
	}
	t.Logf("%d events accepted at %d a second, lost 0, wrong statuses 0, %d duplicates of at most %d", d.load.count(),
		rate, duplicates, d.dest.countRepeatable(d.outages))
}

// chosenSteps returns the steps that RELAY_LIFE_STEPS names.
func chosenSteps(t *testing.T) (steps []lifeStep) {
	t.Helper()
	names := os.Getenv("RELAY_LIFE_STEPS")
	if names == "" {
		return lifeSteps
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(lifeSteps, func(s lifeStep) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("RELAY_LIFE_STEPS: there is no step %q", name)
		}
		steps = append(steps, lifeSteps[i])
	}
	return steps
}

// numberSetting returns a number from the environment.
func numberSetting(t *testing.T, name string, unset int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number from 1 on", name, text)
	}
	return n
}

// newLifeDrill starts the cluster, with an older binary if old names one.
func newLifeDrill(t *testing.T, old string) *lifeDrill {
	t.Helper()
	network := kit.NewNetwork(t)
	brokers := network.Hub.KafkaCluster(t, 3)
	c := clusterOn(t, network, brokers.Addr, "life", []string{"a", "b", "c", "front"},
		"RELAY_REPLICATION_FACTOR=3", "RELAY_PARTITIONS=12", "RELAY_SHUTDOWN_DELAY_SECONDS=5")
	c.binary = old
	d := &lifeDrill{c: c, brokers: brokers, front: c.hosts["front"], old: old}
	nodes := c.start("a", "b", "c")
	for _, n := range nodes {
		n.transport = d.front.Transport()
	}
	d.balancer = newBalancer(t, d.front.Transport(), nodes...)
	d.clusterUnderLoad = &clusterUnderLoad{t: t, nodes: nodes, topics: nodes[0].streamConfig()}
	d.topics.DialFunc = network.Hub.DialContext
	return d
}

// startLoad measures what the cluster sustains and starts the steady load. It returns its events a second.
func (d *lifeDrill) startLoad(t *testing.T) (rate int) {
	t.Helper()
	d.dest = newTallyOn(t, d.front.Listen(t), nil)
	urls := ingestURLs(t, d.dest, sharedPaths, d.nodes[0])
	if rate = numberSetting(t, "RELAY_LIFE_RATE", 0); rate == 0 {
		const asMuchAsPossible = 100_000
		began := time.Now()
		l := startLoadVia(d.balancer, asMuchAsPossible, 600, urls...)
		time.Sleep(20 * time.Second)
		accepted := l.finish()
		eventually(t, 3*time.Minute, func() string {
			if n := d.dest.missing(accepted); n > 0 {
				return fmt.Sprintf("%d of %d accepted events were never delivered", n, len(accepted))
			}
			return ""
		})
		sustained := float64(len(accepted)) / time.Since(began).Seconds()
		rate = max(1, int(sustained)*numberSetting(t, "RELAY_LIFE_SHARE", 60)/100)
		t.Logf("the set-up accepts and delivers %.0f events a second; the load is %d", sustained, rate)
		d.more = append(d.more, l)
	}
	d.load = startLoadVia(d.balancer, rate, 600, urls...)
	return rate
}

// replaceAll replaces the nodes of one version by another, one after the other: relay migrate first, if the new one is
// the current version. An empty binary is the current version. Nodes of the old version do not answer 503 before they
// stop, so the operator takes them out of the load balancer.
func (d *lifeDrill) replaceAll(from, to string) {
	d.c.binary = to
	if to == "" {
		d.c.migrate()
	}
	for i, n := range d.nodes {
		before := d.version(n)
		if from == d.old {
			d.balancer.remove(d.t, i)
		}
		d.stop(n)
		n.binary = cmp.Or(to, os.Args[0])
		n.start()
		if from == d.old {
			d.balancer.set(i, false)
		}
		d.c.awaitBalanced(len(d.nodes))
		if now := d.version(n); now == before {
			d.t.Errorf("the node runs version %s as before", now)
		}
		d.checkConfiguration(n)
		d.awaitAccepted(50)
	}
}

func (d *lifeDrill) finalize() {
	d.replaceAll(d.old, "")
	d.c.migrate("--finalize")
}

// version returns the version that a node runs.
func (d *lifeDrill) version(n *process) string {
	d.t.Helper()
	var version string
	eventually(d.t, time.Minute, func() string { // a node takes API keys a moment after events
		status, answer, _ := n.call("GET", "/v1/me", nil)
		if status != http.StatusOK {
			return fmt.Sprintf("GET /v1/me: %d %v", status, answer)
		}
		version = answer["version"].(string)
		return ""
	})
	return version
}

// checkConfiguration creates an endpoint on a node; all others, of whatever version, know it.
func (d *lifeDrill) checkConfiguration(n *process) {
	d.t.Helper()
	ep, _, _ := n.endpoint(map[string]any{"name": "made during an upgrade", "destinations": []any{d.dest.URL + "/made"}})
	for _, other := range d.nodes {
		eventually(d.t, time.Minute, func() string {
			status, answer, _ := other.call("GET", "/v1/endpoints/"+ep, nil)
			if status != http.StatusOK || answer["name"] != "made during an upgrade" {
				return fmt.Sprintf("an endpoint that another node made: %d %v", status, answer)
			}
			return ""
		})
	}
}

// restartBroker stops the broker that leads a partition of events, and starts it again.
func (d *lifeDrill) restartBroker() {
	leader := d.brokers.Leader(d.t, d.c.prefix+"events", 0)
	from := time.Now()
	leader.Stop(d.t)
	d.awaitAccepted(100)
	leader.Start(d.t)
	awaitInSync(d.t, d.c, d.brokers)
	d.addOutage(from)
}

// cutNode cuts a node from the engines, but not from clients and destinations: it is not ready after its lease has
// expired, and the others take over its partitions.
func (d *lifeDrill) cutNode() {
	node, hub := d.c.hosts["c"], d.c.network.Hub
	from := time.Now()
	node.CutFrom(d.t, hub)
	d.awaitReadyz(d.nodes[2], http.StatusServiceUnavailable)
	d.c.awaitBalanced(len(d.nodes) - 1)
	d.awaitAccepted(100)
	node.HealFrom(d.t, hub)
	d.awaitReadyz(d.nodes[2], http.StatusOK)
	d.c.awaitBalanced(len(d.nodes))
	d.addOutage(from)
}

// awaitReadyz waits until a node's /readyz has a status.
func (d *lifeDrill) awaitReadyz(n *process, want int) {
	d.t.Helper()
	eventually(d.t, time.Minute, func() string {
		if status, answer, _ := n.call("GET", "/readyz", nil); status != want {
			return fmt.Sprintf("/readyz is answered %d %v", status, answer)
		}
		return ""
	})
}

// restartAll stops each node with SIGTERM and starts it again, one after the other.
func (d *lifeDrill) restartAll() {
	for _, n := range d.nodes {
		d.stop(n)
		n.start()
		d.c.awaitBalanced(len(d.nodes))
		d.awaitAccepted(50)
	}
}

// stop ends a node with SIGTERM.
func (d *lifeDrill) stop(n *process) {
	d.t.Helper()
	is.OK(d.t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
}

// settle ends the load and waits until each accepted event is delivered, in the ledger and in the store.
func (d *lifeDrill) settle(t *testing.T) {
	t.Helper()
	accepted := maps.Clone(d.load.finish())
	for _, l := range d.more {
		maps.Copy(accepted, l.accepted)
	}
	eventually(t, 3*time.Minute, func() string {
		if n := d.dest.missing(accepted); n > 0 {
			return fmt.Sprintf("%d of %d accepted events were never delivered", n, len(accepted))
		}
		return ""
	})
	r := awaitSettledLedger(t, d.logOfTopics)
	if r.Delivered != r.Accepted || r.Accepted < len(accepted) {
		t.Errorf("%d events were answered 2xx; the ledger has %d, %d of them delivered", len(accepted), r.Accepted,
			r.Delivered)
	}
	eventually(t, 3*time.Minute, func() string {
		others := "/v1/events?limit=1&status=pending,retrying,failed,skipped,rejected"
		status, page, _ := d.nodes[0].forTest(t).call("GET", others, nil)
		if rows, _ := page["data"].([]any); status != http.StatusOK || len(rows) > 0 {
			return fmt.Sprintf("the list of events that are not delivered: %d %v", status, page)
		}
		want := fmt.Sprintf("delivered\t%d\n", r.Delivered)
		got, err := d.query(t, "SELECT status, count() FROM deliveries FINAL GROUP BY status")
		if err != nil || got != want {
			return fmt.Sprintf("the store has the deliveries %q, want %q; %v", got, want, err)
		}
		return ""
	})
}

// query returns the rows of a query to the cluster's ClickHouse, as text with tabs between the columns.
func (d *lifeDrill) query(t *testing.T, sql string) (rows string, err error) {
	t.Helper()
	var address string
	for _, setting := range d.nodes[0].env {
		if value, ok := strings.CutPrefix(setting, "RELAY_CLICKHOUSE_URL="); ok {
			address = value
		}
	}
	u := must.Get(url.Parse(address))(t)
	u.RawQuery = url.Values{"database": {strings.TrimPrefix(u.Path, "/")}, "query": {sql}}.Encode()
	u.Path = "/"
	via := d.c.network.Hub.Transport()
	defer via.CloseIdleConnections()
	resp, err := (&http.Client{Transport: via}).Get(u.String())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", sql, resp.StatusCode, text)
	}
	return string(text), err
}

// check logs what a step did to clients and destinations, and checks what it must not do.
func (d *lifeDrill) check(t *testing.T, s lifeStep, from, to time.Time) {
	failed, span := map[string]int{}, map[string][2]time.Duration{}
	var accepts, arrivals []time.Duration
	requests := d.balancer.between(from, to)
	for _, r := range requests {
		if r.status/100 == 2 {
			accepts = append(accepts, r.took)
		} else {
			text := strings.TrimSpace(fmt.Sprintf("%d %s", r.status, r.fault))
			if failed[text]++; failed[text] == 1 {
				span[text] = [2]time.Duration{r.at.Sub(from), 0}
			}
			span[text] = [2]time.Duration{min(span[text][0], r.at.Sub(from)), max(span[text][1], r.at.Sub(from))}
		}
	}
	duplicates := 0
	d.dest.each(func(_ int64, hits []hit) {
		if hits[0].posted.Before(from) || !hits[0].posted.Before(to) {
			return
		}
		arrivals = append(arrivals, hits[0].at.Sub(hits[0].posted))
		duplicates += len(hits) - 1
	})
	for text, n := range failed {
		t.Logf("%d times: %s, from %v to %v of the step", n, text, span[text][0].Round(time.Millisecond),
			span[text][1].Round(time.Millisecond))
	}
	t.Logf("%.0f s: %d accepted, %d failed, %d duplicates; p99 accept %v, deliver %v", to.Sub(from).Seconds(),
		len(accepts), len(requests)-len(accepts), duplicates, percentile(accepts, 99), percentile(arrivals, 99))
	if s.planned && len(failed) > 0 {
		t.Errorf("requests failed in a planned step: %v", failed)
	}
}

// percentile returns a percentile of durations; 0 if there are none.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*p/100].Round(time.Millisecond)
}

// lastRelease returns the commit of the last release; the version that is being made works beside it.
func lastRelease(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("git", "log", "-1", "--format=%h", "--grep", "^Release [0-9]")
	cmd.Dir = kit.Root(t)
	out, err := cmd.Output()
	if commit := strings.TrimSpace(string(out)); err == nil && commit != "" {
		return commit
	}
	t.Fatalf("no commit of a release is found (%v): name one in RELAY_OLD", err)
	return ""
}

// buildOldRelay builds the relay of the commit RELAY_OLD, or of the last release, and returns its path.
func buildOldRelay(t *testing.T) string {
	t.Helper()
	commit := os.Getenv("RELAY_OLD")
	if commit == "" {
		commit = lastRelease(t)
	}
	root, dir := kit.Root(t), t.TempDir()
	path := filepath.Join(dir, "relay-old")
	build := `git archive "$COMMIT" | tar -x -C "$DIR"
		cd "$DIR" && go build -trimpath -ldflags "-X main.commit=$COMMIT" -o "$OUT" .`
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", build)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "COMMIT="+commit, "DIR="+dir, "OUT="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the relay of commit %s: %v\n%s", commit, err, out)
	}
	return path
}

// clusterOn returns a cluster whose nodes run on separate hosts of a network. Engines and destinations run on its hub,
// which has Kafka brokers.
func clusterOn(t *testing.T, network *kit.Network, brokers, name string, nodes []string, env ...string) *cluster {
	t.Helper()
	hub := network.Hub
	dir := t.TempDir()
	store := newProcess(t, dir,
		[]string{"engine", "clickhouse", "--data", dir, "--fsync=false", "--host", hub.Addr.String()})
	// without a secret the engine binds loopback only; the nodes reach it through a forwarder
	store.host, store.url = hub, "127.0.0.1:0"
	store.start()
	on := engines{brokers, hub.Redis(t).Addr, hub.Forward(t, store.url)}
	c := newCluster(t, on, name,
		append([]string{allowHTTP, "RELAY_EGRESS_ALLOW=" + network.Prefix(), "RELAY_TAKEOVER_SECONDS=6"}, env...)...)
	c.network, c.hosts = network, map[string]*kit.Host{}
	for _, n := range nodes {
		c.hosts[n] = network.Host(t, n)
	}
	return c
}
