package helm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	networkingv1 "k8s.io/api/networking/v1"
)

// at builds values with one member, at a path like write.replicas.
func at(path string, value any) map[string]any {
	names := strings.Split(path, ".")
	for i := len(names) - 1; i >= 0; i-- {
		value = map[string]any{names[i]: value}
	}
	return value.(map[string]any)
}

// Wrong values are refused before anything is made, with the member's name.
func TestWrongValuesAreRefused(t *testing.T) {
	chart := load(t, chartDir)
	for _, wrong := range []struct {
		path  string
		value any
		want  string
	}{
		{"image.repository", "", "/image/repository"},
		{"image.digest", "sha256:12", "/image/digest"},
		{"baseURL", "hooks.example.com", "/baseURL"},
		{"baseURL", "https://hooks.example.com/relay", "/baseURL"},
		{"layout", "single", "/layout"},
		{"kafka.brokers", []any{}, "/kafka/brokers"},
		{"kafka.brokers", []any{"kafka"}, "/kafka/brokers/0"},
		{"secrets.secretName", "", "/secrets"},
		{"secrets.keys.RELAY_MASTER_KEY", "master_key", "RELAY_MASTER_KEY"},
		{"secrets.as", "flags", "/secrets/as"},
		{"settings.RELAY_RETENTION", 90, "RELAY_RETENTION"},
		{"settings.RELAY_RETENTION_DAYS", "90 days", "/settings/RELAY_RETENTION_DAYS"},
		{"settings.RELAY_NODE_NAME", "a", "RELAY_NODE_NAME"},
		{"settings.RELAY_MASTER_KEYS", "main:secret", "RELAY_MASTER_KEYS"},
		{"dispatch.autoscaling", map[string]any{"enabled": true}, "autoscaling"},
		{"dispatch.replicas", -1, "/dispatch/replicas"},
		{"write.autoscaling.minReplicas", 0, "/write/autoscaling/minReplicas"},
		{"image.repository", "registry.example.com/relay:v1", "/image/repository"},
		{"nameOverride", "Event Relay", "/nameOverride"},
		{"kafka.tls", map[string]any{"clientSecretName": "relay-kafka"}, "kafka.tls.enabled"},
		{"migrate", map[string]any{"volume": at("csi.driver", "secrets-store.csi.k8s.io"), "secretName": "job"},
			"migrate.volume"},
		{"podLabels", map[string]any{"app.kubernetes.io/component": "x"}, "/podLabels"},
		{"write.autoscaling.cpuPercent", 60, "cpuPercent"},
		{"ingest.replica", 3, "replica"},
		{"ingest.autoscaling", map[string]any{"enabled": true, "minReplicas": 9, "maxReplicas": 3},
			"ingest.autoscaling.minReplicas"},
		{"trustedProxies", []any{"10.0.0.1"}, "/trustedProxies/0"},
		{"metrics.podMonitor.enabled", true, "networkPolicy.monitoring"},
		{"ingress.enabled", true, "trustedProxies: is required with ingress.enabled or gateway.enabled: set it to"},
		{"gateway", map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "public"}}},
			"trustedProxies: is required"},
		{"egress.deny", []any{"10.0.0.1"}, "/egress/deny/0"},
		{"metrics.pprof", "on", "/metrics/pprof"},
		{"shutdownDelaySeconds", 90, "/shutdownDelaySeconds"},
		{"terminationGracePeriodSeconds", 30, "terminationGracePeriodSeconds"},
		{"podDisruptionBudget.maxUnavailable", "half", "/podDisruptionBudget/maxUnavailable"},
		{"gateway", map[string]any{"enabled": true, "parentRefs": []any{}}, "/gateway/parentRefs"},
		{"gateway.timeouts", map[string]any{"request": "15 s"}, "/gateway/timeouts/request"},
		{"kafka.tls.ca", map[string]any{"secretName": "a", "configMapName": "b"}, "/kafka/tls/ca"},
		{"unknown", true, "unknown"},
	} {
		_, err := templates(chart, "prod", values(t, "default", at(wrong.path, wrong.value)))
		if err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s: %v: got %v, want an error that names %s", wrong.path, wrong.value, err, wrong.want)
		}
	}
}

// A release whose name is not a DNS label needs another name for its Services.
func TestNameOfARelease(t *testing.T) {
	chart := load(t, chartDir)
	if _, err := templates(chart, "2026.hooks", values(t, "default")); err == nil ||
		!strings.Contains(err.Error(), "fullnameOverride: is required") {
		t.Errorf("%v", err)
	}
	if _, err := templates(chart, "2026.hooks", values(t, "default", at("fullnameOverride", "hooks"))); err != nil {
		t.Error(err)
	}
}

// A number reaches the program as it was written.
func TestNumbersOfSettings(t *testing.T) {
	given, err := loader.LoadValues(strings.NewReader("{RELAY_MAX_BODY: 5242880, RELAY_TRACES_SAMPLE: 0.05, " +
		"RELAY_SEARCH_INDEX: true, RELAY_ALLOWANCE_EVENTS: 100000000000}"))
	if err != nil {
		t.Fatal(err)
	}
	variables := nodes(render(t, "default", at("settings", given)))[0].variables()
	for name, want := range map[string]string{"RELAY_MAX_BODY": "5242880", "RELAY_TRACES_SAMPLE": "0.05",
		"RELAY_SEARCH_INDEX": "true", "RELAY_ALLOWANCE_EVENTS": "100000000000"} {
		if variables[name] != want {
			t.Errorf("%s=%q, want %s", name, variables[name], want)
		}
	}
}

