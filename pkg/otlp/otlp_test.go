package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/spanstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a log that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func at(url string) otlp.Collector {
	return otlp.Collector{URL: url, Headers: "authorization=Bearer%20collector-token"}
}

// run runs a component; stop ends it and waits.
func run(t *testing.T, component func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		is.OK(t, component(ctx))
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}

// secret masks itself in a log.
type secret string

func (secret) String() string { return "s…t" }

type text struct{ hidden string }

func (text) MarshalText() ([]byte, error) { return []byte("t…t"), nil }

// The records of the log arrive, with what the line on stderr has, and masked as it is there.
func TestLogs(t *testing.T) {
	c := spanstest.New(t, nil)
	var out buffer
	cfg := otlp.Config{Logs: at(c.URL), Node: "node-1", Version: "1.2.3"}
	l := must.Get(otlp.NewLogs(cfg, slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	log := slog.New(l.Handler()).With("node", "node-1")
	log.Info("before the export begins", "n", 1)
	stop := run(t, l.Run)
	log.Debug("is not logged")
	log.WithGroup("request").With("id", "req_1").Warn("warned", "error", errors.New("broken"),
		"took", 1500*time.Millisecond, "from", netip.MustParseAddr("192.0.2.1"),
		slog.Group("inner", "flag", true, "share", 0.5),
		"at", time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC), "big", uint64(math.MaxUint64),
		"key", secret("planted-secret"), "text", text{"planted-secret"}, "long", strings.Repeat("x", 5000))
	stop() // exports what waits
	all := c.Records()
	must.Equal(t, len(all), 2, "%+v", all)
	if r := all[0]; r.Body != "before the export begins" || r.Severity != "INFO" || r.Attributes["n"] != "1" ||
		r.Attributes["node"] != "node-1" || r.Attributes["service.instance.id"] != "node-1" ||
		r.Attributes["service.version"] != "1.2.3" || time.Since(r.Time) > time.Minute {
		t.Errorf("%+v", r)
	}
	want := map[string]string{"request.id": "req_1", "request.error": "broken", "request.took": "1.5s",
		"request.from": "192.0.2.1", "request.at": "2026-08-21T22:24:36Z", "request.big": "18446744073709551615",
		"request.key": "s…t", "request.text": "t…t", "request.long": strings.Repeat("x", 1024)}
	for name, value := range want {
		is.Equal(t, all[1].Attributes[name], value, "%s is", name)
	}
	if _, has := all[1].Attributes["request.inner.flag"]; !has || all[1].Severity != "WARN" {
		t.Errorf("%+v", all[1])
	}
	if c.Contains("planted-secret") || strings.Contains(out.String(), "planted-secret") {
		t.Error("a secret was logged")
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "request.took=1.5s") {
		t.Errorf("%d lines: %s", lines, out.String())
	}
	is.Equal(t, c.Header().Get("Authorization"), "Bearer collector-token", "the collector got %v", c.Header())
	is.Equal(t, result(t, registry, "exported"), 2, "records count as exported")
}

func result(t *testing.T, registry *prometheus.Registry, result string) int {
	t.Helper()
	for _, f := range must.Get(registry.Gather())(t) {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return -1
}

// A collector that hangs makes nobody wait: what finds the queue full is dropped and counted, and the line is on stderr
// all the same.
func TestLogsToACollectorThatHangs(t *testing.T) {
	hangs := make(chan struct{})
	c := spanstest.New(t, func() { <-hangs })
	var out buffer
	l := must.Get(otlp.NewLogs(otlp.Config{Logs: at(c.URL)}, slog.NewTextHandler(&out, nil)))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	stop := run(t, l.Run)
	log := slog.New(l.Handler())
	const n = 5000 // more than the queue and a batch
	for range n {  // if a line waited, this would not end
		log.Info("line")
	}
	is.Equal(t, strings.Count(out.String(), "\n"), n, "lines on stderr")
	close(hangs)
	stop()
	exported, dropped := result(t, registry, "exported"), result(t, registry, "dropped")
	failed := result(t, registry, "failed")
	if dropped < n-2048-512*2 || exported == 0 || exported+dropped+failed != n || len(c.Records()) != exported {
		t.Errorf("exported %d, dropped %d, failed %d of %d; %d arrived", exported, dropped, failed, n, len(c.Records()))
	}
}

// repeating is a collector that refuses requests, and repeats their header at length.
func repeating(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "invalid: %s\n%s %s", sent, strings.TrimPrefix(sent, "Bearer "), strings.Repeat("x", 1<<20))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A collector that refuses is one line on stderr in a minute, which is not exported: each failure would make the next.
func TestLogsToACollectorThatRefuses(t *testing.T) {
	var out buffer
	cfg := otlp.Config{Logs: at(repeating(t)), Node: "node-1"}
	l := must.Get(otlp.NewLogs(cfg, slog.NewTextHandler(&out, nil)))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	stop := run(t, l.Run)
	log := slog.New(l.Handler())
	for range 1024 { // two batches
		log.Info("line")
	}
	kit.Eventually(t, time.Minute, func() string {
		if n := result(t, registry, "failed"); n < 1024 {
			return fmt.Sprintf("%d records have failed", n)
		}
		return ""
	})
	stop()
	is.Equal(t, result(t, registry, "failed"), 1024, "records have failed: the line about it is one of them")
	if got := out.String(); strings.Count(got, "cannot export logs to RELAY_LOGS_URL") != 1 ||
		!strings.Contains(got, "node=node-1") || !strings.Contains(got, "400") || len(got) > 200_000 ||
		strings.Contains(got, "collector-token") {
		t.Errorf("logged %s", got[max(0, len(got)-1000):])
	}
}

// The metrics of the registry arrive at the interval with their labels and types.
func TestMetrics(t *testing.T) {
	c := spanstest.New(t, nil)
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_things_total"}, []string{"kind"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "relay_depth"})
	unknown := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "relay_unknown"}, math.NaN)
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "relay_seconds", Buckets: []float64{1, 2}})
	registry.MustRegister(counter, gauge, histogram, unknown)
	counter.WithLabelValues("a").Add(3)
	gauge.Set(7)
	histogram.Observe(1.5)
	var out buffer
	m := must.Get(otlp.NewMetrics(otlp.Config{Metrics: at(c.URL), Every: 20 * time.Millisecond, Node: "node-1"}, registry,
		slog.New(slog.NewTextHandler(&out, nil))))(t)
	stop := run(t, m.Run)
	await := func(name, kind string, want float64) {
		t.Helper()
		kit.Eventually(t, time.Minute, func() string {
			for _, p := range c.Points() {
				if p.Name == name && p.Value == want && p.Attributes["kind"] == kind &&
					p.Attributes["service.instance.id"] == "node-1" {
					return ""
				}
			}
			return fmt.Sprintf("no %s of %v in %+v", name, want, c.Points())
		})
	}
	await("relay_things_total", "a", 3)
	await("relay_depth", "", 7)
	await("relay_seconds", "", 1)
	counter.WithLabelValues("a").Inc()
	await("relay_things_total", "a", 4)
	stop()
	if result(t, registry, "exported") < 2 || out.String() != "" ||
		c.Header().Get("Authorization") != "Bearer collector-token" {
		t.Errorf("%s, the collector got %v", out.String(), c.Header())
	}
}

