package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// ChildConfig says how the engine's process is started and supervised.
type ChildConfig struct {
	// Socket is the path of the unix socket, which stays open through all restarts of the engine. Its directory is
	// created and closed to other users. Empty: run/clickhouse.sock in Data.
	Socket string
	// Data, Backups, Library and Fsync are those of Config.
	Data    string
	Backups string
	Library string
	Fsync   bool
	// Executable is the program to start; empty: this one.
	Executable string
	// Args come before the flags of the engine.
	Args []string
	// Env is the environment of the engine besides that of this process, of which it gets all but the RELAY_… variables.
	Env []string
	// StartTimeout is how long the engine may take to answer after its start; then it is killed and started again.
	StartTimeout time.Duration
	// StopTimeout is how long the engine may take to stop; then it is killed.
	StopTimeout time.Duration
	// FirstPause and LongestPause bound the pause before a restart, which doubles with each failed start.
	FirstPause   time.Duration
	LongestPause time.Duration
	// StartAttempts is how many starts may fail in a row before the engine has answered once; then Run returns an
	// error. After the first answer failed starts are retried without limit.
	StartAttempts int
}

// DefaultChildConfig returns the defaults of everything but Data.
func DefaultChildConfig() ChildConfig {
	return ChildConfig{
		Fsync:         true,
		Args:          []string{"engine", "clickhouse"},
		StartTimeout:  60 * time.Second,
		StopTimeout:   20 * time.Second,
		FirstPause:    50 * time.Millisecond,
		LongestPause:  5 * time.Second,
		StartAttempts: 3,
	}
}

// Validate returns all faults of the configuration, joined. It also looks for the library, so that whoever starts the
// program sees the error.
func (c ChildConfig) Validate() error {
	_, missing := FindLibrary(c.Library)
	return errors.Join(
		missing,
		require(c.Data != "", "data directory is missing"),
		require(c.StartTimeout > 0, "start timeout must be positive"),
		require(c.StopTimeout > 0, "stop timeout must be positive"),
		require(c.FirstPause > 0 && c.LongestPause >= c.FirstPause, "pauses must be positive and in order"),
		require(c.StartAttempts > 0, "start attempts must be positive"),
	)
}

// ChildDeps are the dependencies of a Child.
type ChildDeps struct {
	Log *slog.Logger
	// Stderr receives what the engine's process writes; nil discards it.
	Stderr io.Writer
}

// Child runs the engine in a process of its own and starts it again when it ends. The listening socket belongs to this
// process and is inherited by each engine: the address stays, and a connection made during a restart waits in the
// socket's queue instead of being refused. On Linux the engine is killed when this process ends, whatever the reason.
type Child struct {
	cfg      ChildConfig
	log      *slog.Logger
	stderr   io.Writer
	listener *private.Listener
	restarts atomic.Int64
	pid      atomic.Int64
	ready    chan struct{}

	mu      sync.Mutex // guards dataDir
	dataDir *os.File   // open data directory, for Sync
}

// NewChild creates the data directory and the socket; it starts nothing.
func NewChild(cfg ChildConfig, deps ChildDeps) (*Child, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Executable == "" {
		executable, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the executable: %w", err)
		}
		cfg.Executable = executable
	}
	listener, err := openSocket(&cfg)
	if err != nil {
		return nil, fmt.Errorf("listen for clickhouse: %w", err)
	}
	return &Child{cfg: cfg, log: deps.Log, stderr: deps.Stderr, listener: listener, ready: make(chan struct{})}, nil
}

func openSocket(cfg *ChildConfig) (_ *private.Listener, err error) {
	if cfg.Data, err = filepath.Abs(cfg.Data); err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := private.EnsureDir(cfg.Data, lockFile); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(cmp.Or(cfg.Socket, filepath.Join(cfg.Data, "run", "clickhouse.sock")))
	if err != nil {
		return nil, fmt.Errorf("find socket: %w", err)
	}
	if err := private.EnsureDir(filepath.Dir(path), ""); err != nil {
		return nil, err
	}
	return private.Listen(path)
}

// Socket returns the path of the engine's unix socket.
func (c *Child) Socket() string { return c.listener.Path() }

// Ready is closed once the engine has answered for the first time.
func (c *Child) Ready() <-chan struct{} { return c.ready }

// Restarts returns the number of starts after the first.
func (c *Child) Restarts() int64 { return c.restarts.Load() }

// PID returns the process id of the engine, 0 before its first start.
func (c *Child) PID() int { return int(c.pid.Load()) }

// Run keeps the engine running until ctx ends, then stops it and waits for its end.
func (c *Child) Run(ctx context.Context) (err error) {
	onOwnThread(func() { err = c.run(ctx) })
	return err
}

// onOwnThread runs f on a thread that ends with it, for two reasons: the kernel kills the child when the thread that
// started it ends, not when the process does (prctl(2), PR_SET_PDEATHSIG), and f lowers the priority of its thread. The
// main thread of a process does not end with its goroutine: it is kept busy while f gets another one.
func onOwnThread(f func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		runtime.LockOSThread()
		if onFirstThread() {
			defer runtime.UnlockOSThread()
			onOwnThread(f)
			return
		}
		f() // the goroutine ends locked, which ends the thread
	})
}

// steady is how long a process must have run for the next pause to be short again.
const steady = time.Minute

