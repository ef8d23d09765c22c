package api_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// measured are requests of which some failed.
func measured(requests, failed int64) event.Measured {
	return event.Measured{
		Requests: event.Requests{Attempts: requests, Delivered: requests - failed, Failed: failed},
		First:    event.Requests{Attempts: requests, Delivered: requests - failed},
		Latency:  event.Latency{P50: 12.4, P95: 80.5, P99: 200},
	}
}

// namedIn returns the thing in a list of needs that has a member with an id, nil if there is none. The account is
// shared with other tests.
func namedIn(a *answer, list, id string) map[string]any {
	for _, x := range a.get("needs." + list + ".data").([]any) {
		for _, value := range x.(map[string]any) {
			if value == id {
				return x.(map[string]any)
			}
		}
	}
	return nil
}

// The overview names what needs a person and shows the traffic; without the store it has all but the traffic.
func TestOverview(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(map[string]any{"name": "overview", "destinations": []any{
		map[string]any{"url": "https://held.example.com/a"}, map[string]any{"url": "https://fine.example.com/b"},
		map[string]any{"url": "https://off.example.com/c", "enabled": false},
		map[string]any{"url": "https://paused.example.com/d", "paused": true, "name": "the paused one"},
		map[string]any{"url": "https://held.example.com/e"}}})
	endpoint, dest := ep.text("id"), func(i string) string { return ep.text("destinations." + i + ".id") }
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	c.fake.HeldFunc = func(dests []string) map[string]time.Time {
		if slices.Contains(dests, dest("0")) {
			return map[string]time.Time{dest("0"): until, dest("4"): until}
		}
		return nil
	}
	alert := "destination.held/" + endpoint + "/" + dest("0")
	if _, err := configuration.ChangeAlert(t.Context(), alert, func(x *alerting.Alert) error {
		x.Rule, x.Endpoint, x.Destination, x.Firing = "destination_state", endpoint, dest("0"), true
		x.Since, x.FiredAt = time.Now(), time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		is.OK(t, configuration.ForgetAlert(context.WithoutCancel(t.Context()), alert))
	})
	critical := c.finding(func(f *leak.Finding) { f.Severity, f.Status = finding.Critical, finding.Open })
	medium := c.finding(func(f *leak.Finding) { f.Severity, f.Status = finding.Medium, finding.Open })
	high := c.finding(func(f *leak.Finding) { f.Severity, f.Status = finding.High, finding.Open })
	at := time.Now().UTC().Truncate(time.Hour)
	c.fake.OverviewFunc = func(account string, now time.Time) (event.Overview, error) {
		return event.Overview{AsOf: at, Hour: measured(100, 7),
			Minutes: []event.MeasuredStep{{At: at, Measured: measured(100, 7)}},
			Busiest: []event.MeasuredGroup{{ID: endpoint, Hour: measured(100, 7),
				Day:          []event.MeasuredStep{{At: at, Measured: measured(200, 8)}},
				Destinations: []event.DestinationRequests{{ID: dest("1"), Requests: measured(100, 7).Requests}}}},
			Worst: []event.MeasuredGroup{{ID: "ep_deleted"}}}, nil
	}
	a := c.as(readKey).do("GET", "/v1/overview", nil).want(200)
	if a.Header.Get("Relay-Data-As-Of") == "" || a.get("traffic.last_hour.failed") != 7.0 ||
		a.get("traffic.minutes.0.first_attempts_delivered") != 93.0 || a.get("traffic.last_hour.latency_ms.p95") != 81.0 ||
		a.text("traffic.busiest.0.name") != "overview" || a.get("traffic.busiest.0.hours.0.requests") != 200.0 ||
		a.text("traffic.busiest.0.destinations.0.destination_id") != dest("1") ||
		a.get("traffic.busiest.0.destinations.0.failed") != 7.0 ||
		a.get("traffic.worst.0.name") != nil || a.get("traffic.worst.0.last_hour.latency_ms") != nil {
		t.Errorf("%s", a.raw)
	}
	if x := namedIn(a, "destinations", dest("0")); x == nil || x["state"] != "held" ||
		x["state_reason"] != "breaker_open" || x["host"] != "held.example.com" ||
		x["until"] != until.Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("%v in %s", x, a.raw)
	}
	if x := namedIn(a, "destinations", dest("3")); x == nil || x["state"] != "paused" || x["until"] != nil {
		t.Errorf("%v", x)
	}
	if raw := string(a.raw); strings.Index(raw, dest("4")) > strings.Index(raw, dest("3")) {
		t.Errorf("a destination that is held comes after a paused one: %s", raw)
	}
	if namedIn(a, "destinations", dest("1")) != nil || namedIn(a, "destinations", dest("2")) != nil {
		t.Error("a destination that needs nobody is named")
	}
	if namedIn(a, "alerts", dest("0")) == nil || namedIn(a, "findings", critical) == nil ||
		namedIn(a, "findings", high)["severity"] != "high" || namedIn(a, "findings", medium) != nil {
		t.Errorf("%s", a.raw)
	}
	if i := strings.Index(string(a.raw), critical); i < 0 || i > strings.Index(string(a.raw), high) {
		t.Error("findings of high severity come before critical ones")
	}
	is.Lacks(t, string(a.raw), "/a\"", "the overview shows a URL, which a key that may only read must not see")
	c.do("GET", "/v1/overview?limit=1", nil).wantError(400, "invalid_request", "limit")

	away := newClient(t)
	away.fake.OverviewFunc = func(string, time.Time) (event.Overview, error) {
		return event.Overview{}, event.ErrUnavailable
	}
	if a := away.do("GET", "/v1/overview", nil).want(200); a.get("traffic") != nil || a.get("needs.alerts.total") == 0.0 {
		t.Errorf("%s", a.raw)
	}
}

