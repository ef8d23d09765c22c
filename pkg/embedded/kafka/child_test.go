package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// childEnv names the variable that tells a child process of a test what to run.
const childEnv = "RELAY_TEST_KAFKA_CHILD"

// child runs a broker, or a whole test that would harm the parent process.
func child() int {
	task, arg, _ := strings.Cut(os.Getenv(childEnv), " ")
	var err error
	switch task {
	case "serve":
		err = childServe(arg)
	case "fill":
		err = childFill(arg)
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// childServe runs a broker until its standard input is closed, which also happens when the test dies.
func childServe(arg string) error {
	addr, dir, _ := strings.Cut(arg, " ")
	cfg := DefaultConfig()
	cfg.Listen, cfg.DataDir = addr, dir
	s, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() {
		<-s.Ready()
		fmt.Println("ready")
	}()
	return s.Run(ctx)
}

// process is a child of this test binary.
type process struct {
	*exec.Cmd
	out *bufio.Scanner
}

func startChild(tb testing.TB, task string) *process {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+task)
	cmd.Stderr = tb.Output()
	stdin := must.Get(cmd.StdinPipe())(tb)
	out := must.Get(cmd.StdoutPipe())(tb)
	must.Do(tb, cmd.Start())
	tb.Cleanup(func() { stdin.Close() })
	return &process{cmd, bufio.NewScanner(out)}
}

// startBroker starts a broker in a child process and waits until it answers.
func startBroker(tb testing.TB, addr, dir string) *process {
	tb.Helper()
	p := startChild(tb, "serve "+addr+" "+dir)
	for p.out.Scan() {
		if p.out.Text() == "ready" {
			return p
		}
		tb.Log(p.out.Text())
	}
	tb.Fatalf("broker did not start: %v", p.Wait())
	return nil
}

// kill ends the child with SIGKILL.
func (p *process) kill(tb testing.TB) {
	tb.Helper()
	must.Do(tb, p.Process.Kill())
	p.Wait() // returns the signal as an error
}
