package node

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the table of metrics to docs/operate/metrics.md")

// recorder is a registry that knows its collectors, and so the metrics that have no series yet.
type recorder struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

func (r *recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return r.Registry.Register(c)
}

func (r *recorder) MustRegister(all ...prometheus.Collector) {
	r.collectors = append(r.collectors, all...)
	r.Registry.MustRegister(all...)
}

// metric is one row of the table.
type metric struct {
	name, help string
	kind       dto.MetricType
	labels     []string
	roles      []string
}

var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), ` +
	`unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// metrics returns the metrics of the relay that are registered, by name.
func (r *recorder) metrics(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, c := range r.collectors {
		descriptions := make(chan *prometheus.Desc, 100)
		c.Describe(descriptions)
		close(descriptions)
		kinds := kindsOf(t, c)
		for d := range descriptions {
			text := d.String()
			m := description.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("%s", text)
			}
			name, help := unquote(t, m[1]), unquote(t, m[2])
			if !strings.HasPrefix(name, "relay_") {
				continue // of the Go runtime and the process
			}
			labels := strings.FieldsFunc(m[4], func(c rune) bool { return c == ',' })
			for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[3], -1) {
				labels = append(labels, constant[1])
			}
			kind, known := kinds[text]
			if !known {
				kind = kindOfType(c)
			}
			all[name] = metric{name: name, help: help, kind: kind, labels: labels}
		}
	}
	return all
}

func unquote(t *testing.T, text string) (out string) {
	t.Helper()
	must.Get(fmt.Sscanf(text, "%q", &out))(t)
	return out
}

// kindsOf returns the types of the series that a collector has now, by description.
func kindsOf(t *testing.T, c prometheus.Collector) map[string]dto.MetricType {
	t.Helper()
	series := make(chan prometheus.Metric, 10_000)
	c.Collect(series)
	close(series)
	kinds := map[string]dto.MetricType{}
	for m := range series {
		var out dto.Metric
		must.Do(t, m.Write(&out))
		switch {
		case out.Counter != nil:
			kinds[m.Desc().String()] = dto.MetricType_COUNTER
		case out.Histogram != nil:
			kinds[m.Desc().String()] = dto.MetricType_HISTOGRAM
		case out.Summary != nil:
			kinds[m.Desc().String()] = dto.MetricType_SUMMARY
		default:
			kinds[m.Desc().String()] = dto.MetricType_GAUGE
		}
	}
	return kinds
}

// kindOfType is the type of a collector without series.
func kindOfType(c prometheus.Collector) dto.MetricType {
	switch c.(type) {
	case *prometheus.CounterVec:
		return dto.MetricType_COUNTER
	case *prometheus.HistogramVec:
		return dto.MetricType_HISTOGRAM
	}
	return dto.MetricType_GAUGE
}

// startRole starts a node with one role on a broker, without ClickHouse and Redis, and returns what it registers.
func startRole(t *testing.T, broker stream.Config, keys, role string) *recorder {
	t.Helper()
	// The path of the command socket must be short.
	dir, err := os.MkdirTemp("", "metrics")
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	log := slog.New(slog.DiscardHandler)
	stack, metrics := NewStack(t.Context(), log), &recorder{Registry: prometheus.NewRegistry()}
	metrics.MustRegister(must.Get(otlp.NewLogs(otlp.Config{Logs: otlp.Collector{URL: "http://127.0.0.1:1"}},
		log.Handler()))(t)) // the command does so
	_, err = Start(stack, nodeconfig.Config{
		Listen: "127.0.0.1:0", NodeName: "node-" + role, Roles: []string{role}, DataDir: dir, MaxBody: 1 << 20,
		TakeoverSeconds: 30, EmbeddedLog: broker.Embedded, TopicPrefix: broker.Prefix, Replication: 1, LogKeepMinutes: 15,
		RetentionDays: 30, LedgerSeconds: 60, MasterKeys: keys,
		ClickHouseURL: "http://127.0.0.1:1/relay", Version: "test", TracesURL: "http://127.0.0.1:1",
		MetricsURL: "http://127.0.0.1:1", MetricsSeconds: 3600,
	}, log, metrics)
	if err != nil {
		t.Fatal(stack.StopAfterFailedStart(err))
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Logf("stop: %v", err) // ClickHouse is not there
		}
	})
	return metrics
}

