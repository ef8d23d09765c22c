package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The archive is whole, its blobs are those that its names say, and the layer has the program. Two archives have the
// same bytes.
func TestArchive(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	program, out := filepath.Join(dir, "relay"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, bytes.Repeat([]byte("program "), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	var archives [][]byte
	for range 2 {
		if err := run(program, "arm64", "1.2.3", "eventrelay/relay:1.2.3", out); err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives differ")
	}
	files := untar(t, archives[0])
	for name, content := range files {
		sum, blob := strings.CutPrefix(name, "blobs/sha256/")
		if blob && sum != "" && digest.FromBytes(content).Encoded() != sum {
			t.Errorf("%s has other bytes", name)
		}
	}
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(files[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var index ocispec.Index
	var manifest ocispec.Manifest
	var conf image
	read("index.json", &index)
	read(blobPath(index.Manifests[0]), &manifest)
	read(blobPath(manifest.Config), &conf)
	layer, err := gzip.NewReader(bytes.NewReader(files[blobPath(manifest.Layers[0])]))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(layer)
	if err != nil || digest.FromBytes(content) != conf.RootFS.DiffIDs[0] {
		t.Errorf("the layer is not the one of the configuration: %v", err)
	}
	inside := untar(t, content)
	if len(inside["usr/local/bin/relay"]) != 40_000 || !strings.HasPrefix(
		string(inside["etc/ssl/certs/ca-certificates.crt"]), "-----BEGIN CERTIFICATE-----") {
		t.Error("the program or the certificates are missing")
	}
	if conf.Architecture != "arm64" || conf.Config.User != "65532:65532" || !slices.Contains(conf.Config.Healthcheck.Test,
		"ready") {
		t.Errorf("configuration %+v", conf)
	}
	var docker []struct{ Config, RepoTags, Layers any }
	read("manifest.json", &docker)
	if docker[0].Config != blobPath(manifest.Config) {
		t.Errorf("docker load finds %v", docker[0])
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
