package conflog

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/stream"
)

// DefaultSnapshotEvery bounds the applied records that a start reads after the snapshot; 20,000 take about half a
// second.
const DefaultSnapshotEvery = 20_000

// Config is what the user of the log sets.
type Config struct {
	Node    string // this node's name; two nodes never share one
	Version string // of the program, which the other nodes are told
	// Alone says that no other node uses the log, so that it may be raised to what this program knows.
	SingleNode bool
	// Unverified reads a log without the master keys that it was made with: for a person who asks how it is, never for a
	// node. Nothing proves then who wrote its records.
	Unverified      bool
	SnapshotEvery   int // after how many applied records the owner writes a snapshot; 0 = DefaultSnapshotEvery
	Kinds           []KindInfo
	CompressionDict []byte // JSON with the texts that nearly every value shares
	Timing          Timing // zero: DefaultTiming; tests shorten it
	Limits          Limits // zero: the constants; tests lower them
}

// Deps are what a Log works with.
type Deps struct {
	Log        *slog.Logger // nil = none
	Stream     stream.Config
	Entities   Entities
	Keys       Sealer
	Now        func() time.Time      // nil = time.Now
	Metrics    prometheus.Registerer // nil = none
	StartSteps []Step                // what must have succeeded before the node is ready, in this order
}

// Sealer seals the secret of the log under the master keys.
type Sealer interface {
	Seal(secret []byte) (sealed string)
	Open(sealed string) (secret []byte, err error)
	IDs() []string // name the keys, the one that seals first
}

// validate reports every fault at once, and fills in what may be left out.
func (cfg *Config) validate(deps *Deps) error {
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, DefaultSnapshotEvery)
	cfg.Timing = cmp.Or(cfg.Timing, DefaultTiming())
	cfg.Limits.State = cmp.Or(cfg.Limits.State, MaxStateBytes)
	cfg.Limits.Outbox = cmp.Or(cfg.Limits.Outbox, maxOutbox)
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	var errs []error
	if cfg.Node == "" {
		errs = append(errs, errors.New("node name: must be set"))
	}
	if cfg.SnapshotEvery < 0 {
		errs = append(errs, errors.New("snapshot every: must not be negative"))
	}
	return errors.Join(append(errs, deps.Stream.Validate())...)
}

// Limits are bounds of the whole configuration. They are no settings: nodes must agree on them.
type Limits struct {
	State  int64 // bytes; see MaxStateBytes
	Outbox int   // entries; see maxOutbox
}

// Timing are the durations of the protocol. They are no settings: nodes must agree on them.
type Timing struct {
	HeartbeatInterval time.Duration // between heartbeats, which also confirm the lease
	HeartbeatMinGap   time.Duration // least time between heartbeats that announce a position
	Lease             time.Duration // how long a confirmation is good for, and a node counts as living
	// after which every lease from before an append has run out, clocks' rates included
	BarrierTimeout        time.Duration
	PeerWait              time.Duration // how long an ordinary write waits for the other nodes
	WriteTimeout          time.Duration // how long a write waits for the log
	RequestTimeout        time.Duration // for one request of the background loops
	SnapshotInterval      time.Duration // between snapshots, if anything changed
	SnapshotCheckInterval time.Duration // between looks whether a snapshot is due
}

// DefaultTiming is that of every node.
func DefaultTiming() Timing {
	return Timing{
		HeartbeatInterval: 500 * time.Millisecond, HeartbeatMinGap: 20 * time.Millisecond,
		Lease: 5 * time.Second, BarrierTimeout: 5500 * time.Millisecond, PeerWait: 300 * time.Millisecond,
		WriteTimeout: 10 * time.Second, RequestTimeout: 2 * time.Second, SnapshotInterval: time.Hour,
		SnapshotCheckInterval: time.Second,
	}
}
