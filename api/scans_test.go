package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/test/is"
)

// scan creates a verified domain and a scan of it, which ends with the test: one runs at a time.
func (c *client) scan(hostname string) *answer {
	c.t.Helper()
	name := c.verifiedDomain(hostname)
	return c.do("POST", "/v1/scans", map[string]any{"domain_id": name}).want(201)
}

func (c *client) verifiedDomain(hostname string) string {
	c.t.Helper()
	name := c.domain(hostname).text("id")
	c.do("POST", "/v1/domains/"+name+"/verify", nil).want(200)
	return name
}

// endScan ends the scan that is open.
func (c *client) endScan(trigger string, change func(*leak.Scan)) {
	c.t.Helper()
	open := configuration.OpenScan()
	if open == nil {
		return
	}
	_, err := configuration.UpdateScan(context.Background(), open.ID, open.Try, time.Minute, func(s *leak.Scan) {
		s.Status, s.Trigger = leak.ScanCompleted, trigger
		change(s)
	})
	is.OK(c.t, err)
}

// A scan of a verified domain is queued, read, listed, and has its report in the end. One runs at a time.
func TestScans(t *testing.T) {
	c := newClient(t)
	created := c.scan("scans.example.com")
	name := created.text("id")
	if created.text("status") != "queued" || created.text("trigger") != "manual" ||
		created.text("hostname") != "scans.example.com" || created.get("started_at") != nil {
		t.Errorf("%s", created.raw)
	}
	c.do("POST", "/v1/scans", map[string]any{"domain_id": created.text("domain_id")}).wantError(400, "invalid_state", "")
	c.endScan(leak.ScanWeekly, func(s *leak.Scan) {
		s.Pages, s.Budget, s.FindingsNew, s.FindingsOld, s.SkippedMore = 50, "pages", 2, 1, 9
		s.Skipped, s.ThirdParty = []leak.ScanSkipped{{Path: "/a", Reason: "query"}}, []string{"cdn.example.com"}
	})
	a := c.do("GET", "/v1/scans/"+name, nil).want(200)
	if a.text("status") != "completed" || a.get("pages") != 50.0 || a.text("budget_exhausted") != "pages" ||
		a.text("skipped.0.reason") != "query" || a.text("third_party.0") != "cdn.example.com" ||
		a.get("findings_new") != 2.0 || a.get("findings_seen") != 1.0 || a.get("finished_at") == nil {
		t.Errorf("%s", a.raw)
	}
	second := c.do("POST", "/v1/scans", map[string]any{"domain_id": created.text("domain_id")}).want(201).text("id")
	page := c.do("GET", "/v1/scans?limit=1", nil).want(200)
	next := c.do("GET", "/v1/scans?limit=1&cursor="+page.text("next_cursor"), nil).want(200)
	if page.text("data.0.id") != second || next.text("data.0.id") != name {
		t.Errorf("%s\n%s", page.raw, next.raw)
	}
	for query, want := range map[string]int{
		"domain_id=" + created.text("domain_id"): 2, "domain_id=dom_1," + created.text("domain_id"): 2, "domain_id=dom_1": 0,
	} {
		if list := c.do("GET", "/v1/scans?"+query, nil).want(200); len(list.get("data").([]any)) != want {
			t.Errorf("%s, want %d: %s", query, want, list.raw)
		}
	}
	c.do("GET", "/v1/scans?domain=dom_1", nil).wantError(400, "invalid_request", "domain")
	c.do("GET", "/v1/scans/scn_1", nil).wantError(404, "not_found", "")
}

// Only verified domains are scanned, five times in 24 hours by hand.
func TestScansAreRefused(t *testing.T) {
	c := newClient(t)
	for body, param := range map[string]string{`{}`: "domain_id", `{"domain_id":1}`: "domain_id",
		`{"domain_id":"dom_1"}`: "domain_id"} {
		c.do("POST", "/v1/scans", body).wantError(400, "invalid_request", param)
	}
	pending := map[string]any{"domain_id": c.domain("unproven.example.com").text("id")}
	if a := c.do("POST", "/v1/scans", pending).wantError(400, "invalid_state", "domain_id"); !strings.Contains(
		a.text("error.message"), "pending") {
		t.Errorf("%s", a.raw)
	}
	body := map[string]any{"domain_id": c.verifiedDomain("often.example.com")}
	for range leak.MaxScansPerDay {
		c.do("POST", "/v1/scans", body).want(201)
		c.endScan(leak.ScanManual, func(*leak.Scan) {})
	}
	if a := c.do("POST", "/v1/scans", body).wantError(429, "rate_limited", ""); a.Header.Get("Retry-After") == "" {
		t.Errorf("%v", a.Header)
	}
	later := newClient(t, func(_ *api.Config, deps *api.Deps) {
		deps.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	})
	later.do("POST", "/v1/scans", body).want(201)
}
