//go:build !linux

package kafka

import (
	"errors"
	"os"
)

// fdatasync writes a file to disk; on darwin Sync also flushes the drive's cache (F_FULLFSYNC).
func fdatasync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fsyncDir writes a directory's entries to disk.
func fsyncDir(path string) error { return fdatasync(path) }
