package kit

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// stopLimit is how long an engine may take to end when it is asked to.
const stopLimit = 2 * time.Minute

// Engine is a real engine that a test uses. What it runs as is not the test's business: it can be stopped,
// killed, frozen and started again all the same, unless it was found and belongs to somebody else.
type Engine struct {
	Addr string // host:port; of Kafka several with commas between
	URL  string // of Redis: redis://…
	How  string // in words, for the log of the test

	run   runner                                     // nil when the engine was found, not started
	ready func(ctx context.Context, e *Engine) error // nil when it takes requests
	limit time.Duration                              // of a start
	dial  dialer                                     // from where the engine can be reached
}

// runner is an engine as a process or as a container.
type runner interface {
	start() error // the first time, and after an end on the same address and data
	signal(s syscall.Signal) error
	wait(limit time.Duration) (ended bool)
	output() string
	remove() // ends it at once and clears what it left
}

// begin starts an engine that is removed when the test ends.
func begin(t testing.TB, e *Engine) *Engine {
	t.Helper()
	t.Cleanup(e.run.remove)
	e.Start(t)
	t.Logf("runs on %s at %s", e.How, e.Addr)
	return e
}

// found is an engine that somebody else runs.
func found(t testing.TB, e *Engine) *Engine {
	t.Helper()
	t.Logf("runs on %s", e.How)
	return e
}

// Start starts the engine again after Stop or Kill, on the same address and data, and waits until it takes
// requests.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	e.launch(t)
	e.await(t)
}

func (e *Engine) launch(t testing.TB) {
	t.Helper()
	e.owned(t)
	if err := e.run.start(); err != nil {
		t.Fatalf("start %s: %v", e.How, err)
	}
}

func (e *Engine) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e.limit)
	defer cancel()
	for {
		err := e.ready(ctx, e)
		if err == nil {
			return
		}
		if e.run.wait(50 * time.Millisecond) {
			t.Fatalf("%s ended:\n%s", e.How, e.run.output())
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not answer on %s (%v):\n%s", e.How, e.Addr, err, e.run.output())
		}
	}
}

// Stop ends the engine as its operator would: it may put its affairs in order.
func (e *Engine) Stop(t testing.TB) {
	t.Helper()
	e.end(t, syscall.SIGTERM)
}

// Kill ends the engine with SIGKILL.
func (e *Engine) Kill(t testing.TB) {
	t.Helper()
	e.end(t, syscall.SIGKILL)
}

// Freeze stops the engine's clock, so to speak: its connections stay open and nothing answers on them.
func (e *Engine) Freeze(t testing.TB) {
	t.Helper()
	e.send(t, syscall.SIGSTOP)
}

// Thaw lets a frozen engine go on.
func (e *Engine) Thaw(t testing.TB) {
	t.Helper()
	e.send(t, syscall.SIGCONT)
}

// Owned leaves a test out that must stop an engine which is not ours to stop.
func (e *Engine) Owned(t testing.TB) {
	t.Helper()
	e.owned(t)
}

func (e *Engine) owned(t testing.TB) {
	t.Helper()
	if e.run == nil {
		Absent(t, "%s cannot be stopped by a test", e.How)
	}
}

func (e *Engine) send(t testing.TB, s syscall.Signal) {
	t.Helper()
	e.owned(t)
	if err := e.run.signal(s); err != nil {
		t.Fatalf("send %v to %s: %v", s, e.How, err)
	}
}

func (e *Engine) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	e.send(t, s)
	if e.run.wait(stopLimit) {
		return
	}
	e.send(t, syscall.SIGKILL)
	if !e.run.wait(stopLimit) {
		t.Fatalf("%s outlives SIGKILL", e.How)
	}
}
