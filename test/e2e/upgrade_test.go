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

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// One machine is upgraded by replacing its program, and goes back in the same way. relay upgrade --check of the new
// program says what that does, and changes nothing. Nothing is lost or accepted twice.
func TestUpgradeByReplacingTheFile(t *testing.T) {
	t.Parallel()
	skipShort(t)
	above := t.TempDir()
	build := func(version string) (path string) {
		path = filepath.Join(above, version)
		cmd := exec.Command("go", "build", "-ldflags", "-s -w -X main.commit="+version, "-o", path, ".")
		cmd.Dir, cmd.Env = kit.Root(t), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		return path
	}
	installed, programs := filepath.Join(above, "relay"), []string{build("old"), build("new"), build("old")}
	must.Do(t, os.Link(programs[0], installed))
	var down atomic.Bool
	dest := newSink(t, func(received) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	dir := nodeDir(t)
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir})
	p.binary = installed
	p.start()
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	var ids []string
	post := func(n int) string {
		t.Helper()
		status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprintf("order-%d", n),
			`{"type":"order.paid","data":{}}`)
		if status != http.StatusAccepted {
			t.Fatal(status, answer)
		}
		return fmt.Sprint(answer["id"])
	}
	for i, program := range programs[1:] {
		down.Store(true)
		for range 20 {
			ids = append(ids, post(len(ids)))
		}
		p.awaitStatus(ids[len(ids)-1], "retrying", arrival)
		check := newProcess(t, dir, nil)
		check.binary = program
		out, code := runToEnd(t, check.command("upgrade", "--check", "--data-dir", dir))
		if running := []string{"old", "new"}[i]; code != command.ExitDone ||
			!strings.Contains(out, running+" runs") || !strings.Contains(out, "change nothing") {
			t.Errorf("relay upgrade --check ended with %d: %s", code, out)
		}
		must.Do(t, os.Link(program, installed+".new"))
		must.Do(t, os.Rename(installed+".new", installed))
		must.Do(t, p.stop(syscall.SIGTERM))
		p.start()
		down.Store(false)
		for n, id := range ids {
			p.awaitStatus(id, "delivered", arrival)
			is.Equal(t, post(n), id, "a repeat of %s is accepted as", id)
		}
	}
	if r := awaitSettledLedger(t, p.streamConfig); r.Duplicates > 0 || r.Delivered != len(ids) {
		t.Errorf("%v", r.Counts)
	}

	old := nodeDir(t)
	must.Do(t, os.Mkdir(filepath.Join(old, "kafka"), 0o700))
	for dir, want := range map[string]string{old: "convert the log", nodeDir(t): "no relay runs"} {
		if out, _ := runToEnd(t, p.command("upgrade", "--check", "--data-dir", dir)); !strings.Contains(out, want) {
			t.Errorf("relay upgrade --check says %s, want %q", out, want)
		}
	}
}
