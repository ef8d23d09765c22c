package e2e

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kafka"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// The test binary is also the relay binary: called with a relay command, it runs that. So the tests start and kill real
// processes, and these count for test coverage.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == clickhouseServer {
		fmt.Fprintln(os.Stderr, serveClickHouse(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		crash.Enable()
		ctx, stop := command.UntilSignal(context.Background())
		if len(os.Args) > 2 && os.Args[1] == "engine" && os.Args[2] == "kafka" {
			if err := kafka.Main(ctx, os.Args[3:], os.Stdout, os.Stderr); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	// Paths in tests are relative to the root of the module.
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	// Tests wait for processes and timers more than they use the CPU. A -test.parallel flag on the command line wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(withBuilt(m.Run))
}

// shortWaits is the environment variable with which a relay under test waits less. These waits are no settings. The
// tests of their packages run with their full length.
const shortWaits = "RELAY_TEST_SHORT_WAITS"

// waits let a leak scan send 50 requests a second instead of 5, and give up what a dead node has begun after seconds
// instead of 30: a call with an Idempotency-Key, the replay run that it queued, and the deduplication key of an event
// that it received.
func waits(getenv func(string) string) nodeconfig.Waits {
	if getenv(shortWaits) == "" {
		return nodeconfig.Waits{}
	}
	const short = 5 * time.Second
	return nodeconfig.Waits{ScanInterval: 20 * time.Millisecond, ClaimLife: short, RunProgress: short, PendingClaim: short}
}

// withBuilt runs the tests with a directory for the binaries that they build and the processes that they share.
func withBuilt(run func() int) int {
	dir, err := os.MkdirTemp("", "relay-built")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	built.dir, built.of = dir, map[string]string{}
	if sinkCA, err = writeSinkCA(dir); err != nil {
		panic(err)
	}
	shared.dir, shared.of = filepath.Join(dir, "shared"), map[string]*process{}
	shared.names = map[string]int{}
	return endShared(run())
}

// run runs a relay command, as main does.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return command.Program{Version: "dev", Waits: waits(getenv)}.Run(ctx, args, getenv, stdout, stderr)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return b
}

// Keys of every relay under test.
const (
	testKey     = "test-key-0123456789abcdef"
	testReadKey = "test-read-0123456789abcdef"
)

// process is a relay or engine process under test. The url of an engine is its host and port.
type process struct {
	client
	binary string    // default: the test binary
	host   *kit.Host // where it runs; nil = on this machine
	dir    string
	args   []string
	env    []string
	// adminAt is the address of the admin server; if empty it is read from the log.
	adminAt string
	printed tail // its standard output
	cmd     *exec.Cmd
	wg      sync.WaitGroup
	done    chan struct{} // closed when the process has ended
	exit    error         // set before over is closed
}

// newProcess prepares a relay that may deliver to sinks: it allows loopback and trusts their certificate. start starts
// it.
func newProcess(t *testing.T, dir string, args []string, env ...string) *process {
	t.Helper()
	p := unmanagedProcess(t, dir, args, env...)
	t.Cleanup(func() {
		p.kill()
		is.Lacks(t, p.logs.String(), "DATA RACE", "the race detector reports:\n%s", p.logs)
	})
	return p
}

// unmanagedProcess is newProcess for a process that does not end with the test.
func unmanagedProcess(t *testing.T, dir string, args []string, env ...string) *process {
	t.Helper()
	p := &process{client: client{t: t, key: testKey, logs: &tail{}}, binary: os.Args[0], dir: dir, args: args}
	p.env = append([]string{
		"RELAY_CHDB_LIB=" + kit.ChdbLibrary(t), "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_CA_FILE=" + sinkCA,
		"RELAY_BOOTSTRAP_KEY=" + testKey, "RELAY_BOOTSTRAP_READ_KEY=" + testReadKey,
		"RELAY_SHUTDOWN_DELAY_SECONDS=0", // no load balancer has to notice a stop
		"RELAY_LOG_KEEP_MINUTES=1440",    // the ledger reads completed records from the log; keep all of them
	}, env...)
	return p
}

// newDevProcess prepares `relay dev` on a data directory.
func newDevProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	return newProcess(t, dir, []string{"dev", "--data-dir", dir, "--admin-listen", "127.0.0.1:0"}, env...)
}

