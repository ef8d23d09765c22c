package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Verify rejects a backup without a manifest, of another format, with a changed or missing file, or a path outside.
func TestVerify(t *testing.T) {
	t.Parallel()
	f := func(change func(dir string) error, want string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "new")
		w := must.Get(Create(dir, "", "1.0", time.Now()))(t)
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
		if _, err := Create(dir, "", "1.0", time.Now()); err == nil {
			t.Error("a backup is overwritten")
		}
	}
	manifest := func(before, after string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, ManifestFile)
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

// A second backup shares the unchanged files of the first and survives its removal. A file that was damaged in the
// first backup is copied.
func TestPrevious(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	one, two := filepath.Join(above, "1"), filepath.Join(above, "2")
	write := func(dir, previous string, files map[string]string) Manifest {
		t.Helper()
		w := must.Get(Create(dir, previous, "1.0", time.Now()))(t)
		for path, text := range files {
			must.Do(t, w.Add(path, func(to io.Writer) error {
				if _, err := io.WriteString(to, text); err != nil {
					return errors.New("an error that hides its cause, as the one of bbolt")
				}
				return nil
			}))
		}
		return must.Get(w.Finish())(t)
	}
	if _, err := Create(two, above, "1.0", time.Now()); err == nil || !strings.Contains(err.Error(), "not a backup") {
		t.Errorf("a previous directory without a manifest: %v", err)
	}
	write(one, "", map[string]string{"same": "abc", "longer": "ab", "shorter": "abc", "damaged": "abc", "gone": "abc"})
	must.Do(t, os.WriteFile(filepath.Join(one, "damaged"), []byte("abX"), 0o600))
	files := map[string]string{"same": "abc", "longer": "abc", "shorter": "a", "damaged": "abc", "new/one": "abcd"}
	m := write(two, one, files)
	if m.Copied != 3+1+3+4 || m.Bytes() != 3+m.Copied {
		t.Errorf("%d bytes copied of %d", m.Copied, m.Bytes())
	}
	if !os.SameFile(must.Get(os.Stat(filepath.Join(one, "same")))(t), must.Get(os.Stat(filepath.Join(two, "same")))(t)) {
		t.Error("the unchanged file was copied")
	}
	must.Do(t, os.RemoveAll(one))
	if m := must.Get(Verify(two))(t); len(m.Files) != len(files) {
		t.Errorf("%+v", m)
	}
}

// There must be room for what the previous backup lacks. Claims may have changed, whatever their size is.
func TestCheckRoom(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	const tooMuch = 8 << 40 // sparse
	f := func(path string, shared map[string]int64, want string) {
		t.Helper()
		from := filepath.Join(above, path)
		must.Do(t, os.MkdirAll(filepath.Dir(from), 0o700))
		must.Do(t, os.WriteFile(from, nil, 0o600))
		must.Do(t, os.Truncate(from, tooMuch))
		w := must.Get(Create(filepath.Join(above, "backup"), "", "1.0", time.Now()))(t)
		w.shared = shared
		err := w.CheckRoom(map[string]string{"missing": filepath.Join(above, "missing"), path: from})
		is.Has(t, fmt.Sprint(err), want, path)
		if err := CheckCopyRoom(above, from); err == nil {
			t.Error("a copy has room")
		}
		must.Do(t, os.Remove(from))
	}
	f("log/a", nil, "this needs 8796093.0 MB")
	f("log/a", map[string]int64{"log/a": 1}, "this needs")
	f("log/a", map[string]int64{"log/a": tooMuch}, "<nil>")
	f(Claims, map[string]int64{Claims: tooMuch}, "this needs")
}
