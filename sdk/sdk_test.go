package sdk

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The same files make the same package, whenever they were written. Without a package there is none to serve.
func TestPackIsReproducible(t *testing.T) {
	files := func(at time.Time) fstest.MapFS {
		return fstest.MapFS{
			"bin/package/package.json":  {Data: []byte("{}"), ModTime: at},
			"bin/package/dist/index.js": {Data: []byte("code"), ModTime: at},
			"bin/README.md":             {Data: []byte("no part of it")},
		}
	}
	one, err := pack(files(time.Now()), "bin/package")
	again, err2 := pack(files(time.Time{}), "bin/package")
	if err := errors.Join(err, err2); err != nil || !bytes.Equal(one, again) {
		t.Fatalf("two packages differ: %v", err)
	}
	unzipped := must.Get(gzip.NewReader(bytes.NewReader(one)))(t)
	var names []string
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		names = append(names, h.Name)
		if h.Mode != 0o644 || !h.ModTime.Equal(packedAt) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
	}
	is.List(t, names, []string{"package/dist/index.js", "package/package.json"}, "files")
	if _, err := pack(fstest.MapFS{}, "bin/package"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a package: %v", err)
	}
}
