package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// The node that runs a scan is killed while another one lives. That begins the scan again, which ends once, with a true
// report.
func TestScanIsTakenOver(t *testing.T) {
	t.Parallel()
	if rounds(0, 0, 1) == 0 {
		t.Skip("takes a minute and two nodes; set RELAY_TORTURE")
	}
	site := newWebsite(t)
	want := site.plant()
	c := newCluster(t, sharedEngines(t), "scan", "RELAY_TAKEOVER_SECONDS=6", "RELAY_ADMIN_LISTEN=127.0.0.1:0",
		"RELAY_DNS_SERVER="+site.dns.Address)
	nodes := c.start("a", "b")
	nodes[0].prove(site, "www")
	domain := nodes[0].prove(site, "shop")
	reached, leave := site.hold()
	scan := nodes[0].must(http.StatusCreated, "POST", "/v1/scans", map[string]any{"domain_id": domain})["id"].(string)
	<-reached
	runner, other := nodes[0], nodes[1]
	if !strings.Contains(runner.admin("/metrics"), "relay_scan_running 1") {
		runner, other = other, runner
	}
	runner.kill()
	killed := time.Now()
	<-reached
	t.Logf("begun again %v after the kill", time.Since(killed).Round(time.Second))
	close(leave)
	report := other.awaitScan(scan)
	if report["status"] != "completed" || report["error"] != nil || report["findings_new"] != float64(len(want)) ||
		report["findings_seen"] != 0.0 || report["budget_exhausted"] != nil {
		t.Errorf("%v", report)
	}
	if diff := gocmp.Diff(want, other.scanFindings(len(want))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	runner.start()
	if list := runner.must(http.StatusOK, "GET", "/v1/scans", nil)["data"].([]any); len(list) != 1 ||
		list[0].(map[string]any)["finished_at"] != report["finished_at"] {
		t.Errorf("%v", list)
	}
}
