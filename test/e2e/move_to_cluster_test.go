package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// One machine moves into a cluster of two nodes, as docs/operate/one-machine.md says: events, their history, endpoints,
// API keys and idempotency keys are there. What waited is delivered, and nothing is delivered twice.
func TestMoveToCluster(t *testing.T) {
	t.Parallel()
	skipShort(t)
	kafka := sharedEngine(t, "kafka")
	if os.Getenv("RELAY_TORTURE") != "" {
		kafka = kit.Kafka(t).Addr
	}
	var down atomic.Bool
	dest := newSink(t, func(received) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	above := t.TempDir()
	dir, copied, export := nodeDir(t), filepath.Join(above, "copied"), filepath.Join(above, "config.json")
	c := newCluster(t, engines{kafka, sharedEngine(t, "redis"), ""}, "move")
	one := newProcess(t, dir, []string{"serve", "--data-dir", dir}, "RELAY_TOPIC_PREFIX="+c.prefix)
	one.start()
	ep, _, _ := one.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	var ids []string
	post := func(p *process, n int) string {
		t.Helper()
		status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprintf("order-%d", n),
			`{"type":"order.paid","data":{}}`)
		if status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		return fmt.Sprint(answer["id"])
	}
	send := func(n int) {
		for range n {
			ids = append(ids, post(one, len(ids)))
		}
	}
	const delivered, waiting = 100, 50
	send(delivered)
	for _, id := range ids {
		one.awaitStatus(id, "delivered", arrival)
	}
	down.Store(true)
	send(waiting)
	dest.wait(t, delivered+1, arrival) // the others wait for a retry, or for a probe
	run := func(p *process, args ...string) {
		t.Helper()
		if out, code := runToEnd(t, p.command(args...)); code != cli.ExitDone {
			t.Fatalf("relay %v ended with %d: %s", args, code, out)
		}
	}
	must.Do(t, one.stop(syscall.SIGTERM))
	one.args = append(one.args, "--roles", "api,write")
	one.start() // delivers nothing
	before := checkNothingLost(t, one.streamConfig)
	run(one, "config", "export", "--data-dir", dir, "--file", export)
	run(one, "backup", copied, "--data-dir", dir)
	must.Do(t, one.stop(syscall.SIGTERM))

	data := filepath.Join(t.TempDir(), "data")
	store := newProcess(t, data, []string{"engine", "clickhouse", "--data", data, "--fsync=false", "--backups", copied})
	store.start()
	cmd := exec.Command("deploy/restore/store.sh", "restore", "http://"+store.url, "relay", "Disk('backups', 'store')")
	cmd.Dir = kit.Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("store.sh: %v\n%s", err, out)
	}
	keys := strings.TrimSpace(string(readAll(t, filepath.Join(dir, "master.keys"))))
	c.env = append(c.env, "RELAY_CLICKHOUSE_URL=http://"+store.url+"/relay", "RELAY_MASTER_KEYS="+keys)
	c.migrate()
	first := c.node("a")
	run(first, "restore", copied, "--data-dir", nodeDir(t))
	args := first.args
	first.args = append(args, "--roles", "api")
	first.start()
	run(first, "config", "import", export, "--data-dir", first.dir)
	must.Do(t, first.stop(syscall.SIGTERM))
	first.args = args
	down.Store(false)
	nodes := c.start("b")
	first.start()
	c.awaitBalanced(2)

	after := awaitSettledLedger(t, first.streamConfig)
	if after.Accepted != before.Accepted || after.Delivered != before.Accepted || after.Duplicates > 0 {
		t.Errorf("the ledger of the machine: %v, of the cluster: %v", before.Counts, after.Counts)
	}
	got := map[string]int{}
	for _, r := range dest.received() {
		if r.status == http.StatusOK {
			got[r.event()]++
		}
	}
	for _, id := range ids {
		nodes[0].awaitStatus(id, "delivered", arrival)
		is.Equal(t, got[id], 1, "event %s was delivered … times", id)
	}
	listed := (&hostile{process: first, t: t}).listStatuses(ep)
	is.Equal(t, len(listed), len(ids), "of %d events are listed", len(ids))
	unknown := 0 // a busy Redis may answer too late
	for n, id := range ids {
		if post(first, n) != id {
			unknown++
		}
	}
	if unknown > len(ids)/10 {
		t.Errorf("%d of %d repeats are accepted as new events", unknown, len(ids))
	}
}
