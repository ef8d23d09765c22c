// Package ledger counts what became of everything that was accepted, from the log alone, so that lost work
// is found and not assumed away.
//
// In flow the topics events, commands, outcomes and dead, the retry topics, and what the dispatchers have
// committed; out flow counts. Per event and destination (an event that asks for no delivery counts once):
//
//	accepted = delivered + failed + skipped + rejected + dead + in flight + residue
//
// The newest word of a delivery decides, by the same versions as in the store (event.Version). What has no
// last word must be in flight: a record that asks for it stands undone in events, commands or a retry
// topic. Each chain of a delivery, the automatic one and every replay, is held to that. What is neither ended
// nor undone is residue: lost, and named. Residue is 0 at every moment, not only when it is quiet; why no
// moment is the wrong one to look is said at cut.
//
// Nothing is written and nothing is trusted but the log: no memory of a dispatcher, no table.
//
// Audit counts a span once, exactly. A Ledger follows the partitions that its node dispatches: each look reads
// what came since the one before, what has ended is forgotten but for its counts, what has not is followed
// until it does. A delivery that waits for a time which its last word named is believed until then; the retry
// topics are only searched for what is overdue. It reads slowly, and takes samples of traffic that is faster.
//
// # Invariants
//
//  1. Nothing is called lost that is not, while work moves, dispatchers die, offsets are rewound, records stand
//     in the log twice, clocks are apart (TestAuditOfRandomHistories, TestFollowRandomHistories,
//     TestFollowBySamples, TestClocksAreApart).
//  2. What is lost is found and named (TestLostWorkIsNamed, TestFollowFindsLostWork, TestRunOnEngines).
//  3. The counts are sets, not sums: a redo changes none but Duplicates (TestAuditOfRandomHistories).
//  4. What the log no longer tells of is not counted (TestTrimmedLog).
//  5. Memory and reading are bounded (TestBookIsCompact, TestFollowBySamples).
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Ledger follows the partitions of one node and shows their counts as metrics.
type Ledger struct {
	cfg     Config
	log     *slog.Logger
	stream  stream.Config
	now     func() time.Time
	metrics *metrics

	mu         sync.Mutex // guards partitions
	partitions []int32
}

// New validates and prepares; it connects to nothing.
func New(cfg Config, deps Deps) (*Ledger, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	l := &Ledger{cfg: cfg, log: deps.Log, stream: deps.Stream, now: deps.Now}
	var err error
	l.metrics, err = newMetrics(deps.Metrics)
	return l, err
}

// SetPartitions says which partitions of events this node dispatches: those it follows.
func (l *Ledger) SetPartitions(partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partitions = slices.Clone(partitions)
}

// Run looks at the log every Config.Every until ctx ends. A look that fails is told of and made again: whether
// deliveries can be counted does not decide whether they are made.
func (l *Ledger) Run(ctx context.Context) error {
	reader, err := stream.NewReader(l.stream, "ledger")
	if err != nil {
		return err
	}
	defer reader.Close()
	f := &followers{cfg: l.cfg, log: reader, now: l.now, all: make(map[int32]*follower), found: l.tell}
	timer := time.NewTimer(l.cfg.Every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(l.look(ctx, f))
	}
}

// look runs the followers once and returns how long to wait for the next time.
func (l *Ledger) look(ctx context.Context, f *followers) time.Duration {
	l.mu.Lock()
	partitions := l.partitions
	l.mu.Unlock()
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, 3*l.cfg.Every+time.Minute) // longer than it takes at its pace
	defer cancel()
	passed := f.passed
	found, err := f.run(limited, partitions)
	l.metrics.passed.Add(float64(f.passed - passed))
	l.metrics.records.Add(float64(found.records))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.metrics.failures.Inc()
		l.log.LogAttrs(ctx, slog.LevelWarn, "look at the log for the ledger", slog.Any("error", err))
	case found.soon > 0:
		return found.soon
	default:
		l.metrics.show(found.Counts, found.unproven, l.now(), time.Since(began))
	}
	return max(l.cfg.Every-time.Since(began), time.Second)
}

// tell is called once for each delivery that is lost.
func (l *Ledger) tell(lost Lost) {
	l.log.LogAttrs(context.Background(), slog.LevelError, "delivery is lost", slog.String("delivery", lost.String()))
}
