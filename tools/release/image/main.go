// Command image packs a program of the relay as an image: an OCI layout in one tar file, which docker load reads too.
// The image has the program, the root certificates of golang.org/x/crypto/x509roots and an empty data directory,
// nothing else: no shell, no package. The same program makes the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of the relay in the image; it has no name.
const user = 65532

func main() {
	program := flag.String("program", "", "the statically linked program")
	architecture := flag.String("arch", "", "its GOARCH")
	version := flag.String("version", "", "the version")
	tag := flag.String("tag", "", "name of the image, such as eventrelay/relay:1.2.3")
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	if err := run(*program, *architecture, *version, *tag, *out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(program, architecture, version, tag, out string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH must be the Unix time of the commit")
	}
	created := time.Unix(seconds, 0).UTC()
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := layerOf(content, created)
	if err != nil {
		return err
	}
	packed, err := zipped(layer)
	if err != nil {
		return err
	}
	archive, err := archiveOf(imageOf(layer, architecture, version, created), packed, tag, created)
	if err != nil {
		return err
	}
	return os.WriteFile(out, archive, 0o644)
}

// entry is a file of a tar archive; a directory if it has no content.
type entry struct {
	name    string
	content []byte
	mode    int64
	owner   int
}

func tarOf(entries []entry, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR,
			Uid: e.owner, Gid: e.owner,
		}
		if e.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// layerOf is the file system of the image.
func layerOf(program []byte, at time.Time) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return tarOf([]entry{
		{"etc/", nil, 0o755, 0}, {"etc/ssl/", nil, 0o755, 0}, {"etc/ssl/certs/", nil, 0o755, 0},
		{"etc/ssl/certs/ca-certificates.crt", roots.Bytes(), 0o644, 0},
		{"tmp/", nil, 0o1777, 0},
		{"usr/", nil, 0o755, 0}, {"usr/local/", nil, 0o755, 0}, {"usr/local/bin/", nil, 0o755, 0},
		{"usr/local/bin/relay", program, 0o755, 0},
		{"var/", nil, 0o755, 0}, {"var/lib/", nil, 0o755, 0}, {"var/lib/relay/", nil, 0o700, user},
	}, at)
}

func zipped(content []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// image is the configuration of an image. OCI has no health check, and Docker reads this member.
type image struct {
	ocispec.Image
	Config config `json:"config"`
}

type config struct {
	ocispec.ImageConfig
	Healthcheck healthcheck `json:"Healthcheck"`
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// imageOf says of the image what the stage relay of the Dockerfile says.
func imageOf(layer []byte, architecture, version string, created time.Time) image {
	owner := fmt.Sprintf("%d:%d", user, user)
	return image{
		Image: ocispec.Image{
			Created: &created, Platform: ocispec.Platform{Architecture: architecture, OS: "linux"},
			RootFS:  ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
			History: []ocispec.History{{Created: &created, CreatedBy: "tools/release/image"}},
		},
		Config: config{
			ImageConfig: ocispec.ImageConfig{
				User: owner, ExposedPorts: map[string]struct{}{"8080/tcp": {}}, StopSignal: "SIGTERM",
				Env:        []string{"PATH=/usr/local/bin", "RELAY_DATA_DIR=/var/lib/relay", "RELAY_LISTEN=0.0.0.0:8080"},
				Entrypoint: []string{"/usr/local/bin/relay"}, Cmd: []string{"serve"},
				Volumes: map[string]struct{}{"/var/lib/relay": {}},
				Labels: map[string]string{
					ocispec.AnnotationTitle: "EventRelay", ocispec.AnnotationVersion: version,
					ocispec.AnnotationLicenses: "Apache-2.0",
				},
			},
			Healthcheck: healthcheck{
				[]string{"CMD", "/usr/local/bin/relay", "ready"}, 5 * time.Second, 6 * time.Second, time.Minute, 3,
			},
		},
	}
}

// archiveOf returns an OCI layout with one image, and the manifest.json by which docker load finds the same blobs.
func archiveOf(i image, packed []byte, tag string, at time.Time) ([]byte, error) {
	entries := []entry{{"blobs/", nil, 0o755, 0}, {"blobs/sha256/", nil, 0o755, 0}}
	add := func(mediaType string, content []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
		entries = append(entries, entry{blobPath(d), content, 0o644, 0})
		return d
	}
	configText, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	layer, conf := add(ocispec.MediaTypeImageLayerGzip, packed), add(ocispec.MediaTypeImageConfig, configText)
	manifestText, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: conf,
		Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return nil, err
	}
	manifest := add(ocispec.MediaTypeImageManifest, manifestText)
	manifest.Platform = &i.Platform
	manifest.Annotations = map[string]string{
		ocispec.AnnotationRefName: i.Config.Labels[ocispec.AnnotationVersion], "io.containerd.image.name": "docker.io/" + tag,
	}
	for _, file := range []struct {
		name  string
		value any
	}{
		{"index.json", ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{manifest},
		}},
		{"manifest.json", []map[string]any{{
			"Config": blobPath(conf), "RepoTags": []string{tag}, "Layers": []string{blobPath(layer)},
		}}},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
	} {
		text, err := json.Marshal(file.value)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{file.name, text, 0o644, 0})
	}
	return tarOf(entries, at)
}

func blobPath(d ocispec.Descriptor) string { return "blobs/sha256/" + d.Digest.Encoded() }
