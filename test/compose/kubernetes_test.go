package compose

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// kubernetes is the Helm chart on a Kubernetes cluster of two nodes, in whose network the test runs.
type kubernetes struct {
	*cluster
	dir, chart, values string
}

// newKubernetes is for a cluster with Kafka, ClickHouse, Redis and a receiver, and the images of two versions:
// test/kubernetes/test.sh makes it.
func newKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	dir := os.Getenv("RELAY_TEST_KUBERNETES")
	if dir == "" {
		t.Skip("test/kubernetes/test.sh runs this (make torture PART=kubernetes)")
	}
	k := &kubernetes{dir: dir, chart: os.Getenv("RELAY_TEST_CHART"), values: filepath.Join(dir, "values.yaml")}
	k.cluster = &cluster{t: t, accepted: map[int]string{}, received: map[int]bool{}}
	return k
}

// run runs kubectl or helm, and returns what it writes.
func (k *kubernetes) run(program string, args ...string) (string, error) {
	cmd := exec.CommandContext(k.t.Context(), filepath.Join(k.dir, program), args...)
	cmd.Env = append(os.Environ(), "HOME="+k.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs kubectl or helm and fails the test if it fails.
func (k *kubernetes) must(program string, args ...string) string {
	k.t.Helper()
	began := time.Now()
	out, err := k.run(program, args...)
	if err != nil {
		pods, _ := k.run("kubectl", "get", "pods,events", "-A", "-o", "wide")
		k.t.Fatalf("%s %v: %v\n%s\n%s", program, args, err, out, pods)
	}
	if program == "helm" {
		k.t.Logf("helm %s: %.0f s", strings.Join(args, " "), time.Since(began).Seconds())
	}
	return strings.TrimSpace(out)
}

// kubectl runs kubectl in the namespace of the release.
func (k *kubernetes) kubectl(args ...string) string {
	k.t.Helper()
	return k.must("kubectl", append([]string{"-n", "hooks"}, args...)...)
}

// upgrade installs or upgrades the release with further settings.
func (k *kubernetes) upgrade(settings ...string) {
	k.t.Helper()
	k.must("helm", k.upgradeOf(settings)...)
}

func (k *kubernetes) upgradeOf(settings []string) []string {
	args := []string{"upgrade", "--install", "eventrelay", k.chart, "--namespace", "hooks", "--values", k.values, "--wait",
		"--timeout", "5m"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// address returns the address of a Service.
func (k *kubernetes) address(namespace, service string, port int) string {
	k.t.Helper()
	ip := k.must("kubectl", "-n", namespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	return fmt.Sprintf("http://%s:%d", ip, port)
}

// serve is the ingress: it sends requests to the Services.
func (k *kubernetes) serve() {
	k.t.Helper()
	parse := func(service string) *url.URL {
		u := must.Get(url.Parse(k.address("hooks", service, 80)))(k.t)
		return u
	}
	ingest, api := parse("eventrelay-ingest"), parse("eventrelay-api")
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to := api
		if strings.HasPrefix(r.In.URL.Path, "/in/") {
			to = ingest
		}
		r.SetURL(to)
		r.Out.Host = "hooks.example.com"
	}}
	server := httptest.NewServer(proxy)
	k.t.Cleanup(server.Close)
	k.url, k.receiver = server.URL, k.address("engines", "receiver", 8090)
}

// podAddress returns the address of a pod of a group.
func (k *kubernetes) podAddress(group string) string {
	k.t.Helper()
	return k.kubectl("get", "pods", "-l", "app.kubernetes.io/component="+group, "-o",
		"jsonpath={.items[0].status.podIP}")
}

// reaches reports whether a pod outside the release can connect to an address.
func (k *kubernetes) reaches(host, port string) bool {
	_, err := k.run("kubectl", "-n", "engines", "exec", "redis", "--", "timeout", "3", "bash", "-c",
		"exec 3<>/dev/tcp/"+host+"/"+port)
	return err == nil
}

// The commands of docs/operate/kubernetes.md install the release under the restricted Pod Security Standard. While
// events come in, every way to replace nodes one by one refuses none of them. Nothing is lost, also when all are
// replaced at once.
func TestKubernetes(t *testing.T) {
	k := newKubernetes(t)
	k.upgrade()
	k.must("helm", "test", "eventrelay", "--namespace", "hooks")
	relay := func(args ...string) string {
		t.Helper()
		return k.kubectl(append([]string{"exec", "deployment/eventrelay-api", "--", "relay"}, args...)...)
	}
	relay("doctor")
	lines := strings.Fields(relay("keys", "create", "--name", "first", "--scope", "read_write"))
	k.key = lines[len(lines)-1]
	k.serve()
	k.createEndpoint("http://receiver.engines.svc.cluster.local:8090/hook")

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.load(ctx) })
	defer wg.Wait()
	defer stop()
	k.awaitAccepted(50)

	t.Run("one by one", func(t *testing.T) { k.oneByOne(t) })
	t.Run("by CPU", func(t *testing.T) { k.scaleByCPU(t) })
	k.awaitReceived()
	if k.refused > 0 {
		t.Errorf("%d events were refused while nodes were replaced one by one, added and removed", k.refused)
	}
	one := k.countAccepted()
	t.Run("policies", func(t *testing.T) { k.policies(t) })
	t.Run("failed job", func(t *testing.T) { k.failedJob(t) })
	k.upgrade("migrate.finalize=true")
	before := k.refused
	k.upgrade("layout=together")
	k.awaitAccepted(50)
	k.upgrade()
	k.awaitAccepted(50)
	t.Run("lost machine", func(t *testing.T) { k.loseMachine(t) })
	stop()
	wg.Wait()
	k.awaitReceived()
	k.awaitStored()
	t.Run("restore", func(t *testing.T) { k.stopForRestore(t) })
	k.upgrade()
	k.awaitStored()
	is.Has(t, relay("doctor"), "lost 0", "doctor says")
	k.must("helm", "uninstall", "eventrelay", "--namespace", "hooks", "--wait")
	if left := k.kubectl("get", "deployment,statefulset,service,serviceaccount,poddisruptionbudget,networkpolicy", "-l",
		"app.kubernetes.io/instance=eventrelay", "-o", "name"); left != "" && !strings.Contains(left, "No resources found") {
		t.Errorf("helm uninstall leaves %s", left)
	}
	t.Logf("%d events accepted, %d refused, 0 lost; %d accepted and 0 refused while nodes were replaced one by one",
		len(k.accepted), k.refused-before, one)
}

// oneByOne replaces nodes in each way that replaces one after the other.
func (k *kubernetes) oneByOne(t *testing.T) {
	k.upgrade("image.tag=next")
	k.awaitAccepted(50)
	k.must("helm", "rollback", "eventrelay", "--namespace", "hooks", "--wait", "--timeout", "5m")
	k.awaitAccepted(50)
	k.must("kubectl", "drain", "node-b", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=4m",
		"--pod-selector", "app.kubernetes.io/name=eventrelay")
	k.awaitAccepted(50)
	k.must("kubectl", "uncordon", "node-b")
	k.upgrade("dispatch.replicas=4", "write.replicas=3", "ingest.replicas=3")
	k.awaitAccepted(50)
	k.upgrade("readiness=command", "secrets.as=environment")
	time.Sleep(30 * time.Second) // three failures of a probe would end a pod
	restarts := k.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}")
	if slices.ContainsFunc(strings.Fields(restarts), func(n string) bool { return n != "0" }) {
		t.Errorf("pods were restarted: %s", restarts)
	}
	k.upgrade("secrets.secretName=", "secrets.volume.projected.sources[0].secret.name=eventrelay")
	k.awaitAccepted(50)
}

