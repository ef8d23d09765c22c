package conflog

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/stream"
)

// DefaultSnapshotEvery is the default number of applied records between two snapshots. A start reads at most about as
// many records after the snapshot: 20,000 take about half a second.
const DefaultSnapshotEvery = 20_000

// Config holds the settings of a Log.
type Config struct {
	Node    string // this node's name, unique in the cluster
	Version string // version of the program, sent in heartbeats
	// SingleNode says that no other node uses the log. The level of the log is then raised at the start.
	SingleNode bool
	// Unverified reads a log without its master keys and skips all MAC checks. It is for inspection only: nothing
	// proves who wrote the records.
	Unverified      bool
	SnapshotEvery   int // number of applied records between snapshots; 0 = DefaultSnapshotEvery
	Kinds           []KindInfo
	CompressionDict []byte // JSON text that most values share, the dictionary of S2
	Timing          Timing // zero = DefaultTiming; tests shorten it
	Limits          Limits // zero = the constants; tests lower them
}

// Deps are the dependencies of a Log.
type Deps struct {
	Log        *slog.Logger // nil = none
	Stream     stream.Config
	Entities   Entities
	Keys       Sealer
	Now        func() time.Time      // nil = time.Now
	Metrics    prometheus.Registerer // nil = none
	StartSteps []Step                // run in this order before the node is ready
}

// Sealer encrypts and decrypts the secret of the log with the master keys.
type Sealer interface {
	Seal(secret []byte) (sealed string)
	Open(sealed string) (secret []byte, err error)
	IDs() []string // ids of the master keys; the first key is the one that seals
}

// validate reports all errors together, and sets defaults.
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
		errs = append(errs, errors.New("node name must be set"))
	}
	if cfg.SnapshotEvery < 0 {
		errs = append(errs, errors.New("snapshot interval in records must not be negative"))
	}
	return errors.Join(append(errs, deps.Stream.Validate())...)
}

// Limits are the bounds of the whole configuration. They are constants in production, because all nodes must agree on
// them.
type Limits struct {
	State  int64 // bytes; see MaxStateBytes
	Outbox int   // entries; see maxOutbox
}

// Timing holds the durations of the protocol. They are constants in production, because all nodes must agree on them.
type Timing struct {
	HeartbeatInterval time.Duration // between two heartbeats; each one also starts a lease cycle
	HeartbeatMinGap   time.Duration // minimum between two heartbeats when records arrive in a burst
	Lease             time.Duration // how long a confirmed cycle is valid, and how long a silent node counts as living
	// time after an append when all leases from before it have expired, with a margin for clock drift
	BarrierTimeout        time.Duration
	PeerWait              time.Duration // maximum wait of an ordinary write for the other nodes
	WriteTimeout          time.Duration // maximum duration of a write
	RequestTimeout        time.Duration // maximum duration of one request of the background loops
	SnapshotInterval      time.Duration // maximum time between snapshots while records arrive
	SnapshotCheckInterval time.Duration // how often the owner checks whether a snapshot is due
}

// DefaultTiming returns the durations that every node uses.
func DefaultTiming() Timing {
	return Timing{
		HeartbeatInterval: 500 * time.Millisecond, HeartbeatMinGap: 20 * time.Millisecond,
		Lease: 5 * time.Second, BarrierTimeout: 5500 * time.Millisecond, PeerWait: 300 * time.Millisecond,
		WriteTimeout: 10 * time.Second, RequestTimeout: 2 * time.Second, SnapshotInterval: time.Hour,
		SnapshotCheckInterval: time.Second,
	}
}
