package backup

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// Verify rejects a backup without a manifest, of another format, with a changed or missing file, or a path outside.
func TestVerify(t *testing.T) {
	t.Parallel()
	f := func(change func(dir string) error, want string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "new")
		w := must.Get(Create(dir, "1.0", time.Now()))(t)
		must.Do(t, w.Add("log/a", func(to io.Writer) error {
			_, err := io.WriteString(to, "abc")
			return err
		}))
		if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("without a manifest: %v", err)
		}
		must.Get(w.Finish())(t)
		m := must.Get(Verify(dir))(t)
		if len(m.Files) != 1 || m.Bytes() != 3 {
			t.Errorf("%+v", m)
		}
		must.Do(t, change(dir))
		if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := Create(dir, "1.0", time.Now()); err == nil {
			t.Error("a backup is overwritten")
		}
	}
	manifest := func(before, after string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, manifestFile)
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600)
		}
	}
	f(manifest(`"format": 1`, `"format": 2`), "relay 1.0 or later")
	f(manifest("log/a", "../a"), "outside the backup")
	f(manifest("{", ""), "cannot be read")
	f(func(dir string) error { return os.Remove(filepath.Join(dir, "log", "a")) }, "incomplete")
	f(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "log", "a"), []byte("abd"), 0o600)
	}, "has changed")
}
