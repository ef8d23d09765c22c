// Package redis is an embedded Redis: miniredis with keys that expire as time passes.
//
// Any Redis client in, over TCP. Everything is in memory and gone at the end of the process: it holds
// only what may be lost, which are rate leases and the memory of deduplication. Commands run one at a
// time; a plain one costs some 25 µs, a script several times that.
//
// miniredis leaves time to its caller. Run moves it on in steps, so a key lives as long as it should, give
// or take one step. A step visits every key while commands wait; with many keys steps become rarer
// instead of taking the time away from the commands.
package redis

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	// step is how often keys grow older. Counters of leases live for 3 s; a bucket, whose level is the life that
	// its key has left, is seen 50 ms of its rate too empty at worst.
	step = 50 * time.Millisecond
	// stepShare is how many times longer than a step took the next one waits at least: expiring keys
	// takes at most 5 % of the time.
	stepShare = 20
)

// Config is how an embedded Redis is set up.
type Config struct {
	// Listen is the address to serve on. Port 0 takes a free port.
	Listen string
}

// DefaultConfig returns the settings of `relay dev`.
func DefaultConfig() Config { return Config{Listen: "127.0.0.1:0"} }

// Validate reports all faults at once.
func (c Config) Validate() error {
	if _, err := netip.ParseAddrPort(c.Listen); err != nil {
		return fmt.Errorf("parse listen address %q: %w", c.Listen, err)
	}
	return nil
}

// Deps are what a Server uses of its surroundings.
type Deps struct {
	Log *slog.Logger
}

// Server is one embedded Redis.
type Server struct {
	cfg   Config
	log   *slog.Logger
	redis *miniredis.Miniredis
	ready chan struct{}
	addr  string // set before ready is closed
}

// New checks the configuration. It starts nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check embedded redis settings: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, log: deps.Log, redis: miniredis.NewMiniRedis(), ready: make(chan struct{})}, nil
}

// Ready is closed when the server answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is the address that clients connect to. It is known once Ready is closed.
func (s *Server) Addr() string {
	select {
	case <-s.ready:
		return s.addr
	default:
		return ""
	}
}

// Run serves until ctx ends, then closes all connections and returns nil. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.redis.StartAddr(s.cfg.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	defer s.redis.Close()
	s.addr = s.redis.Addr()
	close(s.ready)
	s.log.Info("embedded redis ready", "addr", s.addr)
	s.passTime(ctx)
	return nil
}

// passTime lets keys grow older until ctx ends.
func (s *Server) passTime(ctx context.Context) {
	last := time.Now()
	timer := time.NewTimer(step)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		s.redis.FastForward(now.Sub(last))
		last = now
		timer.Reset(max(step, stepShare*time.Since(now)))
	}
}
