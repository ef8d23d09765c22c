// Package redis is an embedded Redis: miniredis with keys that expire as time passes.
//
// Any Redis client in: from this process by [Server.DialContext], from others by a unix socket or loopback TCP.
// Everything is in memory and gone at the end of the process: it holds only what may be lost, which are rate leases and
// the memory of deduplication. Commands run one at a time; a plain one costs some 25 µs, a script several times that.
//
// It knows no passwords, and miniredis trusts the lengths that a client names: one packet ends the process. So it
// serves its own machine only, and in `relay dev` its own process only.
//
// miniredis leaves time to its caller. Run moves it on in steps, so a key lives as long as it should, give
// or take one step. A step visits every key while commands wait; with many keys steps become rarer
// instead of taking the time away from the commands.
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
	// expiryInterval is how often keys grow older. Counters of leases live for 3 s; a bucket, whose level is the life that
	// its key has left, is seen 50 ms of its rate too empty at worst.
	expiryInterval = 50 * time.Millisecond
	// expiryShare is how many times longer than a step took the next one waits at least: expiring keys
	// takes at most 5 % of the time.
	expiryShare = 20
)

// Config is how an embedded Redis is set up.
type Config struct {
	// Listen is where other processes connect: a loopback address, whose port 0 takes a free port, or unix:/path.
	// Empty: only this process connects, see Server.DialContext.
	Listen string
}

const unixPrefix = "unix:"

// Validate reports all faults at once.
func (c Config) Validate() error {
	if c.Listen == "" || strings.HasPrefix(c.Listen, unixPrefix) && c.Listen != unixPrefix {
		return nil
	}
	addr, err := netip.ParseAddrPort(c.Listen)
	if err != nil {
		return fmt.Errorf("parse listen address %q: %w", c.Listen, err)
	}
	if !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("listen address %s is not loopback: the embedded redis knows no passwords; "+
			"use 127.0.0.1 or unix:/path, and a Redis server for other machines", c.Listen)
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

	mu     sync.Mutex     // guards server
	server *server.Server // nil before the start and after the end
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

// Addr is where clients connect: host and port, or unix:/path, or nothing. It is known once Ready is closed.
func (s *Server) Addr() string {
	select {
	case <-s.ready:
		return s.addr
	default:
		return ""
	}
}

// Run serves until ctx ends, then closes all connections and returns nil. A Server runs once.
func (s *Server) Run(ctx context.Context) (err error) {
	// miniredis starts without a listener of its own when it is first dialled.
	first, err := s.redis.Dial()
	if err != nil {
		return fmt.Errorf("start: %w", err)
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
	close(s.ready)
	where := s.addr
	if where == "" {
		where = "this process only"
	}
	s.log.Info("embedded redis ready", "addr", where)
	s.expireKeys(ctx)
	return nil
}

func (s *Server) setServer(to *server.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = to
}

// serve hands a connection to miniredis unless that has ended.
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

// DialContext connects from within the process, whatever the address is. The connection is a pair of sockets without a
// name: a net.Pipe has no buffer, so that a client that sends many commands at once and the server that answers the
// first would wait for each other.
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
	syscall.ForkLock.RLock() // a process that is started in between must not inherit them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
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
	defer file.Close() // FileConn has a copy
	return net.FileConn(file)
}

// expireKeys lets keys grow older until ctx ends.
func (s *Server) expireKeys(ctx context.Context) {
	last := time.Now()
	timer := time.NewTimer(expiryInterval)
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
		timer.Reset(max(expiryInterval, expiryShare*time.Since(now)))
	}
}
