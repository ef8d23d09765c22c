// Package triage decides what hits change in their findings: a first hit opens one, a late hit opens a resolved one
// again. It reads the topic findings as the consumer group findings, on nodes with the role dispatch.
//
// A finding is an entity of the configuration log, and each decision is a conditional record. So a hit that is read
// twice changes nothing, and of two nodes that own a partition for a moment one decides. The message to people is part
// of the same record (config.DecideFinding): both are written or neither. Offsets are committed after the decisions of
// their records.
//
// The triage also opens ignored findings whose time has passed, and once a day forgets findings without hits for 400
// days. Hits are counted by the store, not here.
//
// Begin reading at Run and next.
//
// # Invariants
//
//  1. The first hit of a finding opens it with one message, whichever and however many nodes read it
//     (TestTwoOwnersSendOneMessage, TestHitsThatAreReadTwiceChangeNothing).
//  2. A verified hit more than an hour after the resolution opens the finding again, with one message
//     (TestResolvedFindingsReopen).
//  3. A hit whose finding cannot be opened because of a bound is counted (TestRefusedFindingsStopNothing).
//  4. Memory is bounded by one poll.
//
// Backpressure: while the configuration log takes no record, the triage waits at the first decision that it has to
// write.
package triage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Config configures the triage.
type Config struct {
	InstanceID string // static membership; empty = dynamic, which the embedded engine needs
	Partitions int32  // of the topic findings
}

// Configuration is what the triage needs of the configuration log.
type Configuration interface {
	Finding(id string) (*leak.Finding, entity.Presence)
	FindingIDs(filter leak.FindingFilter) []string
	DecideFinding(ctx context.Context, id string,
		decide func(old *leak.Finding) (next *leak.Finding, announce config.Announcer)) (
		before, after *leak.Finding, err error)
	// KeyByFingerprint returns the API key with that fingerprint; nil if there is none.
	KeyByFingerprint(fingerprint string) *config.Key
	KeyWorks(k *config.Key) bool
	// RecordTrip records that a secret of a tripwire was used or seen.
	RecordTrip(ctx context.Context, tripwire string, at time.Time) error
	FindingsBefore(t time.Time) []*leak.Finding
	ForgetFinding(ctx context.Context, f *leak.Finding) error
}

// Store knows when findings were hit.
type Store interface {
	// LastHits returns when each of these findings was hit last, including hits that were acknowledged before the call. A
	// finding without hits is missing.
	LastHits(ctx context.Context, ids []string) (map[string]time.Time, error)
	// DeleteFindings removes the rows of these findings, of which their hits are gone.
	DeleteFindings(ctx context.Context, ids []string) error
}

// Notifier builds the messages to people.
type Notifier interface {
	Announce(t finding.Transition) config.Announcer
}

// Deps are the dependencies of the triage. All are required.
type Deps struct {
	Log      *slog.Logger
	Stream   stream.Config
	Config   Configuration
	Store    Store
	Notifier Notifier
	Now      func() time.Time
	Metrics  prometheus.Registerer
}

// Triage decides the hits of this node's partitions.
type Triage struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	group   *stream.Group // set by Run before it polls

	// announcing has room for the one decision that is being written with a message: messages share alerts, and would
	// conflict.
	announcing chan struct{}

	mu    sync.Mutex                // guards owned and lost
	owned map[int32]bool            // partitions of this node
	lost  map[stream.Partition]bool // since the last commit: their offsets must not be committed

	commit map[stream.Partition]stream.Commit // owned by the goroutine of Run

	tickedAt, forgotAt, committedAt time.Time // owned by the goroutine of Run
}

// New validates its arguments. It starts nothing.
func New(cfg Config, deps Deps) (*Triage, error) {
	if err := errors.Join(require.Set("triage of findings", deps, "Stream"), deps.Stream.Validate()); err != nil {
		return nil, err
	}
	if cfg.Partitions < 1 {
		return nil, errors.New("triage of findings: the number of partitions is needed")
	}
	return &Triage{cfg: cfg, deps: deps, log: deps.Log, metrics: newMetrics(deps.Metrics), owned: map[int32]bool{},
		lost: map[stream.Partition]bool{}, commit: map[stream.Partition]stream.Commit{},
		announcing: make(chan struct{}, 1)}, nil
}

