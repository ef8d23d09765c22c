package main

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/testkit"
)

func TestDevPipeline(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	testPipeline(t, p, p)
}

// Ctrl-C ends with 0, and a second start continues where the first stopped.
func TestDevRestart(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	ep, _, secret := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := p.send(ep, 1)
	p.waitStatus(id, "delivered", arrival)
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Fatalf("Ctrl-C ended with %v\n%s", err, p.logs)
	}
	started := time.Now()
	p.start()
	t.Logf("second start took %v", time.Since(started).Round(time.Millisecond))
	if e := p.must(http.StatusOK, "GET", "/v1/events/"+id, nil); e["status"] != "delivered" {
		t.Fatalf("after the restart %v", e)
	}
	next := p.send(ep, 2)
	got := dest.wait(t, 2, arrival)[1]
	if got.event() != next {
		t.Fatalf("after the restart %s was delivered, want %s", got.event(), next)
	}
	verifyDelivery(t, secret, got)
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	readYourWrites(t, p.client, p.client, rounds(50, 500, 500))
}

func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir())
	out, err := p.command(append(p.args, "--listen", "127.0.0.1:0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another relay process") {
		t.Fatalf("%v: %s", err, out)
	}
}

// The commands of the banner work when they are pasted into a shell.
func TestBannerCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		testkit.Absent(t, "curl is not installed")
	}
	p := startDevProcess(t, t.TempDir())
	script := banner(p.url, p.key)
	_, script, _ = strings.Cut(script, "read the event.\n")
	script, _, _ = strings.Cut(script, "Ctrl-C")
	out, err := exec.Command("bash", "-c", "set -e\n"+script).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"received":true`) || !strings.Contains(string(out), `"type":null`) || !strings.Contains(string(out), `order.paid`) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func TestKeysCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDevProcess(t, dir)
	relay := func(args ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"keys"}, args...), func(string) string { return "" }, &out, &errs)
		return out.String() + errs.String(), code
	}
	out, code := relay("create", "--name", "ci", "--scope", "read", "--data-dir", dir)
	lines := strings.Fields(out)
	if code != exitOK || len(lines) != 3 || lines[1] != "read" || !strings.HasPrefix(lines[2], "rly_live_") {
		t.Fatalf("create: %d %q", code, out)
	}
	as := p.with(lines[2])
	as.must(http.StatusOK, "GET", "/v1/me", nil)
	as.must(http.StatusForbidden, "POST", "/v1/endpoints", map[string]any{"destinations": []any{"https://example.com"}})
	if out, code := relay("list", "--data-dir", dir, "--json"); code != exitOK || !strings.Contains(out, lines[0]) || strings.Contains(out, lines[2]) {
		t.Fatalf("list: %d %s", code, out)
	}
	if out, code := relay("revoke", lines[0], "--data-dir", dir); code != exitOK {
		t.Fatalf("revoke: %d %s", code, out)
	}
	as.must(http.StatusUnauthorized, "GET", "/v1/me", nil)
	if _, code := relay("revoke", "key_nope", "--data-dir", dir); code != exitRefused {
		t.Fatalf("revoking an unknown key ended with %d", code)
	}
	if _, code := relay("create", "--data-dir", dir); code != exitUsage {
		t.Fatalf("create without a name ended with %d", code)
	}
	if _, code := relay("list", "--data-dir", filepath.Join(dir, "nowhere")); code != exitNoPeer {
		t.Fatalf("without a process it ended with %d", code)
	}
}
