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
	limits, err := r.lostAfter(ctx, retention, topics...)
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

func (e *expiringError) Error() string        { return "new events are refused: " + e.backlog.String() }
func (e *expiringError) Is(target error) bool { return target == ErrBufferFull }

// NewRetentionGuard creates the guard; Run connects.
func NewRetentionGuard(deps RetentionGuardDeps) (*RetentionGuard, error) {
	if deps.Log == nil || deps.Metrics == nil || deps.Now == nil || deps.Retention <= 0 {
		return nil, errors.New("retention guard: Log, Metrics, Now and a positive Retention are required")
	}
	g := &RetentionGuard{
		deps: deps,
		share: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relay_log_unread_age_ratio",
			Help: "Age of a group's oldest uncommitted record divided by retention, in steps: 0, 0.5 or 0.9. At 0.9 new " +
				"events are refused.",
		}, []string{"group"}),
		records: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relay_log_unread_records",
			Help: "Records above the offsets that a group has committed, which cannot be trimmed; updated every minute.",
		}, []string{"group"}),
	}
	for _, c := range []prometheus.Collector{g.share, g.records} {
		if err := deps.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the log: %w", err)
		}
	}
	return g, deps.Stream.Validate()
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
