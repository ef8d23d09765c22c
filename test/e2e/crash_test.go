package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// built holds the binaries that tests have built. TestMain sets the directory and removes it.
var built struct {
	dir string
	mu  sync.Mutex // guards of; held during a build, so that other tests wait for it
	of  map[string]string
}

// buildRelay builds the relay binary with build tags, once for all tests. Without the symbols for debuggers, which no
// test reads, the linker takes a third less CPU time.
func buildRelay(t *testing.T, tags string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.of[tags]; path != "" {
		return path
	}
	path := filepath.Join(built.dir, "relay-"+tags)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-tags", tags, "-o", path, ".")
	cmd.Dir, cmd.Env = kit.Root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build with tags %q: %v\n%s", tags, err, out)
	}
	built.of[tags] = path
	return path
}

// A release binary has no crash points and no adjustable clock: it does not read the settings of the fault tests.
func TestReleaseHasNoFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	release := readFile(t, buildRelay(t, ""))
	if bytes.Contains(release, []byte("RELAY_FAULT_")) {
		t.Error("the release binary reads RELAY_FAULT_… settings")
	}
	if !bytes.Contains(readFile(t, os.Args[0]), []byte("RELAY_FAULT_")) {
		t.Error("this binary does not contain the names of the settings: this test searches for the wrong text")
	}
}

// Outages explain repeated requests for an event, depending on when each request arrived. Times are in seconds.
func TestOutagesExplainRepeats(t *testing.T) {
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	request := func(second float64, attempt int) hit {
		return hit{posted: began, at: at(second), attempt: attempt, status: http.StatusOK}
	}
	killed, cut := outage{from: at(1), to: at(13)}, outage{from: at(1), to: at(13), linkCut: true}
	for _, c := range []struct {
		what string
		o    outage
		hits []hit
		want int
	}{
		{"repeated after the outage", killed, []hit{request(0.8, 1), request(8, 1)}, 1},
		{"repeated without an outage", killed, []hit{request(0.2, 1), request(0.8, 1)}, 0},
		{"continues after an answer that arrived", killed, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 1},
		{"continues after an answer that was lost", cut, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 2},
		{"continues after an answer from long before the outage", cut, []hit{request(0.1, 1), request(16, 2)}, 0},
		{"continues after an answer from after the outage", cut, []hit{request(14, 1), request(16, 2)}, 0},
	} {
		is.Equal(t, countExplained(c.hits, []outage{c.o}), c.want, "%s: repeats are explained", c.what)
	}
}
