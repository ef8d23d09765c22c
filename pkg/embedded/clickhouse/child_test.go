package clickhouse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// startChild runs a Child and waits until the engine answers. The returned function stops it and checks that Run
// returned no error.
func startChild(t *testing.T, cfg clickhouse.ChildConfig) (child *clickhouse.Child, stop func()) {
	t.Helper()
	child = must.Get(clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: slog.New(slog.DiscardHandler)}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- child.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		is.OK(t, <-ended, "run child")
	})
	t.Cleanup(stop)
	select {
	case <-child.Ready():
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return child, stop
}

// TestKillsLoseNothing kills the engine during inserts. Every acknowledged insert is there afterwards, at the same
// address.
func TestKillsLoseNothing(t *testing.T) {
	const size = 5000
	kills := 3
	if os.Getenv("RELAY_TORTURE") != "" {
		kills = 30
	}
	child, stop := startChild(t, childConfig(t.TempDir(), kit.ChdbLibrary(t)))
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE DATABASE d")
	mustExec(t, conn, "CREATE TABLE d.t (n UInt64, body String) ENGINE = MergeTree ORDER BY n")
	body := strings.Repeat("x", 1000)
	var acknowledged []uint64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	inserted := make(chan struct{}, 1) // capacity 1: the newest acknowledgement suffices
	wg.Go(func() {
		for n := uint64(0); ctx.Err() == nil; n++ {
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO d.t")
			if err != nil {
				continue
			}
			for range size {
				err = errors.Join(err, batch.Append(n, body))
			}
			if err := errors.Join(err, batch.Send()); err != nil {
				continue
			}
			acknowledged = append(acknowledged, n)
			select {
			case inserted <- struct{}{}:
			default:
			}
		}
	})
	for i := range kills {
		for range 3 {
			<-inserted
		}
		<-time.After(time.Duration(i*7) * time.Millisecond) // kills at a different point of an insert each time
		pid, began := child.PID(), time.Now()
		must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
		kit.WaitFor(t, "a new engine answers", func() bool { return child.PID() != pid && conn.Ping(t.Context()) == nil })
		t.Logf("kill %d: answers again after %v", i, time.Since(began).Round(time.Millisecond))
		select {
		case <-inserted:
		default:
		}
	}
	<-inserted
	cancel()
	wg.Wait()
	if child.Restarts() != int64(kills) {
		t.Errorf("%d restarts, want %d", child.Restarts(), kills)
	}
	for _, n := range acknowledged {
		is.Equal(t, count(t, conn, fmt.Sprintf("SELECT count() FROM d.t WHERE n = %d", n)), size,
			"batch %d: rows of %d", n, size)
	}
	t.Logf("%d batches acknowledged", len(acknowledged))
	pid := child.PID()
	stop()
	is.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the engine still runs after the stop")
}

// TestRequestsWaitForRestart: a connection made while no engine runs is answered after the restart.
func TestRequestsWaitForRestart(t *testing.T) {
	child, _ := startChild(t, childConfig(t.TempDir(), kit.ChdbLibrary(t)))
	for range 2 {
		pid := child.PID()
		must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
		kit.WaitFor(t, "the engine is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
		is.OK(t, connect(t, child.Socket()).Ping(t.Context()), "connection made during a restart")
	}
}

// TestEngineDiesWithParent: when the supervising process is killed the engine ends, and a new process can use the data
// directory.
func TestEngineDiesWithParent(t *testing.T) {
	data := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0], data, kit.ChdbLibrary(t))
	parent.Env = append(os.Environ(), processRole+"=supervisor")
	parent.Stderr = os.Stderr
	out := must.Get(parent.StdoutPipe())(t)
	must.Do(t, parent.Start())
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	var pid int
	var addr string
	must.Get(fmt.Sscan(line, &pid, &addr))(t)
	conn := connect(t, addr)
	mustExec(t, conn, "CREATE DATABASE d")
	mustExec(t, conn, "CREATE TABLE d.t (n UInt64) ENGINE = MergeTree ORDER BY n")
	mustExec(t, conn, "INSERT INTO d.t VALUES (42)")
	must.Do(t, parent.Process.Kill())
	began := time.Now()
	child, _ := startChild(t, childConfig(data, kit.ChdbLibrary(t)))
	is.Equal(t, count(t, connect(t, child.Socket()), "SELECT n FROM d.t"), 42, "read")
	t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
	if err := parent.Wait(); err == nil {
		t.Error("the killed parent ended without an error")
	}
	kit.WaitFor(t, "the engine of the killed parent is gone", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ") // a zombie: init may not have reaped it yet
	})
}