// Recovery jobs that wait for approval are in the overview.
func TestOverviewHasWaitingRecoveries(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	job := c.recovery(ep.text("id")).text("id")
	if _, err := configuration.UpdateRecovery(t.Context(), job, func(j *jobs.Recovery) error {
		j.State, j.Total = jobs.RecoveryAwaitingApproval, 1262
		j.Canary = jobs.CanaryResult{From: 5, Total: 5, Delivered: 5}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := configuration.UpdateRecovery(context.WithoutCancel(t.Context()), job, func(j *jobs.Recovery) error {
			j.End(jobs.RecoveryCancelled, jobs.StopCancelled, time.Now())
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	a := c.do("GET", "/v1/overview", nil).want(200)
	if x := namedIn(a, "recoveries", job); x == nil || x["total"] != 1262.0 || x["endpoint_name"] != ep.text("name") {
		t.Errorf("%s", a.raw)
	}
}

// However many callers ask, the store is read once in ten seconds.
func TestOverviewIsReadOncePerTenSeconds(t *testing.T) {
	var offset atomic.Int64
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	})
	var reads atomic.Int64
	reading, finish := make(chan struct{}), make(chan struct{})
	c.fake.OverviewFunc = func(string, time.Time) (event.Overview, error) {
		if reads.Add(1) == 1 {
			close(reading)
			<-finish
		}
		return event.Overview{}, nil
	}
	var callers sync.WaitGroup
	callers.Go(func() { c.do("GET", "/v1/overview", nil).want(200) })
	<-reading
	for range 9 {
		callers.Go(func() { c.do("GET", "/v1/overview", nil).want(200) })
	}
	close(finish)
	callers.Wait()
	is.Equal(t, reads.Load(), 1, "reads of the store for ten callers")
	offset.Store(int64(11 * time.Second))
	c.do("GET", "/v1/overview", nil).want(200)
	is.Equal(t, reads.Load(), 2, "reads of the store after eleven seconds")
}

func TestEndpointTraffic(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	waiting := c.send(ep)
	at := time.Now().UTC().Truncate(time.Hour)
	c.fake.TrafficFunc = func(endpoint string) (event.DestinationTraffic, error) {
		is.Equal(t, endpoint, ep)
		return event.DestinationTraffic{Destinations: []event.MeasuredGroup{{ID: "dst_a", Hour: measured(3, 1),
			Day: []event.MeasuredStep{{At: at, Measured: measured(9, 2)}}}}}, nil
	}
	path := "/v1/endpoints/" + ep + "/traffic"
	a := c.as(readKey).do("GET", path, nil).want(200)
	if a.text("destinations.0.destination_id") != "dst_a" || a.get("destinations.0.last_hour.failed") != 1.0 ||
		a.get("destinations.0.hours.0.requests") != 9.0 || a.text("waiting.data.0.id") != waiting ||
		a.text("waiting.data.0.why") == "" || a.get("waiting.more") != false {
		t.Errorf("%s", a.raw)
	}
	if a.text("range") != "24h" || c.do("GET", path+"?range=7d", nil).want(200).get("step_seconds") != 21600.0 {
		t.Errorf("%s", a.raw)
	}
	c.do("GET", path+"?range=2h", nil).wantError(400, "invalid_request", "range")
	c.do("GET", path+"?since=now", nil).wantError(400, "invalid_request", "since")
	c.do("GET", "/v1/endpoints/ep_none/traffic", nil).wantError(404, "not_found", "")
	other := newClient(t)
	other.fake.TrafficFunc = func(string) (event.DestinationTraffic, error) {
		return event.DestinationTraffic{}, event.ErrUnavailable
	}
	other.do("GET", path, nil).wantError(503, "unavailable", "")
}

// The list of endpoints waits a second at most for the figures of a store that hangs.
func TestListOfEndpointsDoesNotWaitForTheStore(t *testing.T) {
	t.Parallel()
	c := newClient(t, withRates(0, 0, 0))
	name := c.endpoint(nil).text("name")
	finish := make(chan struct{})
	defer close(finish)
	c.fake.OverviewFunc = func(string, time.Time) (event.Overview, error) {
		<-finish
		return event.Overview{}, nil
	}
	page := newPages(c).open("GET", "/app/endpoints", 200)
	if !strings.Contains(page, name) || !strings.Contains(page, "requests are not known at the moment") {
		t.Errorf("the list is %s", page)
	}
}

// Counts are those of the newest events that match, by status and by time.
func TestCountEvents(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 3 {
		c.send(ep)
	}
	a := c.as(readKey).do("GET", "/v1/events/counts?since=1h&endpoint_id="+ep, nil).want(200)
	if a.get("counted") != 3.0 || a.get("more") != false || a.get("statuses.pending") != 3.0 ||
		a.get("statuses.failed") != 0.0 || a.get("steps.0.pending") == 0.0 {
		t.Errorf("%s", a.raw)
	}
	c.do("GET", "/v1/events/counts?q=x", nil).wantError(400, "invalid_request", "q")
	c.do("GET", "/v1/events/counts?limit=5", nil).wantError(400, "invalid_request", "limit")
	c.do("GET", "/v1/events/counts?since=x", nil).wantError(400, "invalid_request", "since")
	c.do("GET", "/v1/events/counts?stat=failed", nil).wantError(400, "invalid_request", "stat")
}

// Lists, replays and recoveries accept relative times such as 24h, also on the next page of a list.
func TestTimesAgo(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 3 {
		c.send(ep)
	}
	first := c.do("GET", "/v1/events?since=1h&limit=2", nil).want(200)
	next := c.do("GET", "/v1/events?since=1h&limit=2&cursor="+first.text("next_cursor"), nil).want(200)
	if next.text("data.0.id") == "" {
		t.Errorf("the second page is %s", next.raw)
	}
	c.do("GET", "/v1/events?since=1w", nil).wantError(400, "invalid_request", "since")
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": "yesterday", "dry_run": true}).want(200)
	job := c.do("POST", "/v1/recoveries", map[string]any{"endpoint_id": ep, "since": "24h", "rate_per_second": 1})
	at := must.Get(time.Parse(time.RFC3339, job.text("since")))(t)
	is.Equal(t, time.Since(at).Round(time.Hour), 24*time.Hour, "%s", job.raw)
}
