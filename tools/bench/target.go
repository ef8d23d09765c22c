package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
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
	"github.com/eventrelay/relay/tools/bench/sink"
)

// relay is the service under test: a process that the benchmark started, or a running service.
type relay struct {
	cmd   *exec.Cmd // nil if it was already running
	pids  []int     // its processes; none if it runs elsewhere
	url   string
	key   string
	ca    string        // root certificate of the API in PEM; empty = the system's
	http  *http.Client  // that trusts it; nil = the default
	admin string        // address of the admin server; empty = unknown
	ready time.Duration // from the start of the process to its ready line

	// Of a cluster: its engines and nodes in start order, the nodes' URLs, and the admin servers after the first.
	parts  []*relay
	nodes  []string
	admins []string
	// Addresses of a cluster's Kafka and ClickHouse, and the prefix of its topics.
	broker, topicPrefix, store string

	tables string // Unix socket of the embedded ClickHouse; empty = none

	// Of a started relay: the directory of its command socket, and the master keys if they are in no file of it.
	dir, masterKeys string
}

var readyLine = regexp.MustCompile(`is ready at (\S+)`)

// startRelay starts `relay dev`, or a cluster with --serve; with --target it starts nothing.
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
	r := &relay{key: apiKey, admin: admin, tables: filepath.Join(o.dir, "run", "clickhouse.sock")}
	env := append(o.environment(), "RELAY_ADMIN_LISTEN="+admin)
	if o.partitions > 0 {
		env = append(env, fmt.Sprintf("RELAY_PARTITIONS=%d", o.partitions))
	}
	if o.certificate != "" {
		files, err := r.serveTLS(o.dir, o.certificate)
		if err != nil {
			return nil, err
		}
		env = append(env, files...)
	}
	if o.stopped {
		env = append(env, "RELAY_ROLES=ingest,write,api")
	}
	r.dir, r.masterKeys = o.dir, os.Getenv("RELAY_MASTER_KEYS")
	args := []string{"dev", "--data-dir", o.dir, "--listen", "127.0.0.1:0", fmt.Sprintf("--fsync=%t", o.fsync),
		"--log-level", "warn"}
	return r, r.start(ctx, o.relay, args, env, readyLine)
}

// serveTLS writes a certificate with a key of this kind and returns the settings with which the relay serves it.
func (r *relay) serveTLS(dir, kind string) (env []string, err error) {
	var key crypto.Signer
	if kind == "rsa" {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, "ingest.pem"), filepath.Join(dir, "ingest.key")
	cert, err := sink.WriteCertificate(certFile, "127.0.0.1", key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	r.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(r.ca))
	r.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return []string{"RELAY_TLS_CERT_FILE=" + certFile, "RELAY_TLS_KEY_FILE=" + keyFile},
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// apiKey is the API key of every started relay. Started relays listen on loopback only.
const apiKey = "benchmark-key-0123456789-abcdef"

// environment returns the settings of every started relay.
func (o *options) environment() []string {
	env := []string{"RELAY_BOOTSTRAP_KEY=" + apiKey, "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true"}
	if o.person {
		env = append(env, "RELAY_ADMIN_EMAIL="+pagesEmail, "RELAY_ADMIN_PASSWORD="+pagesPassword)
	}
	if o.tls {
		env = append(env, "RELAY_EGRESS_CA_FILE="+filepath.Join(o.dir, "sink.pem"))
	}
	return env
}

// stopLimit bounds how long a process may take to end when the benchmark is interrupted.
const stopLimit = 20 * time.Second

// start starts the process and waits for the line that says that it is ready and at which address.
func (r *relay) start(ctx context.Context, binary string, args, env []string, ready *regexp.Regexp) error {
	r.cmd = exec.CommandContext(ctx, binary, args...)
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel, r.cmd.WaitDelay = func() error { return r.cmd.Process.Signal(os.Interrupt) }, stopLimit
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := r.cmd.Start(); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no binary %s; run make build or set --relay", binary)
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

// cost is what the relay has used since its start.
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

// readCost reads CPU times from the kernel and everything else from the metrics, if there are any.
func (r *relay) readCost(ctx context.Context) (cost, error) {
	c := r.currentCost()
	if err := c.addTableEvents(ctx, r.tables); err != nil || r.admin == "" {
		return c, err
	}
	for _, admin := range append([]string{r.admin}, r.admins...) {
		if err := c.addMetrics(ctx, admin); err != nil {
			return c, err
		}
	}
	c.mallocs, c.bytes = c.metrics["go_memstats_mallocs_total"], c.metrics["go_memstats_alloc_bytes_total"]
	return c, nil
}

// addMetrics adds the metrics of one admin server.
func (c *cost) addMetrics(ctx context.Context, admin string) error {
	resp, err := getAdmin(ctx, admin, "/metrics")
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

// currentCost returns the CPU times of all processes so far.
func (r *relay) currentCost() cost {
	c := cost{byKind: map[string]time.Duration{}, metrics: map[string]float64{}}
	for _, pid := range withChildren(r.pids...) {
		name, used := processKind(pid), cpu(pid)
		c.byKind[name] += used
		if strings.HasPrefix(name, "relay") {
			c.own += used
		} else {
			c.engines += used
		}
	}
	return c
}

// rss returns the resident memory of all processes, in bytes.
func (r *relay) rss() int64 { return rss(withChildren(r.pids...)...) }

// memory returns the resident memory by kind of process, in bytes.
func (r *relay) memory() map[string]int64 {
	out := map[string]int64{}
	for _, pid := range withChildren(r.pids...) {
		out[processKind(pid)] += rss(pid)
	}
	return out
}

// getAdmin sends a GET to an admin server.
func getAdmin(ctx context.Context, admin, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// profile writes a profile of the time d from now to a file: of CPU ("profile") or of allocations ("allocs").
func (r *relay) profile(ctx context.Context, what, file string, d time.Duration) error {
	resp, err := getAdmin(ctx, r.admin, fmt.Sprintf("/debug/pprof/%s?seconds=%d", what, max(int(d.Seconds()), 1)))
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

// freeAddress returns a free address for the admin server. If another process takes it first, the run fails.
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
	return cmp.Or(r.http, http.DefaultClient).Do(req)
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

// makeEndpoint creates an endpoint and returns its id.
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

// maxCreators is how many endpoints are created in parallel, because each creation waits for the log.
const maxCreators = 16

// makeEndpoints creates n endpoints that differ only in their ids.
func (r *relay) makeEndpoints(ctx context.Context, n int, body object) ([]string, error) {
	ids := make([]string, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxCreators)
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
	before := r.currentCost()
	if err := wait.For(ctx, d); err != nil {
		return cost{}, err
	}
	return r.currentCost().since(before), nil
}

// idleSettle is the time between the start and the idle measurement, in which start-up work ends.
const idleSettle = 3 * time.Second
