package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config holds the settings of a Control.
type Config struct {
	// Node is this node's name, unique in the cluster.
	Node string
	// Version is the version of the program, sent in heartbeats.
	Version string
	// Partitions is the number of partitions that new endpoints are distributed over, 1 to 4096.
	Partitions int32
	// BootstrapKey and BootstrapReadKey are API keys, read-write and read-only. They are valid on this node while they
	// are set here. They have at least 16 printable characters; empty = none.
	BootstrapKey, BootstrapReadKey string
	// SingleNode says that no other node uses the log. The level of the log is then raised at the start.
	SingleNode bool
	// Unverified reads a log without its master keys and skips all MAC checks. It is for inspection only: nothing
	// proves who wrote the records.
	Unverified bool
	// AdminEmail and AdminPassword are those of the first user, who is created while there is no user; empty = none.
	AdminEmail, AdminPassword string
	// SnapshotEvery is the number of applied records between snapshots; 0 = conflog.DefaultSnapshotEvery.
	SnapshotEvery int
	// RetentionDays is how long events can be read; erasures are kept a day longer. 0 = 3650.
	RetentionDays int
	// RunProgressTimeout is how long a queueing run may make no progress before it counts as interrupted; 0 =
	// DefaultRunProgressTimeout.
	RunProgressTimeout time.Duration
}

// Node is a node whose last heartbeat is younger than 5 s.
type Node = conflog.Node

// Deps are the dependencies of a Control.
type Deps struct {
	Log     *slog.Logger // nil = none
	Stream  stream.Config
	Keyring *seal.Keyring
	Now     func() time.Time      // nil = time.Now
	Metrics prometheus.Registerer // nil = none
}

// Validate reports all errors together.
func (c Config) Validate() error {
	var errs []error
	if c.Partitions < 1 || c.Partitions > 4096 {
		errs = append(errs, fmt.Errorf("partitions must be 1 to 4096 (ids hold 12 bits of it), not %d", c.Partitions))
	}
	for name, key := range map[string]string{"bootstrap key": c.BootstrapKey, "bootstrap read key": c.BootstrapReadKey} {
		if key != "" && (len(key) < 16 || !printable(key)) {
			errs = append(errs, fmt.Errorf("%s must have at least 16 printable ASCII characters, without spaces", name))
		}
	}
	if c.BootstrapKey != "" && c.BootstrapKey == c.BootstrapReadKey {
		errs = append(errs, errors.New("bootstrap key and bootstrap read key must differ: one key cannot have two scopes"))
	}
	return errors.Join(errs...)
}

// printable reports whether s can be sent in an Authorization header: ASCII without spaces.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
