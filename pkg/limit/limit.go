// Package limit enforces rates with token buckets and remembers claims of keys. All nodes share them through Redis.
//
// Callers take tokens (deliveries to a destination, calls with an API key), claim keys (deduplication and
// Idempotency-Key; claim.go), count within a window of time (sign-ins; window.go), bound how many
// different things one sender may name (distinct.go) and mirror the circuit breakers of destinations for display
// (breaker.go). Begin reading at Limiter.Run and bucket.
//
// Redis is never required: TakeToken does no I/O, and everything that calls Redis returns within Config.Timeout, 50 ms
// by default, with or without an answer; claims, which decide whether an event is stored twice, within ClaimTimeout.
// Redis may be down, frozen or emptied at any time. Each node then limits for itself, and claims are unavailable.
//
// New starts no goroutine; the caller runs Run. Config.MaxBuckets bounds the memory.
package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/wait"
)

// Config is the configuration of a Limiter.
type Config struct {
	// URL of Redis: redis://, rediss:// or unix://. Empty: each node limits for itself.
	URL string
	// CAFile is a PEM file with the root certificates to trust; empty: the system's. CertFile and KeyFile are the client
	// certificate (mTLS) and its private key. They need rediss://.
	CAFile, CertFile, KeyFile string
	// Dial connects to Redis, whatever address the URL names; nil dials the URL's address.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout bounds every exchange with Redis, including the wait for a connection.
	Timeout time.Duration
	// ClaimTimeout bounds a call of a claim in the same way.
	ClaimTimeout time.Duration
	// MaxBuckets bounds the buckets in memory, some 300 bytes each. Beyond it a new bucket replaces one that was not used
	// for long. If that is used again, it starts like a bucket that is new on this node.
	MaxBuckets int
}

// DefaultConfig returns the settings of a node, without Redis.
func DefaultConfig() Config {
	return Config{Timeout: 50 * time.Millisecond, ClaimTimeout: 1500 * time.Millisecond, MaxBuckets: 100_000}
}

// Validate reports all faults at once. The URL may contain a password, so no error repeats it.
func (c Config) Validate() error {
	var errs []error
	if _, err := c.options(c.Timeout); err != nil {
		errs = append(errs, err)
	}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("limiter Timeout: must be positive"))
	}
	if c.ClaimTimeout <= 0 {
		errs = append(errs, errors.New("limiter ClaimTimeout: must be positive"))
	}
	if c.MaxBuckets < shardCount {
		errs = append(errs, fmt.Errorf("limiter MaxBuckets: must be at least %d", shardCount))
	}
	return errors.Join(errs...)
}

// Deps are the dependencies of a Limiter. All but Metrics are required.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Limiter is one node's share of the limits that all nodes enforce together.
type Limiter struct {
	cfg            Config
	log            *slog.Logger
	now            func() time.Time
	startedAt      time.Time     // all other times are durations since then, by the monotonic clock
	client         *redis.Client // nil without Redis
	cancelDials    func()        // ends running dials
	breaker        breaker
	claims         *redis.Client // has connections of its own, so that no claim waits for other exchanges
	cancelClaims   func()
	claimsBreaker  breaker
	metrics        *metrics
	buckets        table
	breakerMirror  breakerMirror
	sourceStatuses sourceStatuses
	leasePeriod    atomic.Int64  // number of the current lease period; 0 while each node limits for itself
	wake           chan struct{} // makes Run start a round; capacity 1

	// Used by Run alone:
	active          []*bucket
	requests        []leaseRequest
	lastPeriod      int64         // number of the last lease period
	redisAhead      time.Duration // Redis' clock minus elapsed
	periodUpdatedAt time.Duration // when updateLeasePeriod last ran
}

// New validates the configuration. It neither connects nor starts a goroutine.
func New(cfg Config, deps Deps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Now == nil {
		return nil, errors.New("the limiter needs a log and a clock")
	}
	l := &Limiter{cfg: cfg, log: deps.Log, now: deps.Now, startedAt: deps.Now(), wake: make(chan struct{}, 1)}
	l.buckets.init(cfg.MaxBuckets)
	l.client, l.cancelDials = cfg.client(cfg.Timeout)
	l.claims, l.cancelClaims = cfg.client(cfg.ClaimTimeout)
	l.metrics = newMetrics(deps.Metrics, l)
	return l, nil
}

