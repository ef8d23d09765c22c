package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// `relay dev` and its children listen on two TCP ports, the main one and the admin server's. A process that could reach
// an engine's port could read and write everything. This also holds for a data directory with a long path.
func TestDevListensOnTwoPorts(t *testing.T) {
	t.Parallel()
	p := sharedDev(t)
	dir := p.dir
	eventually(t, time.Minute, func() string { // it listens for the admin server a moment later
		conn, err := net.Dial("tcp", p.adminAt)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
	want := []string{strings.TrimPrefix(p.url, "http://"), p.adminAt}
	slices.Sort(want)
	is.List(t, kit.Listeners(t, p.cmd.Process.Pid), want, "relay dev listens on")
	for path, want := range map[string]os.FileMode{
		"": os.ModeDir | 0o700, "run": os.ModeDir | 0o700,
		"run/clickhouse.sock": os.ModeSocket | 0o600, "relay.sock": os.ModeSocket | 0o600,
		"log": os.ModeDir | 0o700, "clickhouse": os.ModeDir | 0o700,
	} {
		if info, err := os.Lstat(filepath.Join(dir, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, mode %v, want %v", path, err, info.Mode(), want)
		}
	}
}

// An engine that listens beyond loopback starts only with a secret, Redis not at all.
func TestEngineBeyondLoopbackNeedsASecret(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		must.Do(t, os.WriteFile(key, []byte(text), 0o600))
		must.Do(t, os.Chmod(key, mode))
	}
	// The command ends before it starts anything: the library is missing, or the context has ended.
	try := func(args ...string) (code int, said string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs bytes.Buffer
		code = run(ctx, append([]string{"engine"}, args...), func(string) string { return "" }, &out, &errs)
		return code, errs.String()
	}
	data := filepath.Join(t.TempDir(), "data")
	refused := func(want string, args ...string) {
		t.Helper()
		if code, said := try(append(args, "--data", data)...); code != cli.ExitMisused || !strings.Contains(said, want) {
			t.Errorf("%v: %d %s, want %q", args, code, said, want)
		}
	}
	for _, listen := range []string{"192.0.2.1:0", "0.0.0.0:0", "[::]:0"} {
		refused("not loopback", "redis", "--listen", listen)
		refused("not loopback", "clickhouse", "--listen", listen)
	}
	refused("set a key with --key-file or RELAY_ENGINE_KEY", "clickhouse", "--listen", "192.0.2.1:0")
	write("0123456789abcdef\n", 0o644)
	refused("chmod 600", "clickhouse", "--listen", "192.0.2.1:0", "--key-file", key)
	write("short", 0o600)
	refused("at least 16", "clickhouse", "--listen", "192.0.2.1:0", "--key-file", key)
	refused("has no keys", "redis", "--listen", "192.0.2.1:0", "--key-file", key)
	write("0123456789abcdef\n", 0o600)
	if code, said := try("clickhouse", "--listen", "192.0.2.1:0", "--data", data, "--key-file",
		key); code == cli.ExitMisused {
		t.Errorf("clickhouse with a key: %d %s", code, said)
	}
}

// A data directory, or a file of secrets in it, that other users can read is refused.
func TestDevRefusesOpenSecretsAndDirectories(t *testing.T) {
	try := func(dir string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"dev", "--data-dir", dir}, func(string) string {
			return ""
		}, &out, &errs); code != cli.ExitRefused {
			t.Errorf("ended with %d: %s", code, errs.String())
		}
		return errs.String()
	}
	for _, name := range []string{"master.keys", "api.key"} {
		dir := filepath.Join(t.TempDir(), "data")
		must.Do(t, os.Mkdir(dir, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("dev:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"),
			0o644))
		if said := try(dir); !strings.Contains(said, name) || !strings.Contains(said, "chmod 600") {
			t.Errorf("%s that others can read: %s", name, said)
		}
	}
	open := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(open, "x"), nil, 0o600))
	must.Do(t, os.Chmod(open, 0o755))
	is.Has(t, try(open), "chmod 700", "a directory that others can enter")
}

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
