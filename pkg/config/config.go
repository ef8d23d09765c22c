package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config is what main sets.
type Config struct {
	// Node is this node's name; two nodes never share one.
	Node string
	// Version is that of the program, which the other nodes are told.
	Version string
	// Partitions is how many partitions new endpoints are spread over.
	Partitions int32
	// BootstrapKey and BootstrapReadKey are API keys, read-write and read, that are valid on this node
	// while they are set here: printable, at least 16 characters; empty = none.
	BootstrapKey, BootstrapReadKey string
	// Alone says that no other node uses the log, so that it may be raised to what this program knows.
	SingleNode bool
	// Unverified reads a log without the master keys that it was made with: for a person who asks how it is, never for a
	// node. Nothing proves then who wrote its records.
	Unverified bool
	// AdminEmail and AdminPassword are those of the user who is entered when there is none; empty = nobody is.
	AdminEmail, AdminPassword string
	// SnapshotEvery is after how many applied records the owner writes a snapshot; 0 = conflog.DefaultSnapshotEvery.
	SnapshotEvery int
	// RetentionDays is how long events can be read: what is remembered of one is forgotten then; 0 = 3650.
	RetentionDays int
}

// Deps are what Control works with.
type Deps struct {
	Log     *slog.Logger // nil = none
	Stream  stream.Config
	Keyring *Keyring
	Now     func() time.Time      // nil = time.Now
	Metrics prometheus.Registerer // nil = none
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Partitions < 1 || c.Partitions > 4096 {
		errs = append(errs, fmt.Errorf("partitions: %d is not within 1–4096, what an id has room for", c.Partitions))
	}
	for name, key := range map[string]string{"bootstrap key": c.BootstrapKey, "bootstrap read key": c.BootstrapReadKey} {
		if key != "" && (len(key) < 16 || !printable(key)) {
			errs = append(errs, fmt.Errorf("%s: want at least 16 printable characters", name))
		}
	}
	if c.BootstrapKey != "" && c.BootstrapKey == c.BootstrapReadKey {
		errs = append(errs, errors.New("bootstrap keys: the same text cannot have two scopes"))
	}
	return errors.Join(errs...)
}

// printable reports whether s can stand in an Authorization header: ASCII without spaces.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func (c Config) bootstrapScopes() map[[conflog.HashLen]byte]Scope {
	m := make(map[[conflog.HashLen]byte]Scope)
	if c.BootstrapReadKey != "" {
		m[hashOf(c.BootstrapReadKey)] = Read
	}
	if c.BootstrapKey != "" {
		m[hashOf(c.BootstrapKey)] = ReadWrite
	}
	return m
}
