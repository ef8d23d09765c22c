//go:build !linux

package clickhouse

import "errors"

// Syncs says that Sync does what it says on this system.
const Syncs = false

// Sync has no call here that waits for the disk: use Config.Fsync.
func (c *Child) Sync() error { return errors.ErrUnsupported }
