package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Shares of a limit of time, of the age of the oldest record that a group has not done.
const (
	warnShare   = 0.5 // somebody should look at it
	refuseShare = 0.9 // what comes now would not be done in time either: it is not taken
)

// Unread is a partition of which a group has left so much undone that it will be lost by its age.
type ExpiringBacklog struct {
	Partition
	Group     string        // without the prefix
	LostAfter time.Duration // after which it is lost
	AgeShare  float64       // of it that has passed at least: 0.5 or 0.9
}

// Refused reports whether events are refused for it.
func (u ExpiringBacklog) RefusesEvents() bool {
	return u.AgeShare >= refuseShare && topicByName(u.Topic).Guarded
}

func (u ExpiringBacklog) String() string {
	return fmt.Sprintf("group %s has not done records of %s[%d] for more than %.0f %% of the %v after which they are lost",
		u.Group, u.Topic, u.Index, u.AgeShare*100, u.LostAfter)
}

// Unread looks at all groups. retention is how long events are kept: what a group has not done by then is too old to
// be delivered or shown. A limit of the brokers, which no topic should have, counts as well when it is shorter. records
// is how many there are of each group from the oldest on that it has not done, however old, of all partitions together.
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
	at := make(map[topicTime]map[Partition]int64)
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
					old, err := r.offsetsOlderThan(ctx, at, topic, now.Add(-time.Duration(share*float64(limits[topic]))))
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

// place is a time in a topic.
type topicTime struct {
	topic string
	at    time.Time
}

// offsetsOlderThan returns the offsets below which the records of a topic are older than a time; it is asked for once.
func (r *Reader) offsetsOlderThan(ctx context.Context, known map[topicTime]map[Partition]int64, topic string, at time.Time) (
	map[Partition]int64, error) {
	where := topicTime{topic, at}
	if known[where] == nil {
		offsets, err := r.OffsetsForTime(ctx, topic, at)
		if err != nil {
			return nil, err
		}
		known[where] = offsets
	}
	return known[where], nil
}

// limits is after how long records of the topics are lost: at most retention.
func (r *Reader) lostAfter(ctx context.Context, retention time.Duration, topics ...string) (
	map[string]time.Duration, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = r.cfg.Prefix + t
	}
	settings, err := describeConfigs(ctx, r.adm, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]time.Duration, len(topics))
	for _, name := range names {
		topic := strings.TrimPrefix(name, r.cfg.Prefix)
		out[topic] = retention
		if ms, err := strconv.ParseInt(settings[name][retentionMS], 10, 64); err == nil && ms >= 0 &&
			time.Duration(ms) < retention/time.Millisecond {
			out[topic] = time.Duration(ms) * time.Millisecond
		}
	}
	return out, nil
}

// RetentionGuardDeps are what a Guard needs.
type RetentionGuardDeps struct {
	Log       *slog.Logger
	Stream    Config
	Metrics   prometheus.Registerer
	Now       func() time.Time
	Retention time.Duration // how long events are kept
}

// guardInterval is the time from one look to the next.
const guardInterval = time.Minute

// Guard looks whether groups do what they read before it is lost by its age, and refuses new events when one does not.
type RetentionGuard struct {
	deps    RetentionGuardDeps
	refusal atomic.Pointer[expiringError]
	share   *prometheus.GaugeVec // by group
	records *prometheus.GaugeVec // by group
}

// expiringError says why events are refused. To whoever accepts them it is as a buffer that is full.
type expiringError struct{ backlog ExpiringBacklog }

func (e *expiringError) Error() string        { return "events are refused: " + e.backlog.String() }
func (e *expiringError) Is(target error) bool { return target == ErrBufferFull }

// NewRetentionGuard prepares; it connects to nothing.
func NewRetentionGuard(deps RetentionGuardDeps) (*RetentionGuard, error) {
	if deps.Log == nil || deps.Metrics == nil || deps.Now == nil || deps.Retention <= 0 {
		return nil, errors.New("guard of the log: a dependency is missing")
	}
	g := &RetentionGuard{
		deps: deps,
		share: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relay_log_unread_limit_share",
			Help: "Age of a group's oldest unread record as a share of retention: 0, 0.5 or 0.9 (steps). At 0.9 events are " +
				"refused.",
		}, []string{"group"}),
		records: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "relay_log_unread_records",
			Help: "Records from a group's oldest unread one on, which cannot be trimmed; at most a minute old.",
		}, []string{"group"}),
	}
	for _, c := range []prometheus.Collector{g.share, g.records} {
		if err := deps.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the log: %w", err)
		}
	}
	return g, deps.Stream.Validate()
}

// Refuse is the reason why events must not be accepted now, an ErrBufferFull; nil: they may.
func (g *RetentionGuard) Refusal() error {
	if err := g.refusal.Load(); err != nil {
		return err
	}
	return nil
}

// Run looks every minute until ctx ends. While the log cannot be asked the last answer stands.
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
			g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "look for what is not read in time", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look decides anew.
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
		g.deps.Log.LogAttrs(ctx, level, "records are not done in time", slog.String("group", group),
			slog.String("topic", u.Topic),
			slog.Int("partition", int(u.Index)), slog.Duration("lost_after", u.LostAfter), slog.Float64("share", u.AgeShare))
	}
	g.refusal.Store(refuse)
	return nil
}
