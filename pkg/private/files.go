package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile writes a new file and syncs it to disk.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir writes a directory's entries to disk.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// spare are the bytes that a backup or restore leaves free on a disk: a node that runs there takes events meanwhile.
const spare = 128 << 20

// CheckRoom returns an error if the disk of a directory has too little space for so many bytes.
func CheckRoom(dir string, need int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) // the types differ between systems
	if free-spare >= need {
		return nil
	}
	return fmt.Errorf("the disk of %s has %.1f MB free; this needs %.1f MB, and %d MB that stay free", dir,
		float64(free)/1e6, float64(need)/1e6, spare/1_000_000)
}

// CheckCopyRoom returns an error if the disk of a directory has too little space for a copy of another directory. Files
// that are replaced meanwhile may count twice.
func CheckCopyRoom(dir, of string) error {
	var need int64
	err := Walk("", of, func(_, _ string, size int64) error {
		need += size
		return nil
	})
	if err != nil {
		return err
	}
	return CheckRoom(dir, need)
}

// Walk calls each for the file at from, or for each file below it. Its first argument is the file's path with from
// replaced by path. Files that are removed meanwhile are left out.
func Walk(path, from string, each func(path, name string, size int64) error) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreMissing(err)
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		return each(filepath.Join(path, below), name, info.Size())
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
