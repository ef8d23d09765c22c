package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// shownAnswer matches the line below a command that shows its status and a part of its answer.
var shownAnswer = regexp.MustCompile(`^# \d{3}\b`)

// guides are the documents whose commands a reader runs one after the other, in this order.
var guides = []string{
	"README.md", "docs/start/api.md", "docs/start/leaks.md", "docs/start/providers.md", "docs/start/clients.md",
	"docs/start/transformations.md", "docs/start/agents.md", "docs/operate/cluster.md", "docs/operate/commands.md",
	"docs/CONTRIBUTING.md",
}

// commandsOf returns the commands of the shell blocks of documents in order, each with the answer shown below it. A
// command has several lines while a quote is open, or a line ends in a backslash.
func commandsOf(t *testing.T, documents ...string) (commands []string) {
	t.Helper()
	var blocks [][]string
	for _, name := range documents {
		found := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(readFile(t, name)), -1)
		if len(found) == 0 {
			t.Errorf("%s has no commands: this test looks for the wrong text", name)
		}
		blocks = append(blocks, found...)
	}
	for _, block := range blocks {
		command := ""
		for line := range strings.Lines(block[1]) {
			command += line
			if text := strings.TrimSpace(command); shownAnswer.MatchString(text) {
				commands[len(commands)-1] += "  " + text
				command = ""
			} else if text == "" || strings.HasPrefix(text, "#") {
				command = ""
			} else if strings.Count(command, "'")%2 == 0 && !strings.HasSuffix(text, "\\") {
				commands = append(commands, text)
				command = ""
			}
		}
		must.Equal(t, command, "", "a quote is not closed")
	}
	return commands
}

// shell is a bash process that runs one command after the other.
type shell struct {
	t   *testing.T
	dir string
	in  io.Writer
	out *bufio.Scanner
}

// newShell starts a bash whose relay command is the binary under test and whose curl also prints the status.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	bin := t.TempDir()
	self := must.Get(os.Executable())(t)
	must.Do(t, os.Symlink(self, filepath.Join(bin, "relay")))
	cmd := exec.Command("bash")
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), env...), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	s := &shell{t: t, dir: cmd.Dir, in: in, out: bufio.NewScanner(out)}
	s.out.Buffer(nil, 4<<20)
	s.run(`exec 2>&1; curl() { command curl -w '\nstatus %{http_code}\n' --max-time 20 "$@"; }`)
	return s
}

// run runs a command and returns what it printed and its exit code.
func (s *shell) run(command string) (output, code string) {
	s.t.Helper()
	const end = "== exit "
	must.Get(fmt.Fprintf(s.in, "%s\nprintf '\\n%s%%d\\n' $?\n", command, end))(s.t)
	var text strings.Builder
	for s.out.Scan() {
		if code, over := strings.CutPrefix(s.out.Text(), end); over {
			return text.String(), code
		}
		text.WriteString(s.out.Text() + "\n")
	}
	s.t.Fatalf("the shell ended at %s: %v\n%s", command, s.out.Err(), text.String())
	return "", ""
}

// readmeRunner runs the commands. Most of them use a relay dev; those for a cluster use a node on its own engines.
type readmeRunner struct {
	t        *testing.T
	values   map[string]string // of placeholders, by the text before their dots
	known    *strings.Replacer // the other values that a reader replaces
	settings map[string]string // of the cluster
	cluster  *cluster
	dev      *process
	dest     *sink
	delivery received // an example delivery
	secret   string   // that signed the delivery
	port     int      // of the node
	serving  bool     // whether the node runs
	dead     string   // address of a record in the node's dead letter topic

	onDev, onNode, aside *shell
}

var (
	placeholder = regexp.MustCompile(
		`(ep_|evt_|dst_|run_|rec_|drn_|fnd_|drain/|rly_live_|whsec_|services/|main:|"secret":")…`)
	namedID    = regexp.MustCompile(`"(?:id|run_id)":"((?:ep|evt|dst|run|rec|drn|fnd)_)([0-9a-z]+)"`)
	drainURL   = regexp.MustCompile(`/drain/(drn_[^"]+)"`)
	statusLine = regexp.MustCompile(`(?m)^status (\d+)$`)
	saidStatus = regexp.MustCompile(`  # (\d{3})\b`)
	comment    = regexp.MustCompile(`  +# .*$`)
	member     = regexp.MustCompile(`"[a-z_]+":`)
)

