package api_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestUsage(t *testing.T) {
	c := newClient(t)
	day := func(d int) time.Time { return time.Date(2026, 8, d, 0, 0, 0, 0, time.UTC) }
	u := &event.Usage{
		From: day(1), To: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
		Use: event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900},
		Figures: event.Figures{
			Daily: []event.DayUse{
				{Day: day(1)}, {Day: day(2), Use: event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900}}},
			ByEndpoint: []event.EndpointUse{
				{Endpoint: "ep_a", Use: event.Use{Received: 7, Bytes: 800}},
				{Endpoint: "ep_b", Use: event.Use{Sent: 4, Bytes: 100}}},
			Deliveries: 9, Attempts: 15, AsOf: day(2).Add(1500 * time.Millisecond), Recent: 12, QueryTime: time.Second,
		},
		Projection: event.Projection{Events: 300, Certain: true},
	}
	c.fake.UsageFunc = func(_ context.Context, of event.UsageOf) (*event.Usage, error) {
		if of.Account != configuration.Account().ID || of.Endpoints != nil {
			t.Errorf("asked for %v", of)
		}
		return u, nil
	}
	const plain = `{
		"period_start":"2026-08-01T00:00:00.000Z","period_end":"2026-09-01T00:00:00.000Z","as_of":"2026-08-02T00:00:01.500Z",
		"events":{"received":7,"sent":4,"findings":1,"total":12},"deliveries":9,"attempts":15,"bytes":900,
		"allowance":null,"remaining":null,"overage":{"events":0},
		"projection":{"events":300,"overage_events":0,"method":"last_7_days","confidence":"ok",
			"overage_amount":null,"currency":null},
		"by_endpoint":[{"endpoint_id":"ep_a","received":7,"sent":0,"total":7,"bytes":800},
			{"endpoint_id":"ep_b","received":0,"sent":4,"total":4,"bytes":100}],
		"daily":[{"date":"2026-08-01","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
			{"date":"2026-08-02","received":7,"sent":4,"findings":1,"total":12,"bytes":900}]}`
	var want map[string]any
	must.Do(t, json.Unmarshal([]byte(plain), &want))
	f := func() {
		t.Helper()
		is.Same(t, c.as(readKey).do("GET", "/v1/usage", nil).want(200).Body, want)
	}
	f()
	agree := func(allowance int64, remaining, over, projected float64) {
		t.Helper()
		u.Allowance = allowance
		want["allowance"], want["remaining"] = float64(allowance), remaining
		want["overage"] = map[string]any{"events": over}
		want["projection"].(map[string]any)["overage_events"] = projected
		f()
	}
	agree(13, 1, 0, 287)
	agree(12, 0, 0, 288)
	agree(11, 0, 1, 289)
	agree(301, 289, 0, 0)
	u.Projection.Certain = false
	want["projection"].(map[string]any)["confidence"] = "low"
	f()

	u = &event.Usage{From: day(1), To: day(2), Figures: event.Figures{AsOf: day(1)}}
	a := c.do("GET", "/v1/usage", nil).want(200)
	for _, list := range []string{"by_endpoint", "daily"} {
		if rows, ok := a.get(list).([]any); !ok || len(rows) != 0 {
			t.Errorf("%s of an account that has used nothing: %s", list, a.raw)
		}
	}
	c.fake.UsageFunc = func(context.Context, event.UsageOf) (*event.Usage, error) { return nil, event.ErrUnavailable }
	c.do("GET", "/v1/usage", nil).wantError(503, "unavailable", "")
	c.do("POST", "/v1/usage", nil).wantError(404, "not_found", "")
	c.as("").do("GET", "/v1/usage", nil).wantError(401, "authentication_required", "")
}

// A month that has ended can be read while it is kept; it is read once in ten seconds. This month is the default.
func TestUsageOfAMonth(t *testing.T) {
	c := newClient(t).as(readKey)
	now := time.Now().UTC()
	month := func(ago int) time.Time {
		return time.Date(now.Year(), now.Month()-time.Month(ago), 1, 0, 0, 0, 0, time.UTC)
	}
	reads := 0
	c.fake.PeriodFunc = func(from time.Time) (*event.Usage, error) {
		reads++
		return &event.Usage{From: from, To: from.AddDate(0, 1, 0), Use: event.Use{Received: 3},
			Figures: event.Figures{AsOf: now}}, nil
	}
	c.fake.UsageFunc = func(context.Context, event.UsageOf) (*event.Usage, error) {
		return &event.Usage{From: month(0), To: month(-1), Figures: event.Figures{AsOf: now}}, nil
	}
	start := func(query string) any { return c.do("GET", "/v1/usage"+query, nil).want(200).get("period_start") }
	for query, want := range map[string]time.Time{"": month(0), "?period=": month(0),
		"?period=" + month(0).Format("2006-01"): month(0), "?period=" + month(1).Format("2006-01"): month(1),
		"?period=+" + month(1).Format("2006-01"): month(1), "?period=" + month(12).Format("2006-01"): month(12)} {
		if got := start(query); got != want.Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("%s begins at %v", query, got)
		}
	}
	is.Equal(t, reads, 2, "reads of two months")
	last := month(1).Format("2006-01")
	for query, message := range map[string]string{
		"?period=2026-13":                        "period: must be one month, such as " + last,
		"?period=last":                           "period: must be one month, such as " + last,
		"?period=" + last + "-01":                "period: must be one month, such as " + last,
		"?period=" + last + "," + last:           "period: must be one month, such as " + last,
		"?period=" + month(-1).Format("2006-01"): "period: has not begun yet; this month is " + now.Format("2006-01"),
		"?period=" + month(13).Format("2006-01"): "period: is not kept any more; the oldest month is " +
			month(12).Format("2006-01"),
	} {
		a := c.do("GET", "/v1/usage"+query, nil).wantError(400, "invalid_request", "period")
		is.Has(t, string(a.raw), message, "%s: %s", query, a.raw)
	}
	c.do("GET", "/v1/usage?month="+last, nil).wantError(400, "invalid_request", "month")
	c.do("GET", "/v1/usage/daily?period="+last, nil).wantError(400, "invalid_request", "period")
	c.fake.PeriodFunc = func(time.Time) (*event.Usage, error) { return nil, event.ErrUnavailable }
	c.do("GET", "/v1/usage?period="+month(2).Format("2006-01"), nil).wantError(503, "unavailable", "")
}

