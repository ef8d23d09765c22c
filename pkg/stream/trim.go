package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/pkg/wait"
)

// How much of a topic trimming keeps below the offsets that its groups have committed. Reads of events that ClickHouse
// does not have yet, event streams, the ledger and alerts read these records. Each of them works with fewer too.
const (
	defaultKeepAge      = 15 * time.Minute
	tierKeepAge         = time.Minute
	outcomesKeepRecords = 10_000 // of a partition, of any age: a node that takes over alerts reads the last ones
)

// trimTimeout bounds one run of the Trimmer or of the RetentionGuard.
const trimTimeout = 30 * time.Second

// TrimConfig says when and how much the Trimmer deletes.
type TrimConfig struct {
	// Every is the time between two runs.
	Every time.Duration
	// KeepAge is the age up to which records are kept after all groups have committed them. Retry topics, which contain
	// bodies and which only the dispatcher reads, keep a minute at most.
	KeepAge time.Duration
	// MaxBytes bounds the committed records that are kept of all topics together, in bytes; 0 = no bound. It is for a
	// broker that reads the log when it starts. The bound holds on average: all records of a partition are assumed to be
	// of one size.
	MaxBytes int64
}

// DefaultTrimConfig returns the configuration for a cluster: every minute, records of 15 minutes.
func DefaultTrimConfig() TrimConfig { return TrimConfig{Every: time.Minute, KeepAge: defaultKeepAge} }

// TrimDeps are the dependencies of a Trimmer. All are required.
type TrimDeps struct {
	Log     *slog.Logger
	Stream  Config
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Trimmer deletes records that all groups that read them have committed, but keeps recent ones. It deletes
// nothing by age alone: a group that is down for long loses nothing. Several nodes may run one, and any may be killed
// at any moment: deleting up to the same offset twice has no effect.
//
// It leaves topics without readers alone: Kafka deletes their records by retention, and pkg/conflog deletes those of
// the configuration log after a snapshot.
type Trimmer struct {
	cfg   TrimConfig
	deps  TrimDeps
	owner atomic.Bool
	wake  chan struct{}

	trimmed  *prometheus.CounterVec // records by topic
	failures prometheus.Counter
	last     prometheus.Gauge
}

// NewTrimmer creates the trimmer; Run connects.
func NewTrimmer(cfg TrimConfig, deps TrimDeps) (*Trimmer, error) {
	if cfg.Every <= 0 || cfg.KeepAge < 0 || cfg.MaxBytes < 0 || deps.Log == nil || deps.Metrics == nil || deps.Now == nil {
		return nil, errors.New("trim: Every, Log, Metrics and Now are required, and KeepAge and MaxBytes must not be " +
			"negative")
	}
	return &Trimmer{
		cfg: cfg, deps: deps, wake: make(chan struct{}, 1),
		trimmed: metric.Counters[string](deps.Metrics, "relay_log_trimmed_records_total",
			"Records deleted from the log because every consumer group had committed them, by topic.", "topic"),
		failures: metric.Counter(deps.Metrics, "relay_log_trim_failures_total", "Attempts to trim the log that failed."),
		last: metric.Gauge(deps.Metrics, "relay_log_trim_last_timestamp_seconds",
			"When this node last trimmed the log; 0 on the nodes that do not trim it."),
	}, deps.Stream.Validate()
}

// SetOwner sets whether this node trims. A node that becomes the owner trims at once.
func (t *Trimmer) SetOwner(owner bool) {
	if !t.owner.Swap(owner) && owner {
		wait.Wake(t.wake)
	}
}

// Run trims every TrimConfig.Every while this node is the owner, until ctx ends. It logs and counts a failed run and
// goes on.
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
			t.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot trim the log", slog.Any("error", err))
		}
	}
}

// trimOnce trims all topics once.
func (t *Trimmer) trimOnce(ctx context.Context, r *Reader) error {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	topics := ReadTopics()
	committed, err := r.committedByAll(ctx)
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
		if sizes, err = r.Sizes(ctx); err != nil {
			return err
		}
	}
	firstYoung := make(map[Partition]int64)
	for _, topic := range topics {
		at, err := r.OffsetsForTime(ctx, topic, t.deps.Now().Add(-t.keepAge(topic)))
		if err != nil {
			return err
		}
		for p, offset := range at {
			firstYoung[p] = offset
		}
	}
	before := t.trimOffsets(committed, starts, ends, firstYoung, sizes)
	if len(before) > 0 {
		if err := r.TrimAll(ctx, before); err != nil {
			return err
		}
	}
	t.last.Set(float64(t.deps.Now().Unix()))
	for p, at := range before {
		t.trimmed.WithLabelValues(p.Topic).Add(float64(at - starts[p]))
	}
	return nil
}

