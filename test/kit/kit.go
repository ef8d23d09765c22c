// Package kit holds what the tests of several packages share.
//
// Engines: Kafka, KafkaCluster, Redis and ClickHouse return real engines. An environment variable may name a running
// one; otherwise they start a container or a process that is removed when the test ends. Begin with engine.go.
//
// Networks: NewNetwork makes Linux network namespaces, which Host.Cut separates. Freezer stops connections without
// closing them. MailServer and ServeFrames play peers that misbehave.
//
// Waiting: WaitFor and Eventually poll. Buffer and Tail collect logs. CPUTime measures work on a busy machine.
//
// A test that needs something this machine lacks calls SkipMissing. With RELAY_TEST_ENGINES=required, as in CI, that
// fails the test instead of skipping it.
package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that starts goroutines and fails when one is still running afterwards.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(m, append(options, FetchManager)...)
}

// FetchManager is a goroutine of franz-go that may outlive its client: on a busy machine it waits for a fetch that the
// closed client has given up. A client that is not closed has others.
var FetchManager = goleak.IgnoreTopFunction("github.com/twmb/franz-go/pkg/kgo.(*fetchManager).manageFetchConcurrency")

// SkipMissing skips a test because something outside the project is missing, and logs what. With
// RELAY_TEST_ENGINES=required it fails the test instead.
func SkipMissing(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("RELAY_TEST_ENGINES") == "required" {
		t.Fatalf("required here, but missing: %s", why)
	}
	t.Skipf("skipped: %s", why)
}

// Root returns the root directory of the project, found by its file VERSION above the working directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "VERSION")); err == nil { // modules below have a go.mod of their own
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no file VERSION above the working directory")
		}
		dir = parent
	}
}

// ChdbLibrary returns the path of libchdb: RELAY_CHDB_LIB, or bin/lib/libchdb.so, which `make build` fetches.
func ChdbLibrary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RELAY_CHDB_LIB")
	if path == "" {
		path = filepath.Join(Root(t), "bin", "lib", "libchdb.so")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("libchdb is missing (%v): run `make build` first", err)
	}
	return path
}
