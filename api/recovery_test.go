package api_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func (f *fake) RecoveryCounts(_ context.Context, _ string, jobs ...string) (
	map[string]event.RecoveryCounts, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recoveries == nil {
		return nil, time.Time{}, fmt.Errorf("%w: the store is unavailable", event.ErrUnavailable)
	}
	out := map[string]event.RecoveryCounts{}
	for _, job := range jobs {
		if c, ok := f.recoveries[job]; ok {
			out[job] = c
		}
	}
	return out, time.Time{}, nil
}

func (f *fake) RecoveryFailures(_ context.Context, _, job string) (map[string]event.RecoveryFailures, error) {
	return map[string]event.RecoveryFailures{"dst_a": {Failed: f.recoveries[job].Failed, TopError: "timeout"}}, nil
}

func (f *fake) RecoveryItems(_ context.Context, job event.RecoveryJob, before, limit int, states []event.Status) (
	page event.RecoveryItemPage, err error) {
	if before == 0 {
		before = job.Total
	}
	for _, x := range slices.Backward(f.items) {
		switch {
		case x.Seq < job.From || x.Seq >= before || len(states) > 0 && !slices.Contains(states, x.State):
		case len(page.Rows) == limit:
			page.More = true
			return page, nil
		default:
			page.Rows = append(page.Rows, x)
		}
	}
	return page, nil
}

// instantPreparation is a configuration in which new jobs are ready at once.
type instantPreparation struct {
	*config.Control
	sendable int
}

func (p instantPreparation) AddRecovery(ctx context.Context, j *jobs.Recovery) (*jobs.Recovery, error) {
	if _, err := p.Control.AddRecovery(ctx, j); err != nil {
		return nil, err
	}
	return p.UpdateRecovery(ctx, j.ID, func(j *jobs.Recovery) error {
		j.State, j.Total, j.Sendable = jobs.RecoveryReady, p.sendable, p.sendable
		j.Destinations = []jobs.RecoveryDestination{
			{ID: cmp.Or(j.Destination, "dst_a"), Total: p.sendable, Sendable: p.sendable}}
		return nil
	})
}

func withJobsOf(sendable int) func(*api.Config, *api.Deps) {
	return withConfig(instantPreparation{configuration, sendable})
}

// changeJob changes a job as its runner would.
func changeJob(t *testing.T, job *answer, change func(*jobs.Recovery)) {
	t.Helper()
	_, err := configuration.UpdateRecovery(t.Context(), job.text("id"), func(j *jobs.Recovery) error {
		change(j)
		return nil
	})
	must.Do(t, err)
}

func (c *client) recovery(endpoint string) *answer {
	c.t.Helper()
	return c.do("POST", "/v1/recoveries",
		map[string]any{"endpoint_id": endpoint, "since": "2020-01-01", "rate_per_second": 100}).want(201)
}

func (c *client) act(job *answer, action string) *answer {
	c.t.Helper()
	return c.do("POST", "/v1/recoveries/"+job.text("id"), map[string]any{"action": action})
}