// fillPlaceholders replaces the placeholders of a command with values, as a reader does.
func (r *readmeRunner) fillPlaceholders(command string) string {
	r.t.Helper()
	command = comment.ReplaceAllString(command, "")
	command = placeholder.ReplaceAllStringFunc(command, func(match string) string {
		name := strings.TrimSuffix(match, "…")
		if r.values[name] == "" {
			r.t.Fatalf("no answer had an id for %s in %s", match, command)
		}
		return name + r.values[name]
	})
	if strings.Contains(command, "…") {
		r.t.Fatalf("%s has an unknown placeholder", command)
	}
	if r.known != nil {
		command = r.known.Replace(command)
	}
	return strings.ReplaceAll(command, "P:O", r.dead)
}

// shownValue is a member of a shown answer with its value.
var shownValue = regexp.MustCompile(`"[a-z_]+":"[a-z_]+"`)

// call runs a curl command and compares its status and answer with those that the document shows. What a GET shows may
// take a moment to become true.
func (r *readmeRunner) call(command string) {
	r.t.Helper()
	line, streams := r.fillPlaceholders(command), strings.Contains(command, "/stream")
	if streams {
		line += " --max-time 1"
	}
	var out, code string
	eventually(r.t, time.Minute, func() string {
		out, code = r.onDev.run(line)
		switch {
		case strings.Contains(out, "\nstatus 503\n"), // which asks to try again
			strings.Contains(out, "while the job is preparing"),                           // in the background
			strings.Contains(command, "/v1/findings?") && !strings.Contains(out, `"fnd_`), // the hit is decided soon
			strings.Contains(command, "/v1/drains/") && strings.Contains(out, `"last_received_at":null`):
			return out
		}
		if !strings.Contains(command, " -d ") && !strings.Contains(command, " -X ") {
			for _, value := range shownValue.FindAllString(comment.FindString(command), -1) {
				if !strings.Contains(out, value) {
					return "no " + value + " in " + out
				}
			}
		}
		return ""
	})
	status := statusLine.FindStringSubmatch(out)
	said := saidStatus.FindStringSubmatch(command)
	switch {
	case status == nil || status[1][0] != '2' || code != "0" && !streams:
		r.t.Errorf("%s\nended with %s: %s", line, code, out)
	case said != nil && said[1] != status[1]:
		r.t.Errorf("%s\nthe answer is %s, the document shows %s", line, status[1], said[1])
	case streams && !strings.Contains(out, "event: ready\n"):
		r.t.Errorf("%s\nstreams %s", line, out)
	}
	for _, name := range member.FindAllString(comment.FindString(command), -1) {
		is.Has(r.t, out, name, "%s\nthe document shows %s, the answer is", line, name)
	}
	if m := regexp.MustCompile(`"secret":"(whsec_[^"]+)"`).FindStringSubmatch(out); m != nil {
		r.secret = m[1]
	}
	if m := drainURL.FindStringSubmatch(out); m != nil {
		r.values["drain/"] = m[1]
	}
	named := map[string]bool{}
	for _, m := range namedID.FindAllStringSubmatch(out, -1) {
		if !named[m[1]] { // the first id is that of the answer itself
			r.values[m[1]], named[m[1]] = m[2], true
		}
	}
}

// must runs a command that has to exit with 0.
func (r *readmeRunner) must(sh *shell, command string) string {
	r.t.Helper()
	line := r.fillPlaceholders(command)
	out, code := sh.run(line)
	is.Equal(r.t, code, "0", "%s\nended with: %s", line, out)
	return out
}

