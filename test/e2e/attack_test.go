package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/conformance"
)

// TestAttacks plays what a stranger, a web page, a customer and an agent would try, against `relay dev` and against a
// node on engines that are processes of their own.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const settings = "RELAY_ALERT_DOMAINS=example.com"
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		p := startDevProcess(t, t.TempDir(), settings)
		conformance.RunAttacks(t, attacked(t, p))
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		on := engines{startEngine(t, "kafka").url, startEngine(t, "redis").url, startEngine(t, "clickhouse").url}
		c := newCluster(t, on, "attacks", settings, "RELAY_ADMIN_LISTEN=127.0.0.1:0")
		node := c.start("a")[0]
		conformance.RunAttacks(t, attacked(t, node))
	})
}

// attacked is a relay of one process.
func attacked(t *testing.T, p *process) conformance.Target {
	tg := target(t, p.url, p)
	eventually(t, time.Minute, func() string { // the log comes by another pipe than the line that says it is ready
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
		caller := process{client: p.in(t), dir: p.dir}
		return strings.Fields(caller.keys(args...))[2]
	}
	return tg
}
