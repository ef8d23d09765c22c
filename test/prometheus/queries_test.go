package prometheus

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// expression is a PromQL query of an alert, a dashboard or a runbook.
type expression struct{ from, text string }

// expressions returns the queries of all alerts, dashboards and runbooks, as Prometheus gets them.
func expressions(t *testing.T) (all []expression) {
	t.Helper()
	for _, r := range readRules(t) {
		all = append(all, expression{r.Alert, r.Expr})
	}
	files, err := filepath.Glob("../../deploy/grafana/dashboards/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		must.Do(t, json.Unmarshal(text, &board), file)
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				all = append(all, expression{filepath.Base(file) + ": " + panel.Title,
					strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
			}
		}
	}
	runbooks := must.Get(os.ReadFile(filepath.Join(kit.Root(t), "docs", "operate", "runbooks.md")))(t)
	for _, span := range regexp.MustCompile("`([^`]*\\brelay_[^`]*)`").FindAllSubmatch(runbooks, -1) {
		all = append(all, expression{"docs/operate/runbooks.md", strings.Join(strings.Fields(string(span[1])), " ")})
	}
	if len(all) < 150 {
		t.Fatalf("%d queries: this test reads the wrong text", len(all))
	}
	return all
}

// named is what tools/promql says of a query.
type named struct {
	Error  string
	Series []struct {
		Metric string
		Labels []string
	}
	Grouped []string
}

// parse asks the parser of Prometheus, which is a program of its own module.
func parse(t *testing.T, all []expression) (out []named) {
	t.Helper()
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.text
	}
	in := must.Get(json.Marshal(texts))(t)
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir, cmd.Stdin = "../../tools/promql", bytes.NewReader(in)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	answer, err := cmd.Output()
	must.Do(t, err, "go run tools/promql: %s", &failure)
	if err := json.Unmarshal(answer, &out); err != nil || len(out) != len(all) {
		t.Fatalf("%d answers, %v", len(out), err)
	}
	return out
}

// knownLabels returns the labels of each metric by docs/operate/metrics.md, which TestMetricsTable compares with the
// code.
func knownLabels(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(kit.Root(t), "docs", "operate", "metrics.md")))(t)
	labels := map[string][]string{
		"up": nil, "process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil, // of Prometheus and its library
	}
	row := regexp.MustCompile("(?m)^\\| `(relay_\\w+)` \\| (\\w+) \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		of := regexp.MustCompile(`\w+`).FindAllString(m[3], -1)
		switch m[2] {
		case "histogram":
			labels[m[1]+"_bucket"] = append(slices.Clone(of), "le")
			labels[m[1]+"_sum"], labels[m[1]+"_count"] = of, of
		case "summary":
			labels[m[1]+"_sum"], labels[m[1]+"_count"] = of, of
		default:
			labels[m[1]] = of
		}
	}
	if len(labels) < 80 {
		t.Fatalf("docs/operate/metrics.md has %d metrics: this test reads the wrong text", len(labels))
	}
	return labels
}

// Every query of an alert, a dashboard or a runbook can be parsed, and the metrics and labels that it names exist.
func TestEveryQueryNamesWhatExists(t *testing.T) {
	all, known := expressions(t), knownLabels(t)
	target := []string{"job", "instance", "namespace", "release"} // what Prometheus adds, the last two with the chart
	for i, n := range parse(t, all) {
		e := all[i]
		if n.Error != "" {
			t.Errorf("%s: %s: %s", e.from, e.text, n.Error)
			continue
		}
		labels := slices.Clone(target)
		for _, s := range n.Series {
			of, exists := known[s.Metric]
			if !exists {
				t.Errorf("%s: %s: there is no metric %s", e.from, e.text, s.Metric)
			}
			for _, label := range s.Labels {
				if !slices.Contains(of, label) && !slices.Contains(target, label) {
					t.Errorf("%s: %s: %s has no label %s", e.from, e.text, s.Metric, label)
				}
			}
			labels = append(labels, of...)
		}
		for _, label := range n.Grouped {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: %s: no metric in it has the label %s", e.from, e.text, label)
			}
		}
	}
}