// diagnose runs the doctor, who may find fault with the disk of the machine that tests, and with nothing else.
func (r *readmeRunner) diagnose(command string) {
	r.t.Helper()
	out, code := r.onDev.run(r.fillPlaceholders(command))
	if code != "0" && !strings.Contains(out, "relay: failed: disk\n") {
		r.t.Errorf("%s\nended with %s: %s", command, code, out)
	}
}

// Every command of the guides works when it is pasted, with real values for its placeholders.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			kit.SkipMissing(t, "%s is not installed", tool)
		}
	}
	r := newReadme(t)
	for _, command := range commandsOf(t, guides...) {
		switch words := strings.Fields(command); {
		case words[0] == "make":
			if !strings.Contains(string(readFile(t, "Makefile")), "\n"+words[1]+":") {
				t.Errorf("the Makefile has no %s", words[1])
			}
		case words[0] == "go": // checks only that the packages exist; other steps run their tests
			if out, err := exec.Command("go", "list", words[len(words)-1]).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		case strings.HasPrefix(words[0], "sdk/"): // runs in its own step of make test
			if info, err := os.Stat(words[0]); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s cannot be run: %v", words[0], err)
			}
		case words[0] == "openssl": // creates a master key like the one of these processes
			if key := strings.TrimSpace(r.must(r.aside, command)); len(key) != len(r.values["main:"]) {
				t.Errorf("%s prints %q", command, key)
			}
		case words[0] == "curl":
			r.call(command)
		case strings.HasPrefix(command, "relay serve"):
			r.must(r.onNode, command+" >serve.log 2>&1 &")
			r.awaitServe()
		case strings.HasPrefix(command, "relay doctor"):
			r.diagnose(command)
		case words[0] == "export" && !r.serving, elsewhere.MatchString(command):
			r.must(r.onNode, command)
		case words[0] == "export", strings.Contains(command, "--print"): // for a cluster that this test does not have
			r.must(r.aside, command)
		case strings.HasPrefix(command, "relay dead"):
			r.produceDeadLetter(command)
		case strings.HasPrefix(command, "relay config export"):
			r.must(r.onDev, command)
			r.must(r.onNode, "cp "+r.onDev.dir+"/config.json .")
		case strings.HasPrefix(command, "KEY="):
			r.receive()
			r.must(r.onDev, command)
		case strings.Contains(command, "openssl dgst"):
			want, signature := r.delivery.header.Get("Webhook-Signature"), strings.TrimSpace(r.must(r.onDev, command))
			is.Equal(t, "v1,"+signature, want, "%s\ncomputes %s, the delivery has %s", command, signature, want)
		case strings.HasPrefix(command, "relay endpoints move"): // moves from another partition than the command names
			r.onDev.run(strings.Replace(r.fillPlaceholders(command), "--partition 7", "--partition 6", 1))
			r.must(r.onDev, command)
		default:
			r.must(r.onDev, command)
		}
	}
	r.metrics()
}

// elsewhere matches commands for the cluster or for a relay without a configuration.
var elsewhere = regexp.MustCompile(`^relay (migrate|config import)\b[^|]*$`)

// The story of the first hour and the tutorials of providers work as they stand.
func TestTutorials(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "openssl", "node"} {
		if _, err := exec.LookPath(tool); err != nil {
			kit.SkipMissing(t, "%s is not installed", tool)
		}
	}
	r := newRunner(t)
	r.dest = newSink(t, nil)
	r.startDev("RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true")
	providers, err := filepath.Glob("docs/start/providers/*.md")
	if err != nil || len(providers) < 5 {
		t.Fatalf("%q: %v", providers, err)
	}
	for _, command := range commandsOf(t, append([]string{"docs/start/tour.md"}, providers...)...) {
		if strings.HasPrefix(command, "curl") {
			r.call(command)
		} else {
			r.must(r.onDev, command)
		}
	}
}

func newRunner(t *testing.T) *readmeRunner {
	r := &readmeRunner{t: t, port: kit.FreePort(t), settings: map[string]string{}}
	r.values = map[string]string{"whsec_": "0123456789abcdef", "services/": "T0/B0/x",
		`"secret":"`: "0123456789abcdef0123456789abcdef",
		"main:":      base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))}
	return r
}

