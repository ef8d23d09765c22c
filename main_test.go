package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/testkit"
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
	os.Exit(m.Run())
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// process is a relay process under test.
type process struct {
	t    *testing.T
	url  string
	key  string
	dir  string
	args []string
	env  []string
	cmd  *exec.Cmd
	logs *tail
	wg   sync.WaitGroup
	exit error
}

// startDevProcess starts `relay dev` on a data directory and waits until it is ready. Destinations on
// loopback are allowed, and the certificate of the sink is trusted.
func startDevProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, key: "test-key-0123456789", args: []string{"dev", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}}
	p.env = append([]string{
		"RELAY_CHDB_LIB=" + testkit.ChdbLibrary(t), "RELAY_EGRESS_ALLOW=127.0.0.0/8",
		"RELAY_BOOTSTRAP_KEY=" + p.key, "RELAY_BOOTSTRAP_READ_KEY=test-read-0123456789",
	}, env...)
	p.start()
	t.Cleanup(func() { p.kill() })
	return p
}

var readyLine = regexp.MustCompile(`EventRelay is ready at (\S+)`)

// start runs the process and waits for its ready line; a later start keeps the port of the first.
func (p *process) start() {
	p.t.Helper()
	args := p.args
	if p.url != "" {
		args = append(args, "--listen", strings.TrimPrefix(p.url, "http://"))
	}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.logs = &tail{}
	p.cmd.Stderr = p.logs
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ready := make(chan string, 1)
	p.wg.Go(func() {
		defer close(ready)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
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
			p.t.Fatalf("relay %v ended: %v\n%s", args, p.exit, p.logs)
		}
		p.url = url
	case <-time.After(time.Minute):
		p.kill()
		p.t.Fatalf("relay %v is not ready after a minute:\n%s", args, p.logs)
	}
}

// kill ends the whole process tree at once.
func (p *process) kill() {
	if p.cmd != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.wg.Wait()
}

// interrupt is Ctrl-C: it waits for the end and returns how the process exited.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	p.wg.Wait()
	return p.exit
}

// tail keeps the last 64 KB that were written.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if n := len(b.buf) - 64<<10; n > 0 {
		b.buf = b.buf[n:]
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}

// call makes an API request and returns status, answer and headers.
func (p *process) call(method, path string, body any) (int, map[string]any, http.Header) {
	p.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			p.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, p.url+path, reader)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", method, path, err, p.logs)
	}
	defer resp.Body.Close()
	var answer map[string]any
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		p.t.Fatalf("%s %s: %d, not JSON: %s", method, path, resp.StatusCode, raw)
	}
	return resp.StatusCode, answer, resp.Header
}

// must is call, failing on anything but the wanted status.
func (p *process) must(want int, method, path string, body any) map[string]any {
	p.t.Helper()
	status, answer, _ := p.call(method, path, body)
	if status != want {
		p.t.Fatalf("%s %s: %d %v, want %d\n%s", method, path, status, answer, want, p.logs)
	}
	return answer
}

// endpoint creates one and returns its id, ingest URL and first destination's secret.
func (p *process) endpoint(definition map[string]any) (ep, ingestURL, secret string) {
	p.t.Helper()
	made := p.must(http.StatusCreated, "POST", "/v1/endpoints", definition)
	dest := made["destinations"].([]any)[0].(map[string]any)
	secret, _ = dest["signing"].(map[string]any)["secret"].(string)
	return made["id"].(string), made["ingest_url"].(string), secret
}

// waitStatus reads an event until it has the status.
func (p *process) waitStatus(id, want string, limit time.Duration) map[string]any {
	p.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		e := p.must(http.StatusOK, "GET", "/v1/events/"+id, nil)
		if e["status"] == want {
			return e
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("event %s is %v (%v), want %s; deliveries %v\n%s", id, e["status"], e["why"], want, e["deliveries"], p.logs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sink is a destination over TLS that keeps what it got.
type sink struct {
	*httptest.Server
	CAFile string
	answer func(http.ResponseWriter, *http.Request, []byte)

	mu  sync.Mutex // guards got
	got []received
}

type received struct {
	method string
	header http.Header
	body   []byte
	at     time.Time
}

// newSink answers 200, or whatever answer does.
func newSink(t *testing.T, answer func(http.ResponseWriter, *http.Request, []byte)) *sink {
	t.Helper()
	s := &sink{answer: answer}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed relay leaves broken connections
	s.StartTLS()
	t.Cleanup(s.Close)
	s.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(s.CAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.got = append(s.got, received{r.Method, r.Header.Clone(), body, time.Now()})
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(w, r, body)
	}
}

func (s *sink) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

func (s *sink) env() string { return "RELAY_EGRESS_CA_FILE=" + s.CAFile }

// wait returns what arrived once there are n.
func (s *sink) wait(t *testing.T, n int, limit time.Duration) []received {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if got := s.received(); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests arrived, want %d", len(s.received()), n)
		}
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
