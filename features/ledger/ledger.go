// Package ledger reconciles everything that was accepted with what became of it, from the log alone, so that lost
// deliveries are found and named.
//
// It reads the topics events, commands, outcomes and dead, the retry topics, and the dispatchers' committed offsets.
// Per event and destination (an event without a delivery counts once) it computes
//
//	accepted = delivered + failed + skipped + rejected + dead + in flight + lost
//
// The latest outcome of a delivery decides, by the versions that the store uses too (event.Version). A delivery has
// one chain of attempts for the automatic delivery and one for each replay. A chain without a final outcome must be
// in flight: a record that continues it (its work) is uncommitted in events, commands or a retry topic. A chain with
// neither is lost, and so is its delivery. The number of lost ones must be 0 at every
// moment, also under load; the comment of cut
// proves why.
//
// Nothing is written, and no memory of a dispatcher and no table is trusted. Audit counts a span once and exactly. A
// Ledger follows the partitions that its node dispatches: each run reads the new records, keeps only the counts of
// what has ended, and follows the others. A delivery that waits until a known time counts as in flight until then
// without proof; the retry topics are read only for overdue ones. Reading is throttled; of faster traffic a part is
// skipped.
//
// Begin reading at cut (read.go), book.go (what is remembered) and reconcile.go (what counts as what).
//
// # Invariants
//
//  1. Nothing is called lost that is not, while work moves, dispatchers die, offsets are rewound, records are in the
//     log twice, or clocks differ (TestAuditOfRandomHistories, TestFollowRandomHistories,
//     TestFollowSamplesFastTraffic, TestClockSkewHidesNothing).
//  2. What is lost is found and named (TestLostWorkIsNamed, TestFollowFindsLostWork, TestRunShowsCountsOnEngines).
//  3. The counts are of sets: a repeated record changes only Duplicates (TestAuditOfRandomHistories).
//  4. Events whose outcomes were trimmed from the log are not counted (TestTrimmedEventsAreNotCounted).
//  5. Memory and reading are bounded (TestBookIsCompact, TestFollowSamplesFastTraffic).
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/stream"
)

// Ledger follows the partitions of one node and exports their counts as metrics.
type Ledger struct {
	Deps
	cfg     Config
	metrics *metrics
}

// New validates its arguments. It connects to nothing.
func New(cfg Config, deps Deps) (*Ledger, error) {
	err := errors.Join(cfg.Validate(), require.Set("ledger", deps, "Stream"), deps.Stream.Validate())
	if err != nil {
		return nil, err
	}
	return &Ledger{deps, cfg, newMetrics(deps.Metrics)}, nil
}

// Run reconciles the log every Config.Every until ctx ends. A run that fails is logged, counted and repeated:
// deliveries do not depend on the ledger.
func (l *Ledger) Run(ctx context.Context) error {
	reader, err := stream.NewReader(l.Stream, "ledger")
	if err != nil {
		return err
	}
	defer reader.Close()
	f := &followers{cfg: l.cfg, log: reader, now: l.Now, all: make(map[int32]*follower), onLost: l.logLost}
	timer := time.NewTimer(l.cfg.Every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(l.runOnce(ctx, f))
	}
}

// runOnce runs the followers once and returns the pause before the next run.
func (l *Ledger) runOnce(ctx context.Context, f *followers) time.Duration {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, 3*l.cfg.Every+time.Minute) // longer than a throttled run takes
	defer cancel()
	unaudited := f.unaudited
	found, err := f.run(limited, l.Owned())
	l.metrics.unaudited.Add(float64(f.unaudited - unaudited))
	l.metrics.records.Add(float64(found.records))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.metrics.failures.Inc()
		l.Log.LogAttrs(ctx, slog.LevelWarn, "cannot reconcile the log", slog.Any("error", err))
	case found.retryAfter > 0:
		return found.retryAfter
	default:
		l.metrics.show(found.Counts, found.unproven, l.Now(), time.Since(began))
	}
	return max(l.cfg.Every-time.Since(began), time.Second)
}

// logLost is called once for each lost delivery.
func (l *Ledger) logLost(lost Lost) {
	l.Log.LogAttrs(context.Background(), slog.LevelError, "delivery is lost", slog.String("delivery", lost.String()))
}

// Config sets how closely a node follows the log.
type Config struct {
	// Every is the time from the start of one run to the start of the next.
	Every time.Duration
	// Window is for how long after their event was accepted ended deliveries count in the metrics, and how far back a node
	// begins. Deliveries that have not ended are followed until they do.
	Window time.Duration
	// PerSecond bounds the records that are read per second. Of faster traffic a part is skipped
	// (relay_ledger_unaudited_total).
	PerSecond int
	// MaxOpen bounds the events and deliveries that have not ended, about 100 bytes each. Beyond it the oldest are no
	// longer followed.
	MaxOpen int
	// MaxSearch bounds the records of retry topics that one run reads. If more are waiting, overdue deliveries count as
	// in flight without proof (relay_ledger_unproven).
	MaxSearch int
}

// DefaultConfig follows every delivery of up to 1,000 per second and takes at most 0.6 % of a core: a record takes
// about 2.8 µs of CPU, with the embedded log's share (BenchmarkAudit).
func DefaultConfig() Config {
	return Config{Every: time.Minute, Window: 15 * time.Minute, PerSecond: 2000, MaxOpen: 200_000, MaxSearch: 50_000}
}

// Validate reports all invalid fields at once.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		ok   bool
		text string
	}{
		{c.Every >= time.Second, "ledger: Every must be a second or more"},
		{c.Window >= c.Every, "ledger: Window must not be shorter than Every"},
		{c.PerSecond > 0 && c.MaxOpen > 0 && c.MaxSearch > 0, "ledger: PerSecond, MaxOpen and MaxSearch must be positive"},
	} {
		if !f.ok {
			errs = append(errs, errors.New(f.text))
		}
	}
	return errors.Join(errs...)
}

// budget returns how many new records one run may read; the retry topics are bounded by MaxSearch.
func (c Config) budget() int { return int(float64(c.PerSecond) * c.Every.Seconds()) }

// Deps are the dependencies of a Ledger. All are required.
type Deps struct {
	Log     *slog.Logger
	Stream  stream.Config
	Metrics prometheus.Registerer
	Now     func() time.Time
	Owned   func() []int32 // the partitions of events that this node dispatches
}