// Profiles are off unless they are asked for, and networks that deliveries must not reach are in settings and policies.
func TestPprofAndDeniedNetworks(t *testing.T) {
	for _, want := range []string{"false", "true"} {
		given := at("metrics.pprof", want == "true")
		for _, n := range nodes(render(t, "default", given)) {
			if got := n.variables()["RELAY_PPROF"]; got != want {
				t.Errorf("metrics.pprof %v: RELAY_PPROF=%q", given, got)
			}
		}
	}
	given := map[string]any{"egress": at("deny", []any{"8.8.4.0/24", "2600:1f00::/24"}),
		"networkPolicy": at("enabled", true)}
	all := render(t, "default", given)
	if got := nodes(all)[0].variables()["RELAY_EGRESS_DENY"]; got != "8.8.4.0/24,2600:1f00::/24" {
		t.Errorf("RELAY_EGRESS_DENY=%q", got)
	}
	var except []string
	for _, rule := range find[*networkingv1.NetworkPolicy](t, all, "prod-eventrelay-dispatch").Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock != nil {
				except = append(except, to.IPBlock.Except[len(to.IPBlock.Except)-1])
			}
		}
	}
	if !slices.Equal(except, []string{"8.8.4.0/24", "2600:1f00::/24"}) {
		t.Errorf("except %v", except)
	}
}

// Every value of the chart can be changed: a set that is not the default in every group renders.
func TestOtherValues(t *testing.T) {
	for _, other := range []map[string]any{
		at("layout", "together"),
		at("readiness", "command"),
		at("listenAddress", "[::]"),
		at("metrics.enabled", false),
		at("metrics.pprof", true),
		map[string]any{"trustedProxies": []any{"10.0.0.0/8"}, "ingress": at("enabled", true)},
		at("serviceAccount.create", false),
		at("serviceAccount.name", "relay"),
		at("fullnameOverride", "hooks"),
		at("topologySpread", []any{}),
		at("podDisruptionBudget.maxUnavailable", "25%"),
		at("podAnnotations", map[string]any{"a": "b"}),
		at("secrets", map[string]any{"secretName": "", "volume": at("csi.driver", "secrets-store.csi.k8s.io")}),
		at("networkPolicy", map[string]any{"enabled": true, "private": []any{}, "private6": []any{}, "engines": []any{}}),
		at("terminationGracePeriodSeconds", 120),
		at("service", map[string]any{"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
		at("podLabels", map[string]any{"app.kubernetes.io/owner": "hooks"}),
		map[string]any{"ingest": at("replicas", 0), "node": at("replicas", 0)},
	} {
		render(t, "default", other)
		render(t, "small", other)
	}
}

// The package of a release has the chart as it is in the repository, twice with the same bytes.
func TestPackage(t *testing.T) {
	var packages [2][]byte
	var file string
	for i := range packages {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "../../tools/chart/package.sh", dir)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("package.sh: %v\n%s", err, out)
		}
		files, err := filepath.Glob(dir + "/*.tgz")
		if err != nil || len(files) != 1 {
			t.Fatalf("package.sh wrote %q, %v", files, err)
		}
		file = files[0]
		if packages[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two packages differ")
	}
	packed, chart := load(t, file), load(t, chartDir)
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(version)); packed.Metadata.Version != want || packed.Metadata.AppVersion != want ||
		filepath.Base(file) != "eventrelay-"+want+".tgz" {
		t.Errorf("%s is version %s of %s", file, packed.Metadata.Version, packed.Metadata.AppVersion)
	}
	if len(packed.Raw) != len(chart.Raw) || len(packed.Templates) != len(chart.Templates) || len(packed.Schema) == 0 {
		t.Errorf("%d files in the package, %d in the repository", len(packed.Raw), len(chart.Raw))
	}
	for i, f := range chart.Raw {
		if f.Name != packed.Raw[i].Name || !bytes.Equal(f.Data, packed.Raw[i].Data) {
			t.Errorf("%s differs from %s", packed.Raw[i].Name, f.Name)
		}
	}
}

// The notes name the commands that exist, and warn of what is open.
func TestNotes(t *testing.T) {
	for set, want := range map[string][]string{
		"small": {"statefulset/prod-eventrelay-node -- relay doctor", "WARNING: trustedProxies is empty", "port-forward"},
		"large": {"deployment/prod-eventrelay-api -- relay doctor"},
	} {
		rendered, err := templates(load(t, chartDir), "prod", values(t, set))
		if err != nil {
			t.Fatal(err)
		}
		notes := rendered["eventrelay/templates/NOTES.txt"]
		for _, text := range want {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes have no %q:\n%s", set, text, notes)
			}
		}
		if warns := strings.Contains(notes, "WARNING"); warns != (set == "small") {
			t.Errorf("%s: warnings: %v\n%s", set, warns, notes)
		}
	}
}
