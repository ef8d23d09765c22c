package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// controlAddress is that of the API server of test/kubernetes/cluster.sh, where the test runs too.
const controlAddress = "10.99.0.1"

// controlPlane is a Kubernetes cluster without nodes: objects are made and followed, pods never start.
type controlPlane struct {
	*kubernetes
	root string // of the repository
}

// newControlPlane is for the cluster that test/kubernetes/chart.sh makes.
func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	dir := os.Getenv("RELAY_TEST_CONTROL_PLANE")
	if dir == "" {
		t.Skip("test/kubernetes/chart.sh runs this (make torture PART=chart)")
	}
	root := must.Get(filepath.Abs("../.."))(t)
	chart := filepath.Join(root, "deploy/chart/eventrelay")
	return &controlPlane{&kubernetes{cluster: &cluster{t: t}, dir: dir, chart: chart}, root}
}

// installObjects installs the chart or changes its settings. It leaves out the hooks: their job would not end.
func (k *controlPlane) installObjects(settings ...string) {
	k.t.Helper()
	k.must("helm", k.installArgs(settings...)...)
}

func (k *controlPlane) installArgs(settings ...string) []string {
	args := []string{"upgrade", "--install", "eventrelay", k.chart, "--namespace", "hooks", "--create-namespace",
		"--no-hooks", "--values", filepath.Join(k.chart, "examples/default.yaml")}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	return args
}

// apply makes objects.
func (k *controlPlane) apply(objects string) {
	k.t.Helper()
	file := filepath.Join(k.t.TempDir(), "objects.yaml")
	must.Do(k.t, os.WriteFile(file, []byte(objects), 0o600))
	k.must("kubectl", "apply", "-f", file)
}

// background runs a program until the test ends. Its log is printed if the test has failed.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), log.String())
		}
	})
}