// The last 30 days have all days of the account, and the days with any use of the busiest endpoints. They are read once
// in ten seconds.
func TestUsageDays(t *testing.T) {
	c := newClient(t)
	day := func(d int) time.Time { return time.Date(2026, 8, d, 0, 0, 0, 0, time.UTC) }
	use := event.Use{Received: 7, Sent: 4, Findings: 1, Bytes: 900}
	reads := 0
	c.fake.LastDaysFunc = func() (*event.UsageDays, error) {
		reads++
		return &event.UsageDays{From: day(1), To: day(3), Figures: event.Figures{AsOf: day(2),
			Daily: []event.DayUse{{Day: day(1)}, {Day: day(2), Use: use}},
			ByEndpoint: []event.EndpointUse{{Endpoint: "ep_a", Use: event.Use{Received: 7, Bytes: 800},
				Days: []event.DayUse{{Day: day(2), Use: event.Use{Received: 7, Bytes: 800}}}}}}}, nil
	}
	const text = `{"object":"usage_days","from":"2026-08-01T00:00:00.000Z","to":"2026-08-03T00:00:00.000Z",
		"as_of":"2026-08-02T00:00:00.000Z",
		"daily":[{"date":"2026-08-01","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
			{"date":"2026-08-02","received":7,"sent":4,"findings":1,"total":12,"bytes":900}],
		"by_endpoint":[{"endpoint_id":"ep_a","received":7,"sent":0,"total":7,"bytes":800,
			"daily":[{"date":"2026-08-02","received":7,"sent":0,"total":7,"bytes":800}]}]}`
	var want map[string]any
	must.Do(t, json.Unmarshal([]byte(text), &want))
	for range 3 {
		is.Same(t, c.as(readKey).do("GET", "/v1/usage/daily", nil).want(200).Body, want)
	}
	is.Equal(t, reads, 1, "reads for three callers")
	c.do("GET", "/v1/usage/daily?days=7", nil).wantError(400, "invalid_request", "days")
	away := newClient(t)
	away.fake.LastDaysFunc = func() (*event.UsageDays, error) { return nil, event.ErrUnavailable }
	away.do("GET", "/v1/usage/daily", nil).wantError(503, "unavailable", "")
}

// Requests are counted by route template: ids, unknown paths and unknown methods do not become labels.
func TestRequestsAreCountedByRoute(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Metrics = reg })
	c.do("GET", "/v1/endpoints/ep_secret", nil).want(404)
	c.do("GET", "/v1/me", nil).want(200)
	c.do("GET", "/v1/me", nil).want(200)
	c.do("BREW", "/v1/unknown-path", nil).want(404)
	c.do("BREW", "/v1/me", nil).want(404)
	c.as("").do("GET", "/v1/me", nil).want(401)
	families := must.Get(reg.Gather())(t)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"relay_api_requests_total GET /v1/endpoints/{endpoint} 404": 1,
		"relay_api_requests_total GET /v1/me 200":                   2,
		"relay_api_requests_total any none 404":                     2,
		"relay_api_requests_total any none 401":                     1,
		"relay_api_request_seconds GET /v1/me":                      2,
	} {
		is.Equal(t, got[name], want, "%s is: %v", name, got)
	}
	for name := range got {
		if strings.Contains(name, "ep_secret") || strings.Contains(name, "unknown") || strings.Contains(name, "BREW") {
			t.Errorf("label %s", name)
		}
	}
}

// issue creates an issue of an endpoint's destination, and returns its id.
func (c *client) issue(cause string) string {
	c.t.Helper()
	ep := c.endpoint(nil)
	id := "iss_" + strings.TrimPrefix(ep.text("destinations.0.id"), "dst_")
	must.Do(c.t, configuration.ChangeIssue(c.t.Context(), id, func(x *alerting.Issue) error {
		x.Endpoint, x.Destination, x.Cause = ep.text("id"), ep.text("destinations.0.id"), cause
		now := time.Now()
		x.Add(3, now, now, now, []string{"evt_01m7w6h6kk00r00w2s1cbs4f8h"})
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
		x.Add(1, time.Now(), time.Now(), time.Now(), nil)
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
	// The overview leaves out one whose destination works again and has all events.
	repaired := c.issue("http_500")
	must.Do(t, configuration.ChangeIssue(t.Context(), repaired, func(x *alerting.Issue) error {
		x.WorksAt = x.LastAt.Add(time.Second)
		return nil
	}))
	x = c.do("GET", "/v1/issues/"+repaired, nil).want(200)
	is.Equal(t, x.text("works_again_at") != "" && x.get("failed_events") == 0.0, true, "works again: %s", x.raw)
	o := c.do("GET", "/v1/overview", nil).want(200)
	is.Has(t, string(o.raw), id, "the overview")
	is.Lacks(t, string(o.raw), repaired, "the overview")
}
