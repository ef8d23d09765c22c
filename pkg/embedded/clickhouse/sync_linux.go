package clickhouse

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Syncs says that Sync does what it says on this system.
const SyncSupported = true

// Sync writes to the disk whatever the engine has written before: the whole file system of its data directory at once,
// which costs less than one fsync for each of the fifteen files of a part, most of which are merged away within
// seconds. An error means that some of it may never get there, and is told once.
func (c *Child) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dataDir == nil { // it stays open: errors are told to those who had a file open when they happened
		f, err := os.Open(c.cfg.Data)
		if err != nil {
			return fmt.Errorf("open data directory: %w", err)
		}
		c.dataDir = f
	}
	for {
		switch err := unix.Syncfs(int(c.dataDir.Fd())); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("sync the file system of %s: %w", c.cfg.Data, err)
		default:
			return nil
		}
	}
}
