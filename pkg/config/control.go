// Package config is the configuration of the service: account, endpoints, destinations and API keys,
// kept in one Kafka partition as a log of conditional records and in memory on every node.
//
// A record is applied, or not, by a pure function of the state before it, so every node decides every
// conflict alike. The writer waits until its own record came back and was applied: it reads its own
// writes. Redis and ClickHouse may be lost without losing any of it. Secrets that must be shown or used
// again are sealed in records, in snapshots and in memory; keys and tokens are kept as SHA-256.
//
// Flow: write → topic control → tail → apply → a new immutable state, published by one pointer. Reads
// take the pointer and never wait. Every node tells its position on the topic nodes; a writer waits for
// the others' positions, shortly as a courtesy, or until nobody can act on the old configuration any
// more when something was taken away. A node that cannot confirm that it is up to date stops taking API
// keys after 5 s. From time to time one node writes the whole state to control.snapshots, from which
// the others start.
//
// Invariants, each with its test:
//   - the same log gives the same state on every node (TestApplyIsDeterministic, FuzzApply);
//   - no update is lost between writers (TestConcurrentUpdatesAreSerial);
//   - a revoked key is refused everywhere once the revocation is answered, by a node that hangs too
//     (TestRevocation…);
//   - a log with missing records is refused (TestGap…);
//   - nodes of two versions come to the same state, and one that is too old stops (TestLevel…);
//   - what another than a node writes to the topics of the configuration changes nothing (TestForged…, TestRepeated…);
//   - no secret stands in clear in a record, a snapshot or a log line (TestNoSecretInClear);
//   - 200,000 endpoints are ready in 5 s and take less than 300 MB (TestCeiling).
package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Errors that callers branch on.
var (
	ErrNotFound   = errors.New("no such entity")
	ErrConflict   = errors.New("changed by another writer five times in a row")
	ErrInvalidKey = errors.New("unknown, expired or revoked API key")
	// ErrLease means that this node cannot be sure to have seen every revocation: answer 503.
	ErrLease = errors.New("configuration log was not confirmed in the last 5 s")
	// ErrUnavailable means that a write was not confirmed in time; whether it took place is unknown. Answer 503.
	ErrUnavailable = errors.New("configuration log does not answer")
)

// Sealed is a secret under one of the master keys: "key name:base64(nonce, AES-GCM ciphertext)".
type Sealed string

// Control is the configuration as this node knows it, and the way to change it.
type Control struct {
	cfg     Config
	log     *slog.Logger
	stream  stream.Config
	keyring *Keyring
	now     func() time.Time
	wall    func() time.Time // now without the monotonic clock, which stands still while a machine sleeps
	metrics *metrics
	timing  timing
	codec   *codec
	chunk   int // see chunkBytes
	room    int // see maxTrail

	boot       string                    // names this process
	auth       atomic.Pointer[authority] // of the log; nil until its first record was read
	older      atomic.Bool               // a record of an older version was read
	headless   atomic.Bool               // a record was read before the first one
	warned     map[string]*atomic.Int64  // when a record without a valid MAC was last logged, by topic
	bootstrap  map[[hashLen]byte]Scope   // by hash: what the environment names
	view       atomic.Pointer[view]
	applied    atomic.Int64 // records that were applied since the start
	changed    signal       // fired after each record
	recoveries signal       // fired when a recovery job has changed
	ready      chan struct{}
	stopped    chan struct{} // closed when Run returns
	ops        operations
	turns      *turns
	entries    entryCache
	producer   *stream.Producer // set by Run before ready is closed
	reader     *stream.Reader
	peers      peers
	lease      lease
	skew       atomic.Int64 // see ClockSkew, in nanoseconds
	// correction is added to this node's time, in nanoseconds; see Now.
	correction atomic.Int64
	clock      brokerClock
	owner      atomic.Bool
	kick       chan struct{} // asks for a heartbeat now; holds one
}

