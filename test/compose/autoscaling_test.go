package compose

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

const (
	perReplica = 50_000 // recordsPerReplica of the chart
	asked      = 4      // what the lag asks for
)

// adapterService makes the adapter the server of external metrics. %s is the address of the control plane.
const adapterService = `
apiVersion: v1
kind: Namespace
metadata: {name: adapter}
---
apiVersion: v1
kind: Service
metadata: {name: adapter, namespace: adapter}
spec: {ports: [{port: 443, targetPort: 6444}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: adapter, namespace: adapter, labels: {kubernetes.io/service-name: adapter}}
addressType: IPv4
endpoints: [{addresses: ["%s"]}]
ports: [{port: 6444, protocol: TCP, name: ""}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  service: {name: adapter, namespace: adapter}
  group: external.metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`

// The autoscaler of "write" follows the consumer lag that nodes report, by way of Prometheus and its adapter with the
// rule of docs/operate/kubernetes.md. Each node reports the lag of the whole group, and another release has a larger
// one: both must not count. Without the metric it changes nothing.
func TestAutoscaling(t *testing.T) {
	k := newControlPlane(t)
	install := func(settings ...string) { k.installObjects(append(settings, "write.autoscaling.enabled=true")...) }
	install()
	k.awaitScale("False", "FailedGetExternalMetric", 2)

	lag, prometheus := nodesWithLag(t, k.root)
	k.startAdapter(prometheus)
	k.awaitScale("True", "ValidMetricFound", 2)
	install("write.autoscaling.metric.labels.namespace=hooks", "write.autoscaling.metric.labels.release=eventrelay")
	lag.Store(asked*perReplica - perReplica/2)
	began := time.Now()
	k.awaitScale("True", "ValidMetricFound", asked)
	t.Logf("%d pods instead of 2 after %.0f s of a lag of %d records", asked, time.Since(began).Seconds(), lag.Load())

	// Turned off with the number that runs, it leaves that number. The first other number is a conflict.
	want := func(pods string) {
		t.Helper()
		is.Equal(t, k.kubectl("get", "statefulset", "eventrelay-write", "-o", "jsonpath={.spec.replicas}"), pods,
			"pods without the autoscaler")
	}
	k.installObjects(fmt.Sprintf("write.replicas=%d", asked))
	want("4")
	fewer := k.installArgs("write.replicas=3")
	if out, err := k.run("helm", fewer...); err == nil || !strings.Contains(out, ".spec.replicas") {
		t.Errorf("an upgrade to 3 pods: %v\n%s", err, out)
	}
	want("4")
	k.must("helm", append(fewer, "--force-conflicts")...)
	want("3")
	k.installObjects("write.replicas=2")
	want("2")
	k.must("helm", "uninstall", "eventrelay", "--namespace", "hooks")
}

// awaitScale waits until the autoscaler says whether it is active and why, and "write" should have that many pods. More
// of them fail the test.
func (k *controlPlane) awaitScale(active, reason string, replicas int) {
	k.t.Helper()
	// It adds pods of a StatefulSet after two minutes.
	kit.Eventually(k.t, 4*time.Minute, func() string {
		var scaler struct {
			Status struct {
				DesiredReplicas int
				Conditions      []struct{ Type, Status, Reason, Message string }
			}
		}
		out := k.kubectl("get", "hpa", "eventrelay-write", "-o", "json")
		must.Do(k.t, json.Unmarshal([]byte(out), &scaler))
		var pods int
		if _, err := fmt.Sscan(k.kubectl("get", "statefulset", "eventrelay-write", "-o", "jsonpath={.spec.replicas}"),
			&pods); err != nil || pods > replicas {
			k.t.Fatalf("%d pods, want %d: %v\n%s", pods, replicas, err, out)
		}
		for _, c := range scaler.Status.Conditions {
			if c.Type == "ScalingActive" && c.Status == active && c.Reason == reason && pods == replicas {
				return ""
			}
		}
		return fmt.Sprintf("%d pods, %+v", pods, scaler.Status)
	})
}

// nodesWithLag runs Prometheus beside the nodes of two releases, and returns the lag of the first, in records, and the
// address of Prometheus.
func nodesWithLag(t *testing.T, root string) (lag *atomic.Int64, address string) {
	t.Helper()
	lag = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := lag.Load()
		if strings.HasPrefix(r.URL.Path, "/other/") {
			n = 100 * perReplica
		}
		for group, records := range map[string]int64{"store": n, "alert": 100 * n} {
			fmt.Fprintf(w, "relay_log_unread_records{group=%q} %d\n", group, records)
		}
	}))
	t.Cleanup(server.Close)
	var targets strings.Builder
	host := strings.TrimPrefix(server.URL, "http://")
	for _, release := range []string{"eventrelay", "other"} {
		for pod := range 5 {
			fmt.Fprintf(&targets, "      - targets: [%q]\n        labels: {namespace: hooks, release: %s, pod: %s-%d,"+
				" __metrics_path__: /%s/%d}\n", host, release, release, pod, release, pod)
		}
	}
	dir := t.TempDir()
	settings := "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: relay\n    static_configs:\n" +
		targets.String()
	file := filepath.Join(dir, "prometheus.yml")
	must.Do(t, os.WriteFile(file, []byte(settings), 0o600))
	address = "127.0.0.1:9091"
	background(t, exec.Command(filepath.Join(root, "bin/prometheus/prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+dir, "--web.listen-address="+address))
	return lag, address
}

// startAdapter runs the adapter of Prometheus with the rule of docs/operate/kubernetes.md.
func (k *controlPlane) startAdapter(prometheus string) {
	t := k.t
	t.Helper()
	page := must.Get(os.ReadFile(filepath.Join(k.root, "docs/operate/kubernetes.md")))(t)
	_, rule, found := strings.Cut(string(page), "```yaml\nexternalRules:")
	rule, _, ended := strings.Cut(rule, "```")
	if !found || !ended {
		t.Fatal("docs/operate/kubernetes.md has no rule for the adapter")
	}
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	must.Do(t, os.WriteFile(rules, []byte("externalRules:"+rule), 0o600))
	access := filepath.Join(k.dir, "kubeconfig")
	background(t, exec.Command(k.program("adapter"), "--prometheus-url=http://"+prometheus,
		"--config="+rules, "--metrics-relist-interval=5s", "--secure-port=6444",
		"--bind-address="+controlAddress, "--cert-dir="+dir,
		"--lister-kubeconfig="+access, "--authentication-kubeconfig="+access, "--authorization-kubeconfig="+access))
	k.apply(fmt.Sprintf(adapterService, controlAddress))
}