func TestRecoveryInput(t *testing.T) {
	c := newClient(t, withJobsOf(3))
	ep := c.endpoint(map[string]any{"destinations": []any{
		map[string]any{"url": "https://example.com/on"}, map[string]any{"url": "https://example.com/off", "enabled": false},
	}})
	endpoint, other := ep.text("id"), c.endpoint(nil)
	f := func(status int, kind, param, members string) {
		t.Helper()
		c.do("POST", "/v1/recoveries", members).wantError(status, kind, param)
	}
	with := func(more string) string {
		return `{"endpoint_id":"` + endpoint + `","since":"2020-01-01T00:00:00Z","rate_per_second":5` + more + `}`
	}
	rate := func(raw string) string { return strings.Replace(with(""), ":5", ":"+raw, 1) }
	for _, bad := range []string{
		"0", "101", "-1", "1.5", `"5"`, "1e1", "5.0", "null", "true", "[5]", "99999999999999999999"} {
		f(400, "invalid_request", "rate_per_second", rate(bad))
	}
	f(400, "invalid_request", "rate_per_second", `{"endpoint_id":"`+endpoint+`","since":"2020-01-01"}`)
	f(400, "invalid_request", "since", `{"endpoint_id":"`+endpoint+`","rate_per_second":5}`)
	f(400, "invalid_request", "endpoint_id", `{"since":"2020-01-01","rate_per_second":5}`)
	f(400, "invalid_request", "since", `{"endpoint_id":"`+endpoint+`","since":"tomorrow","rate_per_second":5}`)
	f(400, "invalid_request", "since", `{"endpoint_id":"`+endpoint+`","since":5,"rate_per_second":5}`)
	f(400, "invalid_request", "since", `{"endpoint_id":"`+endpoint+`","since":"0001-01-01","rate_per_second":5}`)
	f(400, "invalid_request", "since", `{"endpoint_id":"`+endpoint+`","since":"2999-01-01","rate_per_second":5}`)
	f(404, "not_found", "endpoint_id", `{"endpoint_id":"ep_nope","since":"2020-01-01","rate_per_second":5}`)
	f(400, "invalid_request", "endpoint_id", `{"endpoint_id":5,"since":"2020-01-01","rate_per_second":5}`)
	f(400, "invalid_request", "endpoint_id", `{"endpoint_id":"`+strings.Repeat("x", 201)+
		`","since":"2020-01-01","rate_per_second":5}`)
	for _, bad := range []string{
		`"dst_nope"`, `""`, "5", `"` + ep.text("destinations.1.id") + `"`, `"` + other.text("destinations.0.id") + `"`} {
		f(400, "invalid_request", "destination_id", with(`,"destination_id":`+bad))
	}
	f(400, "invalid_request", "until", with(`,"until":"2021-01-01"`))
	f(400, "invalid_request", "", `[]`)
	if text := c.do("POST", "/v1/recoveries", with(`,"destinaton_id":"x"`)).wantError(
		400, "invalid_request", "destinaton_id").text("error.message"); !strings.Contains(
		text, "did you mean destination_id?; the members are endpoint_id, since, rate_per_second, destination_id") ||
		strings.Count(text, "destination_id") != 2 {
		t.Errorf("the hint or the list of members is wrong: %s", text)
	}
	for _, good := range []string{"1", "100"} {
		c.do("POST", "/v1/recoveries", rate(good)).want(201)
	}
	c.do("POST", "/v1/recoveries", with(`,"destination_id":null`)).want(201)
	c.as(readKey).do("POST", "/v1/recoveries", with("")).wantError(403, "insufficient_scope", "")
	if got := c.do("POST", "/v1/recoveries", with(`,"destination_id":"`+ep.text("destinations.0.id")+`"`)).want(201).
		get("destination_id"); got != ep.text("destinations.0.id") {
		t.Errorf("destination_id is %v", got)
	}
	c.do("DELETE", "/v1/endpoints/"+endpoint, nil).want(200)
	f(404, "not_found", "endpoint_id", with(""))
}

