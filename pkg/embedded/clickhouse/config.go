package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config says where the engine lives and what it may take.
type Config struct {
	// Listen is the loopback address of the front; port 0 picks a free one, and
	// "fd:3" takes over a listening socket from the parent process.
	Listen string
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
		validateListen(c.Listen),
		check(c.Data != "", "data directory is missing"),
		check(c.Sessions > 0, "sessions must be positive"),
		check(c.MaxStatement > 0, "largest statement must be positive"),
		check(c.MaxInsert >= 64<<20, "largest insert must be at least 64 MiB"),
		check(c.MaxMemory >= 256<<20, "memory limit must be at least 256 MiB"),
		check(c.LockWait > 0, "lock wait must be positive"),
		check(c.Drain > 0, "drain time must be positive"),
	)
}

func check(ok bool, fault string) error {
	if ok {
		return nil
	}
	return errors.New("clickhouse engine: " + fault)
}

// validateListen refuses any address but loopback, because the front trusts
// whoever reaches it.
func validateListen(address string) error {
	if strings.HasPrefix(address, "fd:") {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("clickhouse engine: read listen address: %w", err)
	}
	ip := net.ParseIP(host)
	return check(host == "localhost" || ip != nil && ip.IsLoopback(), "listen address must be loopback, not "+address)
}