// trimOffsets decides up to which offset each partition is deleted; it omits partitions without records to delete. All
// groups have committed the records below committed; firstYoung has the first record that is too young to be deleted,
// or the end if there is none.
func (t *Trimmer) trimOffsets(committed, starts, ends, firstYoung, sizes map[Partition]int64) map[Partition]int64 {
	before := make(map[Partition]int64)
	kept := 0.0 // bytes above the offsets in before
	bytesOf := func(p Partition, records int64) float64 {
		return float64(sizes[p]) * float64(records) / float64(max(ends[p]-starts[p], 1))
	}
	for p, end := range ends {
		at, ok := committed[p]
		if !ok || at > end { // a group has no commit, or one for a deleted topic of the same name
			at = starts[p]
		}
		at = min(at, firstYoung[p], end-topicByName(p.Topic).KeepRecords)
		before[p] = max(min(at, end-1), starts[p])
		kept += bytesOf(p, end-before[p])
	}
	share := float64(t.cfg.MaxBytes) / max(kept, 1)
	for p, at := range before {
		if c, ok := committed[p]; ok && c <= ends[p] && t.cfg.MaxBytes > 0 && share < 1 {
			at = min(c, ends[p]-max(int64(float64(ends[p]-at)*share), 1))
		}
		if before[p] = at; at <= starts[p] {
			delete(before, p)
		}
	}
	return before
}

// committedByAll returns, for each partition, the lowest offset that the groups that read it have committed. It omits
// partitions for which one of them has no commit.
func (r *Reader) committedByAll(ctx context.Context) (map[Partition]int64, error) {
	lowest, commits, readers := make(map[Partition]int64), make(map[Partition]int), make(map[string]int)
	for _, group := range Groups() {
		topics := ReadBy(group)
		for _, topic := range topics {
			readers[topic]++
		}
		committed, err := r.Committed(ctx, group, topics...)
		if err != nil {
			return nil, err
		}
		for p, at := range committed {
			if commits[p] == 0 || at < lowest[p] {
				lowest[p] = at
			}
			commits[p]++
		}
	}
	for p := range lowest {
		if commits[p] < readers[p.Topic] {
			delete(lowest, p)
		}
	}
	return lowest, nil
}

// keepAge returns the age up to which committed records of a topic are kept.
func (t *Trimmer) keepAge(topic string) time.Duration {
	if most := topicByName(topic).KeepAge; most > 0 {
		return min(most, t.cfg.KeepAge)
	}
	return t.cfg.KeepAge
}

// Trim deletes the records of a partition before an offset. Callers cannot rely on the records being gone: brokers
// delete whole segments.
func (r *Reader) Trim(ctx context.Context, p Partition, before int64) error {
	return r.TrimAll(ctx, map[Partition]int64{p: before})
}

// Age of a group's oldest unprocessed record as a share of retention.
const (
	warnShare   = 0.5 // logged as a warning
	refuseShare = 0.9 // new events would expire too: they are refused
)

// ExpiringBacklog is a partition in which a group is so far behind that unprocessed records will soon be older than
// retention, and so are lost.
type ExpiringBacklog struct {
	Partition
	Group     string        // without the prefix
	LostAfter time.Duration // age at which records are lost
	AgeShare  float64       // of LostAfter that the oldest record has reached: 0.5 or 0.9
}

// RefusesEvents reports whether new events are refused because of it.
func (u ExpiringBacklog) RefusesEvents() bool {
	return u.AgeShare >= refuseShare && topicByName(u.Topic).Guarded
}

func (u ExpiringBacklog) String() string {
	return fmt.Sprintf("group %s has not processed records of %s[%d] that are older than %.0f %% of the %v after which "+
		"they are lost",
		u.Group, u.Topic, u.Index, u.AgeShare*100, u.LostAfter)
}

// ExpiringBacklogs compares the backlogs of all groups with retention, which is how long events are kept. What a group
// has not processed by then is lost: it is too old to be delivered or shown. Where retention.ms of a topic is shorter,
// which it should not be, that counts instead. records is the number of records above the committed offset, of any age,
// by group.
func (r *Reader) ExpiringBacklogs(ctx context.Context, now time.Time, retention time.Duration) (
	all []ExpiringBacklog, records map[string]int64, err error) {
	topics := ReadTopics()
	ends, err := r.Ends(ctx, topics...)
	if err != nil {
		return nil, nil, err
	}
	starts, err := r.Starts(ctx, topics...)
	if err != nil {
		return nil, nil, err
	}
	limits, err := r.LostAfter(ctx, retention, topics...)
	if err != nil {
		return nil, nil, err
	}
	records = make(map[string]int64)
	offsetsBefore := make(map[topicTime]map[Partition]int64)
	for _, group := range Groups() {
		committed, err := r.Committed(ctx, group, ReadBy(group)...)
		if err != nil {
			return nil, nil, err
		}
		for _, topic := range ReadBy(group) {
			for p, end := range ends {
				next := max(committed[p], starts[p])
				if p.Topic != topic || next >= end {
					continue
				}
				records[group] += end - next
				for _, share := range []float64{refuseShare, warnShare} {
					old, err := r.offsetsOlderThan(ctx, offsetsBefore, topic, now.Add(-time.Duration(share*float64(limits[topic]))))
					if err != nil {
						return nil, nil, err
					}
					if next < old[p] {
						all = append(all, ExpiringBacklog{p, group, limits[topic], share})
						break
					}
				}
			}
		}
	}
	return all, records, nil
}