func TestRecoveryView(t *testing.T) {
	c := newClient(t, withJobsOf(9))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	ep := c.endpoint(nil).text("id")
	job := c.recovery(ep)
	want := map[string]any{
		"id": job.text("id"), "object": "recovery", "endpoint_id": ep, "destination_id": nil,
		"since": "2020-01-01T00:00:00.000Z", "until": job.text("created_at"),
		"rate_per_second": 100.0, "state": "ready", "total": 9.0, "pending": 9.0, "queued": 0.0, "delivered": 0.0,
		"failed": 0.0, "skipped": 0.0,
		"canary":         map[string]any{"total": 0.0, "delivered": 0.0, "failed": 0.0},
		"by_destination": []any{map[string]any{"id": "dst_a", "total": 9.0, "failed": 0.0, "top_error": nil}},
		"eta_seconds":    1.0, "stop_reason": nil, "created_at": job.text("created_at"), "started_at": nil,
		"finished_at": nil,
		"deadline_at": job.text("deadline_at"), "created_by": c.do("GET", "/v1/me", nil).text("key_id"),
	}
	is.Same(t, job.Body, want)
	created, err1 := time.Parse(time.RFC3339, job.text("created_at"))
	ends, err2 := time.Parse(time.RFC3339, job.text("deadline_at"))
	if err := errors.Join(err1, err2); err != nil || ends.Sub(created) != 24*time.Hour {
		t.Errorf("created %v, deadline %v, %v", created, ends, err)
	}

	path := "/v1/recoveries/" + job.text("id")
	f := func(change func(*jobs.Recovery), counts event.RecoveryCounts, want string) {
		t.Helper()
		changeJob(t, job, change)
		c.fake.recoveries[job.text("id")] = counts
		got := c.do("GET", path, nil).want(200)
		sum := 0.0
		for _, name := range []string{"pending", "queued", "delivered", "failed", "skipped"} {
			sum += got.get(name).(float64)
		}
		if sum != got.get("total") {
			t.Errorf("the counters add up to %v: %s", sum, got.raw)
		}
		text := fmt.Sprintln(got.get("state"), got.get("pending"), got.get("queued"), got.get("delivered"), got.get("failed"),
			got.get("skipped"), got.get("eta_seconds"),
			got.get("canary.delivered"), got.get("canary.failed"), got.get("by_destination.0.failed"),
			got.get("by_destination.0.top_error"), got.get("stop_reason"))
		if text = strings.TrimSpace(text); text != want {
			t.Errorf("the job is %s, want %s", text, want)
		}
	}
	set := func(f func(*jobs.Recovery)) func(*jobs.Recovery) { return f }
	f(set(func(j *jobs.Recovery) { j.StartCanary(time.Now()); j.Reserved = 5 }), event.RecoveryCounts{Delivered: 2},
		"canary_running 4 3 2 0 0 1 2 0 0 <nil> <nil>")
	f(set(func(j *jobs.Recovery) {
		j.State, j.Canary.Delivered = jobs.RecoveryAwaitingApproval, 5
	}), event.RecoveryCounts{Delivered: 5}, "awaiting_approval 4 0 5 0 0 1 5 0 0 <nil> <nil>")
	// The store may have a page whose reservation this node has not applied yet.
	f(set(func(j *jobs.Recovery) { j.State = jobs.RecoveryRunning }), event.RecoveryCounts{Delivered: 6},
		"running 3 0 6 0 0 1 6 0 0 <nil> <nil>")
	f(set(func(j *jobs.Recovery) { j.Reserved = 8 }), event.RecoveryCounts{Delivered: 6, Skipped: 1},
		"running 1 1 6 0 1 1 5 0 0 <nil> <nil>")
	f(set(func(j *jobs.Recovery) { j.End(jobs.RecoveryStopped, jobs.StopDeliveryFailed, time.Now()) }),
		event.RecoveryCounts{Delivered: 5, Failed: 1, Skipped: 1}, "stopped 0 1 5 1 2 <nil> 5 0 1 timeout delivery_failed")
	f(set(func(j *jobs.Recovery) { j.Settled, j.Delivered, j.Failed, j.Skipped = true, 6, 1, 1 }),
		event.RecoveryCounts{},
		"stopped 0 0 6 1 2 <nil> 5 0 0 <nil> delivery_failed")
}

// A canary that does not begin at the first item has the members of the document, as any other has.
func TestRecoveryWithALaterCanaryIsAsDescribed(t *testing.T) {
	c := newClient(t, withJobsOf(9))
	job := c.recovery(c.endpoint(nil).text("id"))
	changeJob(t, job, func(j *jobs.Recovery) { j.StartCanary(time.Now()); j.NextCanary(5) })
	c.fake.recoveries = map[string]event.RecoveryCounts{job.text("id"): {Skipped: 5}}
	got := c.do("GET", "/v1/recoveries/"+job.text("id"), nil).want(200).get("canary")
	is.Same(t, got, map[string]any{"total": 4.0, "delivered": 0.0, "failed": 0.0})
}

func TestRecoveryWarnsOfARateThatIsTooLow(t *testing.T) {
	c := newClient(t, withJobsOf(8_640_001))
	ep := c.endpoint(nil).text("id")
	if got := c.recovery(ep).get("warnings.0.param"); got != "rate_per_second" {
		t.Errorf("the warning is about %v", got)
	}
	if got := newClient(t, withJobsOf(8_640_000)).recovery(ep).get("warnings"); got != nil {
		t.Errorf("a warning although the rate is enough: %v", got)
	}
}

