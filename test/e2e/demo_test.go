package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/demo"
)

// Every demonstration holds on this machine, within a minute, with the settings of another relay in its environment.
func TestDemos(t *testing.T) {
	t.Parallel()
	p := newDevProcess(t, t.TempDir(), "RELAY_KAFKA_BROKERS=127.0.0.1:1", "RELAY_MASTER_KEYS=wrong")
	for _, d := range demo.All {
		t.Run(d.Name, func(t *testing.T) {
			began := time.Now()
			out, err := p.output("demo", d.Name)
			if err != nil || !strings.Contains(string(out), "The promise held") {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", time.Since(began))
		})
	}
}
