// Package archive reads and writes the format of a backup: files in a directory, and manifest.json with their sizes and
// SHA-256. The manifest is written last and renamed into place, so that an interrupted backup has none.
//
// Begin with Create, which writes a backup, and Verify, which checks one. Package backup decides what is in it.
package archive

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/eventrelay/relay/pkg/private"
)

// Paths in a backup. All but Store are the same as in the data directory.
const (
	Log      = "log"
	Claims   = "claims.db"
	Counters = "counters.json"
	Store    = "store" // in the form of ClickHouse's BACKUP
)

// format is the version of the format. A program reads only its own.
const format = 1

// ManifestFile is the name of the manifest in a backup.
const ManifestFile = "manifest.json"

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	Time    time.Time `json:"time"`    // of its start; it has everything acknowledged before
	Files   []File    `json:"files"`
	Copied  int64     `json:"copied"` // bytes of the files that are no hard links into the previous backup
	// MAC is the HMAC-SHA-256 of the manifest without it, in hexadecimal, under a key derived from the master key MACKey.
	// Whoever can write to the backup cannot exchange files so. Versions before 0.3 wrote none.
	MAC    string `json:"mac,omitempty"`
	MACKey string `json:"mac_key,omitempty"`
}

// sum returns the MAC of the manifest under a master key.
func (m Manifest) sum(masterKey []byte) (string, error) {
	m.MAC = ""
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	derived := hmac.New(sha256.New, masterKey)
	derived.Write([]byte("manifest of a backup"))
	mac := hmac.New(sha256.New, derived.Sum(nil))
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// Keys are master keys; see seal.Keyring.
type Keys interface {
	First() string
	Has(name string) bool
	MACKey(name string) []byte
}

// ErrNoMAC means that the manifest shows no writer: a version before 0.3 wrote it, or somebody removed its MAC.
var ErrNoMAC = errors.New("the backup's manifest is not authenticated")

// Authenticate returns nil if a node with these master keys wrote the manifest.
func (m Manifest) Authenticate(keys Keys) error {
	switch {
	case m.MAC == "" && m.MACKey == "":
		return ErrNoMAC
	case !keys.Has(m.MACKey):
		return fmt.Errorf("the master key %q of the backup is missing", m.MACKey)
	}
	want, err := m.sum(keys.MACKey(m.MACKey))
	if err == nil && !hmac.Equal([]byte(want), []byte(m.MAC)) {
		err = fmt.Errorf("%s was not written with these master keys, or has changed; use another backup", ManifestFile)
	}
	return err
}

// File is one file of a backup.
type File struct {
	Path   string `json:"path"` // with slashes, in the directory of the backup
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (m Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Writer writes a backup.
type Writer struct {
	dir, previous string
	shared        map[string]int64 // sizes of the files of the previous backup
	manifest      Manifest
}

// Create begins a backup in a directory, which must be empty or not exist. Files that the previous backup has with the
// same content become hard links to it, so that each backup is complete when others are removed; "": all are copied.
func Create(dir, previous, version string, now time.Time) (*Writer, error) {
	shared := make(map[string]int64)
	if previous != "" {
		before, err := ReadManifest(previous)
		if err != nil {
			return nil, err
		}
		for _, f := range before.Files {
			shared[f.Path] = f.Size
		}
	}
	if err := private.EnsureDir(dir, ""); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty; name a new directory", dir)
	}
	if previous != "" {
		probe := filepath.Join(dir, "probe")
		if err := errors.Join(os.Link(filepath.Join(previous, ManifestFile), probe), os.Remove(probe)); err != nil {
			return nil, fmt.Errorf("%s cannot share files with %s, which needs one file system with hard links: %w", dir,
				previous, err)
		}
	}
	return &Writer{dir, previous, shared, Manifest{Format: format, Version: version, Time: now}}, nil
}

// Add writes a file. It calls write again if the previous backup has another content.
func (w *Writer) Add(path string, write func(io.Writer) error) error {
	to := filepath.Join(w.dir, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	hash := sha256.New()
	linked, err := w.link(path, func(f io.Writer) error { return write(io.MultiWriter(f, hash)) })
	if err == nil && !linked {
		hash.Reset()
		err = private.WriteFile(to, func(f io.Writer) error { return write(io.MultiWriter(f, hash)) })
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	if !linked {
		w.manifest.Copied += info.Size()
	}
	w.manifest.Files = append(w.manifest.Files, File{filepath.ToSlash(path), info.Size(),
		hex.EncodeToString(hash.Sum(nil))})
	return nil
}

// link makes a file a hard link to the one of the previous backup if that has what write writes. It compares the
// content and not a checksum, so that a damaged file is not carried into the next backup.
func (w *Writer) link(path string, write func(io.Writer) error) (bool, error) {
	if w.previous == "" {
		return false, nil
	}
	from := filepath.Join(w.previous, path)
	f, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	same := &comparer{r: f}
	if err := write(same); err != nil && !same.differs {
		return false, err
	}
	if n, _ := f.Read(make([]byte, 1)); same.differs || n > 0 {
		return false, nil
	}
	return true, os.Link(from, filepath.Join(w.dir, path))
}

// comparer compares what is written to it with what r has, until the first difference.
type comparer struct {
	r       io.Reader
	buffer  []byte
	differs bool
}

func (c *comparer) Write(p []byte) (int, error) {
	c.buffer = slices.Grow(c.buffer[:0], len(p))[:len(p)]
	if _, err := io.ReadFull(c.r, c.buffer); err != nil || !bytes.Equal(c.buffer, p) {
		c.differs = true
		return 0, errors.New("the content differs")
	}
	return len(p), nil
}

// AddTree copies a file, or all files of a directory.
func (w *Writer) AddTree(path, from string) error {
	return private.Walk(path, from, func(path, name string, _ int64) error {
		return w.Add(path, func(to io.Writer) error { return copyFrom(name, to) })
	})
}

// Finish writes the manifest, which completes the backup, with a MAC under the first of the master keys.
func (w *Writer) Finish(keys Keys) (Manifest, error) {
	w.manifest.MACKey = keys.First()
	mac, err := w.manifest.sum(keys.MACKey(keys.First()))
	if err != nil {
		return Manifest{}, err
	}
	w.manifest.MAC = mac
	text, err := json.MarshalIndent(w.manifest, "", "  ")
	if err != nil {
		return Manifest{}, err
	}
	dirs := map[string]bool{w.dir: true}
	for _, f := range w.manifest.Files {
		for dir := filepath.Dir(filepath.Join(w.dir, f.Path)); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		if err := private.SyncDir(dir); err != nil {
			return Manifest{}, err
		}
	}
	path := filepath.Join(w.dir, ManifestFile)
	err = private.WriteFile(path+".new", func(f io.Writer) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return w.manifest, errors.Join(err, private.SyncDir(w.dir))
}

// Abandon empties the directory.
func (w *Writer) Abandon() error {
	entries, err := os.ReadDir(w.dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(w.dir, e.Name())))
	}
	return err
}

// NoManifestError is the error of a place without a manifest.
func NoManifestError(place string) error {
	return fmt.Errorf("%s has no %s: it is not a backup, or was interrupted; use another one", place, ManifestFile)
}

// ReadManifest reads and checks the manifest of a backup.
func ReadManifest(dir string) (Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, NoManifestError(dir)
	}
	if err != nil {
		return Manifest{}, err
	}
	return ParseManifest(dir, text)
}

// ParseManifest checks a manifest. Errors name the place of the backup.
func ParseManifest(place string, text []byte) (m Manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s of %s cannot be read; use another backup: %w", ManifestFile, place, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("the backup has format %d, and this version reads %d; restore it with relay %s or later",
			m.Format, format, m.Version)
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(f.Path) {
			return m, fmt.Errorf("%s of %s names %q, which is outside the backup; use another backup", ManifestFile, place,
				f.Path)
		}
	}
	return m, nil
}