// While a destination or the endpoint is paused, a job waits without an end of its own. Its answers say so.
func TestRecoveryWarnsOfWhatIsPaused(t *testing.T) {
	c := newClient(t, withJobsOf(3))
	ep := c.endpoint(nil)
	target, dest := "/v1/endpoints/"+ep.text("id"), ep.text("destinations.0.id")
	const text = " is paused, so the job waits until it is unpaused; deliveries that are not sent by deadline_at " +
		"are skipped"
	want := func(a *answer, param, message string) {
		t.Helper()
		if a.want(a.Status); a.get("warnings.1") != nil || a.text("warnings.0.param") != param ||
			a.text("warnings.0.message") != message {
			t.Errorf("%s", a.raw)
		}
	}
	c.do("PATCH", target+"/destinations/"+dest, `{"paused":true}`).want(200)
	job := c.do("POST", "/v1/recoveries", map[string]any{"endpoint_id": ep.text("id"), "since": "2020-01-01",
		"rate_per_second": 5, "destination_id": dest}).want(201)
	path := "/v1/recoveries/" + job.text("id")
	want(job, "destination_id", dest+text)
	want(c.act(job, "canary"), "destination_id", dest+text)
	want(c.do("GET", path, nil), "destination_id", dest+text)
	c.do("PATCH", target, `{"paused":true}`).want(200)
	want(c.do("GET", path, nil), "endpoint_id", "the endpoint"+text)
	c.do("PATCH", target, `{"paused":false,"destinations":[{"id":"`+dest+`","paused":false}]}`).want(200)
	if a := c.do("GET", path, nil).want(200); a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
	c.do("PATCH", target, `{"paused":true}`).want(200)
	if a := c.act(job, "cancel").want(200); a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
}

// A job of an outage that is not over selects nothing, because its deliveries are still being retried. It says so.
func TestRecoveryOfNothingSaysWhy(t *testing.T) {
	c := newClient(t, withJobsOf(0))
	if got := c.recovery(c.endpoint(nil).text("id")); got.get("warnings.0.param") != "since" ||
		!strings.Contains(string(got.raw), "are being retried") {
		t.Errorf("%s", got.raw)
	}
}

func TestRecoveryActions(t *testing.T) {
	c := newClient(t, withJobsOf(6))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	ep := c.endpoint(nil).text("id")
	job := c.recovery(ep)
	path := "/v1/recoveries/" + job.text("id")
	for _, body := range []string{`{}`, `{"action":"retry"}`, `{"action":5}`, `{"action":null}`} {
		c.do("POST", path, body).wantError(400, "invalid_request", "action")
	}
	c.do("POST", path, `{"action":"canary","force":true}`).wantError(400, "invalid_request", "force")
	c.do("POST", path, `{"action":"cancel","state":"running"}`).wantError(400, "conflict", "state")
	c.do("POST", path, `{"action":"cancel","state":"odd"}`).wantError(400, "invalid_request", "state")
	c.do("POST", "/v1/recoveries/rec_nope", `{"action":"canary"}`).wantError(404, "not_found", "")
	c.as(readKey).do("POST", path, `{"action":"canary"}`).wantError(403, "insufficient_scope", "")

	refused := func(action, allowed string) {
		t.Helper()
		text := c.act(job, action).wantError(400, "invalid_state", "action").text("error.message")
		is.Has(t, text, allowed, "does not say %q", allowed)
	}
	moved := func(action, state string) *answer {
		t.Helper()
		got := c.act(job, action).want(200)
		if got.get("state") != state {
			t.Errorf("after %s the job is %v, want %s", action, got.get("state"), state)
		}
		return got
	}
	refused("continue", "allowed now: canary, cancel")
	if got := moved("canary", "canary_running"); got.get("started_at") == nil {
		t.Error("the canary has begun and started_at is null")
	}
	moved("canary", "canary_running")
	refused("continue", "allowed now: cancel")
	changeJob(t, job, func(j *jobs.Recovery) { j.Reserved, j.State = 5, jobs.RecoveryAwaitingApproval })
	refused("canary", "allowed now: continue, cancel")
	moved("continue", "running")
	moved("continue", "running")
	refused("canary", "allowed now: cancel")
	changeJob(t, job, func(j *jobs.Recovery) { j.Reserved = 6; j.End(jobs.RecoveryCompleted, "", time.Now()) })
	moved("continue", "completed") // the answer was lost, but the action took effect
	refused("canary", "none of the actions is allowed any more")
	refused("cancel", "none of the actions is allowed any more")

	for _, state := range []jobs.RecoveryState{
		jobs.RecoveryPreparing, jobs.RecoveryReady, jobs.RecoveryCanaryRunning, jobs.RecoveryAwaitingApproval,
		jobs.RecoveryRunning,
	} {
		job = c.recovery(ep)
		changeJob(t, job, func(j *jobs.Recovery) { j.State = state })
		got := moved("cancel", "cancelled")
		if got.get("skipped") != 6.0 || got.get("stop_reason") != "cancelled" || got.get("finished_at") == nil {
			t.Errorf("cancelled while %s: %s", state, got.raw)
		}
		moved("cancel", "cancelled")
		refused("canary", "none")
	}
	for _, state := range []jobs.RecoveryState{jobs.RecoveryStopped, jobs.RecoveryExpired, jobs.RecoveryFailed} {
		job = c.recovery(ep)
		changeJob(t, job, func(j *jobs.Recovery) { j.End(state, "", time.Now()) })
		refused("cancel", string(state))
		refused("canary", string(state))
		refused("continue", string(state))
	}
}

