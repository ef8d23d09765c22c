package clickhouse

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SyncSupported says whether Child.Sync works on this system.
const SyncSupported = true

// Sync writes everything that the engine has written so far to the disk: the whole file system of its data directory at
// once. That costs less than one fsync for each of the fifteen files of a part, and most parts are merged away within
// seconds. An error means that some of it may be lost; the kernel reports it only once.
func (c *Child) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dataDir == nil { // kept open: syncfs reports only errors that happened while the file was open
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
