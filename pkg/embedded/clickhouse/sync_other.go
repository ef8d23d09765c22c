//go:build !linux

package clickhouse

import "errors"

// SyncSupported says whether Child.Sync works on this system.
const SyncSupported = false

// Sync is not supported: no call here waits for the disk. Use Config.Fsync.
func (c *Child) Sync() error { return errors.ErrUnsupported }
