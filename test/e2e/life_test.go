package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
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
}

// lifeStep is one thing that happens. In a planned step no request may fail and nothing may be delivered twice.
type lifeStep struct {
	name    string
	planned bool
	run     func(*lifeDrill)
}

var lifeSteps = []lifeStep{
	{"steady", true, func(*lifeDrill) {}},
	{"rolling restart", true, (*lifeDrill).restartAll},
}

// TestLife runs for RELAY_LIFE_MINUTES (10) at RELAY_LIFE_SHARE (60) percent of what the set-up sustains, which it
// measures first, or at RELAY_LIFE_RATE events a second. RELAY_LIFE_STEPS names the steps, separated by commas; by
// default all.
func TestLife(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("takes 15 minutes and three Apache Kafka brokers; set RELAY_TORTURE")
	}
	steps := chosenSteps(t)
	d := newLifeDrill(t)
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
	t.Logf("%d events accepted at %d a second, lost 0, wrong statuses 0", d.load.count(), rate)
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

func newLifeDrill(t *testing.T) *lifeDrill {
	t.Helper()
	network := kit.NewNetwork(t)
	brokers := network.Hub.KafkaCluster(t, 3)
	c := clusterOn(t, network, brokers.Addr, "life", []string{"a", "b", "c", "front"},
		"RELAY_REPLICATION_FACTOR=3", "RELAY_PARTITIONS=12", "RELAY_SHUTDOWN_DELAY_SECONDS=5")
	d := &lifeDrill{c: c, brokers: brokers, front: c.hosts["front"]}
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
	if err := n.stop(syscall.SIGTERM); err != nil {
		d.t.Errorf("SIGTERM ended with %v\n%s", err, n.logs)
	}
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
	r := awaitSettledLedger(t, d.topics)
	if r.Delivered != r.Accepted || r.Accepted < len(accepted) {
		t.Errorf("%d events were answered 2xx; the ledger has %d, %d of them delivered", len(accepted), r.Accepted,
			r.Delivered)
	}
	eventually(t, 3*time.Minute, func() string {
		if rows := d.nodes[0].forTest(t).list("&status=pending,retrying,failed,skipped,rejected", 100); len(rows) > 0 {
			return fmt.Sprintf("%d events are not listed as delivered, such as %v", len(rows), rows[0])
		}
		want := fmt.Sprintf("delivered\t%d\n", r.Delivered)
		if got := d.query(t, "SELECT status, count() FROM deliveries FINAL GROUP BY status"); got != want {
			return fmt.Sprintf("the store has the deliveries %q, want %q", got, want)
		}
		return ""
	})
}

// query returns the rows of a query to the cluster's ClickHouse, as text with tabs between the columns.
func (d *lifeDrill) query(t *testing.T, sql string) string {
	t.Helper()
	var address string
	for _, setting := range d.nodes[0].env {
		if value, ok := strings.CutPrefix(setting, "RELAY_CLICKHOUSE_URL="); ok {
			address = value
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = url.Values{"database": {strings.TrimPrefix(u.Path, "/")}, "query": {sql}}.Encode()
	u.Path = "/"
	via := d.c.network.Hub.Transport()
	defer via.CloseIdleConnections()
	resp, err := (&http.Client{Transport: via}).Get(u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", sql, resp.StatusCode, text, err)
	}
	return string(text)
}

// check logs what a step did to clients and destinations, and checks what it must not do.
func (d *lifeDrill) check(t *testing.T, s lifeStep, from, to time.Time) {
	failed := map[string]int{}
	var accepts, arrivals []time.Duration
	requests := d.balancer.between(from, to)
	for _, r := range requests {
		if r.status/100 == 2 {
			accepts = append(accepts, r.took)
		} else {
			failed[strings.TrimSpace(fmt.Sprintf("%d %s", r.status, r.fault))]++
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
		t.Logf("%d times: %s", n, text)
	}
	t.Logf("%.0f s: %d accepted, %d failed, %d duplicates; p99 accept %v, deliver %v", to.Sub(from).Seconds(),
		len(accepts), len(requests)-len(accepts), duplicates, percentile(accepts, 99), percentile(arrivals, 99))
	if s.planned && len(failed)+duplicates > 0 {
		t.Errorf("requests failed in a planned step, or deliveries were repeated: %v, %d", failed, duplicates)
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
