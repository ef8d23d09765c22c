package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// restoreDrill is a relay of one node on Apache Kafka, which loses what docs/operate/upgrade.md says how to restore.
type restoreDrill struct {
	*cluster
	t    *testing.T
	node *process
	dest *sink
	down atomic.Bool // the destination answers 503
}

// newRestoreDrill starts it on a ClickHouse at an address.
func newRestoreDrill(t *testing.T, name, clickhouse string) *restoreDrill {
	t.Helper()
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("needs an Apache Kafka broker for itself; set RELAY_TORTURE")
	}
	c := newCluster(t, engines{kit.Kafka(t).Addr, sharedEngine(t, "redis"), clickhouse}, name,
		"RELAY_TAKEOVER_SECONDS=6")
	d := &restoreDrill{cluster: c, t: t}
	d.dest = newSink(t, func(received) int {
		if d.down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	d.node = c.start("a")[0]
	return d
}

// make creates an endpoint that delivers to the destination and repeats every second.
func (d *restoreDrill) make(name string) (endpoint string) {
	d.t.Helper()
	endpoint, _, _ = d.node.endpoint(map[string]any{
		"name": name, "destinations": []any{d.dest.URL + "/" + name},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0},
	})
	return endpoint
}

// send sends n events and returns their ids.
func (d *restoreDrill) send(endpoint string, n int) (ids []string) {
	d.t.Helper()
	for i := range n {
		ids = append(ids, d.node.send(endpoint, i))
	}
	return ids
}

// await waits until all events have a status.
func (d *restoreDrill) await(status string, events ...string) {
	d.t.Helper()
	for _, id := range events {
		d.node.awaitStatus(id, status, arrival)
	}
}

// awaitFailed waits until each event has an attempt that failed. It is retrying, or held by the circuit breaker.
func (d *restoreDrill) awaitFailed(events []string) {
	d.t.Helper()
	for _, id := range events {
		eventually(d.t, arrival, func() string {
			e := d.node.event(id)
			if one := e["deliveries"].([]any)[0].(map[string]any); one["attempts"].(float64) < 1 {
				return fmt.Sprintf("event %s: %v", id, one)
			}
			return ""
		})
	}
}

// relay runs a command on the node's data directory and returns what it printed.
func (d *restoreDrill) relay(args ...string) string {
	d.t.Helper()
	out, code := runToEnd(d.t, d.node.command(append(args, "--data-dir", d.node.dir)...))
	must.Equal(d.t, code, cli.ExitDone, "relay %v ended with: %s", args, out)
	return out
}

// stop stops the node.
func (d *restoreDrill) stop() {
	d.t.Helper()
	must.Do(d.t, d.node.stop(syscall.SIGTERM), "SIGTERM ended with: %s", d.node.logs)
}

// startWith starts the node with more flags.
func (d *restoreDrill) startWith(flags ...string) {
	d.t.Helper()
	args := d.node.args
	d.node.args = append(slices.Clone(args), flags...)
	d.node.start()
	d.node.args = args
}

// lose deletes topics.
func (d *restoreDrill) lose(topics ...string) {
	d.t.Helper()
	for i := range topics {
		topics[i] = d.prefix + topics[i]
	}
	answers, err := d.admin().DeleteTopics(d.t.Context(), topics...)
	if err == nil {
		err = answers.Error()
	}
	must.Do(d.t, err)
	d.awaitGone(topics)
}

// awaitGone waits until the broker no longer lists topics.
func (d *restoreDrill) awaitGone(topics []string) {
	d.t.Helper()
	eventually(d.t, arrival, func() string {
		found, err := d.admin().ListTopics(d.t.Context())
		if err != nil {
			return err.Error()
		}
		for _, topic := range topics {
			if found.Has(topic) {
				return "the broker still has " + topic
			}
		}
		return ""
	})
}

