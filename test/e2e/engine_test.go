package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// startEngine starts `relay engine`, or the Kafka for tests, on a new directory, without fsync: these tests cut no
// power.
func startEngine(t *testing.T, name string) *process {
	t.Helper()
	dir := t.TempDir()
	p := newProcess(t, dir, []string{"engine", name, "--data", dir, "--fsync=false"})
	p.start()
	return p
}

// Each engine prints its address, answers there, refuses a second process on the same data, and exits with 0.
func TestEngineRunsAlone(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"redis":      "address already in use", // it stores no data, so only its address conflicts
		"clickhouse": "is locked by another process",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startEngine(t, name)
			conn := must.Get(net.DialTimeout("tcp", p.url, time.Second))(t)
			conn.Close()
			// ClickHouse waits ten seconds for a holder that may be ending; clickhouse.TestLockedDirectoryIsRefused shows it.
			if name != "clickhouse" || rounds(0, 0, 1) > 0 {
				listen := "127.0.0.1:0"
				if name == "redis" {
					listen = p.url
				}
				out, err := p.command(append(p.args, "--listen", listen)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), refusal) {
					t.Errorf("a second process on the same data: %v\n%s", err, out)
				}
			}
			is.OK(t, p.stop(syscall.SIGTERM), "SIGTERM ended with: %s", p.logs)
			p.start()
		})
	}
}

// A key file may lie anywhere. ClickHouse's process confines itself to its directories and then reads the file again.
func TestEngineReadsItsKeyFile(t *testing.T) {
	t.Parallel()
	const secret = "a-key-of-32-characters-or-more-00"
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "engine.key")
	must.Do(t, os.WriteFile(key, []byte(secret+"\n"), 0o600))
	p := newProcess(t, dir, []string{"engine", "clickhouse", "--data", dir, "--fsync=false", "--key-file", key})
	p.start()
	address := "http://" + p.url + "/"
	if status, text := sendRequest(t, "POST", address, "", "SELECT 1"); status == 200 {
		t.Errorf("without the key: %d %s", status, text)
	}
	if status, text := sendRequest(t, "POST", address, "", "SELECT 1", "X-ClickHouse-Key", secret); status != 200 {
		t.Errorf("with the key: %d %s", status, text)
	}
}
