package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/spanstest"
)

// startCollector builds the OpenTelemetry Collector and starts it. What it receives goes to another collector. It
// returns its URL.
func startCollector(t *testing.T, to string) string {
	t.Helper()
	dir := t.TempDir()
	path, conf := filepath.Join(dir, "collector"), filepath.Join(dir, "collector.yaml")
	build := exec.Command("go", "build", "-trimpath", "-o", path, ".")
	build.Dir = filepath.Join(kit.Root(t), "test/collector")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the collector: %v\n%s", err, out)
	}
	address := fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t))
	settings := fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {otlphttp: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [otlphttp]}
    metrics: {receivers: [otlp], exporters: [otlphttp]}
    logs: {receivers: [otlp], exporters: [otlphttp]}
`, address, to)
	must.Do(t, os.WriteFile(conf, []byte(settings), 0o600))
	cmd := exec.CommandContext(t.Context(), path, "--config", conf)
	var logs kit.Tail
	cmd.Stdout, cmd.Stderr = &logs, &logs
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kit.Eventually(t, time.Minute, func() string {
		if len(ended) > 0 {
			t.Fatalf("the collector has ended: %v\n%s", <-ended, logs.String())
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return fmt.Sprintf("the collector does not listen: %v\n%s", err, logs.String())
		}
		_ = conn.Close()
		return ""
	})
	return "http://" + address
}

// Metrics and the log arrive at a collector; the log is on stderr all the same. In the long form they go through the
// OpenTelemetry Collector.
func TestMetricsAndLogsOverOTLP(t *testing.T) {
	collector := spanstest.New(t, nil)
	to := collector.URL
	if os.Getenv("RELAY_TORTURE") != "" {
		to = startCollector(t, to)
	}
	p := startDevProcess(t, t.TempDir(), "RELAY_METRICS_URL="+to, "RELAY_METRICS_SECONDS=1", "RELAY_LOGS_URL="+to,
		"RELAY_LOGS_HEADERS=authorization=header-secret")
	const line = "embedded redis ready"
	eventually(t, arrival, func() string {
		named := func(name string) func(spanstest.Point) bool {
			return func(x spanstest.Point) bool { return x.Name == name && x.Attributes["service.instance.id"] == "dev" }
		}
		points := collector.Points()
		for _, name := range []string{"relay_node_info", "go_goroutines", "relay_log_records_total"} {
			if !slices.ContainsFunc(points, named(name)) {
				return fmt.Sprintf("no metric %s among %d", name, len(points))
			}
		}
		if !slices.ContainsFunc(collector.Records(), func(r spanstest.Record) bool {
			return r.Body == line && r.Severity == "INFO" && r.Attributes["node"] == "dev"
		}) {
			return fmt.Sprintf("no record %q: %+v", line, collector.Records())
		}
		return ""
	})
	must.Do(t, p.stop(syscall.SIGTERM))
	const last = "stopping: running requests end first"
	eventually(t, arrival, func() string { // the collector of the long form has it a moment later
		if !slices.ContainsFunc(collector.Records(), func(r spanstest.Record) bool { return r.Body == last }) {
			return "the last lines are missing"
		}
		return ""
	})
	if logs := p.logs.String(); !strings.Contains(logs, line) || !strings.Contains(logs, last) ||
		strings.Contains(logs, "header-secret") || collector.Contains("header-secret") {
		t.Errorf("the log is %s", logs)
	}
}

// An event can be followed from its acceptance to its destination, over a retry and a replay: in the collector, the
// API, the log and the headers of its deliveries. In the long form they go through the OpenTelemetry Collector.
func TestTraces(t *testing.T) {
	collector := spanstest.New(t, nil)
	to := collector.URL
	if os.Getenv("RELAY_TORTURE") != "" {
		to = startCollector(t, to)
	}
	p := startDevProcess(t, t.TempDir(), "RELAY_TRACES_URL="+to, "RELAY_TRACES_SAMPLE=1", "RELAY_LOG_LEVEL=debug")
	dest := newSink(t, func(r received) int {
		if r.earlier == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	_, ingestURL, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1},
			"max_attempts": 20, "jitter": 0}})
	const callers = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	answer := p.post(ingestURL, map[string]string{"Traceparent": "00-" + callers + "-01"}, []byte(`{"a":1}`))
	id := answer.Header.Get("Relay-Event-Id")
	ev := p.awaitStatus(id, "delivered", arrival)
	trace, _ := ev["trace_id"].(string)
	if len(trace) != 32 || strings.HasPrefix(callers, trace) {
		t.Fatalf("the event has the trace %q", trace)
	}
	for _, a := range ev["attempts"].([]any) {
		if a.(map[string]any)["trace_id"] != trace {
			t.Errorf("an attempt: %v", a)
		}
	}
	p.must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", nil)
	got := dest.wait(t, 3, arrival)
	traceOf := func(i int) string { return strings.Split(got[i].header.Get("Traceparent")+"---", "-")[1] }
	if traceOf(0) != trace || traceOf(1) != trace || len(traceOf(2)) != 32 || traceOf(2) == trace {
		t.Errorf("the destination got the traces %s, %s, %s", traceOf(0), traceOf(1), traceOf(2))
	}
	is.Has(t, p.logs.String(), "trace_id="+trace, "the log does not have the trace")
	all := collector.Wait(t, map[string]int{"accept": 1, "produce": 1, "wait": 2, "attempt": 3})
	accepted := spanstest.Named(all, "accept")[0]
	if accepted.Trace != trace || !slices.Equal(accepted.Links, []string{callers}) ||
		accepted.Attributes["messaging.message.id"] != id {
		t.Errorf("%+v", accepted)
	}
	for _, a := range spanstest.Named(all, "attempt") {
		if a.Trace == traceOf(2) && !slices.Equal(a.Links, []string{trace + "-" + accepted.ID}) {
			t.Errorf("%+v", a)
		}
	}
	token := ingestURL[strings.LastIndex(ingestURL, "/")+1:]
	if collector.Contains(token) || collector.Contains(dest.URL) {
		t.Error("the export has the token of the ingest URL, or the URL of the destination")
	}
}
