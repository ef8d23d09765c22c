package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// testKeys is a keyring with one key.
type testKeys struct{ name string }

func (k testKeys) First() string             { return k.name }
func (k testKeys) Has(name string) bool      { return name == k.name }
func (k testKeys) MACKey(name string) []byte { return []byte("key " + name) }

// otherKey has another key under the name of the first.
type otherKey struct{ testKeys }

func (otherKey) MACKey(string) []byte { return []byte("another key") }

// A manifest is accepted only from a node with the same master keys, unless an earlier version wrote it.
func TestAuthenticate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	w := must.Get(Create(dir, "", "1.0", time.Now()))(t)
	must.Do(t, w.Add("log/a", func(to io.Writer) error { return nil }))
	m := must.Get(w.Finish(testKeys{"main"}))(t)
	read := must.Get(ReadManifest(dir))(t)
	is.OK(t, read.Authenticate(testKeys{"main"}), "its own keys")
	is.Failed(t, read.Authenticate(otherKey{testKeys{"main"}}), "has changed", "another key")
	is.Failed(t, read.Authenticate(testKeys{"next"}), `"main"`, "no such key")
	changed := read
	changed.Files = []File{{Path: "log/a", SHA256: strings.Repeat("0", 64)}}
	is.Failed(t, changed.Authenticate(testKeys{"main"}), "has changed", "another file")
	read.MAC = ""
	is.Failed(t, read.Authenticate(testKeys{"main"}), "has changed", "the MAC was removed")
	m.MAC, m.MACKey = "", ""
	is.ErrorIs(t, m.Authenticate(testKeys{"main"}), ErrNoMAC, "an earlier version")
}

// A link in a backup leads nowhere, and what is no file is not read.
func TestOnlyPlainFilesAreRestored(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		from, to := t.TempDir(), t.TempDir()
		must.Do(t, make(filepath.Join(from, "counters.json")))
		is.Failed(t, Restore(File{Path: "counters.json"}, from, to), "plain file", name)
	}
}

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
		must.Get(w.Finish(testKeys{"main"}))(t)
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
		return must.Get(w.Finish(testKeys{"main"}))(t)
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
		if err := private.CheckCopyRoom(above, from); err == nil {
			t.Error("a copy has room")
		}
		must.Do(t, os.Remove(from))
	}
	f("log/a", nil, "this needs 8796093.0 MB")
	f("log/a", map[string]int64{"log/a": 1}, "this needs")
	f("log/a", map[string]int64{"log/a": tooMuch}, "<nil>")
	f(Claims, map[string]int64{Claims: tooMuch}, "this needs")
}