// loseGroup deletes the committed offsets of a consumer group, once its members have been silent for
// RELAY_TAKEOVER_SECONDS: a stopped node stays a member for as long.
func (d *restoreDrill) loseGroup(name string) {
	d.t.Helper()
	eventually(d.t, time.Minute, func() string {
		answers, err := d.admin().DeleteGroups(d.t.Context(), d.prefix+name)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// The configuration is lost and imported from an export: everything is paused until it is confirmed, events that waited
// are delivered then, and what came after the export is lost as documented.
func TestRestoreConfiguration(t *testing.T) {
	d := newRestoreDrill(t, "restoreconfig", sharedEngine(t, "clickhouse"))
	running, paused := d.make("running"), d.make("paused")
	d.node.must(http.StatusOK, "PATCH", "/v1/endpoints/"+paused, map[string]any{"paused": true})
	words := strings.Fields(d.node.keys("create", "--name", "leaked", "--scope", "read"))
	before := d.node.must(http.StatusOK, "GET", "/v1/endpoints/"+running, nil)
	file := filepath.Join(t.TempDir(), "config.json")
	d.relay("config", "export", "--file", file)

	later := d.make("later")
	d.node.keys("revoke", words[0])
	d.await("delivered", d.send(running, 5)...)
	d.down.Store(true)
	waiting, orphans := d.send(running, 20), d.send(later, 5)
	d.awaitFailed(waiting)
	d.stop()
	d.lose("control", "control.snapshots")
	d.down.Store(false)
	requests := len(d.dest.received())

	d.migrate()
	d.startWith("--roles", "api")
	is.Has(t, d.relay("config", "import", file, "--paused"), "imported", "import")
	if status, _, _ := d.node.withKey(words[2]).call("GET", "/v1/me", nil); status != http.StatusOK {
		t.Errorf("a key that was revoked after the export is answered %d", status)
	}
	d.node.keys("revoke", words[0])
	d.node.withKey(words[2]).must(http.StatusUnauthorized, "GET", "/v1/me", nil)
	after := d.node.must(http.StatusOK, "GET", "/v1/endpoints/"+running, nil)
	if after["ingest_url"] != before["ingest_url"] || after["paused"] != true {
		t.Errorf("the endpoint after the import: %v\nbefore: %v", after, before)
	}
	d.stop()
	d.node.start()
	held := d.send(running, 1)[0]
	for _, id := range []string{waiting[0], held} {
		eventually(t, arrival, func() string {
			e := d.node.event(id)
			if one := e["deliveries"].([]any)[0].(map[string]any); one["status"] != "held" {
				return fmt.Sprintf("event %s: %v", id, one)
			}
			return ""
		})
	}
	if n := len(d.dest.received()) - requests; n > 0 {
		t.Errorf("%d requests before the configuration was confirmed", n)
	}
	is.Has(t, d.relay("config", "resume", file), "resumed 1 endpoints", "resume")
	d.await("delivered", append(waiting, held)...)
	d.await("skipped", orphans...)
	if e := d.node.must(http.StatusOK, "GET", "/v1/endpoints/"+paused, nil); e["paused"] != true {
		t.Errorf("the endpoint that was paused before the export: %v", e)
	}
	r := awaitSettledLedger(t, d.node.streamConfig)
	t.Logf("control lost: %d events waited and were delivered after relay config resume, %d of an endpoint younger than "+
		"the export are skipped; ledger %v", len(waiting)+1, len(orphans), r.Counts)
}

// ClickHouse loses its disk and is restored from a backup: counts and a search are as at the time of the backup, and
// what came later is there again once the store's group reads the log from its beginning.
func TestRestoreStore(t *testing.T) {
	backups, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	server := newProcess(t, data, []string{"engine", "clickhouse", "--data", data, "--fsync=false", "--backups", backups})
	server.start()
	d := newRestoreDrill(t, "restorestore", server.url)
	script := func(verb string) {
		t.Helper()
		cmd := exec.Command("deploy/restore/store.sh", verb, "http://"+server.url, "restorestore", "Disk('backups', 'one')")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("store.sh %s: %v\n%s", verb, err, out)
		}
	}
	endpoint := d.make("kept")
	d.await("delivered", d.send(endpoint, 200)...)
	atBackup := d.state()
	script("backup")
	d.await("delivered", d.send(endpoint, 50)...)
	atLoss := d.state()

	d.stop()
	server.kill()
	must.Do(t, os.RemoveAll(data))
	server.start()
	script("restore")
	d.migrate()
	d.node.start()
	is.Equal(t, d.state(), atBackup, "after the restore: at the backup: %s", atBackup)
	d.stop()
	for _, group := range []string{"store", "store.findings"} {
		d.loseGroup(group)
	}
	d.node.start()
	eventually(t, arrival, func() string {
		if got := d.state(); got != atLoss {
			return fmt.Sprintf("after reading the log again: %s\nbefore the loss: %s", got, atLoss)
		}
		return ""
	})
	t.Logf("store lost: at the backup and after the restore %s; after reading the log again, as before the loss, %s",
		atBackup, atLoss)
}

// state describes what the store knows: counts and a search.
func (d *restoreDrill) state() string {
	d.t.Helper()
	all, found := d.node.list("", 100), d.node.list("&q=order.paid", 100)
	one := d.node.list("&body[data.n]=7", 100)
	usage := d.node.must(http.StatusOK, "GET", "/v1/usage", nil)["events"].(map[string]any)
	return fmt.Sprintf("%d events, %d found by a word, %d by a number, %v in the usage", len(all), len(found), len(one),
		usage["total"])
}

// Topics are lost. Without the retry topics their deliveries stay open until they are replayed. Without events new
// ones are taken, delivered and listed, and those that were stored stay.
func TestRestoreTopics(t *testing.T) {
	d := newRestoreDrill(t, "restoretopics", sharedEngine(t, "clickhouse"))
	endpoint := d.make("waits")
	stored := d.send(endpoint, 10)
	d.await("delivered", stored...)
	d.down.Store(true)
	waiting := d.send(endpoint, 10)
	d.awaitFailed(waiting)
	d.stop()
	var tiers []string
	found := must.Get(d.admin().ListTopics(t.Context()))(t)
	for _, topic := range found.Names() {
		if name, is := strings.CutPrefix(topic, d.prefix); is && strings.HasPrefix(name, "retry.") {
			tiers = append(tiers, name)
		}
	}
	d.lose(tiers...)
	d.down.Store(false)
	d.migrate()
	d.node.start()
	d.await("delivered", d.send(endpoint, 1)...)
	for _, id := range waiting {
		e := d.node.event(id)
		if e["status"] != "retrying" && e["status"] != "pending" {
			t.Errorf("event %s is %v", id, e["status"])
		}
		d.node.must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", map[string]any{})
	}
	d.await("delivered", waiting...)

	d.stop()
	d.lose("events")
	d.migrate()
	d.node.start()
	young := d.send(endpoint, 10)
	d.await("delivered", young...)
	d.await("delivered", stored...)
	eventually(t, arrival, func() string {
		if n := len(d.node.list("", 100)); n != len(stored)+len(waiting)+1+len(young) {
			return fmt.Sprintf("%d events are listed", n)
		}
		return ""
	})
	t.Logf("retry topics lost: %d deliveries stay open until they are replayed; events lost: %d new ones are "+
		"delivered and listed beside %d old ones", len(waiting), len(young), len(stored))
}