// startDevProcess starts `relay dev` on a data directory and waits until it is ready.
func startDevProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := newDevProcess(t, dir, env...)
	p.start()
	return p
}

// readyLine matches the line that a relay or an engine prints when it takes requests.
var readyLine = regexp.MustCompile(`(?:EventRelay is ready at|^(?:kafka|redis|clickhouse) listens on) (\S+)$`)

// command returns a command of the relay binary with the environment of the process.
func (p *process) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.binary, args...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// output runs a command of the relay binary to its end and returns what it printed.
func (p *process) output(args ...string) (out []byte, err error) {
	cmd := p.command(args...)
	if p.host == nil {
		return cmd.CombinedOutput()
	}
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := p.host.Start(cmd); err != nil {
		return nil, err
	}
	err = cmd.Wait()
	return text.Bytes(), err
}

// start starts the process and waits for its ready line. It listens at its url; without one, at a free port, which a
// later start uses, too.
func (p *process) start() {
	p.t.Helper()
	var listen string
	switch {
	case p.url != "":
		listen = strings.TrimPrefix(p.url, "http://")
	case p.host != nil:
		listen = net.JoinHostPort(p.host.Addr.String(), "0")
	default:
		listen = fmt.Sprintf("127.0.0.1:%d", kit.FreePort(p.t))
	}
	p.cmd = p.command(append(p.args, "--listen", listen)...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = p.logs
	stdout := must.Get(p.cmd.StdoutPipe())(p.t)
	launch := p.cmd.Start
	if p.host != nil {
		launch = func() error { return p.host.Start(p.cmd) }
	}
	must.Do(p.t, launch())
	ready, over := make(chan string, 1), make(chan struct{})
	p.done = over
	p.wg.Go(func() {
		defer close(over)
		defer close(ready)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			fmt.Fprintln(&p.printed, lines.Text())
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
			}
		}
		p.exit = p.cmd.Wait()
	})
	select {
	case url, ok := <-ready:
		if !ok {
			p.wg.Wait()
			p.t.Fatalf("relay %v ended: %v\n%s", p.args, p.exit, p.logs)
		}
		if p.url == "" || strings.HasSuffix(p.url, ":0") { // else url may be the public address of several nodes
			p.url = url
		}
	case <-time.After(busy * time.Minute):
		p.kill()
		p.t.Fatalf("relay %v is not ready after %v:\n%s", p.args, busy*time.Minute, p.logs)
	}
}

// signal sends a signal to the process itself.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	must.Do(p.t, p.cmd.Process.Signal(s), "signal relay %v", p.args)
}

// kill kills the whole process group with SIGKILL.
func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.wg.Wait()
}

// stop sends a signal to the process, waits until it ends and returns its exit error.
func (p *process) stop(s syscall.Signal) error {
	p.t.Helper()
	p.signal(s)
	return p.awaitExit(busy * time.Minute)
}

// awaitExit waits until the process ends and returns its exit error.
func (p *process) awaitExit(limit time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.exit
	case <-time.After(limit):
		p.kill()
		p.t.Fatalf("relay %v still runs after %v:\n%s", p.args, limit, p.logs)
		return nil
	}
}

var adminLine = regexp.MustCompile(`serving metrics(?: and pprof)?" node=\S+ addr=(\S+)`)

// adminAddress returns the address of the admin server, "" if it is not in the log yet.
func (p *process) adminAddress() string {
	address := p.adminAt
	if found := adminLine.FindAllStringSubmatch(p.logs.String(), -1); address == "" && found != nil {
		address = found[len(found)-1][1] // a restart has another port
	}
	return address
}

// admin reads a page of the admin server.
func (p *process) admin(path string) string {
	p.t.Helper()
	res := must.Get(http.Get("http://" + p.adminAddress() + path))(p.t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(p.t)
	return string(text)
}

// tail keeps the end of a process's output.
type tail = kit.Tail

const busy = kit.BusyFactor

func eventually(t *testing.T, limit time.Duration, ask func() (fault string)) {
	t.Helper()
	kit.Eventually(t, limit, ask)
}
