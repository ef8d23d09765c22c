package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/test/must"
)

// issue creates an issue of an endpoint's destination, and returns its id.
func (c *client) issue(cause string) string {
	c.t.Helper()
	ep := c.endpoint(nil)
	id := "iss_" + strings.TrimPrefix(ep.text("destinations.0.id"), "dst_")
	must.Do(c.t, configuration.ChangeIssue(c.t.Context(), id, func(x *alerting.Issue) error {
		x.Endpoint, x.Destination, x.Cause = ep.text("id"), ep.text("destinations.0.id"), cause
		now := time.Now()
		x.Add(3, now, now, []string{"evt_01m7w6h6kk00r00w2s1cbs4f8h"})
		return nil
	}))
	return id
}

func TestIssues(t *testing.T) {
	c := newClient(t)
	id := c.issue("http_504")
	path := "/v1/issues/" + id
	x := c.do("GET", path, nil).want(200)
	if x.text("status") != "open" || x.get("count") != 3.0 || x.text("cause") != "http_504" ||
		x.text("events.0") == "" || x.text("endpoint_name") == "" {
		t.Errorf("%s", x.raw)
	}
	after := c.do("PATCH", path, `{"status":"resolved","assignee":"Ada","note":"a certificate"}`).want(200)
	if after.text("status") != "resolved" || after.text("resolved_at") == "" || after.text("assignee") != "Ada" {
		t.Errorf("%s", after.raw)
	}
	for _, bad := range []struct{ body, param string }{{`{"status":"gone"}`, "status"}, {`{"assignee":3}`, "assignee"},
		{`{"note":"` + strings.Repeat("x", 2001) + `"}`, "note"}} {
		c.do("PATCH", path, bad.body).wantError(400, "invalid_request", bad.param)
	}
	c.do("PATCH", "/v1/issues/iss_nope", `{}`).wantError(404, "not_found", "")
	must.Do(t, configuration.ChangeIssue(t.Context(), id, func(x *alerting.Issue) error {
		x.Add(1, time.Now(), time.Now(), nil)
		return nil
	}))
	if x = c.do("GET", path, nil).want(200); x.text("status") != "open" || x.get("reopened") != 1.0 ||
		x.get("resolved_at") != nil || x.get("count") != 4.0 || x.text("assignee") != "Ada" {
		t.Errorf("%s", x.raw)
	}
	dest := "&destination_id=" + x.text("destination_id")
	for query, want := range map[string]int{"?status=open" + dest: 1, "?status=resolved" + dest: 0,
		"?endpoint_id=" + x.text("endpoint_id"): 1, "?status=open,resolved" + dest: 1} {
		if got := c.do("GET", "/v1/issues"+query, nil).want(200); len(got.get("data").([]any)) != want {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
	c.do("GET", "/v1/issues?status=gone", nil).wantError(400, "invalid_request", "status")
	if o := c.do("GET", "/v1/overview", nil).want(200); !strings.Contains(string(o.raw), id) {
		t.Errorf("the overview lacks it: %s", o.raw)
	}
}
