// Package redis is an embedded Redis: miniredis with keys that expire in real time. Begin reading at Server.Run.
//
// This process connects with [Server.DialContext], other processes through a unix socket or loopback TCP. All data is
// in memory and lost when the process ends, but for counters of attempts, which are saved each second (counters.go).
// Commands run one at a time; a plain one takes about 25 µs, a script several times that.
//
// It has no passwords, and miniredis allocates any length that a client announces: one packet can end the process. So
// it serves only this machine, and in `relay dev` only its own process.
//
// miniredis does not measure time itself. Run reduces all TTLs every 50 ms, so a key lives up to 50 ms longer or
// shorter than its TTL. Each reduction visits every key while commands wait; with many keys they become rarer.
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/eventrelay/relay/pkg/private"
)

const (
	// expiryInterval is how often the keys' TTLs are reduced. Lease counters live for 3 s. The level of a bucket is the
	// TTL of its key, so the level that a new owner reads is too low by at most the tokens of 50 ms.
	expiryInterval = 50 * time.Millisecond
	// expiryPauseFactor times the length of the last reduction is the least pause before the next one: reductions take at
	// most 5 % of the time.
	expiryPauseFactor = 20
)

// Config is the configuration of an embedded Redis.
type Config struct {
	// Listen is the address for other processes: a loopback address, whose port 0 chooses a free port, or unix:/path.
	// Empty: only this process connects, with Server.DialContext.
	Listen string
	// Counters is the file that keeps counters of attempts; empty: they end with the process.
	Counters string
}

const unixPrefix = "unix:"

// Validate checks Listen. An address that is neither loopback nor a unix socket is an error.
func (c Config) Validate() error {
	if c.Listen == "" || strings.HasPrefix(c.Listen, unixPrefix) && c.Listen != unixPrefix {
		return nil
	}
	addr, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		return fmt.Errorf("parse listen address %q: %w", c.Listen, err)
	}
	if !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("listen address %s is not loopback: the embedded redis has no passwords; "+
			"use 127.0.0.1 or unix:/path, and a Redis server for other machines", c.Listen)
	}
	return nil
}

// Deps are the dependencies of a Server.
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

	mu     sync.Mutex     // guards server
	server *server.Server // nil before and after Run
}

// New validates the configuration. It starts nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check embedded redis settings: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, log: deps.Log, redis: miniredis.NewMiniRedis(), ready: make(chan struct{})}, nil
}

// Ready is closed once the server answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns where other processes connect: host and port, or unix:/path. It is empty until Ready is closed, and if
// only this process connects.
func (s *Server) Addr() string {
	select {
	case <-s.ready:
		return s.addr
	default:
		return ""
	}
}

// Run serves until ctx ends, then closes all connections and returns nil. It returns an error if it cannot listen. A
// Server runs once.
func (s *Server) Run(ctx context.Context) (err error) {
	// The first Dial starts miniredis without a listener of its own.
	first, err := s.redis.Dial()
	if err != nil {
		return fmt.Errorf("start embedded redis: %w", err)
	}
	first.Close()
	s.setServer(s.redis.Server())
	defer s.redis.Close()
	defer s.setServer(nil)
	if s.cfg.Listen != "" {
		listener, err := s.listen()
		if err != nil {
			return err
		}
		var accepting sync.WaitGroup
		accepting.Go(func() { s.accept(listener) })
		defer accepting.Wait()
		defer listener.Close()
	}
	saved := &counters{Server: s, path: s.cfg.Counters}
	if saved.path != "" {
		if err := saved.load(); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "attempts before this start are not counted", slog.Any("error", err))
		}
	}
	close(s.ready)
	where := s.addr
	if where == "" {
		where = "this process only"
	}
	s.log.Info("embedded redis ready", "addr", where)
	s.expireKeys(ctx, saved)
	return nil
}

func (s *Server) setServer(to *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = to
}

// serve hands a connection to miniredis unless Run has ended.
func (s *Server) serve(conn net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return errors.Join(net.ErrClosed, conn.Close())
	}
	s.server.ServeConn(conn)
	return nil
}

func (s *Server) listen() (net.Listener, error) {
	if path, unix := strings.CutPrefix(s.cfg.Listen, unixPrefix); unix {
		s.addr = s.cfg.Listen
		return private.Listen(path)
	}
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	s.addr = l.Addr().String()
	return l, nil
}

func (s *Server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if s.serve(conn) != nil {
			return
		}
	}
}

// DialContext connects from this process, whatever the address, once the server is ready. The connection is an unnamed
// socket pair. A net.Pipe has no buffer: a client that writes many commands at once and the server that answers the
// first one would block each other.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	if err := s.serve(theirs); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

func socketPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock() // a child process that is started in between must not inherit them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("create a socket pair: %w", err)
	}
	a, errA := connOf(fds[0])
	b, errB := connOf(fds[1])
	if err := errors.Join(errA, errB); err != nil {
		for _, c := range []net.Conn{a, b} {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return a, b, nil
}

func connOf(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "redis")
	defer file.Close() // FileConn duplicates the descriptor
	return net.FileConn(file)
}

// expireKeys reduces the TTLs of all keys as time passes and saves counters, until ctx ends.
func (s *Server) expireKeys(ctx context.Context, saved *counters) {
	last, savedAt := time.Now(), time.Now()
	timer := time.NewTimer(expiryInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		now := time.Now()
		if saved.path != "" && (ctx.Err() != nil || now.Sub(savedAt) >= saveInterval) {
			if err := saved.save(); err != nil {
				s.log.LogAttrs(ctx, slog.LevelWarn, "cannot save the counters of attempts", slog.Any("error", err))
			}
			savedAt = now
		}
		if ctx.Err() != nil {
			return
		}
		s.redis.FastForward(now.Sub(last))
		last = now
		timer.Reset(max(expiryInterval, expiryPauseFactor*time.Since(now)))
	}
}
