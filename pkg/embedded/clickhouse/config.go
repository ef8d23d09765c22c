package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Config says where the engine listens, where its data is, and its limits.
type Config struct {
	// Listen is the listen address; port 0 picks a free one. An address that other machines reach requires a Key.
	// "unix:/path" is a unix socket, whose directory should be closed to other users, and "fd:3" is a listening socket
	// inherited from the parent process.
	Listen string
	// Key is required of every request, as X-ClickHouse-Key or as password; empty: no key is required.
	Key string
	// KeyFile is the file that has Key, or empty. A confined process may read it, because it starts anew.
	KeyFile string
	// Hosts are accepted in the Host header of requests besides the listen address. A name without a port is for any
	// port.
	Hosts []string
	// Backups is the directory in which BACKUP and RESTORE work, as Disk('backups', 'name') or File('name'); empty: both
	// are refused.
	Backups string
	// Data is the directory of the engine; it is created if it does not exist.
	Data string
	// Library is the path of libchdb; empty: lib/ beside the executable.
	Library string
	// Fsync makes an insert return only after its parts are on disk. Without it they are on disk after Child.Sync, or
	// when the operating system writes them.
	Fsync bool
	// Sessions is how many statements, pings apart, run at once; further ones wait.
	Sessions int
	// MaxStatement is the largest text of a statement, in bytes.
	MaxStatement int64
	// MaxInsert is the largest body of an insert, in bytes. The body is streamed to the engine in pieces of 1 MiB.
	MaxInsert int64
	// MaxMemory is how many bytes the engine may allocate in total; a statement that would exceed it fails.
	MaxMemory int64
	// LockWait is how long a start waits for a process that still holds the data directory, such as a predecessor that
	// is stopping.
	LockWait time.Duration
	// Drain is how long statements that write may take to finish after the stop.
	Drain time.Duration
}

// DefaultConfig returns the defaults of everything but Data.
func DefaultConfig() Config {
	return Config{
		Listen:       "127.0.0.1:0",
		Fsync:        true,
		Sessions:     8,
		MaxStatement: 16 << 20,
		MaxInsert:    256 << 20,
		MaxMemory:    2 << 30,
		LockWait:     10 * time.Second,
		Drain:        10 * time.Second,
	}
}

// Validate returns all faults of the configuration, joined.
func (c Config) Validate() error {
	return errors.Join(
		c.validateListen(),
		require(c.Key == "" || len(c.Key) >= MinKeyLength,
			fmt.Sprintf("the key has %d characters, at least %d are needed", len(c.Key), MinKeyLength)),
		require(c.Backups == "" || filepath.IsAbs(c.Backups), "backup directory must be an absolute path"),
		require(c.Data != "", "data directory is missing"),
		require(c.Sessions > 0, "sessions must be positive"),
		require(c.MaxStatement > 0, "largest statement must be positive"),
		require(c.MaxInsert >= 64<<20, "largest insert must be at least 64 MiB"),
		require(c.MaxMemory >= 256<<20, "memory limit must be at least 256 MiB"),
		require(c.LockWait > 0, "lock wait must be positive"),
		require(c.Drain > 0, "drain time must be positive"),
	)
}

func require(ok bool, fault string) error {
	if ok {
		return nil
	}
	return errors.New("clickhouse engine: " + fault)
}

// MinKeyLength is the smallest number of characters of a key.
const MinKeyLength = 16

// Prefixes of listen addresses that are not host and port.
const (
	unixPrefix = "unix:"
	fdPrefix   = "fd:"
)

// validateListen refuses an address that other machines reach unless there is a key.
func (c Config) validateListen() error {
	if path, unix := strings.CutPrefix(c.Listen, unixPrefix); unix {
		return require(path != "", "the path of the unix socket is missing")
	}
	if strings.HasPrefix(c.Listen, fdPrefix) {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("clickhouse engine: read listen address: %w", err)
	}
	return require(isLoopback(host) || c.Key != "", "listen address "+c.Listen+
		" is not loopback: everyone who reaches it could read "+
		"and write every table; set a key with --key-file or RELAY_ENGINE_KEY")
}