const (
	maxPoll  = 2000
	maxFetch = 1 << 20 // of one partition
	maxBytes = 4 << 20 // of all partitions
	// tickEvery is how often offsets are committed; reopenEvery how often ignored findings are checked.
	tickEvery   = time.Second
	reopenEvery = 10 * time.Second
	// retryEvery is the pause after a write to the configuration log failed.
	retryEvery = time.Second
	// conflictPause is the pause after other nodes were first with their messages several times in a row.
	conflictPause = 50 * time.Millisecond
	// maxDecisions is how many findings are decided at the same time: the log acknowledges several records as fast as one.
	maxDecisions = 16
)

// DroppedHits returns how many hits have no finding since the start, because a bound of the configuration was reached.
func (d *Triage) DroppedHits() int64 { return d.metrics.dropped.Load() }

// Run decides hits until ctx ends.
func (d *Triage) Run(ctx context.Context) error {
	var err error
	d.group, err = stream.NewGroup(d.deps.Stream, stream.GroupConfig{
		Name: stream.FindingsGroup, Topics: stream.ReadBy(stream.FindingsGroup), InstanceID: d.cfg.InstanceID,
		MaxPoll: maxPoll, MaxPartitionBytes: maxFetch, MaxBytes: maxBytes, Assigned: d.onAssigned,
		Revoked: func(_ context.Context, ps []stream.Partition) { d.onLost(ps) }, Lost: d.onLost,
	})
	if err != nil {
		return err
	}
	defer d.group.Close()
	for {
		if err := d.poll(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("triage of findings: %w", err)
		}
	}
}

// poll reads records once, decides them, and does what is due.
func (d *Triage) poll(ctx context.Context) error {
	batches, err := d.group.PollFor(ctx, tickEvery)
	if err != nil {
		return err
	}
	if err := d.decideBatches(ctx, batches); err != nil {
		return err
	}
	return d.tick(ctx)
}

// tick commits offsets, opens findings that are no longer ignored, and forgets old ones, each when it is due.
func (d *Triage) tick(ctx context.Context) error {
	now := d.now()
	d.commitOffsets(ctx, now)
	if now.Sub(d.tickedAt) >= reopenEvery || now.Before(d.tickedAt) {
		d.tickedAt = now
		if err := d.reopenIgnored(ctx, now); err != nil {
			return err
		}
	}
	return d.forgetOld(ctx, now)
}

func (d *Triage) onAssigned(commits map[stream.Partition]stream.Commit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range commits {
		d.owned[p.Index] = true
	}
}

func (d *Triage) onLost(ps []stream.Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range ps {
		delete(d.owned, p.Index)
		d.lost[p] = true
	}
}

// owns reports whether this node decides a finding.
func (d *Triage) owns(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owned[finding.PartitionOf(id, d.cfg.Partitions)]
}

// commitOffsets sends the offsets of decided records to the group coordinator, once a second. If it fails, the next
// call includes them; hits that are read twice change nothing.
func (d *Triage) commitOffsets(ctx context.Context, now time.Time) {
	if since := now.Sub(d.committedAt); since >= 0 && since < tickEvery {
		return
	}
	d.committedAt = now
	// Holding mu delays onLost, so offsets of lost partitions are never committed.
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.lost {
		delete(d.commit, p)
	}
	clear(d.lost)
	if err := d.group.CommitAll(ctx, d.commit); err != nil && ctx.Err() == nil {
		d.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets of the consumer group findings", slog.Any("error", err))
	}
}

