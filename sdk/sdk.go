// Package sdk has the programs that users run on their own machines, and the package of the SDK for their applications.
// The relay serves them under /tools.
package sdk

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

//go:embed forward/relay-forward.mjs
var forwarder []byte

//go:embed fixture-run/relay-fixture-run.mjs
var fixtureRunner []byte

// built has the package of the SDK, if tools/sdk/build.sh has made it.
//
//go:embed bin
var built embed.FS

// Tool is one file: a program, or the package of the SDK.
type Tool struct {
	Name, Extension string // the file is called Name + Extension
	MediaType       string
	About           string // what it is for, in a sentence
	Content         []byte // callers must not change it
}

const javascript = "text/javascript; charset=utf-8"

// FixtureRunner returns the program that runs fixtures.
func FixtureRunner() Tool {
	return Tool{"relay-fixture-run", ".mjs", javascript, "Replays fixtures against your application.", fixtureRunner}
}

// Tools returns all files, with those of features. A program that was built without the package of the SDK has none.
func Tools(ofFeatures ...Tool) ([]Tool, error) {
	all := append([]Tool{
		{"relay-forward", ".mjs", javascript, "Forwards the events of an endpoint to your own machine.", forwarder},
	}, ofFeatures...)
	content, err := pack(built, "bin/package")
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	about := "The SDK for JavaScript, a package for npm. Keep the file in your repository and install it from there."
	return append(all, Tool{"eventrelay-sdk", ".tgz", "application/gzip", about, content}), err
}

// packedAt is the time of all files in a package: the one that npm uses.
var packedAt = time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)

// pack returns the files of a folder as a package for npm. The same files make the same bytes.
func pack(from fs.FS, folder string) ([]byte, error) {
	files, err := fs.Sub(from, folder)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(zipped)
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error { // in lexical order
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text)), ModTime: packedAt,
			Format: tar.FormatUSTAR}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	})
	if err = errors.Join(err, out.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("pack %s: %w", folder, err)
	}
	return buf.Bytes(), nil
}
