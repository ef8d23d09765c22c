// Package dispatcher delivers events to their destinations, at least once.
//
// In flow the records of the topics events, commands and retry.*; out flow requests to the
// destinations, and the records that tell what came of them: outcomes, follow-ups in retry.*, and
// dead for what cannot be decoded.
//
//	poll → partition (tracker of slots) → lane of the destination → attempt → follow-up → outcome → slot done
//	committer: lowest slot that is not done, what is done beyond it as holes in the metadata
//
// A record is a slot; it is done when, for each of its destinations, the outcome is acknowledged by
// Kafka and before it the record that continues the delivery, if there is one. Work that is not due
// waits in the retry topic of its delay: the head of such a partition is held in memory until then
// and the partition rests when enough is held. A destination that cannot take more gets its work later:
// it is parked in a retry topic, or its partition pauses for a moment if the destination is only busy.
//
// Back-pressure: a lane that is stuck parks, a partition with too much undone work pauses, a node
// that holds all it may stops reading.
//
// Ownership: a partition belongs to one node at a time. When it is revoked the intake stops, what is
// in flight finishes, its offset is committed, and the partition object is dropped.
//
// # Invariants
//
//  1. No delivery is lost, whatever finishes in which order and wherever the process dies
//     (TestRandomCompletionsSurviveCrashes, TestCommitNeverPassesUndone).
package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// groupName of the consumer group, and what the dispatcher asks of it.
const (
	groupName = "dispatch"
	// maxPoll bounds what one poll adds to the memory of a partition that is about to rest.
	maxPoll = 256
	// maxFetchWait bounds how late a partition that is resumed is fetched, and so how fast a deep tier
	// flows: its share of the memory in this time. It costs an idle node ten small requests a second.
	maxFetchWait = 100 * time.Millisecond
	// revokeWait is how long a rebalance waits for requests in flight; the group gives a member 30 s.
	revokeWait = 20 * time.Second
	// commitAfter finished records a commit is made even if its time has not come.
	commitAfter = 5000
	// commitTimeout bounds one commit.
	commitTimeout = 10 * time.Second
	// sweepEvery is how often empty lanes are looked for.
	sweepEvery = time.Minute
)

// Dispatcher is one node's part of the group.
type Dispatcher struct {
	cfg     Config
	log     *slog.Logger
	stream  stream.Config
	config  View
	keyring *control.Keyring
	ids     *id.Generator
	now     func() time.Time
	owned   func([]int32)
	tiers   []stream.Tier

	metrics  *metrics
	faults   *faults
	lanes    *lanes
	finisher *finisher
	client   *client

	group     *stream.Group // set by Run
	completed atomic.Int64
	commitNow chan struct{}
	due       chan struct{} // a tier partition has a new head

	commitMu sync.Mutex // held from reading marks until they are committed, so that no old mark is committed after a newer one

	mu    sync.RWMutex // guards parts
	parts map[stream.Partition]*partition
}

// New validates and prepares; it connects to nothing.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg: cfg, log: deps.Log, stream: deps.Stream, config: deps.Config, keyring: deps.Keyring, ids: deps.IDs,
		now: deps.Now, owned: deps.Owned, tiers: stream.Tiers(), faults: newFaults(),
		client:    &client{transport: deps.Transport, userAgent: "EventRelay/" + cfg.Version, now: deps.Now},
		commitNow: make(chan struct{}, 1), due: make(chan struct{}, 1), parts: make(map[stream.Partition]*partition),
	}
	d.lanes = newLanes(cfg, deps.Now, d.wake)
	var err error
	if d.metrics, err = newMetrics(deps.Metrics, d.lanes); err != nil {
		return nil, err
	}
	d.finisher = &finisher{log: deps.Log, producer: deps.Producer, faults: d.faults, metrics: d.metrics, done: d.finished, again: make(chan struct{}, 1)}
	return d, nil
}