// Without failed deliveries the canary completes the job.
func TestEmptyRecovery(t *testing.T) {
	c := newClient(t, withJobsOf(0))
	job := c.recovery(c.endpoint(nil).text("id"))
	c.act(job, "continue").wantError(400, "invalid_state", "action")
	for range 2 {
		if got := c.act(job, "canary").want(200); got.get("state") != "completed" || got.get("finished_at") == nil ||
			got.get("eta_seconds") != nil {
			t.Errorf("the job is %s", got.raw)
		}
	}
}

// Only one job sends to a destination at a time; another may be prepared.
func TestOneRecoverySendsToADestination(t *testing.T) {
	c := newClient(t, withJobsOf(6))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	ep := c.endpoint(map[string]any{"destinations": []any{"https://example.com/a", "https://example.com/b"}})
	of := func(dest string) *answer {
		t.Helper()
		return c.do("POST", "/v1/recoveries", map[string]any{
			"endpoint_id": ep.get("id"), "since": "2020-01-01", "rate_per_second": 5,
			"destination_id": ep.text("destinations." + dest + ".id"),
		}).want(201)
	}
	first, second, elsewhere, all := of("0"), of("0"), of("1"), c.recovery(ep.text("id"))
	c.act(first, "canary").want(200)
	for _, job := range []*answer{second, all} {
		text := c.act(job, "canary").wantError(400, "invalid_state", "action").text("error.message")
		is.Has(t, text, first.text("id"), "does not name the job that runs")
	}
	c.act(elsewhere, "canary").want(200)
	changeJob(t, first, func(j *jobs.Recovery) { j.Reserved, j.State = 5, jobs.RecoveryAwaitingApproval })
	c.act(second, "canary").want(200)
	c.act(first, "continue").wantError(400, "invalid_state", "action")
	c.act(second, "cancel").want(200)
	c.act(first, "continue").want(200)
}

// Of a concurrent continue and cancel one wins, and the other gets the reason.
func TestContinueRacesCancel(t *testing.T) {
	c := newClient(t, withJobsOf(6))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	ep := c.endpoint(nil).text("id")
	for range 10 {
		job := c.recovery(ep)
		changeJob(t, job, func(j *jobs.Recovery) {
			j.Canary.Total, j.Reserved, j.State = 5, 5, jobs.RecoveryAwaitingApproval
		})
		var both sync.WaitGroup
		answers := make([]*answer, 2)
		for i, action := range []string{"continue", "cancel"} {
			both.Go(func() { answers[i] = c.act(job, action) })
		}
		both.Wait()
		final := c.do("GET", "/v1/recoveries/"+job.text("id"), nil).want(200).get("state")
		switch { // cancel is allowed after continue, not the other way round
		case answers[1].Status == 200 && final == "cancelled" && (answers[0].Status == 200 || answers[0].Status == 400):
		default:
			t.Errorf("continue: %d, cancel: %d, and the job is %v", answers[0].Status, answers[1].Status, final)
		}
		if strings.Contains(string(answers[0].raw), `"state":"cancelled"`) && answers[0].Status == 200 {
			t.Error("a continue was answered with a cancelled job")
		}
	}
}