func TestLockedDirectoryIsRefused(t *testing.T) {
	data := t.TempDir()
	child, _ := startChild(t, childConfig(data, kit.ChdbLibrary(t)))
	cfg := clickhouse.DefaultConfig()
	cfg.Data, cfg.Library, cfg.LockWait = data, kit.ChdbLibrary(t), 50*time.Millisecond
	server, err := clickhouse.New(cfg, clickhouse.Deps{Log: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	err = server.Run(t.Context())
	if !errors.Is(err, clickhouse.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", child.PID())) {
		t.Errorf("got %v, want ErrLocked and the process id of the owner", err)
	}
}

// TestRelativeDirectory: a relative data directory is resolved against the working directory of the process. Its time
// zone, which may be one that ClickHouse does not know, is not the engine's.
func TestRelativeDirectory(t *testing.T) {
	t.Setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
	library := kit.ChdbLibrary(t)
	t.Chdir(t.TempDir())
	child, _ := startChild(t, childConfig("data", library))
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE TABLE default.t (n UInt64) ENGINE = MergeTree ORDER BY n")
	mustExec(t, conn, "INSERT INTO default.t VALUES (7)")
	is.Equal(t, count(t, conn, "SELECT sum(n) FROM default.t"), 7, "the row reads as")
}

func TestFailingStartGivesUp(t *testing.T) {
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Executable, cfg.Args = "/bin/sh", []string{"-c", "echo no such luck >&2; exit 3"}
	cfg.FirstPause = time.Millisecond
	child, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	err = child.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such luck") || child.Restarts() != int64(cfg.StartAttempts-1) {
		t.Errorf("after %d restarts: %v", child.Restarts(), err)
	}
}

func TestSilentStartIsKilled(t *testing.T) {
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Executable, cfg.Args = "/bin/sh", []string{"-c", "exec sleep 1000"}
	cfg.StartTimeout, cfg.StartAttempts = 100*time.Millisecond, 1
	child := must.Get(clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: slog.New(slog.DiscardHandler)}))(t)
	if err := child.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want a killed process", err)
	}
}

func TestFindLibrary(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libchdb.so")
	if _, err := clickhouse.FindLibrary(missing); !errors.Is(err, clickhouse.ErrNoLibrary) ||
		!strings.Contains(err.Error(), "make build") {
		t.Errorf("got %v, want ErrNoLibrary and what to do", err)
	}
	// The test binary has no lib directory beside it.
	if _, err := clickhouse.FindLibrary(""); !errors.Is(err, clickhouse.ErrNoLibrary) {
		t.Errorf("got %v, want ErrNoLibrary", err)
	}
	if path, err := clickhouse.FindLibrary(kit.ChdbLibrary(t)); err != nil || !filepath.IsAbs(path) {
		t.Errorf("%q, %v", path, err)
	}
}

func TestEngineSettings(t *testing.T) {
	child, _ := startChild(t, childConfig(t.TempDir(), kit.ChdbLibrary(t)))
	conn := connect(t, child.Socket())
	for query, want := range map[string]string{
		"SELECT value FROM system.merge_tree_settings WHERE name = 'fsync_after_insert'":                "1",
		"SELECT value FROM system.merge_tree_settings WHERE name = 'fsync_part_directory'":              "1",
		"SELECT value FROM system.merge_tree_settings WHERE name = 'max_suspicious_broken_parts_bytes'": fmt.Sprint(1 << 50),
		"SELECT value FROM system.settings WHERE name = 'async_insert'":                                 "0",
		"SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'":               fmt.Sprint(2 << 30),
		"SELECT value FROM system.server_settings WHERE name = 'mark_cache_size'":                       fmt.Sprint(64 << 20),
		"SELECT value FROM system.server_settings WHERE name = 'background_pool_size'":                  "2",
		"SELECT value FROM system.server_settings WHERE name = 'compiled_expression_cache_size'":        fmt.Sprint(32 << 20),
	} {
		var got string
		if err := conn.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, want %q, %v", query, got, want, err)
		}
	}
}

// smallDisk is a directory on a file system of the given size.
func smallDisk(t *testing.T, size string) string {
	dir := t.TempDir()
	kit.SmallDisk(t, dir, "mode=0700,size="+size)
	return dir
}

