package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A listener that is killed goes on after the last event that it has copied: none is missing, and only the one that was
// being copied comes twice. A restart of the relay is a pause.
func TestListenGoesOn(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	ep, _, _ := p.forTest(t).endpoint(map[string]any{"destinations": []any{
		map[string]any{"url": "https://example.com/hook", "enabled": false}}})
	var mu sync.Mutex
	got := map[string]int{}
	var last http.Header
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Relay-Event-Id")]++
		last = r.Header.Clone()
		w.WriteHeader(http.StatusAccepted)
	}))
	defer local.Close()
	state := filepath.Join(t.TempDir(), "position.json")
	start := func() (cmd *exec.Cmd, out *tail) {
		out = &tail{}
		cmd = p.command("listen", ep, "--to", local.URL+"/in?token=hunter2", "--state", state, "--types", "order.*")
		cmd.Env = append(cmd.Env, "RELAY_BASE_URL="+p.url, "RELAY_API_KEY="+testReadKey,
			"RELAY_FORWARD_SIGNING_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		cmd.Stdout, cmd.Stderr = out, out
		must.Do(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		eventually(t, arrival, func() string {
			if text := out.String(); !strings.Contains(text, "waiting for events") {
				return "it printed " + text
			}
			return ""
		})
		return cmd, out
	}
	var sent []string
	send := func(n int) {
		for i := range n {
			sent = append(sent, p.forTest(t).send(ep, i))
		}
		p.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/events",
			map[string]any{"type": "other", "data": map[string]any{}})
	}
	arrived := func(out *tail) {
		t.Helper()
		eventually(t, arrival, func() string {
			mu.Lock()
			defer mu.Unlock()
			for _, event := range sent {
				if got[event] == 0 {
					return fmt.Sprintf("%d of %d events: %s\n%s", len(got), len(sent), event, out)
				}
			}
			return ""
		})
	}
	cmd, out := start()
	send(5)
	arrived(out)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	send(5)
	cmd, out = start()
	arrived(out)
	p.kill()
	p.start()
	send(5)
	arrived(out)
	must.Do(t, cmd.Process.Signal(syscall.SIGINT))
	is.OK(t, cmd.Wait(), "after Ctrl-C: %s", out)
	for event, n := range got {
		if n > 2 {
			t.Errorf("%s came %d times", event, n)
		}
	}
	if len(got) != len(sent) || last.Get("Webhook-Signature") == "" {
		t.Errorf("%d events of %d, the last one with %v", len(got), len(sent), last)
	}
	for _, want := range []string{"202", sent[14] + "  order.paid", "answered with 2xx"} {
		is.Has(t, out.String(), want, "the output has no %q:\n%s", want, out)
	}
	is.Lacks(t, out.String(), "hunter2", "the output shows the query:\n%s", out)
}
