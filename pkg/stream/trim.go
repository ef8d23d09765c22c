package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// How much of a topic is kept behind what its groups have done. Reads of single events that ClickHouse does not
// have yet, streams, the ledger and alerts look back into the log; each of them copes with less.
const (
	defaultKeepAge      = 15 * time.Minute
	tierKeepAge         = time.Minute
	outcomesKeepRecords = 10_000 // of a partition, however old: a new judge of alerts looks at the last ones
	trimTimeout         = 30 * time.Second
	offsetNotFound      = -1 // what an offset by time is where there is no record
)

// TrimConfig says how closely the log follows what was done.
type TrimConfig struct {
	// Every is the time from one look to the next.
	Every time.Duration
	// Keep is the age up to which records are kept although they were done. Retry topics, which hold bodies and which
	// only the dispatcher reads, keep a minute.
	KeepAge time.Duration
	// MaxBytes bounds what is kept of all topics together although it was done, in bytes; 0 = no bound. It is for an
	// engine that reads the log when it starts. The bound is kept on average: records of a partition count alike.
	MaxBytes int64
}

// DefaultTrimConfig is for a cluster.
func DefaultTrimConfig() TrimConfig { return TrimConfig{Every: time.Minute, KeepAge: defaultKeepAge} }

// TrimDeps are what a Trimmer needs.
type TrimDeps struct {
	Log     *slog.Logger
	Stream  Config
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Trimmer deletes from the log what all groups that read it have done, but for a rest. It goes by what they have
// committed, never by age alone: a group that is away for long loses nothing. Several may run, and any may be
// killed at any moment: deleting up to the same place again changes nothing.
//
// Topics that no group reads are kept as their own settings say, and the configuration log by its snapshots.
type Trimmer struct {
	cfg   TrimConfig
	deps  TrimDeps
	owner atomic.Bool
	wake  chan struct{}

	trimmed  *prometheus.CounterVec // records by topic
	failures prometheus.Counter
	last     prometheus.Gauge
}

// NewTrimmer prepares; it connects to nothing.
func NewTrimmer(cfg TrimConfig, deps TrimDeps) (*Trimmer, error) {
	if cfg.Every <= 0 || cfg.KeepAge < 0 || cfg.MaxBytes < 0 || deps.Log == nil || deps.Metrics == nil || deps.Now == nil {
		return nil, errors.New("trim: Every, Log, Metrics and Now are needed, and neither Keep nor MaxBytes may be negative")
	}
	t := &Trimmer{
		cfg: cfg, deps: deps, wake: make(chan struct{}, 1),
		trimmed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_log_trimmed_records_total", Help: "Records deleted from the log because every consumer group had " +
				"committed them, by topic."}, []string{"topic"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_log_trim_failures_total", Help: "Attempts to trim the log that failed."}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_log_trim_last_timestamp_seconds", Help: "When this node last trimmed the log; 0 on the nodes that " +
				"do not trim it."}),
	}
	for _, c := range []prometheus.Collector{t.trimmed, t.failures, t.last} {
		if err := deps.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the log: %w", err)
		}
	}
	return t, deps.Stream.Validate()
}

// SetOwner says whether this node is the one that deletes. It looks at once when it becomes so.
func (t *Trimmer) SetOwner(owner bool) {
	if !t.owner.Swap(owner) && owner {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Run looks every TrimConfig.Every while this node is the owner, until ctx ends. A look that fails is told of and
// made again.
func (t *Trimmer) Run(ctx context.Context) error {
	reader, err := NewReader(t.deps.Stream, "trim")
	if err != nil {
		return err
	}
	defer reader.Close()
	tick := time.NewTicker(t.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-t.wake:
		}
		if !t.owner.Load() {
			continue
		}
		if err := t.trimOnce(ctx, reader); err != nil && ctx.Err() == nil {
			t.failures.Inc()
			t.deps.Log.LogAttrs(ctx, slog.LevelWarn, "trim the log", slog.Any("error", err))
		}
	}
}

// look trims once.
func (t *Trimmer) trimOnce(ctx context.Context, r *Reader) error {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	topics := ReadTopics()
	done, err := r.committedByAll(ctx)
	if err != nil {
		return err
	}
	starts, err := r.Starts(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := r.Ends(ctx, topics...)
	if err != nil {
		return err
	}
	var sizes map[Partition]int64
	if t.cfg.MaxBytes > 0 {
		if sizes, err = r.sizes(ctx); err != nil {
			return err
		}
	}
	young := make(map[Partition]int64)
	for _, topic := range topics {
		at, err := r.OffsetsForTime(ctx, topic, t.deps.Now().Add(-t.keepAge(topic)))
		if err != nil {
			return err
		}
		for p, offset := range at {
			young[p] = offset
		}
	}
	before := t.trimOffsets(done, starts, ends, young, sizes)
	if len(before) > 0 {
		if err := r.trim(ctx, before); err != nil {
			return err
		}
	}
	t.last.Set(float64(t.deps.Now().Unix()))
	for p, at := range before {
		t.trimmed.WithLabelValues(p.Topic).Add(float64(at - starts[p]))
	}
	return nil
}

// cut decides from where on each partition is kept; partitions that stay as they are are left out. done is below
// what everything was done by all groups, young the first offset that is young enough to be kept anyway.
func (t *Trimmer) trimOffsets(done, starts, ends, young, sizes map[Partition]int64) map[Partition]int64 {
	before := make(map[Partition]int64)
	kept := 0.0 // bytes beyond the cuts so far
	bytesOf := func(p Partition, records int64) float64 {
		return float64(sizes[p]) * float64(records) / float64(max(ends[p]-starts[p], 1))
	}
	for p, end := range ends {
		at, ok := done[p]
		if !ok || at > end { // somebody has not read it yet, or another log of the same name
			at = starts[p]
		}
		if y := young[p]; y != offsetNotFound {
			at = min(at, y)
		}
		at = min(at, end-topicByName(p.Topic).KeepRecords)
		before[p] = max(min(at, end-1), starts[p]) // the embedded engine knows where a log ends by its last record
		kept += bytesOf(p, end-before[p])
	}
	share := float64(t.cfg.MaxBytes) / max(kept, 1)
	for p, at := range before {
		if d, ok := done[p]; ok && d <= ends[p] && t.cfg.MaxBytes > 0 && share < 1 {
			at = min(d, ends[p]-max(int64(float64(ends[p]-at)*share), 1))
		}
		if before[p] = at; at <= starts[p] {
			delete(before, p)
		}
	}
	return before
}

// committedByAll returns, for each partition, the offset below which all groups that read it have done everything.
// Partitions of which one of them has committed nothing are left out.
func (r *Reader) committedByAll(ctx context.Context) (map[Partition]int64, error) {
	least, said, asked := make(map[Partition]int64), make(map[Partition]int), make(map[string]int)
	for _, group := range Groups() {
		topics := ReadBy(group)
		for _, topic := range topics {
			asked[topic]++
		}
		committed, err := r.Committed(ctx, group, topics...)
		if err != nil {
			return nil, err
		}
		for p, at := range committed {
			if said[p] == 0 || at < least[p] {
				least[p] = at
			}
			said[p]++
		}
	}
	for p := range least {
		if said[p] < asked[p.Topic] {
			delete(least, p)
		}
	}
	return least, nil
}

// keep is how long a topic keeps what was done.
func (t *Trimmer) keepAge(topic string) time.Duration {
	if most := topicByName(topic).KeepAge; most > 0 {
		return min(most, t.cfg.KeepAge)
	}
	return t.cfg.KeepAge
}
