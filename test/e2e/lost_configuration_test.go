package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A node that lost the configuration refuses to dispatch while deliveries wait, and says how to restore it. After that
// they are made. Nodes without the role dispatch need no endpoint.
func TestDispatcherRefusesALostConfiguration(t *testing.T) {
	c := newCluster(t, sharedEngines(t), "lostconfig")
	c.migrate()
	n, other := c.node("a"), c.node("b", "--listen", "127.0.0.1:0")
	args := n.args
	startAs := func(flags ...string) {
		t.Helper()
		n.args = append(args[:len(args):len(args)], flags...)
		n.start()
	}
	relay := func(arguments ...string) {
		t.Helper()
		if out, code := runToEnd(t, n.command(append(arguments, "--data-dir", n.dir)...)); code != cli.ExitDone {
			t.Fatalf("relay %v ended with %d: %s", arguments, code, out)
		}
	}
	stop := func() {
		t.Helper()
		must.Do(t, n.stop(syscall.SIGTERM), "SIGTERM ended with: %s", n.logs)
	}
	lose := func() {
		t.Helper()
		admin := c.admin()
		answers, err := admin.DeleteTopics(t.Context(), c.prefix+"control", c.prefix+"control.snapshots")
		if err == nil {
			err = answers.Error()
		}
		must.Do(t, err)
		c.migrate()
	}
	refused := func() {
		t.Helper()
		cmd := other.command(other.args...)
		started := time.AfterFunc(2*time.Minute, func() { t.Log("it dispatches"); _ = cmd.Process.Kill() })
		defer started.Stop()
		out, code := runToEnd(t, cmd)
		if code == cli.ExitDone || !strings.Contains(out, "relay config import FILE --paused") {
			t.Fatalf("ended with %d: %s", code, out)
		}
	}

	startAs("--roles", "ingest,api,write")
	dest := newSink(t, nil)
	endpoint, _, _ := n.endpoint(map[string]any{"destinations": []any{dest.URL}})
	file := filepath.Join(t.TempDir(), "config.json")
	relay("config", "export", "--file", file)
	event := n.send(endpoint, 1)
	must.Do(t, os.Remove(file))
	lose() // while a node runs, which still has the configuration
	out, _ := runToEnd(t, n.command("doctor", "--data-dir", n.dir))
	is.Has(t, out, "before what this node has read: it was lost", "doctor")
	relay("config", "export", "--file", file)
	stop()
	refused()
	startAs("--roles", "api")
	refused() // the node that runs has made records, but no endpoint
	relay("config", "import", file, "--paused")
	stop()
	startAs()
	relay("config", "resume", file)
	n.awaitStatus(event, "delivered", arrival)

	stop()
	startAs("--roles", "ingest,api,write")
	n.send(endpoint, 2)
	stop()
	lose()
	refused()
	startAs("--allow-empty-configuration")
	eventually(t, arrival, func() string {
		if !strings.Contains(n.logs.String(), "the configuration has no endpoint") {
			return "no warning is logged"
		}
		return ""
	})
}