// view is what readers see.
type view struct {
	*state
	next int64 // offset in control of the first record that is not in the state
}

// New validates and starts nothing.
func New(cfg Config, deps Deps) (*Control, error) {
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = DefaultSnapshotEvery
	}
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, fmt.Errorf("configuration log: %w", err)
	}
	c := &Control{
		turns: newTurns(),
		cfg:   cfg, log: deps.Log, stream: deps.Stream, keyring: deps.Keyring, now: deps.Now,
		timing: defaultTiming(), codec: newCodec(), chunk: chunkBytes, room: maxTrail, boot: id.Random("boot_"), bootstrap: cfg.bootstrap(),
		ready: make(chan struct{}), stopped: make(chan struct{}), kick: make(chan struct{}, 1),
		clock:  brokerClock{known: make(chan struct{})},
		warned: make(map[string]*atomic.Int64),
	}
	for _, topic := range stream.AuthenticatedTopics() {
		c.warned[topic] = new(atomic.Int64)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.wall = func() time.Time { return c.now().Round(0) }
	c.view.Store(&view{state: &state{}})
	c.metrics = newMetrics(deps.Metrics, c)
	return c, nil
}

// Run follows the log until ctx ends, or until it cannot go on: records are missing, or written by a
// newer program. Writes work while it runs. It is called once.
func (c *Control) Run(ctx context.Context) error {
	defer close(c.stopped)
	var err error
	if c.producer, err = stream.NewProducer(c.stream, "control"); err != nil {
		return err
	}
	defer c.producer.Close()
	if c.reader, err = stream.NewReader(c.stream, "control"); err != nil {
		return err
	}
	defer c.reader.Close()

	s, next, from, err := c.load(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	c.publish(s, next)

	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return c.tail(running) })
	group.Go(func() error { return c.hear(running) })
	group.Go(func() error { return c.beats(running) })
	group.Go(func() error { return c.snapshots(running, from) })
	group.Go(func() error { return c.sweep(running) })
	group.Go(func() error { return c.begin(running) })
	group.Go(func() error { return c.tell(running) })
	return stopped(ctx, group.Wait())
}

// stopped is nil for an end that was asked for.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// begin brings the node to readiness: the log as it stood is applied, the account and the bootstrap
// keys are in, the lease holds.
func (c *Control) begin(ctx context.Context) error {
	err := c.retry(ctx, "read the configuration log", c.sync)
	if err == nil {
		if err := c.readable(); err != nil {
			return err
		}
		err = c.retry(ctx, "begin the configuration log", c.ensureLogSecret)
	}
	if err == nil {
		err = c.retry(ctx, "raise the level of the configuration log", c.ensureLevel)
	}
	if err == nil {
		err = c.retry(ctx, "create the account", c.ensureAccount)
	}
	if err == nil {
		err = c.retry(ctx, "enter the bootstrap keys", c.ensureBootstrapKeys)
	}
	if err == nil {
		err = c.retry(ctx, "enter the first user", c.ensureAdmin)
	}
	if err == nil {
		err = c.changed.await(ctx, func() bool { _, ok := c.Lease(); return ok })
	}
	if err != nil {
		return nil // ctx ended
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "configuration ready",
		slog.Int64("sequence", c.view.Load().seq), slog.Int("endpoints", c.view.Load().sets[kindEndpoint].bySeq.len))
	close(c.ready)
	return nil
}

// retry repeats do, with a second between, until it succeeds or ctx ends.
func (c *Control) retry(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, c.timing.write)
		err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.LogAttrs(ctx, slog.LevelWarn, what, slog.Any("error", err))
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Ready is closed once everything that stood in the log at the start is applied, the account exists,
// the bootstrap keys are in and keys can be judged.
func (c *Control) Ready() <-chan struct{} { return c.ready }

// SetOwner tells whether this node owns partition 0 of events; the owner writes the snapshots, and forgets what has
// ended by age.
func (c *Control) SetOwner(owner bool) { c.owner.Store(owner) }

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