// policies checks the network policies from a pod of another namespace.
func (k *kubernetes) policies(t *testing.T) {
	if !k.reaches(k.podAddress("ingest"), "9090") {
		t.Error("without policies the metrics are out of reach, so that this test says nothing")
	}
	k.upgrade("networkPolicy.enabled=true")
	k.awaitAccepted(50)
	kit.Eventually(t, time.Minute, func() string {
		for _, c := range []struct {
			group, port string
			open        bool
		}{{"ingest", "9090", false}, {"ingest", "8080", true}, {"api", "8080", true}, {"dispatch", "8080", false}} {
			if k.reaches(k.podAddress(c.group), c.port) != c.open {
				return fmt.Sprintf("%s:%s, open should be %t", c.group, c.port, c.open)
			}
		}
		return ""
	})
	k.must("helm", "test", "eventrelay", "--namespace", "hooks")
	k.awaitReceived()
	k.upgrade()
}

// failedJob checks that an upgrade whose job fails changes no node, and prints the cause.
func (k *kubernetes) failedJob(t *testing.T) {
	was := k.kubectl("get", "pods", "-l", "app.kubernetes.io/component!=migrate", "-o", "name")
	out, err := k.run("helm", k.upgradeOf([]string{"migrate.secretName=wrong", "migrate.backoffLimit=0"})...)
	if err == nil || !strings.Contains(out, "migrate tables") {
		t.Errorf("an upgrade with a wrong password: %v\n%s", err, out)
	}
	is.Equal(t, k.kubectl("get", "pods", "-l", "app.kubernetes.io/component!=migrate", "-o", "name"), was,
		"nodes were replaced: before %s", was)
}