// decideBatches decides the hits of records. It returns when all decisions are durable.
func (d *Triage) decideBatches(ctx context.Context, batches []stream.Batch) error {
	byFinding := map[string][]*finding.Hit{}
	var order []string
	for _, b := range batches {
		for _, r := range b.Records {
			h := d.decode(ctx, r)
			if h == nil {
				continue
			}
			if byFinding[h.Finding] == nil {
				order = append(order, h.Finding)
			}
			byFinding[h.Finding] = append(byFinding[h.Finding], h)
		}
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(maxDecisions)
	for _, id := range order {
		group.Go(func() error {
			for _, h := range byFinding[id] {
				if err := d.decideHit(running, h); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, b := range batches {
		d.commit[b.Partition] = b.Done()
	}
	return nil
}

// decode returns the hit of a record; nil if there is none for this group.
func (d *Triage) decode(ctx context.Context, r *stream.Record) *finding.Hit {
	if stream.IsForOneGroup(r) {
		return nil // put back for the store; it was decided before
	}
	h, err := finding.Decode(r.Value)
	if errors.Is(err, finding.ErrNotHit) {
		return nil
	}
	if err != nil { // the store writer copies it to the dead letter topic
		d.metrics.undecodable.Inc()
		d.log.LogAttrs(ctx, slog.LevelWarn,
			"cannot decode a record of findings, skipping it; the store writer copies it to the dead letter topic",
			slog.Int("partition", int(r.Partition)), slog.Int64("offset", r.Offset), slog.Any("error", err))
		return nil
	}
	d.metrics.hits.WithLabelValues(string(h.Source)).Inc()
	return h
}

// decideHit writes what a hit changes in its finding, if anything.
func (d *Triage) decideHit(ctx context.Context, h *finding.Hit) error {
	err := d.decide(ctx, h.Finding, func(old *leak.Finding) (*leak.Finding, finding.Transition) {
		return d.next(old, h, d.now())
	})
	if err == nil && h.Kind == finding.Tripwire && !h.Test {
		d.recordTrip(ctx, h)
	}
	return err
}

// recordTrip records that a tripwire was used or seen. The finding is durable by then; if this fails, the next hit does
// it.
func (d *Triage) recordTrip(ctx context.Context, h *finding.Hit) {
	err := d.deps.Config.RecordTrip(ctx, h.Location.TripwireID, h.At)
	if err != nil && !errors.Is(err, config.ErrNotFound) && ctx.Err() == nil {
		d.log.LogAttrs(ctx, slog.LevelWarn, "cannot record that a tripwire was tripped",
			slog.String("tripwire", h.Location.TripwireID), slog.Any("error", err))
	}
}

// decide writes a decision about a finding, if it changes anything. While the configuration log is unavailable it
// retries every second.
func (d *Triage) decide(ctx context.Context, id string,
	next func(old *leak.Finding) (*leak.Finding, finding.Transition)) error {
	for {
		old, _ := d.deps.Config.Finding(id)
		planned, transition := next(old)
		if planned == nil {
			return nil
		}
		err := d.write(ctx, id, d.mayNotify(planned, transition), next)
		pause := retryEvery
		switch {
		case err == nil:
			return nil
		case errors.Is(err, config.ErrConflict): // other nodes write messages too
			pause = conflictPause
		case errors.Is(err, leak.ErrTooManyFindings), errors.Is(err, config.ErrStateFull),
			errors.Is(err, config.ErrEntityTooLarge):
			d.metrics.refused.Inc()
			if old == nil {
				d.metrics.dropped.Add(1)
			}
			d.log.LogAttrs(ctx, slog.LevelWarn, "cannot change a finding, a bound is reached: resolve findings, or ignore them",
				slog.String("finding", id), slog.Any("error", err))
			return nil // the next hit tries again
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if pause == retryEvery {
			d.log.LogAttrs(ctx, slog.LevelWarn, "cannot write a finding to the configuration log, trying again",
				slog.String("finding", id), slog.Any("error", err))
		}
		if err := wait.For(ctx, pause); err != nil {
			return err
		}
	}
}

// mayNotify reports whether people may be notified about a transition.
func (d *Triage) mayNotify(f *leak.Finding, t finding.Transition) bool {
	return t != finding.Unchanged &&
		d.deps.Notifier.Announce(t)(f, func(string) *alerting.Alert { return nil }) != nil
}

// write writes one decision, with its message if it is a transition. notifies is whether there may be a message.
func (d *Triage) write(ctx context.Context, id string, notifies bool,
	next func(old *leak.Finding) (*leak.Finding, finding.Transition)) error {
	if notifies {
		select {
		case d.announcing <- struct{}{}:
			defer func() { <-d.announcing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var transition finding.Transition
	before, after, err := d.deps.Config.DecideFinding(ctx, id,
		func(old *leak.Finding) (*leak.Finding, config.Announcer) {
			var f *leak.Finding
			if f, transition = next(old); f == nil || transition == finding.Unchanged {
				return f, nil
			}
			return f, d.deps.Notifier.Announce(transition)
		})
	if err != nil || after == nil || before != nil && before.Version == after.Version || transition == finding.Unchanged {
		return err
	}
	d.metrics.transitions.WithLabelValues(string(transition)).Inc()
	d.log.LogAttrs(ctx, slog.LevelInfo, "transition of a finding", slog.String("finding", id),
		slog.String("rule", after.Rule), slog.String("transition", string(transition)),
		slog.Bool("announced", !after.AnnouncedAt.Before(after.OpenedAt)))
	return nil
}

// now returns the time of the cluster in UTC.
func (d *Triage) now() time.Time { return d.deps.Now().UTC() }
