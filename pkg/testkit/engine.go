package testkit

import (
	"bytes"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopLimit is how long an engine may take to end when it is asked to.
const stopLimit = 30 * time.Second

// Engine is a real engine that a test uses.
type Engine struct {
	Addr string
	How  string // in words, for the log of the test

	command []string      // empty when the engine was found, not started
	limit   time.Duration // of a start
	cmd     *exec.Cmd     // nil while it is stopped
	wg      sync.WaitGroup
	out     lockedBuffer
}

// start starts an engine that is stopped when the test ends.
func start(t testing.TB, e *Engine) *Engine {
	t.Helper()
	t.Cleanup(func() { e.end(syscall.SIGTERM) })
	e.Start(t)
	t.Logf("runs on %s at %s", e.How, e.Addr)
	return e
}

// Start starts the engine again after Stop, on the same address and data, and waits until it takes
// connections.
func (e *Engine) Start(t testing.TB) {
	t.Helper()
	e.owned(t)
	e.cmd = exec.Command(e.command[0], e.command[1:]...)
	e.cmd.Stdout, e.cmd.Stderr = &e.out, &e.out
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", e.How, err)
	}
	cmd, ended := e.cmd, make(chan struct{})
	e.wg.Go(func() {
		defer close(ended)
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(e.limit); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", e.Addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", e.How, e.out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not answer on %s:\n%s", e.How, e.Addr, e.out.String())
}

// Stop ends the engine as its operator would: it may put its affairs in order.
func (e *Engine) Stop(t testing.TB) {
	t.Helper()
	e.owned(t)
	e.end(syscall.SIGTERM)
}

// Kill ends the engine with SIGKILL.
func (e *Engine) Kill(t testing.TB) {
	t.Helper()
	e.owned(t)
	e.end(syscall.SIGKILL)
}

// owned leaves a test out that must stop an engine which is not ours to stop.
func (e *Engine) owned(t testing.TB) {
	t.Helper()
	if len(e.command) == 0 {
		Absent(t, "%s cannot be stopped by a test", e.How)
	}
}

func (e *Engine) end(s syscall.Signal) {
	if e.cmd == nil || e.cmd.Process == nil {
		return
	}
	pid := e.cmd.Process.Pid
	_ = syscall.Kill(-pid, s)
	late := time.AfterFunc(stopLimit, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	e.wg.Wait()
	late.Stop()
	e.cmd = nil
}

// lockedBuffer takes the output of a process while the test may read it.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