// Verify reads a backup and compares all its files with the manifest.
func Verify(dir string) (Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return m, err
	}
	for _, f := range m.Files {
		hash := sha256.New()
		if err := copyFrom(filepath.Join(dir, f.Path), hash); err != nil {
			return m, fmt.Errorf("the backup is incomplete; use another one: %w", err)
		}
		if hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
			return m, fmt.Errorf("%s has changed since the backup; use another one", filepath.Join(dir, f.Path))
		}
	}
	return m, nil
}

// Restore copies a file of a backup into another directory.
func Restore(f File, from, to string) error {
	path := filepath.Join(to, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	err := private.WriteFile(path, func(w io.Writer) error { return copyFrom(filepath.Join(from, f.Path), w) })
	if err != nil {
		return err
	}
	return private.SyncDir(filepath.Dir(path))
}

// copyFrom copies a plain file. It follows no link, which could lead out of a backup.
func copyFrom(path string, to io.Writer) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a link, not a plain file", path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a plain file", path))
	}
	_, err = io.Copy(to, f)
	return err
}

// CheckRoom returns an error if the disk of the backup has too little space for files and directories, by their paths
// in the backup. A file that the previous backup has in the same size becomes a link; only the claims may change and
// keep their size.
func (w *Writer) CheckRoom(from map[string]string) error {
	var need int64
	for path, name := range from {
		err := private.Walk(path, name, func(path, _ string, size int64) error {
			if had, ok := w.shared[filepath.ToSlash(path)]; !ok || had != size || path == Claims {
				need += size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return private.CheckRoom(w.dir, need)
}
