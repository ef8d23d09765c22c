package kit

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Promtool returns the path of promtool, which test/prometheus/fetch.sh puts into bin/prometheus; see [Prometheus].
func Promtool(t testing.TB) string {
	t.Helper()
	return prometheusProgram(t, "promtool")
}

// Prometheus returns the path of the Prometheus server. Without it the test is skipped as by SkipMissing.
func Prometheus(t testing.TB) string {
	t.Helper()
	return prometheusProgram(t, "prometheus")
}

func prometheusProgram(t testing.TB, name string) string {
	t.Helper()
	fetched := filepath.Join(Root(t), "bin", "prometheus", name)
	for _, candidate := range []string{fetched, name} {
		if found, err := exec.LookPath(candidate); err == nil {
			return found
		}
	}
	SkipMissing(t, "%s: run test/prometheus/fetch.sh, or install it", name)
	return ""
}
