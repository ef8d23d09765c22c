package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// serve without the address of an engine needs nothing else, keeps the rules of production, and forgets nothing when it
// is killed: repeats of stored events are duplicates, repeats of sends get their first answer.
func TestServeOnOneMachineForgetsNothing(t *testing.T) {
	t.Parallel()
	dest, dir := newSink(t, nil), t.TempDir()
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
	ep, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"dedup": map[string]any{"key": "body:$.n", "window_seconds": 3600}})

	const events = 60
	var mu sync.Mutex
	ids := map[string]string{} // of sends, by Idempotency-Key
	post := func(i int) {
		received, _ := tryPost(in, "", "", fmt.Sprintf(`{"n":%d}`, i))
		key := fmt.Sprintf("order-%d", i)
		sent, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, key,
			fmt.Sprintf(`{"type":"order.paid","data":{"n":%d}}`, -i-1))
		mu.Lock()
		defer mu.Unlock()
		if received/100 != 2 || sent != http.StatusAccepted {
			return // killed meanwhile: both are sent again
		}
		if id := fmt.Sprint(answer["id"]); ids[key] == "" {
			ids[key] = id
		} else if ids[key] != id {
			t.Errorf("a repeat of %s is another event", key)
		}
	}
	for round := range 4 {
		var all sync.WaitGroup
		for i := range events {
			all.Go(func() { post(i) })
		}
		if round < 3 {
			time.Sleep(time.Duration(20+40*round) * time.Millisecond) // within the sends
			p.signal(syscall.SIGKILL)
			_ = p.awaitExit(arrival)
		}
		all.Wait()
		if round < 3 {
			p.start()
		}
	}
	must.Equal(t, len(ids), events, "of %d sends were accepted", events)
	// Each event has arrived: once, or again under its own id when an answer of the destination was lost.
	got := map[string]map[string]bool{}
	eventually(t, arrival, func() string {
		clear(got)
		for _, d := range dest.received() {
			n := string(d.body)
			if strings.Contains(n, `"data"`) {
				n = n[strings.Index(n, `"data"`):]
			}
			if got[n] == nil {
				got[n] = map[string]bool{}
			}
			got[n][d.event()] = true
		}
		if len(got) != 2*events {
			return fmt.Sprintf("%d of %d events have arrived", len(got), 2*events)
		}
		return ""
	})
	for _, n := range slices.Sorted(maps.Keys(got)) {
		is.Equal(t, len(got[n]), 1, "%s was delivered as … events", n)
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
