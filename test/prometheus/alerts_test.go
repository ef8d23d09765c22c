package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// rule is an alert in alerts.yml.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// readRules returns the alerts of alerts.yml in their order.
func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	readYAML(t, "../../deploy/prometheus/alerts.yml", &file)
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) < 30 {
		t.Fatalf("alerts.yml has %d rules: this test reads the wrong text", len(rules))
	}
	return rules
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	must.Do(t, yaml.Unmarshal(text, to), name)
}

// promtool runs Prometheus' own checks and tests of the rules and of the configuration.
func TestPromtool(t *testing.T) {
	promtool := kit.Promtool(t)
	for _, args := range [][]string{
		{"check", "config", "../../deploy/prometheus/prometheus.yml"},
		{"check", "rules", "../../deploy/prometheus/alerts.yml"}, {"test", "rules", "alerts_test.yml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert has a test in which it is silent and one in which it fires.
func TestEveryAlertFiresAndIsSilentInATest(t *testing.T) {
	var file struct {
		Tests []struct {
			Expressions []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	readYAML(t, "alerts_test.yml", &file)
	alertName := regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, e := range test.Expressions {
			if name := alertName.FindStringSubmatch(e.Expr); name == nil {
				t.Errorf("alerts_test.yml: %s is not a firing alert", e.Expr)
			} else if len(e.Samples) > 0 {
				fires[name[1]] = true
			} else {
				silent[name[1]] = true
			}
		}
	}
	for _, r := range readRules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("alerts_test.yml: no test in which %s fires, or none in which it is silent", r.Alert)
		}
	}
}

// runbookLines begin the five lines of each part of the runbooks.
var runbookLines = []string{"Means", "Users notice", "Look at", "Do", "Over when"}

// Each alert has a severity, a summary, a description, and a part in the runbooks, and each part belongs to an alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	const document = "docs/operate/runbooks.md"
	text := must.Get(os.ReadFile(filepath.Join(kit.Root(t), document)))(t)
	parts := map[string]string{} // text by alert
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, content, _ := strings.Cut(part, "\n")
		parts[name] = content
	}
	for _, r := range readRules(t) {
		if !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		is.Equal(t, r.Annotations["runbook_url"], document+"#"+strings.ToLower(r.Alert),
			"%s has the runbook_url", r.Alert)
		content, found := parts[r.Alert]
		if !found {
			t.Errorf("%s has no part for %s", document, r.Alert)
		}
		for _, line := range runbookLines {
			if found && !strings.Contains(content, "\n- **"+line+":** ") {
				t.Errorf("%s: the part for %s has no line %q", document, r.Alert, line)
			}
		}
		delete(parts, r.Alert)
	}
	for name := range parts {
		t.Errorf("%s has a part for %s, which is no alert", document, name)
	}
}
