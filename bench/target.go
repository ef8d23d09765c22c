package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/wait"
)

// relay is what is measured: a process that was started for it, or a service that runs already.
type relay struct {
	cmd   *exec.Cmd // nil when it runs already
	pids  []int     // its processes; none when it runs elsewhere
	url   string
	key   string
	admin string        // address of metrics and pprof; empty = unknown
	ready time.Duration // from the start of the process to its ready line

	// Of a cluster: its engines and nodes in the order in which they were started, the nodes' URLs, and the
	// admin servers besides the first.
	parts  []*relay
	nodes  []string
	admins []string

	// Of what was started: the directory of its command socket, and the master keys when they are in no file of it.
	dir, masterKeys string
}

var readyLine = regexp.MustCompile(`is ready at (\S+)`)

// startRelay starts what o says: `relay dev` of a binary, or nothing where a target is given.
func startRelay(ctx context.Context, o options) (*relay, error) {
	if o.target != "" {
		return &relay{url: strings.TrimSuffix(o.target, "/"), key: o.key, pids: o.pids, admin: o.admin}, nil
	}
	if o.serve > 0 {
		return startCluster(ctx, o)
	}
	admin, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	r := &relay{key: apiKey, admin: admin}
	env := append(o.environment(), "RELAY_ADMIN_LISTEN="+admin)
	if o.partitions > 0 {
		env = append(env, fmt.Sprintf("RELAY_PARTITIONS=%d", o.partitions))
	}
	if o.stopped {
		env = append(env, "RELAY_ROLES=ingest,write,api")
	}
	r.dir, r.masterKeys = o.dir, os.Getenv("RELAY_MASTER_KEYS")
	args := []string{"dev", "--data-dir", o.dir, "--listen", "127.0.0.1:0", fmt.Sprintf("--fsync=%t", o.fsync),
		"--log-level", "warn"}
	return r, r.start(ctx, o.relay, args, env, readyLine)
}

// apiKey is that of every relay that is started. Whoever could use it is on this machine, as the relay is.
const apiKey = "benchmark-key-0123456789-abcdef"

// environment are the settings of every relay that is started.
func (o *options) environment() []string {
	env := []string{"RELAY_BOOTSTRAP_KEY=" + apiKey, "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true"}
	if o.tls {
		env = append(env, "RELAY_EGRESS_CA_FILE="+filepath.Join(o.dir, "sink.pem"))
	}
	return env
}

// endWithin is how long a process may take to end by itself when the benchmark is interrupted.
const endWithin = 20 * time.Second

// start starts the process and waits until a line of it says that it is ready, and where.
func (r *relay) start(ctx context.Context, binary string, args, env []string, ready *regexp.Regexp) error {
	r.cmd = exec.CommandContext(ctx, binary, args...)
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel, r.cmd.WaitDelay = func() error { return r.cmd.Process.Signal(os.Interrupt) }, endWithin
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := r.cmd.Start(); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no binary %s; run make build, or name another with --relay", binary)
	} else if err != nil {
		return err
	}
	r.pids = []int{r.cmd.Process.Pid}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := ready.FindStringSubmatch(lines.Text()); m != nil {
			r.url, r.ready = m[1], time.Since(started)
			return nil
		}
	}
	return fmt.Errorf("%s %s ended before it was ready: %w", filepath.Base(binary), args[0], r.cmd.Wait())
}

func (r *relay) stop() {
	for _, p := range slices.Backward(r.parts) {
		p.stop()
	}
	if r.cmd == nil || r.cmd.Process == nil {
		return
	}
	_ = r.cmd.Process.Signal(os.Interrupt)
	_ = r.cmd.Wait()
}

// cost is what the relay has used so far.
type cost struct {
	own, engines   time.Duration // CPU of its own processes, and of its engines'
	byKind         map[string]time.Duration
	mallocs, bytes float64            // allocations of its own process
	metrics        map[string]float64 // by name and labels, and the sums by name
}