func TestRecoveryLists(t *testing.T) {
	c := newClient(t, withJobsOf(6))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	one, two := c.endpoint(nil).text("id"), c.endpoint(nil).text("id")
	var created []string
	for i := range 5 {
		created = append(created, c.recovery([]string{one, two}[i%2]).text("id"))
	}
	cancelled := c.do("POST", "/v1/recoveries/"+created[4], `{"action":"cancel"}`).want(200)
	ids := func(query string) (out []string) {
		t.Helper()
		for cursor := ""; ; {
			page := c.do("GET", "/v1/recoveries?"+query+cursor, nil).want(200)
			for _, row := range page.get("data").([]any) {
				if row := row.(map[string]any); row["endpoint_id"] == one || row["endpoint_id"] == two {
					out = append(out, row["id"].(string))
				}
			}
			if page.get("next_cursor") == nil {
				return out
			}
			cursor = "&cursor=" + page.text("next_cursor")
		}
	}
	newest := slices.Clone(created)
	slices.Reverse(newest)
	f := func(query string, want ...string) {
		t.Helper()
		is.List(t, ids(query), want, query)
	}
	f("limit=2", newest...)
	f("limit=1&endpoint_id="+one, created[4], created[2], created[0])
	f("endpoint_id="+one+"&state=cancelled", created[4])
	f("endpoint_id="+one+","+two+"&state=ready,running", created[3], created[2], created[1], created[0])
	f("endpoint_id=ep_nope")
	c.do("GET", "/v1/recoveries?state=lost", nil).wantError(400, "invalid_request", "state")
	c.do("GET", "/v1/recoveries?limit=0", nil).wantError(400, "invalid_request", "limit")
	c.do("GET", "/v1/recoveries?cursor=nope", nil).wantError(400, "invalid_request", "cursor")
	cursor := c.do("GET", "/v1/recoveries?limit=1", nil).want(200).text("next_cursor")
	c.do("GET", "/v1/recoveries?state=ready&cursor="+cursor, nil).wantError(400, "invalid_request", "cursor")
	for _, path := range []string{"/v1/recoveries/rec_nope", "/v1/recoveries/" + one, "/v1/recoveries/rec_nope/items"} {
		c.do("GET", path, nil).wantError(404, "not_found", "")
	}
	if got := c.as(readKey).do("GET", "/v1/recoveries/"+created[4], nil).want(200); got.get(
		"state") != cancelled.get("state") {
		t.Errorf("the job is %s", got.raw)
	}
}

func TestRecoveryItems(t *testing.T) {
	c := newClient(t, withJobsOf(4))
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	job := c.recovery(c.endpoint(nil).text("id"))
	ids := id.NewGenerator(nil)
	at := time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)
	for i, x := range []event.RecoveryItem{
		{State: event.Delivered, Attempts: 2, Code: 200, At: at, Type: "order.paid"},
		{State: event.Failed, Attempts: 3, Error: event.CodeTimeout, At: at},
		{State: event.Skipped, SkipReason: event.JobStopped}, {State: event.Skipped, SkipReason: event.DestinationDisabled},
	} {
		x.Seq, x.Event, x.Destination = i, ids.NewUnbounded(0), "dst_a"
		c.fake.items = append(c.fake.items, x)
	}
	changeJob(t, job, func(j *jobs.Recovery) {
		j.Canary.Total, j.Reserved, j.Sendable = 1, 2, 3
		j.End(jobs.RecoveryStopped, jobs.StopDeliveryFailed, at)
	})
	path := "/v1/recoveries/" + job.text("id") + "/items"
	var rows []any
	for cursor := "?limit=1"; cursor != ""; {
		page := c.do("GET", path+cursor, nil).want(200)
		rows = append(rows, page.get("data").([]any)...)
		next, _ := page.get("next_cursor").(string)
		cursor = cmp.Or(strings.Repeat("?limit=1&cursor="+next, min(len(next), 1)), "")
	}
	slices.Reverse(rows)
	must.Equal(t, len(rows), 4, "items")
	ev := c.fake.items[0].Event
	want := map[string]any{
		"id": rows[0].(map[string]any)["id"], "recovery_id": job.text("id"), "event_id": ev.Text(id.Event),
		"event_type": "order.paid", "destination_id": "dst_a", "delivery_id": id.DeliveryOf(ev, "dst_a"),
		"state": "delivered", "skipped_reason": nil, "canary": true, "attempts": 2.0, "last_response_status": 200.0,
		"last_error_code": nil, "updated_at": "2026-11-20T01:02:03.000Z",
	}
	is.Same(t, rows[0], want)
	got := ""
	for _, row := range rows[1:] {
		row := row.(map[string]any)
		got += fmt.Sprintln(row["state"], row["skipped_reason"], row["canary"], row["last_error_code"],
			row["updated_at"] == job.text("created_at"))
	}
	if want := "failed <nil> false timeout false\nskipped job_stopped false <nil> false\nskipped destination_disabled " +
		"false <nil> true\n"; got != want {
		t.Errorf("the items are\n%swant\n%s", got, want)
	}
	if page := c.do("GET", path+"?state=failed,delivered", nil).want(200); len(page.get("data").([]any)) != 2 {
		t.Errorf("by state: %s", page.raw)
	}
	canary := c.do("GET", path+"?canary=true", nil).want(200).get("data").([]any)
	if len(canary) != 1 || canary[0].(map[string]any)["canary"] != true {
		t.Errorf("the canary is %v", canary)
	}
	changeJob(t, job, func(j *jobs.Recovery) { j.Canary.From, j.Canary.Total = 1, 2 })
	canary = c.do("GET", path+"?canary=true", nil).want(200).get("data").([]any)
	all := c.do("GET", path, nil).want(200).get("data").([]any)
	slices.Reverse(all)
	if diff := gocmp.Diff(all[1:3], []any{canary[1], canary[0]}); diff != "" ||
		all[0].(map[string]any)["canary"] != false {
		t.Errorf("with a canary of the items 1 and 2: %s", diff)
	}
	c.do("GET", path+"?canary=maybe", nil).wantError(400, "invalid_request", "canary")
	c.do("GET", path+"?state=lost", nil).wantError(400, "invalid_request", "state")
}