func TestMetricsToACollectorThatRefuses(t *testing.T) {
	registry := prometheus.NewRegistry()
	var out buffer
	m := must.Get(otlp.NewMetrics(otlp.Config{Metrics: at(repeating(t)), Every: 10 * time.Millisecond}, registry,
		slog.New(slog.NewTextHandler(&out, nil))))(t)
	stop := run(t, m.Run)
	kit.Eventually(t, time.Minute, func() string {
		if n := result(t, registry, "failed"); n < 3 {
			return fmt.Sprintf("%d exports have failed", n)
		}
		return ""
	})
	stop()
	if got := out.String(); strings.Count(got, "cannot export metrics to RELAY_METRICS_URL") != 1 ||
		!strings.Contains(got, "400") || len(got) > 1000 || strings.Contains(got, "collector-token") {
		t.Errorf("logged %s", got[:min(len(got), 1000)])
	}
	is.Equal(t, testutil.CollectAndCount(registry, "relay_metric_exports_total"), 2, "series")
}

func TestConfig(t *testing.T) {
	f := func(env string, metrics, logs otlp.Collector) {
		t.Helper()
		got, err := otlp.Config{Metrics: metrics, Logs: logs}.Validate()
		if got != env || (err != nil) != (env != "") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v %+v: %q, %v", metrics, logs, got, err)
		}
	}
	none, good := otlp.Collector{}, at("https://collector:4318")
	f("", none, none)
	f("", good, good)
	f("RELAY_METRICS_URL", otlp.Collector{URL: "http://a:secret@b"}, none)
	f("RELAY_LOGS_URL", none, otlp.Collector{URL: "collector:4318"})
	f("RELAY_METRICS_HEADERS", otlp.Collector{Headers: "secret"}, good)
	f("RELAY_LOGS_HEADERS", good, otlp.Collector{Headers: "a=secret%0a"})
	if l, err := otlp.NewLogs(otlp.Config{}, nil); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	if m, err := otlp.NewMetrics(otlp.Config{}, nil, nil); m != nil || err != nil {
		t.Errorf("%v, %v", m, err)
	}
	u := must.Get(otlp.Collector{URL: "http://x.example/custom"}.Address("/v1/logs"))(t)
	is.Equal(t, u.Path, "/custom", u)
}