// Run delivers until ctx ends or reading fails. Then it stops reading, waits for what is in flight, at
// most Config.Drain, commits and leaves the group.
func (d *Dispatcher) Run(ctx context.Context) error {
	background := context.WithoutCancel(ctx)
	var workers sync.WaitGroup
	sending, cut := context.WithCancel(background) // ends when requests in flight must be cut short
	defer cut()
	d.lanes.start = func(l *lane) { workers.Go(func() { d.worker(sending, l) }) }
	topics := []string{stream.Events, stream.Commands}
	for _, t := range d.tiers {
		topics = append(topics, t.Topic)
	}
	joined := make(chan struct{}) // the group may call back before NewGroup has returned
	group, err := stream.NewGroup(d.stream, stream.GroupConfig{
		Name: groupName, Topics: topics, InstanceID: d.cfg.InstanceID, MaxPoll: maxPoll, MaxWait: maxFetchWait,
		Assigned: func(marks map[stream.Partition]stream.Mark) { <-joined; d.assigned(marks) },
		Revoked:  func(ctx context.Context, ids []stream.Partition) { d.release(ctx, d.named(ids), revokeWait) },
		Lost:     func(ids []stream.Partition) { d.lost(d.named(ids)) },
	})
	if err != nil {
		return err
	}
	d.group = group
	close(joined)

	recording, stopRecording := context.WithCancel(background)
	defer stopRecording()
	var recorders sync.WaitGroup
	recorders.Go(func() { d.finisher.run(recording) })
	recorders.Go(func() { d.committer(recording) })

	readers, readCtx := errgroup.WithContext(ctx)
	readers.Go(func() error { return d.intake(readCtx) })
	readers.Go(func() error { d.timer(readCtx); return nil })
	err = readers.Wait()

	d.release(background, d.assignment(), d.cfg.Drain)
	cut()
	workers.Wait()
	group.Close()
	stopRecording()
	recorders.Wait()
	return err
}

// assigned makes the trackers of a new assignment.
func (d *Dispatcher) assigned(marks map[stream.Partition]stream.Mark) {
	delays := make(map[string]time.Duration, len(d.tiers))
	for _, t := range d.tiers {
		delays[t.Topic] = t.Delay
	}
	d.mu.Lock()
	for id, mark := range marks {
		p, err := newPartition(id, delays[id.Topic], d.group, d.wake, mark)
		if err != nil {
			d.log.LogAttrs(context.Background(), slog.LevelWarn, "ignore metadata of commit", slog.String("topic", id.Topic),
				slog.Int("partition", int(id.Index)), slog.Any("error", err))
		}
		d.parts[id] = p
	}
	d.mu.Unlock()
	d.changed()
}

// release gives partitions up: nothing begins any more, what is in flight finishes within limit, the
// offsets are committed, the partitions are dropped.
func (d *Dispatcher) release(ctx context.Context, parts []*partition, limit time.Duration) {
	for _, p := range parts {
		p.stop()
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for _, p := range parts {
		select {
		case <-p.drained:
			continue
		case <-late.C:
			d.log.LogAttrs(ctx, slog.LevelWarn, "give up partitions with requests in flight", slog.Duration("after", limit))
		}
		break
	}
	d.commitMu.Lock()
	d.commit(ctx, parts)
	d.commitMu.Unlock()
	d.drop(parts)
}

// lost drops partitions that another node may own already: nothing is committed.
func (d *Dispatcher) lost(parts []*partition) {
	for _, p := range parts {
		p.stop()
	}
	d.commitMu.Lock() // a commit on its way must not end after this
	d.drop(parts)
	d.commitMu.Unlock()
}

// named are those of the partitions that are here.
func (d *Dispatcher) named(ids []stream.Partition) []*partition {
	var parts []*partition
	for _, id := range ids {
		if p := d.partition(id); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// drop forgets partitions, unless they were assigned anew since.
func (d *Dispatcher) drop(parts []*partition) {
	d.mu.Lock()
	for _, p := range parts {
		if d.parts[p.id] == p {
			delete(d.parts, p.id)
		}
	}
	d.mu.Unlock()
	d.changed()
}

// changed spreads the memory for waiting work over the tiers' partitions and tells who asked which
// partitions of events are here.
func (d *Dispatcher) changed() {
	var tiers []*partition
	var events []int32
	for _, p := range d.assignment() {
		if p.delay > 0 {
			tiers = append(tiers, p)
		}
		if p.id.Topic == stream.Events {
			events = append(events, p.id.Index)
		}
	}
	for _, p := range tiers {
		p.setShare(d.cfg.MaxWaitingBytes / len(tiers))
	}
	if d.owned != nil {
		slices.Sort(events)
		d.owned(events)
	}
}

func (d *Dispatcher) partition(id stream.Partition) *partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.parts[id]
}

// assignment are the partitions that are here now.
func (d *Dispatcher) assignment() []*partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.AppendSeq(make([]*partition, 0, len(d.parts)), maps.Values(d.parts))
}
