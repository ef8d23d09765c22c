package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Config says where the engine lives and what it may take.
type Config struct {
	// Listen is the address of the front; port 0 picks a free one. Beyond loopback a Key is required. "unix:/path" is
	// a unix socket, for which the directory should be closed to others, and "fd:3" takes over a listening socket from
	// the parent process.
	Listen string
	// Key is what every request must carry as X-ClickHouse-Key or as password; empty asks for none.
	Key string
	// Hosts are names, with a port or for any, that requests may carry as Host beside the listen address.
	Hosts []string
	// Backups is the directory below which BACKUP and RESTORE work; empty refuses them.
	Backups string
	// Data is the directory of the engine; it is created when it is missing.
	Data string
	// Library is the path of libchdb; empty looks beside the executable.
	Library string
	// Fsync makes an insert return only after its parts are on disk. Without it they are there after Child.Sync, or
	// when the system writes them back.
	Fsync bool
	// Sessions bounds the statements that run at once; further ones wait.
	Sessions int
	// MaxStatement bounds a statement's text, in bytes.
	MaxStatement int64
	// MaxInsert bounds the body of an insert, in bytes. It is passed on in
	// pieces and never held whole by the front.
	MaxInsert int64
	// MaxMemory is what the engine may allocate in all, in bytes; a statement
	// that would pass it fails.
	MaxMemory int64
	// LockWait is how long a start waits for a process that still holds the data
	// directory, such as a predecessor that is being killed.
	LockWait time.Duration
	// Drain is how long statements that write may take to finish after the stop.
	Drain time.Duration
}

// DefaultConfig is everything but Data.
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

// Validate reports all faults at once.
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

// MinKeyLength is how many characters a key has at least.
const MinKeyLength = 16

// Prefixes of listen addresses that are no host and port.
const (
	unixPrefix = "unix:"
	fdPrefix   = "fd:"
)

// validateListen refuses an address that other machines reach, unless there is a key.
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
		" is not loopback: whoever reaches it could read "+
		"and write every table; give a key with --key-file or RELAY_ENGINE_KEY")
}
