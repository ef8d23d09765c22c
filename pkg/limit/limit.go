// Package limit keeps rates and remembers claims, with Redis as the memory that all nodes share.
//
// In flow requests for a token of a bucket (deliveries to a destination, calls with an API key), claims of
// keys (deduplication, Idempotency-Key) and the states of breakers. Out flow waits, claims and states.
//
// Guaranteed: nothing here is needed for an answer. Take never does I/O; what asks Redis has 50 ms and says
// so when there is no answer. Redis may be down, frozen or emptied at any time: rates are then held by each
// node for itself, and claims are unavailable, which means a possible duplicate, never a loss.
//
// Run owns the only goroutine. Memory is bounded by Config.MaxBuckets.
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

// Config of the limiter.
type Config struct {
	// URL of Redis: redis://, rediss:// or unix://. Empty: each node limits for itself.
	URL string
	// Dial connects to Redis, whatever address the URL names; nil = by the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout of every exchange with Redis, connecting included.
	Timeout time.Duration
	// MaxBuckets bounds the buckets in memory, some 300 bytes each. Beyond it a new key takes the place of
	// one that was not used for long, which starts anew as one whose past is unknown.
	MaxBuckets int
}

// DefaultConfig returns the settings of a node, without Redis.
func DefaultConfig() Config { return Config{Timeout: 50 * time.Millisecond, MaxBuckets: 100_000} }

// Validate reports every fault at once. The URL may hold a password, so it is never repeated.
func (c Config) Validate() error {
	var errs []error
	if _, err := c.options(); err != nil {
		errs = append(errs, err)
	}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("limiter time-out: must be positive"))
	}
	if c.MaxBuckets < shardCount {
		errs = append(errs, fmt.Errorf("limiter buckets: at least %d", shardCount))
	}
	return errors.Join(errs...)
}

// Deps are what the limiter works with. All but Metrics are needed.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Limiter is one node's part of the limits.
type Limiter struct {
	cfg           Config
	log           *slog.Logger
	now           func() time.Time
	startedAt     time.Time     // times inside are differences to it: monotonic where the clock is
	client        *redis.Client // nil without Redis
	cancelDials   func()        // ends dials that are under way
	breaker       breaker
	metrics       *metrics
	buckets       table
	breakerMirror breakerMirror
	leasePeriod   atomic.Int64  // of leases; 0 while each bucket limits for itself
	wake          chan struct{} // asks Run for a round; one that is waiting is enough

	// Of Run alone:
	active      []*bucket
	requests    []leaseRequest
	lastPeriod  int64         // so far
	redisAhead  time.Duration // how far Redis' clock is ahead of elapsed
	contactedAt time.Duration // when contact was judged last
}

// New checks the configuration. It dials nothing and starts nothing.
func New(cfg Config, deps Deps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Now == nil {
		return nil, errors.New("the limiter needs a log and a clock")
	}
	l := &Limiter{cfg: cfg, log: deps.Log, now: deps.Now, startedAt: deps.Now(), wake: make(chan struct{}, 1)}
	l.buckets.init(cfg.MaxBuckets)
	l.client, l.cancelDials = cfg.client()
	l.metrics = newMetrics(deps.Metrics, l)
	return l, nil
}

// elapsed is the time since New.
func (l *Limiter) elapsed() time.Duration { return l.now().Sub(l.startedAt) }

const (
	// roundInterval is how often Run looks at what has changed when nobody asks for a round.
	roundInterval = 50 * time.Millisecond
	// minRoundPause is the pause between two rounds at least, or roundPauseShare times the length of the last one: thousands
	// of buckets that ask one after the other make few rounds.
	minRoundPause, roundPauseShare = 2 * time.Millisecond, 4
)

// Run talks to Redis in the background until ctx ends. A Limiter runs once.
func (l *Limiter) Run(ctx context.Context) error {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		l.runRound(ctx)
		_ = wait.For(ctx, min(roundInterval, max(minRoundPause, roundPauseShare*time.Since(began)))) // the loop looks at ctx
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-l.wake:
		}
	}
	if l.client == nil {
		return nil
	}
	l.reportLevels(context.WithoutCancel(ctx))
	l.cancelDials()
	return l.client.Close()
}