func newReadme(t *testing.T) *readmeRunner {
	t.Helper()
	r := newRunner(t)
	r.dest = newSink(t, func(received) int { return http.StatusNotFound }) // gives recovery jobs failed deliveries
	r.cluster = newCluster(t, sharedEngines(t), "readme")
	for _, variable := range r.cluster.env {
		name, value, _ := strings.Cut(variable, "=")
		r.settings[name] = value
	}
	node := r.cluster.node("a")
	r.aside = newShell(t, append(node.env, "RELAY_DATA_DIR="+node.dir)...)
	env := slices.DeleteFunc(slices.Clone(node.env), func(variable string) bool { // the settings come from the documents
		return regexp.MustCompile(`^RELAY_(MASTER_KEYS|KAFKA_BROKERS|CLICKHOUSE_URL|REDIS_URL)=`).MatchString(variable)
	})
	r.onNode = newShell(t, append(env, "RELAY_DATA_DIR="+node.dir)...)
	r.startDev()
	return r
}

// startDev starts relay dev with the cluster's master key, because its configuration is imported into the cluster.
func (r *readmeRunner) startDev(env ...string) {
	r.t.Helper()
	r.dev = startDevProcess(r.t, r.t.TempDir(), append(env,
		"RELAY_MASTER_KEYS=main:"+r.values["main:"], "RELAY_PARTITIONS=8", "RELAY_DNS_SERVER=127.0.0.1:9")...)
	r.values["rly_live_"] = "x"
	listen := strings.TrimPrefix(r.dev.url, "http://")
	r.onDev = newShell(r.t, append(r.dev.env, "RELAY_DATA_DIR="+r.dev.dir, "RELAY_LISTEN="+listen)...)
	r.known = strings.NewReplacer(
		"rly_live_x", testKey, "localhost:8080", listen,
		"127.0.0.1:3000", fmt.Sprintf("127.0.0.1:%d", r.port), "listen(3000)", fmt.Sprintf("listen(%d)", r.port),
		"https://app.example.com/hooks", r.dest.URL,
		"2026-11-20", time.Now().Add(-24*time.Hour).UTC().Format(time.DateOnly),
		"kafka1:9092,kafka2:9092,kafka3:9092", r.settings["RELAY_KAFKA_BROKERS"],
		"http://clickhouse:8123/relay", r.settings["RELAY_CLICKHOUSE_URL"],
		"redis://redis:6379", r.settings["RELAY_REDIS_URL"],
		"0.0.0.0:8080", fmt.Sprintf("127.0.0.1:%d", r.port))
}

// awaitServe waits until the node is ready.
func (r *readmeRunner) awaitServe() {
	r.t.Helper()
	r.serving = true
	eventually(r.t, time.Minute, func() string {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", r.port))
		if err == nil {
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return ""
			}
		}
		out, _ := r.onNode.run("cat serve.log")
		return fmt.Sprintf("relay serve is not ready: %v\n%s", err, out)
	})
}

// produceDeadLetter produces a dead letter before the first command that needs one.
func (r *readmeRunner) produceDeadLetter(command string) {
	r.t.Helper()
	if r.dead == "" {
		conf := stream.Config{Brokers: []string{r.cluster.kafka}, Prefix: r.cluster.prefix}
		producer := must.Get(stream.NewProducer(conf, "test"))(r.t)
		defer producer.Close()
		eventID := must.Get(id.NewGenerator(time.Now).New(0))(r.t)
		record := (&event.Event{ID: eventID, Account: "acc_x", Endpoint: "ep_x", Source: event.SourceProvider,
			Verdict: event.VerdictUnverified, Method: "POST"}).Record()
		record.Topic = conf.Prefix + stream.Events
		dead := conf.DeadLetterRecord(record, stream.StoreGroup, errors.New("unreadable"))
		must.Do(r.t, producer.ProduceSync(r.t.Context(), stream.Dead, 0, dead))
		eventually(r.t, arrival, func() string {
			out, _ := r.onNode.run("relay dead list")
			r.dead = regexp.MustCompile(`\b\d+:\d+\b`).FindString(out)
			if r.dead == "" {
				return out
			}
			return ""
		})
	}
	r.must(r.onNode, command)
}