// allMetrics returns the metrics of nodes with one role each, and those of the embedded log, sorted by name.
func allMetrics(t *testing.T) []metric {
	t.Helper()
	embedded := &recorder{Registry: prometheus.NewRegistry()}
	log := must.Get(stream.OpenLog(stream.LogConfig{Dir: t.TempDir(), Metrics: embedded}))(t)
	stack := NewStack(t.Context(), slog.New(slog.DiscardHandler))
	stack.Start("log", log.Run)
	t.Cleanup(func() { _ = stack.Stop() })
	broker := stream.Config{Embedded: log, Prefix: "t."}
	keys := seal.GenerateKey("test")
	must.Get(stream.Migrate(t.Context(), broker, 2, 1))(t)
	all := map[string]metric{}
	add := func(role string, of map[string]metric) {
		for name, m := range of {
			m.roles = append(all[name].roles, role)
			all[name] = m
		}
	}
	for _, role := range nodeconfig.Roles() {
		add(role, startRole(t, broker, keys, role).metrics(t))
	}
	add("dev", embedded.metrics(t))
	return slices.SortedFunc(maps.Values(all), func(a, b metric) int { return cmp.Compare(a.name, b.name) })
}

// docs/operate/metrics.md has every metric with type, labels and roles, and their names, units and help texts follow
// the conventions of Prometheus.
func TestMetricsTable(t *testing.T) {
	all := allMetrics(t)
	if len(all) < 80 {
		t.Fatalf("%d metrics: this test reads the wrong registry", len(all))
	}
	var families []*dto.MetricFamily
	for _, m := range all {
		families = append(families, m.family())
	}
	problems := must.Get(promlint.NewWithMetricFamilies(families).Lint())(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	path := filepath.Join(kit.Root(t), "docs", "operate", "metrics.md")
	want := metricsDocument(all)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(want), 0o600))
	}
	got, err := os.ReadFile(path)
	if diff := gocmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("run make generate: %v (-code +docs/operate/metrics.md):\n%s", err, diff)
	}
}

// family is a series of the metric, as Prometheus reads it.
func (m metric) family() *dto.MetricFamily {
	one := &dto.Metric{Counter: &dto.Counter{}, Gauge: &dto.Gauge{}, Histogram: &dto.Histogram{}, Summary: &dto.Summary{}}
	for _, label := range m.labels {
		one.Label = append(one.Label, &dto.LabelPair{Name: proto.String(label), Value: proto.String("x")})
	}
	return &dto.MetricFamily{
		Name: proto.String(m.name), Help: proto.String(m.help), Type: m.kind.Enum(), Metric: []*dto.Metric{one},
	}
}

var metricsIntroduction = strings.ReplaceAll(`# Metrics

Every metric of a node, from '/metrics' of 'RELAY_ADMIN_LISTEN'. [Operate](operate.md) says which to watch.
'make generate' writes this page from the code. A role is one of 'RELAY_ROLES'; *all*: each node has it; *dev*: the
log of 'relay dev' has it. The metrics of the Go runtime ('go_…') and of the process ('process_…') are there too.

| metric | type | labels | roles | meaning |
|---|---|---|---|---|
`, "'", "`")

func metricsDocument(all []metric) string {
	var out strings.Builder
	out.WriteString(metricsIntroduction)
	for _, m := range all {
		roles := strings.Join(m.roles, ", ")
		if len(m.roles) == 4 {
			roles = "all"
		}
		labels := "`" + strings.Join(m.labels, "`, `") + "`"
		if len(m.labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", m.name, strings.ToLower(m.kind.String()), labels, roles,
			strings.ReplaceAll(m.help, "|", `\|`))
	}
	return out.String()
}