// While the store is unavailable a change is answered and a read gets 503.
func TestRecoveryWithoutTheStore(t *testing.T) {
	c := newClient(t, withJobsOf(6))
	job := c.recovery(c.endpoint(nil).text("id"))
	c.act(job, "canary").want(200)
	changeJob(t, job, func(j *jobs.Recovery) { j.Reserved = 5 })
	c.do("GET", "/v1/recoveries/"+job.text("id"), nil).wantError(503, "unavailable", "")
	got := c.act(job, "cancel").want(200)
	if got.get("queued") != 5.0 || got.get("skipped") != 1.0 || got.Header.Get("Relay-Data-As-Of") == "" {
		t.Errorf("the job is %s, as of %q", got.raw, got.Header.Get("Relay-Data-As-Of"))
	}
}

// The answer to a new job waits two seconds for it to become ready.
func TestRecoveryWaitsForPreparation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(ready time.Duration, want string) {
			t.Helper()
			memory := &jobsInMemory{Control: configuration, now: time.Now,
				ep: &config.Endpoint{ID: "ep_1", Account: configuration.Account().ID}}
			c := newClient(t, withConfig(memory), func(cfg *api.Config, _ *api.Deps) { cfg.PreparationWait = 0 })
			timer := time.AfterFunc(ready, func() { memory.set(jobs.RecoveryReady) })
			defer timer.Stop()
			began := time.Now()
			job := c.do("POST", "/v1/recoveries", `{"endpoint_id":"ep_1","since":"1999-01-01","rate_per_second":1}`)
			if job.want(http.StatusCreated).get("state") != want || time.Since(began) != min(ready, 2*time.Second) {
				t.Errorf("after %v the job is %v", time.Since(began), job.get("state"))
			}
		}
		f(1900*time.Millisecond, "ready")
		f(2100*time.Millisecond, "preparing")
	})
}

// jobsInMemory holds one job, under any id.
type jobsInMemory struct {
	*config.Control
	ep  *config.Endpoint
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	job     *jobs.Recovery
	changed chan struct{}
}

func (m *jobsInMemory) Authenticate(string) (*config.Key, error) {
	return &config.Key{ID: "key_1", Account: m.ep.Account, Scope: config.ReadWrite}, nil
}
func (m *jobsInMemory) Endpoint(string) (*config.Endpoint, entity.Presence) {
	return m.ep, entity.Present
}

func (m *jobsInMemory) AddRecovery(_ context.Context, j *jobs.Recovery) (*jobs.Recovery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.job = j
	return j, nil
}

func (m *jobsInMemory) Recovery(string) (*jobs.Recovery, entity.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.job, entity.Present
}

func (m *jobsInMemory) RecoveriesChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

func (m *jobsInMemory) set(state jobs.RecoveryState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := *m.job
	j.State = state
	m.job = &j
	close(m.changed)
	m.changed = nil
}
