// Package conflog is the replicated log of the configuration. It keeps entities, which are opaque bytes to it, as
// conditional records in one Kafka partition and in the memory of every node. pkg/config gives the bytes their meaning.
//
// A pure function (apply) decides from the state and the record alone whether a record is applied. So every node
// resolves every conflict in the same way. A writer waits until it has read and applied its own record: it reads its
// own writes. The configuration survives the loss of Redis and ClickHouse.
//
// Flow: write → topic control → tail → apply → a new immutable state, published through one atomic pointer. Reads load
// the pointer and never wait. Every node announces its position in the topic nodes. After an ordinary write the writer
// waits up to 300 ms for the other nodes (WaitForPeers). After a revocation it waits until no node can act on the old
// configuration (Barrier). A node that cannot confirm that it is up to date loses its lease and rejects API keys after
// 5 s. From time to time one node writes the whole state to control.snapshots; the other nodes start from it.
//
// Invariants, each with its test:
//   - the same log gives the same state on every node (TestApplyIsDeterministic, FuzzApply);
//   - no update is lost between concurrent writers (TestConcurrentUpdatesAreSerial);
//   - when a revocation is answered, no node acts on what was revoked, not even a node that hangs (TestRevocation…);
//   - a log with missing records is refused (TestGap…);
//   - nodes of two versions reach the same state, and a node that is too old stops (TestLevel…);
//   - records that no node wrote, and repeated records, change nothing (TestForged…, TestRepeated…);
//   - every audited change appears in the audit log once (TestOutbox…).
//
// Begin with Log.Change in write.go, then applyRecord in tail.go and apply in state.go. lease.go explains revocation,
// snapshot.go and snapshot_search.go the start of a node, mac.go forged records.
package conflog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Errors that callers branch on.
var (
	ErrNotFound = errors.New("no such entity")
	// ErrConflict means that a precondition did not hold: the id exists, or another writer was first.
	ErrConflict = errors.New("conflicts with another change")
	// ErrLease means that this node may have missed a revocation: answer 503.
	ErrLease = errors.New("configuration log was not confirmed in the last 5 s")
	// ErrUnavailable means that this node cannot write now, or that a write was not confirmed in time: then it may be in
	// the log or not. Answer 503.
	ErrUnavailable = errors.New("configuration log is unavailable")
)

// Log holds this node's copy of the configuration and appends changes to the configuration log. Create it with New,
// then call Run or Inspect once.
type Log struct {
	*parser
	*clock
	Messages   Messages // between the nodes
	cfg        Config
	log        *slog.Logger
	stream     stream.Config
	keys       Sealer
	startSteps []Step
	metrics    *metrics
	timing     Timing
	chunkSize  int // see chunkBytes

	bootID             string                  // identifies this process in heartbeats
	macKeys            atomic.Pointer[macKeys] // make and check MACs; nil until a snapshot or the first record was read
	firstRecordMissing atomic.Bool             // records were read, but not the first one, which holds the secret
	// by topic: when a record without a valid MAC was last logged, Unix nanoseconds
	warned        map[string]*atomic.Int64
	view          atomic.Pointer[View]
	applied       atomic.Int64 // number of records applied since the start
	changed       signal       // fired after each record and each lease cycle
	changedByKind []signal     // by Kind: fired when an entity of the kind has changed
	ready         chan struct{}
	stopped       chan struct{} // closed when Run returns, and by Inspect
	pendingWrites pendingWrites
	entityLocks   *entityLocks
	entries       entryCache
	producer      *stream.Producer // set by Run before ready is closed
	reader        *stream.Reader
	peers         peers
	announced     announced
	lease         lease
	owner         atomic.Bool
	heartbeatNow  chan struct{} // asks for a heartbeat at once; capacity 1
	followsNodes  chan struct{} // closed when it is known from where on the topic nodes is read
}

// New validates cfg and deps. It starts nothing and opens no connection.
func New(cfg Config, deps Deps) (*Log, error) {
	if err := cfg.validate(&deps); err != nil {
		return nil, fmt.Errorf("configuration log: %w", err)
	}
	ks, err := newKinds(cfg.Kinds, cfg.Limits.State)
	if err != nil {
		return nil, fmt.Errorf("configuration log: %w", err)
	}
	l := &Log{
		parser: &parser{kinds: ks, entities: deps.Entities, dict: s2.MakeDict(cfg.CompressionDict, nil)},
		clock:  newClock(deps.Now),
		cfg:    cfg, log: deps.Log, stream: deps.Stream, keys: deps.Keys, startSteps: deps.StartSteps, timing: cfg.Timing,
		chunkSize: chunkBytes, bootID: id.Random("boot_"), warned: make(map[string]*atomic.Int64),
		changedByKind: make([]signal, len(ks.infos)), entityLocks: newEntityLocks(),
		ready: make(chan struct{}), stopped: make(chan struct{}),
		heartbeatNow: make(chan struct{}, 1), followsNodes: make(chan struct{}),
	}
	for _, topic := range stream.AuthenticatedTopics() {
		l.warned[topic] = new(atomic.Int64)
	}
	l.Messages.log = l
	l.view.Store(&View{state: newState(ks)})
	l.metrics = newMetrics(deps.Metrics, l)
	return l, nil
}

