package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/stream"
)

// DefaultSnapshotEvery bounds the applied records that a start reads after the snapshot; 20,000 take about half a second.
const DefaultSnapshotEvery = 20_000

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
	Alone bool
	// Unverified reads a log without the master keys that it was made with: for a person who asks how it is, never for a
	// node. Nothing proves then who wrote its records.
	Unverified bool
	// AdminEmail and AdminPassword are those of the user who is entered when there is none; empty = nobody is.
	AdminEmail, AdminPassword string
	// SnapshotEvery is after how many applied records the owner writes a snapshot; 0 = DefaultSnapshotEvery.
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
	if c.Node == "" {
		errs = append(errs, errors.New("node name: must be set"))
	}
	if c.Partitions < 1 || c.Partitions > 4096 {
		errs = append(errs, fmt.Errorf("partitions: %d is not within 1–4096, what an id has room for", c.Partitions))
	}
	if c.SnapshotEvery < 0 {
		errs = append(errs, errors.New("snapshot every: must not be negative"))
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

func (d Deps) validate() error {
	if d.Keyring == nil {
		return errors.Join(d.Stream.Validate(), errors.New("master keys: must be set"))
	}
	return d.Stream.Validate()
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

func (c Config) bootstrap() map[[hashLen]byte]Scope {
	m := make(map[[hashLen]byte]Scope)
	if c.BootstrapReadKey != "" {
		m[hashOf(c.BootstrapReadKey)] = Read
	}
	if c.BootstrapKey != "" {
		m[hashOf(c.BootstrapKey)] = ReadWrite
	}
	return m
}

// timing are the durations of the protocol. They are no settings: nodes must agree on them. Tests of
// this package shorten them.
type timing struct {
	beat     time.Duration // between heartbeats, which also confirm the lease
	beatGap  time.Duration // least time between heartbeats that announce a position
	lease    time.Duration // how long a confirmation is good for, and a node counts as living
	strict   time.Duration // after which every lease from before an append has run out, clocks' rates included
	courtesy time.Duration // how long an ordinary write waits for the other nodes
	write    time.Duration // how long a write waits for the log
	request  time.Duration // for one request of the background loops
	snapshot time.Duration // between snapshots, if anything changed
	look     time.Duration // between looks whether a snapshot is due
	sweep    time.Duration // between looks for what has ended by age
}

func defaultTiming() timing {
	return timing{
		beat: 500 * time.Millisecond, beatGap: 20 * time.Millisecond,
		lease: 5 * time.Second, strict: 5500 * time.Millisecond, courtesy: 300 * time.Millisecond,
		write: 10 * time.Second, request: 2 * time.Second, snapshot: time.Hour, look: time.Second, sweep: time.Minute,
	}
}
