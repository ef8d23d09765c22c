package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// shared holds the processes that several tests use at the same time. The first test that needs one starts it, and
// TestMain ends it. A test must not stop, freeze or overload a shared process; its endpoints, or the topics and tables
// of its cluster, are its own.
var shared struct {
	dir string
	mu  sync.Mutex // guards of; held while a process starts, so that other tests wait for it
	of  map[string]*process
	// names counts the uses of each name, because a repeated test (-count) finds what it left on the shared engines.
	names map[string]int
}

// unusedName returns the name, with a number after its first use.
func unusedName(name string) string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.names[name]++; shared.names[name] > 1 {
		return fmt.Sprint(name, shared.names[name])
	}
	return name
}

// sharedEngine returns the address of a shared engine: kafka, redis or clickhouse.
func sharedEngine(t *testing.T, name string) (address string) {
	t.Helper()
	return startShared(t, name, func(dir string) []string {
		return []string{"engine", name, "--data", dir, "--fsync=false"}
	}).url
}

// sharedEngines returns the addresses of the three shared engines.
func sharedEngines(t *testing.T) engines {
	t.Helper()
	return engines{sharedEngine(t, "kafka"), sharedEngine(t, "redis"), sharedEngine(t, "clickhouse")}
}

// sharedDev returns the shared `relay dev`. Its data directory has the longest path that is allowed.
func sharedDev(t *testing.T) *process {
	t.Helper()
	started := startShared(t, "dev", func(dir string) []string { return []string{"dev", "--data-dir", dir} })
	return &process{
		client: started.forTest(t), binary: started.binary, dir: started.dir, args: started.args, env: started.env,
		adminAt: started.adminAt, cmd: started.cmd,
	}
}

// longestDataDir is how long the path of a data directory may be: the path of the command socket in it has 103 bytes.
const longestDataDir = 92

// startShared returns the shared process with this name, and starts it if no test has done so. args returns its
// arguments for its data directory.
func startShared(t *testing.T, name string, args func(dir string) []string) *process {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if p := shared.of[name]; p != nil {
		return p
	}
	dir := filepath.Join(shared.dir, name)
	dir = filepath.Join(dir, strings.Repeat("d", max(1, longestDataDir-1-len(dir))))
	must.Do(t, os.MkdirAll(dir, 0o700))
	p := unmanagedProcess(t, dir, args(dir))
	if name == "dev" {
		p.adminAt = fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))
		p.args = append(p.args, "--admin-listen", p.adminAt)
	}
	p.start()
	shared.of[name] = p
	return p
}

// endShared ends the shared processes. It returns 1 if the race detector has reported something, else code.
func endShared(code int) int {
	for name, p := range shared.of {
		p.kill()
		if strings.Contains(p.logs.String(), "DATA RACE") {
			fmt.Fprintf(os.Stderr, "the race detector reports in the shared %s:\n%s\n", name, p.logs)
			code = max(code, 1)
		}
	}
	return code
}

// serve without the address of an engine needs nothing else, and keeps the rules of production. What it must not forget
// when it is killed, the simulation of one machine tests.
func TestServeOnOneMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, "RELAY_BOOTSTRAP_KEY=", "RELAY_BOOTSTRAP_READ_KEY=")
	p.start()
	eventually(t, arrival, func() string { // printed in several writes
		if printed := p.printed.String(); !strings.Contains(printed, "relay keys create --data-dir "+dir) ||
			strings.Contains(printed, "rly_live_") || strings.Contains(printed, "dev@localhost") {
			return "the first start prints " + printed
		}
		return ""
	})
	is.Has(t, p.logs.String(), `{"time":`, "the log is not JSON: %s", p.logs)
	out := must.Get(p.output("keys", "create", "--data-dir", dir, "--name", "first", "--scope", "read_write"))(t)
	lines := strings.Fields(string(out))
	p.key = lines[len(lines)-1]
	if _, _, h := p.call("GET", "/v1/endpoints", nil); h.Get("X-RateLimit-Limit") != "500" {
		t.Errorf("the API has the limit %q", h.Get("X-RateLimit-Limit"))
	}
}

// tryPost posts a body and returns the answer, and 0 if there is none.
func tryPost(url, key, idempotency, body string) (status int, answer map[string]any) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer
}