// A definition that a failed write has left empty is that of before the statement; a new one, or a mutation, is gone.
// With hardly any room, statements that write one are refused, and those that make room are not.
func TestDefinitionsOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "100m")
	cfg := childConfig(filepath.Join(dir, "data"), kit.ChdbLibrary(t))
	child, stop := startChild(t, cfg)
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE DATABASE d")
	mustExec(t, conn, "CREATE TABLE d.t (n UInt64, s String) ENGINE = MergeTree PARTITION BY n ORDER BY n")
	mustExec(t, conn, "INSERT INTO d.t SELECT number, '' FROM numbers(3)")
	mustExec(t, conn, "ALTER TABLE d.t ADD COLUMN c UInt8")
	mustExec(t, conn, "CREATE DATABASE e")
	stop()
	empty := func(pattern, name string) {
		found := must.Get(filepath.Glob(filepath.Join(cfg.Data, pattern)))(t)
		must.Equal(t, len(found), 1, "%s: %q", pattern, found)
		path := filepath.Join(filepath.Dir(found[0]), name)
		_ = os.Remove(path) // the engine replaces files
		must.Do(t, os.WriteFile(path, nil, 0o600))
	}
	empty("db/store/*/*/t.sql", "t.sql")
	empty("db/store/*/*/t.sql", "u.sql")
	empty("db/metadata/e.sql", "e.sql")
	empty("db/store/*/*/format_version.txt", "mutation_9.txt")

	child, _ = startChild(t, cfg)
	conn = connect(t, child.Socket())
	must.Equal(t, count(t, conn, "SELECT count() FROM d.t"), 3)
	mustExec(t, conn, "CREATE TABLE d.u (n UInt64) ENGINE = MergeTree ORDER BY n")
	mustExec(t, conn, "CREATE DATABASE IF NOT EXISTS e")
	filler := filepath.Join(dir, "filler")
	_ = exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+filler, "bs=64k").Run() // until the disk is full
	must.Do(t, os.Truncate(filler, must.Get(os.Stat(filler))(t).Size()-4<<20))
	for _, refused := range []string{"CREATE TABLE d.v (n UInt64) ENGINE = MergeTree ORDER BY n",
		" alter TABLE d.t ADD COLUMN e UInt8", "ALTER TABLE d.t DELETE WHERE n = 1", "DELETE FROM d.t WHERE n = 1"} {
		is.Failed(t, conn.Exec(t.Context(), refused), "MiB of the disk are free", refused)
	}
	mustExec(t, conn, "ALTER TABLE d.t DROP PARTITION 1")
	must.Equal(t, count(t, conn, "SELECT count() FROM d.t"), 2)
	is.Equal(t, child.Restarts(), 0, "restarts")
	// A start that cannot write db/status, because another program takes all room, is no reason for the next one.
	f := must.Get(os.OpenFile(filler, os.O_APPEND|os.O_WRONLY, 0))(t)
	defer f.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for block := make([]byte, 64<<10); ; time.Sleep(time.Millisecond) {
			select {
			case <-ended:
				return
			default:
				_, _ = f.Write(block)
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	must.Do(t, syscall.Kill(child.PID(), syscall.SIGKILL))
	time.Sleep(2500 * time.Millisecond)
	must.Equal(t, count(t, conn, "SELECT count() FROM d.t"), 2)
	is.Equal(t, child.Restarts(), 1, "restarts")
}

// A backup that does not fit its disk fails.
func TestBackupToAFullDisk(t *testing.T) {
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Env = append(cfg.Env, "ENGINE_TEST_BACKUPS="+smallDisk(t, "1m"))
	child, _ := startChild(t, cfg)
	must.Do(t, child.Exec(t.Context(), "CREATE TABLE default.t (s String) ENGINE = MergeTree ORDER BY tuple() AS "+
		"SELECT randomString(100) FROM numbers(20000)"))
	err := child.Exec(t.Context(), "BACKUP TABLE default.t TO Disk('backups', 'a')")
	is.Failed(t, err, "could not write to its disk", "")
	for child.Restarts() == 0 { // the engine ends, because it believes a write that failed
		time.Sleep(10 * time.Millisecond)
	}
	must.Do(t, child.Exec(t.Context(), "SELECT 1"))
}

// TestFullDiskLosesNothing fills the disk while rows are inserted and merged. libchdb does not report the writes
// that fail; every acknowledged row is there afterwards.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := smallDisk(t, "200m")
	cfg := childConfig(filepath.Join(dir, "data"), kit.ChdbLibrary(t))
	child, stop := startChild(t, cfg)
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE TABLE default.t (n UInt64) ENGINE = MergeTree ORDER BY n")
	var acknowledged uint64
	filler := filepath.Join(dir, "filler")
	const rounds = 300
	for round := 0; child.Restarts() < 3; round++ {
		if round == rounds {
			t.Fatalf("after %d rounds the engine was restarted %d times", rounds, child.Restarts())
		}
		fill := exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+filler, "bs=64k") // until the disk is full
		must.Do(t, fill.Start())
		ended := make(chan struct{})
		go func() { _ = fill.Wait(); close(ended) }()
		for full := false; !full; {
			select {
			case <-ended:
				full = true
			default:
			}
			if conn.Exec(t.Context(), fmt.Sprintf("INSERT INTO default.t SELECT %d", acknowledged)) == nil {
				acknowledged++
			}
			_ = conn.Exec(t.Context(), "OPTIMIZE TABLE default.t FINAL")
		}
		must.Do(t, os.Remove(filler))
	}
	stop()
	child, _ = startChild(t, cfg)
	n := count(t, connect(t, child.Socket()), "SELECT uniqExact(n) FROM default.t WHERE n < ?", acknowledged)
	must.Equal(t, n, acknowledged, "rows that were acknowledged")
}