// wakeUp makes Run start a round now. It never blocks.
func (l *Limiter) wakeUp() { wait.Wake(l.wake) }

// elapsed returns the time since New.
func (l *Limiter) elapsed() time.Duration { return l.now().Sub(l.startedAt) }

const (
	// roundInterval is the time between two rounds of Run, unless a bucket wakes it.
	roundInterval = 50 * time.Millisecond
	// idleInterval is the time between two rounds while nothing is exchanged with Redis. What changes that wakes Run. Such
	// a round sweeps idleSweeps shards, all of them in 16 s.
	idleInterval, idleSweeps = time.Second, 4
	// A woken Run still pauses between two rounds, for roundPauseFactor times the length of the last round, but at least
	// minRoundPause and at most roundInterval. So thousands of buckets that wake Run one after the other share few rounds.
	minRoundPause, roundPauseFactor = 2 * time.Millisecond, 4
)

// Run exchanges leases and breaker states with Redis until ctx ends. A Limiter runs once.
func (l *Limiter) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		l.runRound(ctx)
		_ = wait.For(ctx, min(roundInterval, max(minRoundPause, roundPauseFactor*time.Since(began)))) // the loop checks ctx
		timer.Reset(max(0, l.untilNextRound()-time.Since(began)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.wake:
		}
	}
	if l.client == nil {
		return nil
	}
	l.reportLevels(context.WithoutCancel(ctx))
	l.cancelDials()
	l.cancelClaims()
	return errors.Join(l.client.Close(), l.claims.Close())
}

// TakeToken takes one token of a bucket that one node uses at a time. It returns 0 if it took a token, else the time
// until one is probably available. It does no I/O and never fails. A rate of 0 means no limit; a burst below 1 is 1.
//
// A bucket that is new on this node may have been used on another node just before. It begins with a tenth of a
// second's tokens, at least one, until Redis has answered how full the other node left it, usually within milliseconds.
// If Redis is not configured, a new bucket is full.
func (l *Limiter) TakeToken(key string, perSecond float64, burst int) time.Duration {
	most := float64(max(burst, 1))
	wait, _ := l.take(bucketKey{"", key}, 1, perSecond, most, min(most, max(1, perSecond*initialSpan.Seconds())))
	return wait
}

// initialSpan is how much of its rate, in time, a bucket begins with whose level is not known yet.
const initialSpan = 100 * time.Millisecond

// TakeSharedToken is TakeToken for a bucket that all nodes use at once, with a burst of one second's tokens. It also
// returns how many tokens this node has left. All nodes together admit the rate, and each of them its burst once. A
// bucket that is new on this node begins full, because a caller that is rejected does not try again.
func (l *Limiter) TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64) {
	most := max(perSecond, 1)
	return l.take(bucketKey{class, key}, 1, perSecond, most, most)
}

// TakeSharedTokens is TakeSharedToken for n tokens, all or none. For more than one second's tokens the bucket must be
// full; its level then falls below zero, and the next caller waits until that is refilled.
func (l *Limiter) TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration) {
	most := max(perSecond, 1)
	wait, _ = l.take(bucketKey{class, key}, float64(n), perSecond, most, most)
	return wait
}

func (l *Limiter) take(k bucketKey, n, rate, burst, initial float64) (time.Duration, float64) {
	if !(rate > 0) {
		return 0, burst
	}
	now := l.elapsed()
	b := l.buckets.find(k)
	if b == nil {
		if l.client == nil {
			initial = burst // there is no other node to have used it
		}
		b = l.buckets.getOrCreate(k, now, rate, burst, initial)
	}
	wait, left, wake := b.take(now, l.leasePeriod.Load(), n, rate, burst)
	if wake && l.client != nil {
		l.enlist(b)
	}
	return wait, left
}

// enlist makes Run visit a bucket, and start a round at once.
func (l *Limiter) enlist(b *bucket) {
	b.mu.Lock()
	known := b.active
	b.active = true
	b.mu.Unlock()
	if !known {
		l.buckets.enlist(b)
	}
	l.wakeUp()
}
