package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// relay is the process under test.
type relay struct {
	cmd   *exec.Cmd
	url   string
	key   string
	ready time.Duration // from the start of the process to its ready line
}

var readyLine = regexp.MustCompile(`is ready at (\S+)`)

func startRelay(ctx context.Context, o options) (*relay, error) {
	r := &relay{key: "bench-key-0123456789"}
	r.cmd = exec.CommandContext(ctx, o.relay, "dev", "--data-dir", o.dir, "--listen", "127.0.0.1:0", fmt.Sprintf("--fsync=%t", o.fsync), "--log-level", "warn")
	r.cmd.Env = append(os.Environ(), "RELAY_BOOTSTRAP_KEY="+r.key, "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true")
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
			r.url, r.ready = m[1], time.Since(started)
			return r, nil
		}
	}
	return nil, fmt.Errorf("relay ended before it was ready: %w", r.cmd.Wait())
}

func (r *relay) stop() {
	_ = r.cmd.Process.Signal(os.Interrupt)
	_ = r.cmd.Wait()
}

// processes are the ids of the relay and all it started.
func (r *relay) processes() []int {
	pids := []int{r.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for _, field := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// cpu is the user and system time of all processes so far, from the kernel (10 ms steps).
func (r *relay) cpu() time.Duration {
	var ticks int64
	for _, pid := range r.processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			continue
		}
		for _, f := range fields[11:13] {
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// rss is the resident memory of all processes, in bytes.
func (r *relay) rss() int64 {
	var pages int64
	for _, pid := range r.processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if fields := strings.Fields(string(b)); len(fields) > 1 {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			pages += n
		}
	}
	return pages * int64(os.Getpagesize())
}
