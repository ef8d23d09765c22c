package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/conformance"
)

// TestAttacks runs the attacks of a stranger, a web page, a customer and an agent against `relay dev`, and with
// RELAY_TORTURE=1 against a node whose engines are separate processes.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const settings = "RELAY_ALERT_DOMAINS=example.com"
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		p := startDevProcess(t, t.TempDir(), settings)
		conformance.RunAttacks(t, attackTarget(t, p))
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		if rounds(0, 0, 1) == 0 {
			t.Skip("a node runs the same API; set RELAY_TORTURE")
		}
		c := newCluster(t, sharedEngines(t), "attacks", settings, "RELAY_ADMIN_LISTEN=127.0.0.1:0")
		node := c.start("a")[0]
		conformance.RunAttacks(t, attackTarget(t, node))
	})
}

// attackTarget describes a relay of one process.
func attackTarget(t *testing.T, p *process) conformance.Target {
	tg := target(t, p.url, p)
	eventually(t, time.Minute, func() string { // the log and the ready line come over different pipes
		if tg.Admin = "http://" + p.adminAddress(); p.adminAddress() == "" {
			return "the log names no address of metrics"
		}
		return ""
	})
	tg.Keys = func(t *testing.T, scope string, agent bool) string {
		args := []string{"create", "--name", "attack", "--scope", scope}
		if agent {
			args = append(args, "--agent")
		}
		caller := process{client: p.forTest(t), dir: p.dir}
		return strings.Fields(caller.keys(args...))[2]
	}
	return tg
}