// Run follows the log until ctx ends. It returns an error when it cannot continue: records are missing, a newer version
// of the program wrote them, or no master key opens the secret of the log. Writes work only while it runs. Call it
// once.
func (l *Log) Run(ctx context.Context) error {
	defer func() {
		close(l.stopped)
		l.changed.fire() // for those that wait for the lease
	}()
	var err error
	if l.producer, err = stream.NewProducer(l.stream, "control"); err != nil {
		return err
	}
	defer l.producer.Close()
	if l.reader, err = stream.NewReader(l.stream, "control"); err != nil {
		return err
	}
	defer l.reader.Close()

	s, next, from, err := l.load(ctx)
	if err != nil {
		return nilIfStopped(ctx, err)
	}
	l.publish(s, next)

	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return l.tail(running) })
	group.Go(func() error { return (membership{l}).followHeartbeats(running) })
	group.Go(func() error { return (membership{l}).sendHeartbeats(running) })
	group.Go(func() error { return (membership{l}).runAggregator(running) })
	group.Go(func() error { return snapshots{l}.run(running, from) })
	group.Go(func() error { return l.becomeReady(running) })
	group.Go(func() error { return (outbox{l}).copyOutbox(running) })
	return nilIfStopped(ctx, group.Wait())
}

// nilIfStopped returns nil for the error of a context that the caller has ended.
func nilIfStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Step is one task that must succeed before the node is ready. It is repeated until it succeeds.
type Step struct {
	Name string // completes the log message "cannot …"
	Do   func(context.Context) error
}

// becomeReady waits until the log as of the start is applied, runs the start steps, and waits for the lease.
func (l *Log) becomeReady(ctx context.Context) error {
	if err := l.retry(ctx, "read the configuration log", l.sync); err != nil {
		return nil // ctx ended
	}
	if err := (authenticator{l}).checkSecret(); err != nil {
		return err
	}
	steps := append([]Step{{"write the first record of the configuration log", (authenticator{l}).ensureSecret},
		{"raise the level of the configuration log", (levels{l}).ensureLevel}}, l.startSteps...)
	for _, s := range steps {
		if err := l.retry(ctx, s.Name, s.Do); err != nil {
			return nil // ctx ended
		}
	}
	if err := l.AwaitLease(ctx); err != nil {
		return nil // ctx ended
	}
	limited, cancel := context.WithTimeout(ctx, l.timing.RequestTimeout)
	defer cancel()
	// Who runs is known from the start on, unless there is no aggregator right now: a node can be ready without.
	_ = l.peers.updated.await(limited, func() bool { return l.peers.hasReached(l.bootID, 0) })
	v := l.view.Load()
	entities := 0
	for _, set := range v.sets {
		entities += set.bySeq.Len
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "configuration ready", slog.Int64("sequence", v.seq),
		slog.Int("entities", entities))
	close(l.ready)
	return nil
}

// retry calls do, each time with the write timeout and one second apart, until it succeeds or ctx ends.
func (l *Log) retry(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, l.timing.WriteTimeout)
		err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		l.log.LogAttrs(ctx, slog.LevelWarn, "cannot "+what+", trying again", slog.Any("error", err))
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Ready is closed when the node is ready: all records that were in the log at the start are applied, the start steps
// have succeeded and the lease holds.
func (l *Log) Ready() <-chan struct{} { return l.ready }

// SetOwner sets whether this node owns partition 0 of the topic events. The owner writes the snapshots, copies the
// outbox and removes expired entities.
func (l *Log) SetOwner(owner bool) { l.owner.Store(owner) }

// Owner reports whether this node owns partition 0 of the topic events.
func (l *Log) Owner() bool { return l.owner.Load() }

// signal is a condition variable whose wait can be combined with a context.
type signal struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

// fire wakes all that wait.
func (s *signal) fire() {
	s.mu.Lock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
	s.mu.Unlock()
}

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// await returns nil as soon as holds returns true. It calls holds at once and after each fire.
func (s *signal) await(ctx context.Context, holds func() bool) error {
	for {
		wait := s.wait()
		if holds() {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
