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
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/test/kit"
)

// The test binary is the relay binary too: called with one of its commands it runs it. So the tests
// start real processes, kill them, and cover what they cover.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	// Tests name files from the root of the module.
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	// They wait for processes and for time to pass more than for the processor. A flag given by hand wins.
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	os.Exit(withBuilt(m.Run))
}

// withBuilt gives the tests a directory for the binaries that they build.
func withBuilt(run func() int) int {
	dir, err := os.MkdirTemp("", "relay-built")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	built.dir, built.of = dir, map[string]string{}
	return run()
}

// run is what main calls.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	return command.Run(ctx, "dev", args, getenv, stdout, stderr)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Keys of every relay under test.
const (
	testKey     = "test-key-0123456789abcdef"
	testReadKey = "test-read-0123456789abcdef"
)

// process is a relay process under test. Of an engine, the url is its host and port.
type process struct {
	client
	binary string    // the test binary unless set
	host   *kit.Host // where it runs; nil = this machine
	dir    string
	args   []string
	env    []string
	// adminAt is the address of the metrics; unless set it is read from the log.
	adminAt string
	printed tail // to standard output
	cmd     *exec.Cmd
	wg      sync.WaitGroup
	over    chan struct{} // closed when the process has ended
	exit    error         // set before over is closed
}

// newProcess prepares a relay whose deliveries reach sinks: loopback is allowed and their certificate is
// trusted. It does not start it.
func newProcess(t *testing.T, dir string, args []string, env ...string) *process {
	t.Helper()
	p := &process{client: client{t: t, key: testKey, logs: &tail{}}, binary: os.Args[0], dir: dir, args: args}
	p.env = append([]string{
		"RELAY_CHDB_LIB=" + kit.ChdbLibrary(t), "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_CA_FILE=" + sinkCA(t),
		"RELAY_BOOTSTRAP_KEY=" + testKey, "RELAY_BOOTSTRAP_READ_KEY=" + testReadKey,
		"RELAY_LOG_KEEP_MINUTES=1440", // the ledger counts what was done from the log, in tests all of it
	}, env...)
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.logs.String(), "DATA RACE") {
			t.Errorf("the race detector reports:\n%s", p.logs)
		}
	})
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

// readyLine is what a process prints when it takes requests: a relay, and an engine.
var readyLine = regexp.MustCompile(`(?:EventRelay is ready at|^(?:kafka|redis|clickhouse) listens on) (\S+)$`)

// command is one run of the relay binary with the settings of the process.
func (p *process) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.binary, args...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// output runs the relay binary to its end.
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

// start runs the process and waits for its ready line; a later start keeps the port of the first.
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
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	launch := p.cmd.Start
	if p.host != nil {
		launch = func() error { return p.host.Start(p.cmd) }
	}
	if err := launch(); err != nil {
		p.t.Fatal(err)
	}
	ready, over := make(chan string, 1), make(chan struct{})
	p.over = over
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
		p.url = url
	case <-time.After(busy * time.Minute):
		p.kill()
		p.t.Fatalf("relay %v is not ready after %v:\n%s", p.args, busy*time.Minute, p.logs)
	}
}

// signal sends a signal to the process itself.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal relay %v: %v", p.args, err)
	}
}

// kill ends the whole process tree at once.
func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.wg.Wait()
}

// stop asks the process to end, waits for that and returns how it exited.
func (p *process) stop(s syscall.Signal) error {
	p.t.Helper()
	p.signal(s)
	return p.ended(busy * time.Minute)
}

// ended waits for the end of the process and returns how it exited.
func (p *process) ended(limit time.Duration) error {
	p.t.Helper()
	select {
	case <-p.over:
		return p.exit
	case <-time.After(limit):
		p.kill()
		p.t.Fatalf("relay %v runs on after %v:\n%s", p.args, limit, p.logs)
		return nil
	}
}

var adminLine = regexp.MustCompile(`metrics and pprof" addr=(\S+)`)

// adminAddress is where the server of metrics is.
func (p *process) adminAddress() string {
	address := p.adminAt
	if found := adminLine.FindAllStringSubmatch(p.logs.String(), -1); address == "" && found != nil {
		address = found[len(found)-1][1] // a later start has another port
	}
	return address
}

// admin reads a page of the server of metrics.
func (p *process) admin(path string) string {
	p.t.Helper()
	res, err := http.Get("http://" + p.adminAddress() + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// tail keeps the end of what a process writes.
type tail = kit.Tail

const busy = kit.BusyFactor

func eventually(t *testing.T, limit time.Duration, ask func() (fault string)) {
	t.Helper()
	kit.Eventually(t, limit, ask)
}
