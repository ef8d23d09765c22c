// Package clickhouse runs ClickHouse inside the relay program: libchdb, loaded at run time, behind an HTTP server that
// implements the part of ClickHouse's HTTP interface that clickhouse-go uses.
//
// Requests carry statements and Native blocks. Answers carry results in the requested format and protocol version, and
// exceptions in ClickHouse's form. [Server] is the engine in this process. [Child] runs a Server in a supervised
// process of its own, so that the engine's memory, threads and crashes do not affect the relay. Begin with front.go,
// which runs one statement per request.
//
// Guarantees:
//   - An insert is answered only after the engine has finished it, and with Config.Fsync only after its parts are on
//     disk. async_insert is off and cannot be turned on by a request.
//   - When a write to a file has failed, on a full disk for example, no later write is acknowledged and the process
//     ends; the next start reads the parts and definitions that are intact: TestFullDiskLosesNothing,
//     TestDefinitionsOnAFullDisk.
//   - Requests are isolated: each runs on a connection of its own, so a SET, a USE or a broken statement never
//     affects another request.
//   - At most Config.Sessions statements run at once, the others wait; only a ping (SELECT 1) has a slot of its own.
//     That and the engine's memory limit bound the memory of the process. Two sessions are reserved for statements that
//     write: TestReadsLeaveSessionsToTheWriter.
//   - A statement that only reads is killed when its client disconnects; one that writes is finished. An insert whose
//     body ends early is cancelled.
//   - One process owns a data directory, with a file lock.
//   - No statement reaches a file, an address or a server outside the data directory: the engine's grants, and before
//     them a closed list of what a statement may name: TestStatementsStayInside, TestDisguisedCallsAreRefused.
//     [Confine] restricts the whole process where the kernel can: TestConfined.
//   - A request of a web page, one with a foreign Host, and one without the required key is rejected before its
//     statement is read: TestGuard. GET only reads: TestGetReadsOnly.
//   - A Child is reached over a unix socket in a directory that only this user can enter:
//     TestChildListensOnSocketOnly.
//
// Not supported: external tables, sessions across requests, gzip bodies, and result columns of type AggregateFunction.
// A Native result without rows has no column names.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// Deps are the dependencies of a Server.
type Deps struct {
	Log *slog.Logger
}

// Server is the engine with its HTTP server in this process. The library allows one data directory per process, so a
// program runs at most one Server at a time.
type Server struct {
	cfg   Config
	log   *slog.Logger
	ready chan struct{}
	addr  string // written before ready is closed
}

// New checks the configuration; it loads and starts nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, log: deps.Log, ready: make(chan struct{})}, nil
}

// Ready is closed once requests are answered.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the listen address: host and port, or unix:/path. It is known once Ready is closed.
func (s *Server) Addr() string { return s.addr }

// Run opens the data directory and serves until ctx ends. Then it kills statements that read, and the others get
// Config.Drain to finish. The listener is opened first: clients that connect while the engine starts are answered once
// it has.
func (s *Server) Run(ctx context.Context) (err error) {
	listener, err := listen(s.cfg.Listen)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := listener.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
			err = errors.Join(err, closeErr)
		}
	}()
	began := time.Now()
	engine, err := openEngine(ctx, s.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.close()) }()
	s.addr = listenName(s.cfg.Listen, listener.Addr())
	s.log.LogAttrs(ctx, slog.LevelInfo, "embedded clickhouse is ready",
		slog.String("address", s.Addr()), slog.String("version", engine.version), slog.Duration("took", time.Since(began)))
	watched, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop(nil)
	watch.Go(func() { stop(engine.watchWrites(watched)) })
	err = s.serve(watched, listener, engine)
	if cause := context.Cause(watched); ctx.Err() == nil && cause != nil {
		err = errors.Join(cause, err)
	}
	return err
}

func (s *Server) serve(ctx context.Context, listener net.Listener, engine *engine) error {
	requests, cancelRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRequests()
	server := &http.Server{
		Handler:           newFront(s.cfg, s.log, engine, listener.Addr()),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Hour, // clickhouse-go ends its connections after one hour
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan error, 1) // result of Shutdown
	stopShutdown := context.AfterFunc(ctx, func() {
		cancelRequests()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Drain)
		defer cancel()
		stopped <- server.Shutdown(drain)
	})
	close(s.ready)
	const maxConnections = 1000
	err := server.Serve(netutil.LimitListener(listener, maxConnections))
	if stopShutdown() {
		return fmt.Errorf("serve clickhouse: %w", err)
	}
	if err := <-stopped; err != nil {
		return errors.Join(fmt.Errorf("finish statements: %w", err), server.Close())
	}
	return nil
}

// listenName returns the address under which clients reach a listener.
func listenName(listen string, address net.Addr) string {
	if address.Network() == "unix" {
		return listen
	}
	return address.String()
}

// listen opens a TCP address or a unix socket, or uses a listening socket inherited from the parent process: "fd:3" is
// file descriptor 3.
func listen(address string) (net.Listener, error) {
	if path, unix := strings.CutPrefix(address, unixPrefix); unix {
		return private.Listen(path)
	}
	number, inherited := strings.CutPrefix(address, fdPrefix)
	if !inherited {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen for clickhouse: %w", err)
		}
		return listener, nil
	}
	fd, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read inherited listener %q: %w", address, err)
	}
	file := os.NewFile(uintptr(fd), address)
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use inherited listener %q: %w", address, err), file.Close())
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		listener = private.Inherit(unix)
	}
	return listener, file.Close()
}

// ErrLocked means that another process has locked the data directory.
var ErrLocked = errors.New("data directory is locked by another process")

// acquireLock locks the lock file and waits up to maxWait for a predecessor that is stopping. The kernel releases the
// lock when the process ends, whatever the reason.
func acquireLock(ctx context.Context, path string, maxWait time.Duration) (*os.File, error) {
	const pause = 20 * time.Millisecond
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, writeOwner(file)
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), file.Close())
		}
		switch {
		case wait.For(limited, pause) == nil:
		case ctx.Err() == nil:
			return nil, errors.Join(fmt.Errorf("%w: %s, %s", ErrLocked, path, readOwner(file)), file.Close())
		default:
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
}

// writeOwner writes the process id into the lock file, for the error message of another process that finds it locked.
func writeOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write process id to lock of data directory: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("write process id to lock of data directory: %w", err)
	}
	return nil
}

func readOwner(file *os.File) string {
	const maxIDLength = 20
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxIDLength))
	if err != nil || len(text) == 0 {
		return "process unknown"
	}
	return "process " + strings.TrimSpace(string(text))
}
