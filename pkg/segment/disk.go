package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/eventrelay/relay/pkg/private"
)

// Disk is a file system. A test may have one that fails, or forgets what was not synced.
type Disk interface {
	// Lock makes a directory that only this user may read, and keeps a second process out of it.
	Lock(dir string) (unlock func(), err error)
	ReadDir(dir string) (names []string, err error)
	SyncDir(dir string) error
	Open(path string, flag int) (File, error) // flag as in os.OpenFile
	Rename(from, to string) error
	Remove(path string) error
}

// File is an open file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error // data and length
}

// osDisk is the file system of the system.
type osDisk struct{}

const lockFile = "lock"

// createFlag makes an empty file, in the place of one that is there.
const createFlag = os.O_RDWR | os.O_CREATE | os.O_TRUNC

func (osDisk) Lock(dir string) (unlock func(), err error) {
	if err := private.EnsureDir(dir, lockFile); err != nil {
		return nil, fmt.Errorf("directory of the log: %w", err)
	}
	return private.LockDir(dir, lockFile)
}

func (osDisk) ReadDir(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (osDisk) Open(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) Remove(path string) error     { return os.Remove(path) }

type osFile struct{ *os.File }

func (f osFile) Sync() error { return fdatasync(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