// TestBrokenPartsAreDetached: without fsync a power cut may leave many incomplete parts. The engine still starts, and
// complete parts are read.
func TestBrokenPartsAreDetached(t *testing.T) {
	const parts = 150 // by default ClickHouse does not start with more than 100 in a table
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Fsync = false
	child, stop := startChild(t, cfg)
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE TABLE default.t (n UInt64) ENGINE = MergeTree PARTITION BY n ORDER BY n")
	mustExec(t, conn, fmt.Sprintf(
		"INSERT INTO default.t SETTINGS max_partitions_per_insert_block = 0 SELECT number FROM numbers(%d)", parts+1))
	var directories []string
	if err := conn.QueryRow(t.Context(), "SELECT groupArray(path) FROM system.parts WHERE database = 'default' AND "+
		"table = 't' AND partition != '0'").Scan(&directories); err != nil || len(directories) != parts {
		t.Fatalf("%d parts, %v", len(directories), err)
	}
	stop()
	for _, d := range directories {
		data := filepath.Join(d, "data.bin")
		if info, err := os.Stat(data); err != nil {
			t.Fatal(err)
		} else if err := os.Truncate(data, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
	child, _ = startChild(t, cfg)
	if n := count(t, connect(t, child.Socket()), "SELECT count() FROM default.t"); n != 1 {
		t.Errorf("%d rows, want that of the complete part", n)
	}
}

// TestMemoryStaysFlat fails if results, streams or sessions are not freed: the results alone are 300 MB.
func TestMemoryStaysFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("measures another process")
	}
	cfg := childConfig(t.TempDir(), kit.ChdbLibrary(t))
	cfg.Fsync = false
	child, _ := startChild(t, cfg)
	conn := connect(t, child.Socket())
	mustExec(t, conn, "CREATE DATABASE d")
	mustExec(t, conn, "CREATE TABLE d.t (n UInt64, body String) ENGINE = MergeTree ORDER BY n")
	body := strings.Repeat("x", 1000)
	round := func(times int) {
		for range times {
			batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO d.t")
			for i := range 100 {
				err = errors.Join(err, batch.Append(uint64(i), body))
			}
			must.Do(t, errors.Join(err, batch.Send()))
			mustExec(t, conn, "SELECT repeat('x', 1000) FROM numbers(10_000)") // 10 MB: what is not freed is seen soon
			if err := conn.Exec(t.Context(), "SELECT * FROM d.nope"); err == nil {
				t.Fatal("the statement returned no error")
			}
		}
	}
	round(20)
	before := residentMemory(t, child.PID())
	round(40)
	after := residentMemory(t, child.PID())
	t.Logf("resident %d MiB, then %d MiB", before>>20, after>>20)
	if after > before+150<<20 {
		t.Errorf("resident memory grew from %d to %d MiB", before>>20, after>>20)
	}
}

// residentMemory returns the resident memory of a process, in bytes.
func residentMemory(t *testing.T, pid int) int {
	t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)))(t)
	var size, pages int
	must.Get(fmt.Sscan(string(text), &size, &pages))(t)
	return pages * os.Getpagesize()
}

func TestConfigReportsAllFaults(t *testing.T) {
	cfg := clickhouse.DefaultConfig()
	cfg.Listen, cfg.Sessions = "0.0.0.0:8123", 0
	_, err := clickhouse.New(cfg, clickhouse.Deps{})
	for _, want := range []string{"loopback", "sessions", "data directory"} {
		is.Failed(t, err, want, "does not mention %q", want)
	}
}