func (c *Child) run(ctx context.Context) (err error) {
	if err := lowerPriority(); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "cannot lower the priority of embedded clickhouse",
			slog.Any("error", err))
	}
	file, err := c.listener.File()
	if err != nil {
		return errors.Join(fmt.Errorf("share the listener: %w", err), c.listener.Close())
	}
	defer func() { err = errors.Join(err, file.Close(), c.listener.Close(), c.closeDataDir()) }()
	pauses := wait.Backoff{First: c.cfg.FirstPause, Longest: c.cfg.LongestPause}
	try, failures := 0, 0
	for {
		began := time.Now()
		answered, cause := c.runProcess(ctx, file)
		if ctx.Err() != nil {
			return cause
		}
		if time.Since(began) > steady {
			try = 0
		}
		if answered {
			failures = 0
		} else if failures++; failures >= c.cfg.StartAttempts && !c.wasReady() {
			return fmt.Errorf("embedded clickhouse failed to start %d times: %w", failures, cause)
		}
		pause := pauses.After(try)
		c.log.LogAttrs(ctx, slog.LevelError, "embedded clickhouse has ended, starting it again",
			slog.Any("error", cause), slog.Duration("pause", pause))
		if wait.For(ctx, pause) != nil {
			return nil
		}
		try++
		c.restarts.Add(1)
	}
}

func (c *Child) closeDataDir() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dataDir == nil {
		return nil
	}
	defer func() { c.dataDir = nil }()
	return c.dataDir.Close()
}

func (c *Child) wasReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// runProcess runs one process to its end and reports whether it ever answered. The error says why it ended; nil after
// an orderly stop that ctx asked for.
func (c *Child) runProcess(ctx context.Context, listener *os.File) (answered bool, err error) {
	output := &tail{forward: c.stderr}
	cmd := c.command(ctx, listener, output)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start process: %w", err)
	}
	c.pid.Store(int64(cmd.Process.Pid))
	startCtx, processEnded := context.WithTimeoutCause(ctx, c.cfg.StartTimeout, errNoAnswer)
	var watch sync.WaitGroup
	watch.Go(func() {
		if answered = c.waitForPing(startCtx); answered {
			c.reportReady(ctx, time.Since(began))
		} else if errors.Is(context.Cause(startCtx), errNoAnswer) {
			c.log.LogAttrs(ctx, slog.LevelError, "embedded clickhouse does not answer, killing it",
				slog.Any("reason", errNoAnswer),
				slog.Any("kill_error", cmd.Process.Kill()))
		}
	})
	err = cmd.Wait()
	processEnded()
	watch.Wait()
	if ctx.Err() != nil && cmd.ProcessState.Success() {
		return answered, nil
	}
	if err == nil {
		err = errors.New("process ended without being asked to")
	}
	return answered, fmt.Errorf("run process: %w%s", err, output.quote())
}

var errNoAnswer = errors.New("no answer within the start timeout")

func (c *Child) command(ctx context.Context, listener *os.File, stderr io.Writer) *exec.Cmd {
	args := append([]string{}, c.cfg.Args...)
	// The first of ExtraFiles becomes file descriptor 3.
	args = append(args, "--listen", "fd:3", "--data", c.cfg.Data, fmt.Sprintf("--fsync=%t", c.cfg.Fsync))
	if c.cfg.Backups != "" {
		args = append(args, "--backups", c.cfg.Backups)
	}
	if c.cfg.Library != "" {
		args = append(args, "--library", c.cfg.Library)
	}
	cmd := exec.CommandContext(ctx, c.cfg.Executable, args...)
	cmd.Env = append(childEnvironment(), c.cfg.Env...)
	cmd.ExtraFiles = []*os.File{listener}
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.cfg.StopTimeout
	return cmd
}

// childEnvironment is the environment of this process without the relay's settings: there are secrets among them, and
// the engine gets what it needs as flags. Its time zone is UTC: ClickHouse does not start with a TZ such as
// CET-1CEST,M3.5.0,M10.5.0/3, which POSIX allows.
func childEnvironment() []string {
	return append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "RELAY_") || strings.HasPrefix(entry, "TZ=")
	}), "TZ=UTC")
}

// waitForPing reports whether the engine answers a ping before ctx ends. One request suffices: its connection waits in
// the socket's queue until the engine accepts it.
func (c *Child) waitForPing(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/ping", http.NoBody)
	if err != nil {
		return false
	}
	response, err := c.client().Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (c *Child) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return private.Dial(ctx, c.Socket()) }
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// maxException bounds what is read of an exception, in bytes.
const maxException = 4 << 10

// Exec runs a statement without a result, such as BACKUP, to its end.
func (c *Child) Exec(ctx context.Context, statement string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(statement))
	if err != nil {
		return err
	}
	response, err := c.client().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxException))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return err
}

func (c *Child) reportReady(ctx context.Context, took time.Duration) {
	if !c.wasReady() {
		close(c.ready)
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "embedded clickhouse is running",
		slog.String("socket", c.Socket()), slog.Int("pid", c.PID()), slog.Duration("took", took),
		slog.Int64("restarts", c.Restarts()))
}

// tail is a writer that forwards everything and keeps the last 2 KiB, for the error that says why a process ended. One
// goroutine writes; it is read after that.
type tail struct {
	forward io.Writer
	kept    []byte
}

// Write never fails: an error would kill the process whose output it is.
func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-keep):]
	if t.forward != nil {
		_, _ = t.forward.Write(p)
	}
	return len(p), nil
}

// quote returns the kept output on one line, to be appended to an error message; empty if there is none.
func (t *tail) quote() string {
	text := strings.TrimSpace(string(t.kept))
	if text == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(text), " ")
}
