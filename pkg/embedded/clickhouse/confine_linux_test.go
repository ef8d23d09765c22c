package clickhouse_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

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

// failReads makes each preadv2(2) fail with EIO but those from the beginning of a file.
func failReads() error {
	const number, position = 0, 16 + 3*8 // offsets in seccomp_data, seccomp(2)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PREADV2, Jf: 2},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: position},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// A file that cannot be read is not left out of a backup.
func TestBackupOfAFaultyDisk(t *testing.T) {
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Env = append(cfg.Env, "ENGINE_TEST_BACKUPS="+t.TempDir(), "ENGINE_TEST_FAIL_READS=1")
	child, _ := startChild(t, cfg)
	must.Do(t, child.Exec(t.Context(), "CREATE TABLE default.t (s String) ENGINE = MergeTree ORDER BY tuple() AS "+
		"SELECT randomString(100) FROM numbers(20000)"))
	backUp := func(n int) error {
		return child.Exec(t.Context(), fmt.Sprintf("BACKUP TABLE default.t TO Disk('backups', '%d')", n))
	}
	must.Do(t, backUp(0))
	must.Do(t, syscall.Kill(child.PID(), syscall.SIGUSR1))
	var err error
	for n := 1; err == nil && n < 100; n++ { // the signal takes a moment
		err = backUp(n)
	}
	is.Failed(t, err, "could not read from its disk", "")
}
