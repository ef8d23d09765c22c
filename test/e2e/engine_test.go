package e2e

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startEngine starts `relay engine` on a new directory, without fsync: these tests cut no power.
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
		"kafka":      "is used by another process",
		"redis":      "address already in use", // it stores no data, so only its address conflicts
		"clickhouse": "is locked by another process",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startEngine(t, name)
			conn, err := net.DialTimeout("tcp", p.url, time.Second)
			if err != nil {
				t.Fatal(err)
			}
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
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM ended with %v\n%s", err, p.logs)
			}
			p.start()
		})
	}
}
