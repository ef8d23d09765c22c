package clickhouse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestKeyAndBackups: the driver sends the key as password, and BACKUP and RESTORE work only below the operator's path.
func TestKeyAndBackups(t *testing.T) {
	const key = "0123456789abcdef-key"
	dir := t.TempDir()
	backups, socket := filepath.Join(dir, "backups & more"), filepath.Join(dir, "engine.sock")
	engine := exec.Command(os.Args[0], "--listen", "unix:"+socket, "--data", filepath.Join(dir, "data"), "--library",
		kit.ChdbLibrary(t), "--fsync=false")
	engine.Env = append(os.Environ(), processRole+"=engine", "ENGINE_TEST_KEY="+key, "ENGINE_TEST_BACKUPS="+backups)
	var output bytes.Buffer
	engine.Stdout, engine.Stderr = &output, &output
	must.Do(t, engine.Start())
	t.Cleanup(func() {
		is.OK(t, errors.Join(engine.Process.Signal(syscall.SIGTERM), engine.Wait()), &output)
	})
	open := func(password string) driver.Conn {
		return connect(t, socket, func(o *driver.Options) { o.Auth = driver.Auth{Username: "relay", Password: password} })
	}
	kit.WaitFor(t, "the engine answers", func() bool { return open(key).Ping(t.Context()) == nil })
	var refused *driver.Exception
	for _, password := range []string{"", "0123456789abcdef-kex", key + "x"} {
		if err := open(password).Ping(t.Context()); !errors.As(err, &refused) || refused.Code != 516 {
			t.Errorf("password %q: %v, want code 516", password, err)
		}
	}
	conn := open(key)
	mustExec(t, conn, "CREATE TABLE default.t (n UInt64) ENGINE = MergeTree ORDER BY n")
	mustExec(t, conn, "INSERT INTO default.t VALUES (7)")
	for i, location := range []string{"Disk('backups', 'one')", "File('two')"} {
		restored := fmt.Sprintf("default.t%d", i)
		mustExec(t, conn, "BACKUP TABLE default.t TO "+location)
		mustExec(t, conn, "RESTORE TABLE default.t AS "+restored+" FROM "+location)
		is.Equal(t, count(t, conn, "SELECT n FROM "+restored), 7, "restored: from %s", location)
	}
	// What was written to the disk is in the operator's directory.
	mustExec(t, conn, "RESTORE TABLE default.t AS default.t3 FROM File('"+filepath.Join(backups, "one")+"')")
	for _, target := range []string{
		"File('" + filepath.Join(dir, "out") + "')", "File('../out')", "Disk('default', 'out')", "Disk('backups', '../out')",
		"S3('http://127.0.0.1:9/bucket/out')", "File('three') ASYNC", "File('four') SETTINGS async=1",
	} {
		if err := conn.Exec(t.Context(), "BACKUP TABLE default.t TO "+target); err == nil {
			t.Errorf("BACKUP to %s succeeded", target)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup in another directory: %v", err)
	}
}
