//go:build !linux

package kafka

import (
	"errors"
	"os"
)

// fdatasync writes a file to the disk; on darwin Sync also empties the drive's cache.
func fdatasync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fsyncDir writes a directory's entries to the disk.
func fsyncDir(path string) error { return fdatasync(path) }