// loseMachine cuts a machine off. Its pods are replaced once its Node is deleted, and nothing is lost, also when the
// machine comes back with the old pods.
func (k *kubernetes) loseMachine(t *testing.T) {
	connect := func(state string) {
		link := exec.Command("ip", "-n", "relay-k8s-cp", "link", "set", "relay-k8s-b", state)
		out, err := link.CombinedOutput()
		must.Do(t, err, "%s", out)
	}
	for _, group := range []string{"ingest", "api", "dispatch", "write"} {
		on := k.kubectl("get", "pods", "-l", "app.kubernetes.io/component="+group, "-o", "jsonpath={.items[*].spec.nodeName}")
		if !strings.Contains(on, "node-a") || !strings.Contains(on, "node-b") {
			t.Fatalf("the pods of %s are on %s", group, on)
		}
	}
	connect("down")
	k.must("kubectl", "wait", "--for=condition=Ready=Unknown", "--timeout=3m", "node/node-b")
	k.awaitAccepted(50)
	k.must("kubectl", "delete", "node", "node-b")
	for _, group := range []string{"statefulset/eventrelay-dispatch", "statefulset/eventrelay-write",
		"deployment/eventrelay-api", "deployment/eventrelay-ingest"} {
		k.kubectl("rollout", "status", group, "--timeout", "4m")
	}
	k.awaitReceived()
	connect("up")
	k.awaitAccepted(50)
	k.awaitReceived()
}

// stopForRestore stops all nodes, and starts one of the API, as docs/operate/kubernetes.md says for a restore.
func (k *kubernetes) stopForRestore(t *testing.T) {
	stopped := []string{"layout=apart", "ingest.replicas=0", "dispatch.replicas=0", "write.replicas=0"}
	k.upgrade(append(stopped, "migrate.enabled=false", "api.replicas=0")...)
	k.kubectl("wait", "pod", "--for=delete", "--timeout", "2m", "-l",
		"app.kubernetes.io/instance=eventrelay,app.kubernetes.io/component notin (migrate, test)")
	k.upgrade(append(stopped, "api.replicas=1")...)
	var endpoint struct{ Name string }
	if status, err := k.call(http.MethodGet, "/v1/endpoints/"+k.endpoint, nil, &endpoint); status != http.StatusOK {
		t.Errorf("one node of the API answers %d %v", status, err)
	}
}
