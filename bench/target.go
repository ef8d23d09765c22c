package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	admin string        // address of metrics and pprof
	ready time.Duration // from the start of the process to its ready line
}

var readyLine = regexp.MustCompile(`is ready at (\S+)`)

func startRelay(ctx context.Context, o options) (*relay, error) {
	admin, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	r := &relay{key: "bench-key-0123456789", admin: admin}
	r.cmd = exec.CommandContext(ctx, o.relay, "dev", "--data-dir", o.dir, "--listen", "127.0.0.1:0", fmt.Sprintf("--fsync=%t", o.fsync), "--log-level", "warn")
	r.cmd.Env = append(os.Environ(), "RELAY_BOOTSTRAP_KEY="+r.key, "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true", "RELAY_ADMIN_LISTEN="+admin)
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

// cost is what the relay has used so far.
type cost struct {
	own, engines   time.Duration // CPU of its own process, and of those that it started
	mallocs, bytes float64       // allocations of its own process
}

func (c cost) since(before cost) cost {
	return cost{c.own - before.own, c.engines - before.engines, c.mallocs - before.mallocs, c.bytes - before.bytes}
}

// cost reads CPU from the kernel (10 ms steps) and allocations from the metrics.
func (r *relay) cost(ctx context.Context) (cost, error) {
	pids := r.processes()
	c := cost{own: cpu(pids[:1]), engines: cpu(pids[1:])}
	resp, err := r.get(ctx, "/metrics")
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "go_memstats_mallocs_total":
			c.mallocs = n
		case "go_memstats_alloc_bytes_total":
			c.bytes = n
		}
	}
	return c, nil
}

// get asks the admin server.
func (r *relay) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// profile writes a CPU profile of the next seconds to a file.
func (r *relay) profile(ctx context.Context, file string, d time.Duration) error {
	resp, err := r.get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(int(d.Seconds()), 1)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, resp.Body)
	return errors.Join(err, out.Close())
}

// freeAddress finds a port for the admin server. Somebody else may take it in between; then the run fails.
func freeAddress(ctx context.Context) (string, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// cpu is the user and system time of processes.
func cpu(pids []int) time.Duration {
	var ticks int64
	for _, pid := range pids {
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
