package kit

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// stopLimit bounds how long an engine may take to end after SIGTERM.
const stopLimit = 2 * time.Minute

// Engine is a real Kafka broker or Redis server that a test uses. A test can stop, kill, freeze and restart it in the
// same way whether it is a process or a container. An external engine, named by an environment variable, cannot be
// stopped.
type Engine struct {
	Addr        string // host:port; external Kafka: several, separated by commas
	URL         string // Redis only: redis://…
	Description string // such as "redis-server, a container", for the test log

	runner     runner                                     // nil if the engine is external
	checkReady func(ctx context.Context, e *Engine) error // nil once the engine takes requests
	startLimit time.Duration                              // bounds one start
	// connects to the engine; from inside its network namespace, if it has one
	dial dialer
}

// runner runs an engine as a process or as a container.
type runner interface {
	start() error // also restarts it after an end, with the same address and data
	signal(s syscall.Signal) error
	wait(limit time.Duration) (ended bool)
	output() string
	remove() // kills it and deletes what it left behind
}

// startEngine starts an engine and removes it when the test ends.
func startEngine(t testing.TB, e *Engine) *Engine {
	t.Helper()
	t.Cleanup(e.runner.remove)
	e.Start(t)
	t.Logf("runs on %s at %s", e.Description, e.Addr)
	return e
}

// externalEngine logs that the test uses an engine that it did not start.
func externalEngine(t testing.TB, e *Engine) *Engine {
	t.Helper()
	t.Logf("runs on %s", e.Description)
	return e
}

// Start restarts the engine after Stop or Kill, with the same address and data, and waits until it takes requests.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	e.launch(t)
	e.awaitReady(t)
}

func (e *Engine) launch(t testing.TB) {
	t.Helper()
	e.requireOwned(t)
	if err := e.runner.start(); err != nil {
		t.Fatalf("cannot start %s: %v", e.Description, err)
	}
}

func (e *Engine) awaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e.startLimit)
	defer cancel()
	for {
		err := e.checkReady(ctx, e)
		if err == nil {
			return
		}
		if e.runner.wait(50 * time.Millisecond) {
			t.Fatalf("%s ended:\n%s", e.Description, e.runner.output())
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not answer on %s (%v):\n%s", e.Description, e.Addr, err, e.runner.output())
		}
	}
}

// Stop ends the engine with SIGTERM, so that it shuts down cleanly.
func (e *Engine) Stop(t testing.TB) {
	t.Helper()
	e.terminate(t, syscall.SIGTERM)
}

// Kill ends the engine with SIGKILL.
func (e *Engine) Kill(t testing.TB) {
	t.Helper()
	e.terminate(t, syscall.SIGKILL)
}

// Freeze suspends the engine with SIGSTOP: its connections stay open, but nothing is answered.
func (e *Engine) Freeze(t testing.TB) {
	t.Helper()
	e.signal(t, syscall.SIGSTOP)
}

// Thaw resumes a frozen engine with SIGCONT.
func (e *Engine) Thaw(t testing.TB) {
	t.Helper()
	e.signal(t, syscall.SIGCONT)
}

// RequireOwned skips the test if the engine is external and must not be stopped.
func (e *Engine) RequireOwned(t testing.TB) {
	t.Helper()
	e.requireOwned(t)
}

func (e *Engine) requireOwned(t testing.TB) {
	t.Helper()
	if e.runner == nil {
		SkipMissing(t, "a test cannot stop %s", e.Description)
	}
}

func (e *Engine) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	e.requireOwned(t)
	if err := e.runner.signal(s); err != nil {
		t.Fatalf("send %v to %s: %v", s, e.Description, err)
	}
}

func (e *Engine) terminate(t testing.TB, s syscall.Signal) {
	t.Helper()
	e.signal(t, s)
	if e.runner.wait(stopLimit) {
		return
	}
	e.signal(t, syscall.SIGKILL)
	if !e.runner.wait(stopLimit) {
		t.Fatalf("%s outlives SIGKILL", e.Description)
	}
}
