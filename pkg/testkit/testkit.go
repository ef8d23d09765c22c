// Package testkit is what the tests of several packages share: real engines, found or started, and the
// rule for what is not there.
package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that starts goroutines and fails when one is left over.
func Main(m *testing.M, options ...goleak.Option) { goleak.VerifyTestMain(m, options...) }

// Absent leaves a test out because something outside of the project is missing, with a line that says
// so. With RELAY_TEST_ENGINES=required it fails instead: then nothing may be left out.
func Absent(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("RELAY_TEST_ENGINES") == "required" {
		t.Fatalf("required here, but missing: %s", why)
	}
	t.Skipf("left out: %s", why)
}

// Root is the directory of the module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// ChdbLibrary is the path of libchdb that `make build` left.
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

// FreePort returns a TCP port that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Kafka returns an Apache Kafka broker: RELAY_TEST_KAFKA_BROKERS, or a process made of the jars that
// deploy/engines/fetch.sh leaves.
func Kafka(t testing.TB) *Engine {
	t.Helper()
	if found := os.Getenv("RELAY_TEST_KAFKA_BROKERS"); found != "" {
		return &Engine{Addr: found, How: "Kafka at RELAY_TEST_KAFKA_BROKERS"}
	}
	root := Root(t)
	if _, err := os.Stat(filepath.Join(root, "bin", "engines", "kafka", "pom.sum")); err != nil {
		Absent(t, "Apache Kafka: no jars; deploy/engines/fetch.sh gets them")
	}
	if _, err := exec.LookPath("java"); err != nil {
		Absent(t, "Apache Kafka: no java")
	}
	port := FreePort(t)
	return start(t, &Engine{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), How: "Apache Kafka, a process of its own", limit: time.Minute,
		command: []string{filepath.Join(root, "deploy", "engines", "kafka.sh"), t.TempDir(), strconv.Itoa(port), strconv.Itoa(FreePort(t))},
	})
}

// Redis returns a redis-server: RELAY_TEST_REDIS_ADDR, or a process of the system's package.
func Redis(t testing.TB) *Engine {
	t.Helper()
	if found := os.Getenv("RELAY_TEST_REDIS_ADDR"); found != "" {
		return &Engine{Addr: found, How: "Redis at RELAY_TEST_REDIS_ADDR"}
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		Absent(t, "redis-server is not installed")
	}
	port := FreePort(t)
	return start(t, &Engine{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), How: "redis-server, a process of its own", limit: 20 * time.Second,
		command: []string{"redis-server", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", t.TempDir()},
	})
}
