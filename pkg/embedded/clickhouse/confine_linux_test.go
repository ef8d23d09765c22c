package clickhouse_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// reachOutside does in the engine's process what a statement could do if nothing checked it.
func reachOutside(dir string) {
	_, read := os.ReadFile(filepath.Join(dir, "secret"))
	_, environ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
	_, connected := net.Dial("tcp", os.Getenv("ENGINE_TEST_ADDRESS"))
	for what, err := range map[string]error{
		"read": read, "write": os.WriteFile(filepath.Join(dir, "new"), nil, 0o600), "list": list("/etc"),
		"remove": os.Remove(filepath.Join(dir, "secret")), "environ": environ, "connect": connected,
	} {
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
			fmt.Fprintf(os.Stderr, "%s outside: %v\n", what, err)
			os.Exit(9)
		}
	}
}

func list(dir string) error {
	_, err := os.ReadDir(dir)
	return err
}

// TestConfined: the engine's process can read only its own files and cannot connect to any address, and it has all that
// it needs.
func TestConfined(t *testing.T) {
	const forTCP = 4
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < forTCP {
		t.Logf("this kernel has Landlock %d (%v): the test is left out", version, errno)
		t.SkipNow()
	}
	outside := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	server := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	cfg := childConfig(filepath.Join(t.TempDir(), "data"), kit.ChdbLibrary(t))
	cfg.Env = append(cfg.Env, "ENGINE_TEST_OUTSIDE="+outside, "ENGINE_TEST_ADDRESS="+server.Addr().String())
	child, _ := startChild(t, cfg)
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE TABLE default.t (a UInt64, p UInt8) ENGINE = MergeTree ORDER BY a PARTITION BY p")
	mustExec(t, conn, "INSERT INTO default.t SELECT number, 1 FROM numbers(1000)")
	mustExec(t, conn, "INSERT INTO default.t SELECT number, 1 FROM numbers(1000)")
	mustExec(t, conn, "OPTIMIZE TABLE default.t FINAL")
	mustExec(t, conn, "ALTER TABLE default.t DETACH PARTITION 1") // moves the part to another directory
	mustExec(t, conn, "ALTER TABLE default.t ATTACH PARTITION 1")
	is.Equal(t, count(t, conn, "SELECT count() FROM default.t WHERE toTimeZone(now(), 'Asia/Tokyo') > 0"), 2000, "rows")
	mustExec(t, conn, "DROP TABLE default.t SYNC")
}
