// Package kit is what the tests of several packages share: real engines, found or started, and the
// rule for what is not there.
package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
