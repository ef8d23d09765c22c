package bucket

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func lookup(env []string) func(string) string {
	return func(name string) string {
		for _, e := range env {
			if value, found := strings.CutPrefix(e, name+"="); found {
				return value
			}
		}
		return ""
	}
}

var keyring = func() *seal.Keyring {
	k, err := seal.NewKeyring(seal.GenerateKey("test"))
	if err != nil {
		panic(err)
	}
	return k
}()

func create(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "new")
	w := must.Get(archive.Create(dir, "", "1.0", time.Now()))(t)
	for path, text := range files {
		must.Do(t, w.Add(path, func(to io.Writer) error {
			_, err := io.WriteString(to, text)
			return err
		}))
	}
	must.Get(w.Finish(keyring))(t)
	return dir
}

// A backup comes back as it was uploaded. What the previous one has is not sent again, and the new one is complete
// without it. A prefix that is in use is refused.
func TestUploadAndDownload(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	env := lookup(kit.BucketServer(t, func(r *http.Request) bool {
		if r.Method == http.MethodPut {
			sent.Add(max(r.ContentLength, 0))
		}
		return true
	}))
	large := string(bytes.Repeat([]byte("0123456789"), 2<<20)) // sent in parts
	one, two := must.Get(Open("s3://backups/one", env))(t), must.Get(Open("s3://backups/a/two/", env))(t)
	files := map[string]string{"log/large file": large, "empty": "", "store/a%2Fb": "abc"}
	is.Equal(t, must.Get(one.Upload(t.Context(), create(t, files), nil))(t), int64(len(large))+3, "bytes are sent")
	_, err := one.Upload(t.Context(), create(t, files), nil)
	is.Failed(t, err, "not empty", "a second upload")
	sent.Store(0)
	files["store/moved"], files["new"] = large, "four"
	delete(files, "log/large file")
	if n := must.Get(two.Upload(t.Context(), create(t, files), one))(t); n != 4 || sent.Load() > 10_000 {
		t.Errorf("%d bytes are said to be sent, and %d were", n, sent.Load())
	}
	must.Do(t, one.remove(t.Context(), must.Get(one.Manifest(t.Context()))(t)))
	if _, err := one.Manifest(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a backup") {
		t.Errorf("the manifest of a removed backup: %v", err)
	}
	dir := t.TempDir()
	must.Do(t, two.Download(t.Context(), dir))
	if m := must.Get(archive.Verify(dir))(t); len(m.Files) != len(files) {
		t.Errorf("%d files, want %d", len(m.Files), len(files))
	}
	for path, text := range files {
		if got := must.Get(os.ReadFile(filepath.Join(dir, path)))(t); string(got) != text {
			t.Errorf("%s has %d bytes, want %d", path, len(got), len(text))
		}
	}
}

// An upload that fails leaves nothing, so that it can be repeated.
func TestFailedUpload(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	env := lookup(kit.BucketServer(t, func(r *http.Request) bool {
		return !full.Load() || r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "manifest.json")
	}))
	files := make(map[string]string)
	for i := range 20 {
		files[fmt.Sprintf("log/%d", i)] = "abc"
	}
	b, dir := must.Get(Open("s3://backups/one", env))(t), create(t, files)
	full.Store(true)
	if _, err := b.Upload(t.Context(), dir, nil); err == nil {
		t.Error("no error")
	}
	full.Store(false)
	must.Do(t, b.CheckEmpty(t.Context()))
	must.Get(b.Upload(t.Context(), dir, nil))(t)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	keys := []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}
	f := func(address, want string, env ...string) {
		t.Helper()
		if _, err := Open(address, lookup(env)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %q: %v, want %q", address, env, err, want)
		}
	}
	f("s3://backups", "BUCKET/PREFIX", keys...)
	f("s3:///one", "BUCKET/PREFIX", keys...)
	f("s3://backups/one", "AWS_ACCESS_KEY_ID")
	f("s3://backups/one", "AWS_ENDPOINT_URL", append(keys, "AWS_ENDPOINT_URL=minio:9000")...)
	b := must.Get(Open("s3://backups/one/two/", lookup(keys)))(t)
	is.Equal(t, b.String(), "s3://backups/one/two", b)
}