// receive sets the shell variables that a receiver has from a delivery.
func (r *readmeRunner) receive() {
	r.t.Helper()
	endpoint := "ep_" + r.values["ep_"]
	eventually(r.t, arrival, func() string {
		for _, delivery := range r.dest.received() {
			if delivery.header.Get("Relay-Endpoint-Id") == endpoint {
				r.delivery = delivery
				return ""
			}
		}
		return "no delivery of " + endpoint
	})
	h := r.delivery.header
	r.onDev.run(fmt.Sprintf("SECRET='%s' WEBHOOK_ID='%s' WEBHOOK_TIMESTAMP='%s' BODY='%s'",
		r.secret, h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), r.delivery.body))
}

var metricName = regexp.MustCompile(`\brelay_[a-z_]+\b`)

// metrics checks that the metrics of the alert list exist from the start, before they count anything.
func (r *readmeRunner) metrics() {
	r.t.Helper()
	fresh := startDevProcess(r.t, r.t.TempDir())
	eventually(r.t, arrival, func() string { // the log and the ready line come over different pipes
		if !adminLine.MatchString(fresh.logs.String()) {
			return "the log does not have the address of the metrics"
		}
		return ""
	})
	text := fresh.admin("/metrics")
	rules := string(readFile(r.t, "deploy/prometheus/alerts.yml"))
	names := metricName.FindAllString(rules, -1)
	if len(names) < 20 {
		r.t.Errorf("alerts only on %q", names)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !regexp.MustCompile(`(?m)^` + name + `(_count)?[{ ]`).MatchString(text) {
			r.t.Errorf("a node has no metric %s", name)
		}
	}
}

// example is the pair of programs in sdk/examples that docs/start/clients.md shows for one language.
type example struct {
	language      string
	dir           string
	send, receive []string // their command lines
	env           []string
	installed     string // what test/vendors.sh installs for them; "" = nothing
}

// The example programs send an event, verify its delivery, refuse a forged one, and handle a repeated one once.
func TestExamples(t *testing.T) {
	t.Parallel()
	built := t.TempDir() + "/"
	root := kit.Root(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built, "./sdk/examples/go/...")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages := filepath.Join(root, "bin/examples/python")
	port := strconv.Itoa(kit.FreePort(t))
	p := startDevProcess(t, t.TempDir(), "RELAY_EGRESS_ALLOW_HTTP=true", "RELAY_PORTAL_ORIGINS=http://localhost:"+port)
	t.Run("portal in Go", func(t *testing.T) { showsPortal(t, p.forTest(t), built+"portal", port) })
	for _, e := range []example{
		{"Go", root, []string{built + "send"}, []string{built + "receive"}, nil, ""},
		{"JavaScript", filepath.Join(root, "sdk/examples/javascript"), []string{"node", "send.mjs"},
			[]string{"node", "receive.mjs"}, nil, "sdk/examples/javascript/node_modules/standardwebhooks"},
		{"Python", filepath.Join(root, "sdk/examples/python"), []string{"python3", "send.py"},
			[]string{"python3", "receive.py"}, []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1"},
			"bin/examples/python/standardwebhooks"},
	} {
		t.Run(e.language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(e.send[0]); err != nil {
				kit.SkipMissing(t, "examples in %s: %v", e.language, err)
			}
			if _, err := os.Stat(filepath.Join(root, e.installed)); err != nil {
				kit.SkipMissing(t, "examples in %s: run test/vendors.sh: %v", e.language, err)
			}
			c := p.forTest(t)
			e.refuse(t, c)
			e.sendAndReceive(t, c)
		})
	}
}

// command returns one of the programs, not started yet.
func (e example) command(t *testing.T, line []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = e.dir, append(append(os.Environ(), e.env...), env...)
	return cmd
}

