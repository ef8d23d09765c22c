//go:build !linux

package segment

import "os"

// fdatasync writes a file to disk; on darwin Sync also flushes the drive's cache.
func fdatasync(f *os.File) error { return f.Sync() }
