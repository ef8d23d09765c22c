package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// The relay does its work without any feature: only their registration knows them.
func TestCoreWithoutFeatures(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "core", ".")
	list.Dir = kit.Root(t)
	packages := must.Get(list.Output())(t)
	for name := range strings.Lines(string(packages)) {
		if strings.Contains(name, "/relay/features/") {
			t.Errorf("the core imports %s", strings.TrimSpace(name))
		}
	}
	dir := t.TempDir()
	p := newDevProcess(t, dir)
	p.binary = buildRelay(t, "core")
	p.start()
	retriedDelivery(t, p.forTest(t), p.forTest(t))
	replayedEvent(t, p.forTest(t), p.forTest(t))
	for _, path := range []string{"/v1/drains", "/v1/findings", "/v1/settings/detection", "/drain/x", "/mcp",
		"/v1/event_types", "/catalogue", "/docs", "/docs/errors", "/v1/fixtures", "/v1/issues"} {
		if status, answer, _ := p.call("GET", path, nil); status != http.StatusNotFound {
			t.Errorf("%s is answered %d %v", path, status, answer)
		}
	}
	if out, code := runToEnd(t, p.command("doctor")); code != cli.ExitMisused {
		t.Errorf("relay doctor ends with %d: %s", code, out)
	}
}
