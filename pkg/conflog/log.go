// Package conflog is the replicated log of the configuration: entities, which are bytes to it, kept in one Kafka
// partition as conditional records and in memory on every node. pkg/config gives the bytes their meaning.
//
// A record is applied, or not, by a pure function of the state before it, so every node decides every
// conflict alike. The writer waits until its own record came back and was applied: it reads its own
// writes. Redis and ClickHouse may be lost without losing any of it.
//
// Flow: write → topic control → tail → apply → a new immutable state, published by one pointer. Reads
// take the pointer and never wait. Every node tells its position on the topic nodes; a writer waits for
// the others' positions, shortly as a courtesy, or until nobody can act on the old configuration any
// more when something was taken away. A node that cannot confirm that it is up to date has no lease, and
// stops taking API keys after 5 s. From time to time one node writes the whole state to
// control.snapshots, from which the others start.
//
// Invariants, each with its test:
//   - the same log gives the same state on every node (TestApplyIsDeterministic, FuzzApply);
//   - no update is lost between writers (TestConcurrentUpdatesAreSerial);
//   - what was taken away is gone everywhere once that is answered, on a node that hangs too (TestRevocation…);
//   - a log with missing records is refused (TestGap…);
//   - nodes of two versions come to the same state, and one that is too old stops (TestLevel…);
//   - what another than a node writes to the topics of the configuration changes nothing (TestForged…, TestRepeated…);
//   - every change that the audit log shows gets there once (TestOutbox…).
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
	ErrConflict = errors.New("changed by another writer five times in a row")
	// ErrLease means that this node cannot be sure to have seen every revocation: answer 503.
	ErrLease = errors.New("configuration log was not confirmed in the last 5 s")
	// ErrUnavailable means that a write was not confirmed in time; whether it took place is unknown. Answer 503.
	ErrUnavailable = errors.New("configuration log does not answer")
)

// Log is the log as this node knows it, and the way to change it.
type Log struct {
	*parser
	*clock
	cfg        Config
	log        *slog.Logger
	stream     stream.Config
	keys       Sealer
	startSteps []Step
	metrics    *metrics
	timing     Timing
	chunkSize  int // see chunkBytes

	bootID             string                    // names this process
	auth               atomic.Pointer[authority] // of the log; nil until its first record was read
	firstRecordMissing atomic.Bool               // a record was read before the first one
	warned             map[string]*atomic.Int64  // when a record without a valid MAC was last logged, by topic
	view               atomic.Pointer[View]
	applied            atomic.Int64 // records that were applied since the start
	changed            signal       // fired after each record
	changedByKind      []signal     // by Kind: fired when an entity of it has changed
	ready              chan struct{}
	stopped            chan struct{} // closed when Run returns
	pendingWrites      pendingWrites
	entityLocks        *entityLocks
	entries            entryCache
	producer           *stream.Producer // set by Run before ready is closed
	reader             *stream.Reader
	peers              peers
	lease              lease
	owner              atomic.Bool
	heartbeatNow       chan struct{} // asks for a heartbeat now; holds one
}

// New validates and starts nothing.
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
		heartbeatNow: make(chan struct{}, 1),
	}
	for _, topic := range stream.AuthenticatedTopics() {
		l.warned[topic] = new(atomic.Int64)
	}
	l.view.Store(&View{state: newState(ks)})
	l.metrics = newMetrics(deps.Metrics, l)
	return l, nil
}

// Run follows the log until ctx ends, or until it cannot go on: records are missing, or written by a
// newer program. Writes work while it runs. It is called once.
func (l *Log) Run(ctx context.Context) error {
	defer close(l.stopped)
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
	group.Go(func() error { return snapshots{l}.run(running, from) })
	group.Go(func() error { return l.becomeReady(running) })
	group.Go(func() error { return (outbox{l}).copyOutbox(running) })
	return nilIfStopped(ctx, group.Wait())
}

// nilIfStopped is nil for an end that was asked for.
func nilIfStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Step is a part of the beginning: it is repeated until it succeeds.
type Step struct {
	Name string
	Do   func(context.Context) error
}

// begin brings the node to readiness: the log as it stood is applied, the steps are done, the lease holds.
func (l *Log) becomeReady(ctx context.Context) error {
	if err := l.retry(ctx, "read the configuration log", l.sync); err != nil {
		return nil // ctx ended
	}
	if err := (authenticator{l}).checkSecret(); err != nil {
		return err
	}
	steps := append([]Step{{"begin the configuration log", (authenticator{l}).ensureSecret},
		{"raise the level of the configuration log", (levels{l}).ensureLevel}}, l.startSteps...)
	for _, s := range steps {
		if err := l.retry(ctx, s.Name, s.Do); err != nil {
			return nil // ctx ended
		}
	}
	if err := l.changed.await(ctx, func() bool { _, ok := l.Lease(); return ok }); err != nil {
		return nil // ctx ended
	}
	v := l.view.Load()
	entities := 0
	for _, set := range v.sets {
		entities += set.bySeq.len
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "configuration ready", slog.Int64("sequence", v.seq),
		slog.Int("entities", entities))
	close(l.ready)
	return nil
}

// retry repeats do, with a second between, until it succeeds or ctx ends.
func (l *Log) retry(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, l.timing.WriteTimeout)
		err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		l.log.LogAttrs(ctx, slog.LevelWarn, what, slog.Any("error", err))
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Ready is closed once everything that stood in the log at the start is applied, the steps are done and the lease
// holds.
func (l *Log) Ready() <-chan struct{} { return l.ready }

// SetOwner tells whether this node owns partition 0 of events; the owner writes the snapshots, and forgets what has
// ended by age.
func (l *Log) SetOwner(owner bool) { l.owner.Store(owner) }

// Owner reports what SetOwner was told last.
func (l *Log) Owner() bool { return l.owner.Load() }

// signal wakes those who wait for a condition to become true.
type signal struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

func (s *signal) fire() {
	s.mu.Lock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
	s.mu.Unlock()
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// await returns nil once holds does; it is asked again after each fire.
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