// topicTime is a topic and a time.
type topicTime struct {
	topic string
	at    time.Time
}

// offsetsOlderThan returns the offsets below which the records of a topic are older than a time. It caches them in
// known.
func (r *Reader) offsetsOlderThan(
	ctx context.Context, known map[topicTime]map[Partition]int64, topic string, at time.Time) (
	map[Partition]int64, error) {
	key := topicTime{topic, at}
	if known[key] == nil {
		offsets, err := r.OffsetsForTime(ctx, topic, at)
		if err != nil {
			return nil, err
		}
		known[key] = offsets
	}
	return known[key], nil
}

// RetentionGuardDeps are the dependencies of a RetentionGuard. All are required.
type RetentionGuardDeps struct {
	Log       *slog.Logger
	Stream    Config
	Metrics   prometheus.Registerer
	Now       func() time.Time
	Retention time.Duration // how long events are kept
}

// guardInterval is the time between two checks.
const guardInterval = time.Minute

// RetentionGuard checks every minute whether the groups process records before these are older than retention, and
// refuses new events while a group has reached 90 % of it.
type RetentionGuard struct {
	deps    RetentionGuardDeps
	refusal atomic.Pointer[expiringError]
	share   *prometheus.GaugeVec // by group
	records *prometheus.GaugeVec // by group
}

// expiringError says why events are refused. It is an ErrBufferFull: ingest answers it like a full producer buffer.
type expiringError struct{ backlog ExpiringBacklog }

func (e *expiringError) Error() string { return "new events are refused: " + e.backlog.String() }
func (e *expiringError) Unwrap() error { return ErrBufferFull }

// NewRetentionGuard creates the guard; Run connects.
func NewRetentionGuard(deps RetentionGuardDeps) (*RetentionGuard, error) {
	if deps.Log == nil || deps.Metrics == nil || deps.Now == nil || deps.Retention <= 0 {
		return nil, errors.New("retention guard: Log, Metrics, Now and a positive Retention are required")
	}
	return &RetentionGuard{
		deps: deps,
		share: gauges(deps.Metrics, "relay_log_unread_age_ratio", "Age of a group's oldest uncommitted record divided by "+
			"retention, in steps: 0, 0.5 or 0.9. At 0.9 new events are refused."),
		records: gauges(deps.Metrics, "relay_log_unread_records",
			"Records above the offsets that a group has committed, which cannot be trimmed; updated every minute."),
	}, deps.Stream.Validate()
}

// gauges returns a gauge for each group.
func gauges(r prometheus.Registerer, name, help string) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"group"})
}

// Refusal returns why new events must be refused now, as an ErrBufferFull; nil: accept them.
func (g *RetentionGuard) Refusal() error {
	if err := g.refusal.Load(); err != nil {
		return err
	}
	return nil
}

// Run checks every minute until ctx ends. While it cannot read the log, the last result holds.
func (g *RetentionGuard) Run(ctx context.Context) error {
	reader, err := NewReader(g.deps.Stream, "guard")
	if err != nil {
		return err
	}
	defer reader.Close()
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	for {
		if err := g.check(ctx, reader); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot check how far consumer groups are behind",
				slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check updates the metrics and whether events are refused.
func (g *RetentionGuard) check(ctx context.Context, r *Reader) error {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	all, records, err := r.ExpiringBacklogs(ctx, g.deps.Now(), g.deps.Retention)
	if err != nil {
		return err
	}
	worst := make(map[string]ExpiringBacklog)
	var refuse *expiringError
	for _, u := range all {
		if u.AgeShare > worst[u.Group].AgeShare {
			worst[u.Group] = u
		}
		if u.RefusesEvents() {
			refuse = &expiringError{u}
		}
	}
	for _, group := range Groups() {
		u := worst[group]
		g.share.WithLabelValues(group).Set(u.AgeShare)
		g.records.WithLabelValues(group).Set(float64(records[group]))
		if u.AgeShare == 0 {
			continue
		}
		level := slog.LevelWarn
		if u.AgeShare >= refuseShare {
			level = slog.LevelError
		}
		g.deps.Log.LogAttrs(ctx, level, "records will be lost by retention: consumer group is too far behind",
			slog.String("group", group),
			slog.String("topic", u.Topic),
			slog.Int("partition", int(u.Index)), slog.Duration("lost_after", u.LostAfter), slog.Float64("share", u.AgeShare))
	}
	g.refusal.Store(refuse)
	return nil
}