func (c cost) since(before cost) cost {
	d := cost{
		own: c.own - before.own, engines: c.engines - before.engines, byKind: map[string]time.Duration{},
		mallocs: c.mallocs - before.mallocs, bytes: c.bytes - before.bytes, metrics: map[string]float64{},
	}
	for k, v := range c.byKind {
		d.byKind[k] = v - before.byKind[k]
	}
	for k, v := range c.metrics {
		d.metrics[k] = v - before.metrics[k]
	}
	return d
}

// cost reads CPU from the kernel and all else from the metrics, where there are any.
func (r *relay) cost(ctx context.Context) (cost, error) {
	c := r.used()
	if r.admin == "" {
		return c, nil
	}
	for _, admin := range append([]string{r.admin}, r.admins...) {
		if err := c.read(ctx, admin); err != nil {
			return c, err
		}
	}
	c.mallocs, c.bytes = c.metrics["go_memstats_mallocs_total"], c.metrics["go_memstats_alloc_bytes_total"]
	return c, nil
}

// read adds the metrics of one admin server.
func (c *cost) read(ctx context.Context, admin string) error {
	resp, err := get(ctx, admin, "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		full := lines.Text()[:at]
		name, _, labelled := strings.Cut(full, "{")
		n, _ := strconv.ParseFloat(lines.Text()[at+1:], 64)
		if c.metrics[name] += n; labelled {
			c.metrics[full] += n
		}
	}
	return lines.Err()
}

// used is the CPU of all processes so far.
func (r *relay) used() cost {
	c := cost{byKind: map[string]time.Duration{}, metrics: map[string]float64{}}
	for _, pid := range withChildren(r.pids...) {
		name, used := kind(pid), cpu(pid)
		c.byKind[name] += used
		if name == "relay" {
			c.own += used
		} else {
			c.engines += used
		}
	}
	return c
}

// rss is the resident memory of all processes, in bytes.
func (r *relay) rss() int64 { return rss(withChildren(r.pids...)...) }

// memory is the same by kind of process.
func (r *relay) memory() map[string]int64 {
	out := map[string]int64{}
	for _, pid := range withChildren(r.pids...) {
		out[kind(pid)] += rss(pid)
	}
	return out
}

// get asks an admin server.
func get(ctx context.Context, admin, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// profile writes a profile of the next seconds to a file: of CPU ("profile") or of allocations ("allocs").
func (r *relay) profile(ctx context.Context, what, file string, d time.Duration) error {
	resp, err := get(ctx, r.admin, fmt.Sprintf("/debug/pprof/%s?seconds=%d", what, max(int(d.Seconds()), 1)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("take profile: %s", resp.Status)
	}
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

// request makes an API request; its body is JSON.
func (r *relay) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// call makes an API request, and reads its answer into out unless that is nil.
func (r *relay) call(ctx context.Context, method, path string, body, out any) error {
	resp, err := r.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// object is the body of an API request.
type object = map[string]any

// makeEndpoint makes an endpoint and returns its id.
func (r *relay) makeEndpoint(ctx context.Context, body object) (string, error) {
	var made struct{ ID string }
	err := r.call(ctx, http.MethodPost, "/v1/endpoints", body, &made)
	if err == nil && made.ID == "" {
		err = errors.New("the answer has no id")
	}
	if err != nil {
		return "", fmt.Errorf("create endpoint: %w", err)
	}
	return made.ID, nil
}

// creators is how many endpoints are created at once: each waits for the log.
const creators = 16

// makeEndpoints makes so many endpoints that differ in nothing but their ids.
func (r *relay) makeEndpoints(ctx context.Context, n int, body object) ([]string, error) {
	ids := make([]string, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for i := range ids {
		g.Go(func() (err error) {
			ids[i], err = r.makeEndpoint(gctx, body)
			return err
		})
	}
	return ids, g.Wait()
}

// idleCost measures what the relay uses during d without work; 0 measures nothing.
func (r *relay) idleCost(ctx context.Context, d time.Duration) (cost, error) {
	if d <= 0 {
		return cost{}, nil
	}
	if err := wait.For(ctx, idleSettle); err != nil {
		return cost{}, err
	}
	before := r.used()
	if err := wait.For(ctx, d); err != nil {
		return cost{}, err
	}
	return r.used().since(before), nil
}

// idleSettle is how long what the start has set going may take before the idle time is measured.
const idleSettle = 3 * time.Second