// refuse starts the programs with something missing or wrong: each says it in one line, without a stack trace.
func (e example) refuse(t *testing.T, c client) {
	base, key := "RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key
	event := append(slices.Clone(e.send), "ep_unknown", "order.paid")
	const noPort = "PORT=-1" // ends a receiver that takes the secret
	for _, x := range []struct {
		line, env []string
		says      string
	}{
		{e.send, []string{base, key}, "usage: "},
		{append(slices.Clone(event), "{}"), []string{key}, "usage: "},
		{append(slices.Clone(event), "{"), []string{base, key}, "JSON"},
		{append(slices.Clone(event), "{}"), []string{base, key}, "404"},
		{append(slices.Clone(event), "{}"), []string{base, "RELAY_API_KEY=rly_live_unknown"}, "401"},
		{e.receive, nil, "RELAY_SIGNING_SECRET is missing"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_"}, "at least 24 bytes"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_c2hvcnQga2V5"}, "at least 24 bytes"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_?"}, "at least 24 bytes"},
	} {
		_, err := e.command(t, x.line, x.env...).Output()
		if text := stderrOf(err); err == nil || !strings.Contains(text, x.says) ||
			strings.Count(strings.TrimSpace(text), "\n") > 0 {
			t.Errorf("%q prints %q and ends with %v, want %q in one line", x.line, text, err, x.says)
		}
	}
}

func (e example) sendAndReceive(t *testing.T, c client) {
	url := fmt.Sprintf("http://127.0.0.1:%d/hook", kit.FreePort(t))
	ep, _, secret := c.endpoint(map[string]any{"destinations": []any{url}})
	_, port, _ := strings.Cut(strings.TrimSuffix(url, "/hook"), "127.0.0.1:")
	printed := &tail{}
	receiver := e.command(t, e.receive, "PORT="+port, "RELAY_SIGNING_SECRET="+secret)
	receiver.Stdout, receiver.Stderr = printed, printed
	must.Do(t, receiver.Start())
	t.Cleanup(func() { _ = receiver.Wait() }) // it was killed with the test's context
	eventually(t, arrival, func() string {
		if !strings.Contains(printed.String(), "listening on 127.0.0.1:"+port) {
			return "the receiver does not listen: " + printed.String()
		}
		return ""
	})
	out, err := e.command(t, append(e.send, ep, "order.paid", `{"amount":4200}`),
		"RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key).Output()
	if err != nil {
		t.Fatalf("send: %v %v", err, stderrOf(err))
	}
	id := strings.TrimSpace(string(out))
	event := c.awaitStatus(id, "delivered", arrival)
	if want := "received " + id + " order.paid "; strings.Count(printed.String(), want) != 1 {
		t.Errorf("the receiver printed %s, want %s once", printed, want)
	}

	body := []byte(event["body"].(string))
	again := func(secret sign.Secret) int {
		now := time.Now()
		return c.post(url, map[string]string{
			"webhook-id": id, "webhook-timestamp": strconv.FormatInt(now.Unix(), 10),
			"webhook-signature": sign.Sign([]sign.Secret{secret}, id, now, body),
		}, body).StatusCode
	}
	own := must.Get(sign.ParseSecret(secret))(t)
	is.Equal(t, again(own), http.StatusNoContent, "a delivery that is repeated is answered")
	is.Equal(t, again(sign.NewSecret()), http.StatusUnauthorized, "a forged delivery is answered")
	is.Equal(t, strings.Count(printed.String(), "received "), 1, "the event was handled: times: %s", printed)
}

// stderrOf returns what a command that failed has printed.
func stderrOf(err error) string {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// showsPortal starts the application with the portal in a frame, and opens the link that it shows.
func showsPortal(t *testing.T, c client, program, port string) {
	app := exec.CommandContext(t.Context(), program)
	app.Env = append(os.Environ(), "RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key, "PORT="+port)
	must.Do(t, app.Start())
	t.Cleanup(func() { _ = app.Wait() }) // it was killed with the test's context
	eventually(t, arrival, func() string {
		resp, err := http.Get("http://localhost:" + port + "/")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), `src="`+c.url+`/portal/link/`) {
			return string(page)
		}
		return ""
	})
}
