package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features/demo"
	"github.com/eventrelay/relay/features/demo/shop"
	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// monitor is a Prometheus that reads one node each second and evaluates the alert rules.
type monitor struct {
	t   *testing.T
	url string
}

// startMonitor starts Prometheus with the project's rules. Only the time that a condition must hold, and the time over
// which rates and increases are counted, are shorter.
func startMonitor(t *testing.T, target string) *monitor {
	t.Helper()
	binary, dir := kit.Prometheus(t), t.TempDir()
	rules := readFile(t, "deploy/prometheus/alerts.yml")
	rules = regexp.MustCompile(`(?m)^( +for:) \w+$`).ReplaceAll(rules, []byte("$1 1s"))
	rules = regexp.MustCompile(`\[\d+[mh]\]`).ReplaceAll(rules, []byte("[10s]"))
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs: [{job_name: relay, scrape_timeout: 1s, static_configs: [{targets: [%q]}]}]
`, target)
	for name, text := range map[string][]byte{"alerts.yml": rules, "prometheus.yml": []byte(config)} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	address := fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))
	var log tail
	cmd := exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m := &monitor{t, "http://" + address}
	eventually(t, time.Minute, func() string {
		res, err := http.Get(m.url + "/-/ready")
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, &log)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return res.Status
		}
		return ""
	})
	return m
}

// get reads an answer of Prometheus' API.
func (m *monitor) get(path string, data any) error {
	res, err := http.Get(m.url + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer := struct {
		Data  any
		Error string
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// series returns how many series answer a query, and fails for one that cannot be evaluated.
func (m *monitor) series(query string) int {
	m.t.Helper()
	var data struct{ Result []any }
	must.Do(m.t, m.get("/api/v1/query?query="+url.QueryEscape(query), &data))
	return len(data.Result)
}

// firing returns the names of the alerts that fire.
func (m *monitor) firing() (names []string) {
	m.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	must.Do(m.t, m.get("/api/v1/alerts", &data))
	for _, a := range data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// awaitFiring waits until all these alerts fire.
func (m *monitor) awaitFiring(names ...string) {
	m.t.Helper()
	began := time.Now()
	eventually(m.t, time.Minute, func() string {
		firing := m.firing()
		for _, name := range names {
			if !slices.Contains(firing, name) {
				return fmt.Sprintf("%s does not fire, these do: %v", name, firing)
			}
		}
		return ""
	})
	m.t.Logf("%v fire after %v: %v", names, time.Since(began).Round(time.Second), m.firing())
}

// awaitSilent waits until none of these alerts fires.
func (m *monitor) awaitSilent(names ...string) {
	m.t.Helper()
	eventually(m.t, time.Minute, func() string {
		for _, name := range m.firing() {
			if slices.Contains(names, name) {
				return name + " still fires"
			}
		}
		return ""
	})
}

// dashboardQueries returns the queries of all dashboards, by dashboard and panel, for all nodes.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("deploy/grafana/dashboards/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	queries := map[string][]string{}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$namespace", ".*", "$release", ".*")
	for _, file := range files {
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		must.Do(t, json.Unmarshal(readFile(t, file), &board), file)
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				name := filepath.Base(file) + ": " + p.Title
				queries[name] = append(queries[name], variables.Replace(target.Expr))
			}
		}
	}
	return queries
}

// watched is a node with engines of its own, under a little load, and the Prometheus that reads it.
type watched struct {
	*monitor
	node                     *process
	kafka, redis, clickhouse *process
	hangs                    atomic.Bool // destinations do not answer
	ca                       *kit.CA
	caFile                   string // RELAY_EGRESS_CA_FILE
}

// startWatched starts the load too; it goes on until the test ends.
func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{kafka: startEngine(t, "kafka"), redis: startEngine(t, "redis"), clickhouse: startEngine(t, "clickhouse")}
	w.ca, w.caFile = kit.NewCA(t), filepath.Join(t.TempDir(), "roots.pem")
	must.Do(t, os.WriteFile(w.caFile, readFile(t, sinkCA), 0o600))
	c := newCluster(t, engines{w.kafka.url, w.redis.url, w.clickhouse.url}, "watched", "RELAY_LEDGER_SECONDS=1",
		"RELAY_LOG_FORMAT=json", "RELAY_EGRESS_CA_FILE="+w.caFile)
	c.migrate()
	w.node = c.node("a")
	w.node.adminAt = fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))
	w.node.args = append(w.node.args, "--admin-listen", w.node.adminAt)
	kit.SmallDisk(t, w.node.dir, "size=16m")
	w.node.start()
	w.monitor = startMonitor(t, w.node.adminAt)
	released := make(chan struct{})
	dest := newSink(t, func(received) int {
		if w.hangs.Load() {
			<-released
		}
		return http.StatusOK
	})
	t.Cleanup(func() { close(released) }) // before the sink waits for its requests
	failing := newSink(t, func(received) int { return http.StatusInternalServerError })
	_, in, _ := w.node.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": githubSecret},
		"dedup":        map[string]any{"key": "header:X-GitHub-Delivery", "window_seconds": 600},
		"destinations": []any{map[string]any{"url": dest.URL, "timeout_seconds": 1}}})
	ep, _, _ := w.node.endpoint(map[string]any{
		"retry_policy": map[string]any{"strategy": "exponential", "initial_seconds": 1, "max_attempts": 3},
		"destinations": []any{map[string]any{"url": failing.URL}}})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.load(in, ep, stop)
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return w
}

// load sends signed events, forged ones and ones through the API, and reads lists, about 20 requests a second. Whether
// they succeed does not matter here.
func (w *watched) load(in, ep string, stop chan struct{}) {
	request := func(method, address string, header map[string]string, body []byte) {
		req, err := http.NewRequest(method, address, bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req); err == nil {
			res.Body.Close()
		}
	}
	key := map[string]string{"Authorization": "Bearer " + w.node.key, "Content-Type": "application/json"}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		body := fmt.Appendf(nil, `{"number":%d}`, n)
		header := githubHeader(body)
		header["X-GitHub-Delivery"] = fmt.Sprint(n)
		request("POST", in, header, body)
		header["X-Hub-Signature-256"] = "sha256=00"
		request("POST", in, header, body)
		if n%10 == 0 {
			body := []byte(`{"type":"order.paid","data":{}}`)
			request("POST", w.node.url+"/v1/endpoints/"+ep+"/events", key, body)
		}
		request("GET", w.node.url+"/v1/events?limit=5", key, nil)
	}
}

// A real Prometheus answers every query of every dashboard from a node under load, while no alert fires. Then engines
// are killed, the volume is full, destinations hang and the node dies: the alert of each fault fires, relay doctor
// finds what the runbook says, and after the repair the alert is silent.
func TestAlertsAndDashboards(t *testing.T) {
	t.Parallel()
	skipShort(t)
	w := startWatched(t)
	t.Run("every query is answered", func(t *testing.T) {
		queries, answered := dashboardQueries(t), 0
		eventually(t, 2*time.Minute, func() string {
			answered = 0
			for panel, all := range queries {
				for _, query := range all {
					if w.series(query) == 0 {
						return fmt.Sprintf("%s: no series answers %s", panel, query)
					}
					answered++
				}
			}
			return ""
		})
		t.Logf("%d queries of %d panels are answered", answered, len(queries))
		if firing := w.firing(); len(firing) > 0 {
			t.Errorf("%v fire without a fault", firing)
		}
	})
	var fired []string // alerts whose fault is repaired
	for range rounds(1, 1, 5) {
		w.awaitSilent(fired...)
		fired = w.breakEngines(t)
	}
	t.Run("the volume is full", func(t *testing.T) {
		path := filepath.Join(w.node.dir, "full")
		must.Do(t, os.WriteFile(path, make([]byte, 15<<20), 0o600))
		w.awaitFiring("RelayDiskSpaceLow")
		if found, _ := w.node.runDoctor(); found["disk"].State == doctor.StateOK {
			t.Errorf("relay doctor finds nothing wrong: %+v", found["disk"])
		}
		must.Do(t, os.Remove(path))
		fired = append(fired, "RelayDiskSpaceLow")
	})
	t.Run("certificates expire, and others write", func(t *testing.T) { fired = append(fired, w.spoilFiles(t)...) })
	// An alert about a rate fires for the ten seconds over which it is counted: wait once for all.
	t.Run("every alert is silent after the repair", func(t *testing.T) { w.awaitSilent(fired...) })
	t.Run("destinations hang", func(t *testing.T) {
		w.awaitSilent("RelayDeliveriesFail")
		w.hangs.Store(true)
		w.awaitFiring("RelayDeliveriesFail")
	})
	t.Run("the node dies", func(t *testing.T) {
		w.node.kill()
		w.awaitFiring("RelayNodeDown")
		checkJSONLog(t, w.node.logs.String())
	})
}

// spoilFiles lets a certificate expire and writes records that the relay cannot read, as the runbooks of their alerts
// describe it, and follows these. It repairs both and returns the alerts that fired.
func (w *watched) spoilFiles(t *testing.T) (fired []string) {
	expiring := func(in time.Duration) {
		t.Helper()
		chain := readFile(t, w.ca.Issue(t, "root", time.Now().Add(in)).CertFile)
		root, _ := pem.Decode(chain) // without the issuer, which is valid longer
		must.Do(t, os.WriteFile(w.caFile, pem.EncodeToMemory(root), 0o600))
	}
	expiring(5 * 24 * time.Hour)
	w.awaitFiring("RelayCertificateExpires")
	w.awaitSilent("RelayCertificateExpiryCritical")
	expiring(-time.Hour)
	producer := must.Get(stream.NewProducer(w.node.streamConfig(), "test"))(t)
	defer producer.Close()
	for _, topic := range []string{stream.Events, stream.Control} {
		must.Do(t, producer.ProduceSync(t.Context(), topic, 0, &stream.Record{Value: []byte("poison")}))
	}
	alerts := []string{"RelayCertificateExpiryCritical", "RelayDeadLetters", "RelayTopicsWrittenByOthers"}
	w.awaitFiring(alerts...)
	is.Equal(t, w.series("(relay_certificate_expiry_timestamp_seconds - time()) / 86400 < 0"), 1,
		"certificates have expired")
	end, err := exec.Command("openssl", "x509", "-noout", "-enddate", "-subject", "-in", w.caFile).CombinedOutput()
	if err != nil || !strings.Contains(string(end), "notAfter=") {
		t.Errorf("openssl: %v %s", err, end)
	}
	out, code := runToEnd(t, w.node.command("dead", "list", "--data-dir", w.node.dir))
	if code != 0 || !strings.Contains(out, stream.Events) {
		t.Errorf("relay dead list: %d %s", code, out)
	}
	found, _ := w.node.runDoctor()
	if found["dead"].State == doctor.StateOK { // who may write is told by ACLs, which this broker has not
		t.Errorf("relay doctor finds nothing wrong: %+v", found["dead"])
	}
	must.Do(t, os.WriteFile(w.caFile, readFile(t, sinkCA), 0o600))
	return append(alerts, "RelayCertificateExpires")
}

// breakEngines kills one engine after the other and starts it again. It returns the alerts that fired.
func (w *watched) breakEngines(t *testing.T) (fired []string) {
	for _, c := range []struct {
		name   string
		engine *process
		check  string // of relay doctor, to which the runbooks lead
		alerts []string
	}{
		{"Redis", w.redis, "redis", []string{"RelayRedisUnavailable", "RelayDedupUnavailable"}},
		{"ClickHouse", w.clickhouse, "clickhouse", []string{"RelayStoreUnavailable", "RelayAPIErrors"}},
		{"Kafka", w.kafka, "kafka", []string{"RelayLeaseOld", "RelayNodeNotReady", "RelayEventsRefused"}},
	} {
		t.Run(c.name+" is killed", func(t *testing.T) {
			w.awaitSilent(c.alerts...) // the faults before it cause none of them
			c.engine.kill()
			w.awaitFiring(c.alerts...)
			found, _ := w.node.runDoctor()
			if found[c.check].State == doctor.StateOK {
				t.Errorf("relay doctor finds nothing wrong: %+v", found)
			}
			for name, check := range found {
				if check.State != doctor.StateOK {
					t.Logf("relay doctor, %s: %+v", name, check)
				}
			}
			c.engine.start()
			fired = append(fired, c.alerts...)
		})
	}
	return fired
}

// checkJSONLog checks that each line is an object with time, level, message and node.
func checkJSONLog(t *testing.T, log string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if len(lines) < 5 {
		t.Errorf("the log has %d lines", len(lines))
	}
	for i, line := range lines {
		var record struct{ Time, Level, Msg, Node string }
		err := json.Unmarshal([]byte(line), &record)
		if i == 0 && err != nil {
			continue // the log is the tail of what was written
		}
		if err != nil || record.Time == "" || record.Level == "" || record.Msg == "" || record.Node != "a" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// Every demonstration holds on this machine, within a minute, with the settings of another relay in its environment.
func TestDemos(t *testing.T) {
	t.Parallel()
	p := newDevProcess(t, t.TempDir(), "RELAY_KAFKA_BROKERS=127.0.0.1:1", "RELAY_MASTER_KEYS=wrong")
	for _, d := range demo.All {
		t.Run(d.Name, func(t *testing.T) {
			began := time.Now()
			out, err := p.output("demo", d.Name)
			must.Do(t, err, "%s", out)
			is.Has(t, string(out), "The promise held", "%s", out)
			t.Logf("%s", time.Since(began))
		})
	}
}

func TestDevPipeline(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir(), "RELAY_ALLOWANCE_EVENTS=5")
	testPipeline(t, p, p, rounds(5, 5, 500))
	t.Run("allowance is used up", func(t *testing.T) { allowanceIsUsedUp(t, p.forTest(t)) })
	t.Run("what comes twice is delivered once", func(t *testing.T) { repeatedEvents(t, p.forTest(t), p.forTest(t)) })
	t.Run("events are streamed", func(t *testing.T) { eventStreams(t, p, p) })
	t.Run("an agent reads", func(t *testing.T) { agentReads(t, p) })
	t.Run("a payload is erased", func(t *testing.T) { payloadIsErased(t, p.forTest(t)) })
	t.Run("the log is trimmed", func(t *testing.T) {
		is.Has(t, p.admin("/metrics"), "relay_log_unread_age_ratio{group=\"store\"} 0\n", "the ledger does not run")
		is.Has(t, p.admin("/metrics"), "relay_store_dropped_partitions_total{table=\"events\"} 0\n",
			"the retention does not run")
		eventually(t, time.Minute, func() string {
			if p.metric("relay_log_trim_last_timestamp_seconds") == 0 {
				return "the log has not been checked yet"
			}
			return ""
		})
	})
}

// A process that is told to stop, or whose terminal is closed, answers /readyz with 503, and takes and delivers events
// until its delay is over. Ctrl-C ends it before that.
func TestStoppingNodeTakesRequests(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), "RELAY_SHUTDOWN_DELAY_SECONDS=60")
	_, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	if signal.Ignored(syscall.SIGHUP) { // the tests run under nohup
		p.signal(syscall.SIGTERM)
	} else {
		p.signal(syscall.SIGHUP)
	}
	eventually(t, arrival, func() string {
		if status, answer, _ := p.call("GET", "/readyz", nil); status != http.StatusServiceUnavailable {
			return fmt.Sprintf("/readyz is answered %d %v", status, answer)
		}
		return ""
	})
	if resp := p.post(in, nil, []byte("{}")); resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("an event is answered %s, and its connection is closed: %t", resp.Status, resp.Close)
	}
	dest.wait(t, 1, arrival)
	began := time.Now()
	if err := p.stop(syscall.SIGINT); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("Ctrl-C while it stops: %v after %v, want its end by the signal at once", err, time.Since(began))
	}
}

// After Ctrl-C the process exits with 0, and a second start continues where the first stopped.
func TestDevRestart(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	ep, _, secret := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := p.send(ep, 1)
	p.awaitStatus(id, "delivered", arrival)
	link := p.signInLink(1)
	must.Do(t, p.stop(syscall.SIGINT), "Ctrl-C ended with: %s", p.logs)
	if logs := fmt.Sprint(p.logs); !strings.Contains(logs, "stopping") || !strings.Contains(logs, "msg=stopped") {
		t.Errorf("the log does not say that it stops, and that it has:\n%s", logs)
	}
	started := time.Now()
	p.start()
	t.Logf("the second start took %v", time.Since(started).Round(time.Millisecond))
	if again := p.signInLink(2); again == link { // nobody has a password
		t.Errorf("the second start printed the sign-in link of the first: %s", link)
	}
	if e := p.event(id); e["status"] != "delivered" {
		t.Fatalf("after the restart the event is %v", e)
	}
	next := p.send(ep, 2)
	if _, _, h := p.call("GET", "/v1/events/"+next, nil); h.Get("Relay-Data-As-Of") != "" {
		t.Errorf("the store is behind, as of %s, right after the start", h.Get("Relay-Data-As-Of"))
	}
	got := dest.wait(t, 2, arrival)[1]
	must.Equal(t, got.event(), next, "after the restart … was delivered")
	verifyDelivery(t, secret, got)
}

// signInLink waits until the process has printed n links for dev@localhost, and returns the last.
func (p *process) signInLink(n int) string {
	p.t.Helper()
	line := regexp.MustCompile(`Dashboard, as dev@localhost, once within 10 minutes: (` + p.url + `/app/link/\S{43})\n`)
	var found [][]string
	eventually(p.t, arrival, func() string {
		if found = line.FindAllStringSubmatch(p.printed.String(), -1); len(found) != n {
			return "printed " + p.printed.String()
		}
		return ""
	})
	return found[n-1][1]
}

func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	p := sharedDev(t)
	out, err := p.command(append(p.args, "--listen", "127.0.0.1:0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another relay process") {
		t.Fatalf("%v: %s", err, out)
	}
}

// The commands of the banner work when they are pasted into a shell, as they are printed.
func TestBannerCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		kit.SkipMissing(t, "curl is not installed")
	}
	p := startDevProcess(t, t.TempDir())
	var script string
	eventually(t, 5*time.Second, func() string {
		_, rest, _ := strings.Cut(p.printed.String(), "inside this relay.\n")
		var whole bool
		if script, _, whole = strings.Cut(rest, "Ctrl-C"); !whole {
			return "printed " + p.printed.String()
		}
		return ""
	})
	is.Lacks(t, p.printed.String(), testKey, "a key that was given is printed")
	bash := exec.Command("bash", "-c", "set -e\n"+script)
	bash.Env = append(bash.Environ(), "RELAY_BOOTSTRAP_KEY="+testKey)
	out, err := bash.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"received":true`) ||
		!strings.Contains(string(out), "look at it: http") || !strings.Contains(string(out), "delivered: order.paid") {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// A sample shop sends signed events by itself; its warehouse breaks, and the mailer gets them all the same.
func TestSampleShop(t *testing.T) {
	t.Parallel()
	p := sharedDev(t)
	began := time.Now().Add(time.Second - shop.Works)
	status, made, _ := p.call("POST", "/v1/endpoints", shop.Body(began, "secret of the shop"))
	must.Equal(t, status, 201, "create the endpoint: %v", made)
	for _, want := range []string{`"status":"retrying"`, `"verification":"verified"`, `"type":"refunds/create"`,
		`"status":"delivered"`} {
		eventually(t, arrival, func() string {
			_, rows, _ := p.call("GET", "/v1/events?endpoint_id="+made["id"].(string), nil)
			if text := string(must.Get(json.Marshal(rows))(t)); !strings.Contains(text, want) {
				return "not " + want + " in " + text
			}
			return ""
		})
	}
}

// A data directory whose path is too long for the command socket is refused before the engines start.
func TestDataDirTooLongForItsSocket(t *testing.T) {
	var out, errs bytes.Buffer
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	code := run(t.Context(), []string{"dev", "--data-dir", dir}, func(string) string { return "" }, &out, &errs)
	if code != cli.ExitMisused || !strings.Contains(errs.String(), "RELAY_DATA_DIR: the path of the command socket") {
		t.Errorf("%d %s", code, errs.String())
	}
}
