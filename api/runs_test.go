package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// A run names its author. Cancelling it needs write access, changes it once, and counts what the store knows.
func TestCancelRun(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 3 {
		c.send(ep)
	}
	queued := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).want(200)
	path := "/v1/replays/" + queued.text("run_id")
	me := c.do("GET", "/v1/me", nil).text("key_id")
	if run := c.do("GET", path, nil).want(200); run.text("created_by") != me || run.text("state") != "queued" ||
		run.get("ended") != false {
		t.Fatalf("%s", run.raw)
	}
	c.as(readKey).do("POST", path, `{"action":"cancel"}`).wantError(403, "insufficient_scope", "")
	c.do("POST", path, `{}`).wantError(400, "invalid_request", "action")
	c.do("POST", path, `{"action":"stop"}`).wantError(400, "invalid_request", "action")
	c.do("POST", path, `{"action":"cancel","run":1}`).wantError(400, "invalid_request", "run")
	c.do("POST", "/v1/replays/run_none", `{"action":"cancel"}`).wantError(404, "not_found", "")
	c.fake.RunCountsFunc = func(runs []string) (map[string]event.RecoveryCounts, time.Time, error) {
		return map[string]event.RecoveryCounts{runs[0]: {Delivered: 1, Skipped: 2}}, time.Time{}, nil
	}
	var first *jobs.Run
	for range 2 {
		a := c.do("POST", path, `{"action":"cancel"}`).want(200)
		if a.text("state") != "cancelled" || a.get("queued") != 3.0 || a.get("delivered") != 1.0 || a.get("skipped") != 2.0 ||
			a.get("ended") != true {
			t.Errorf("%s", a.raw)
		}
		run, _ := configuration.ReplayRun(queued.text("run_id"))
		if first == nil {
			first = run
		} else if run.Rev != first.Rev {
			t.Error("the second call has changed the run")
		}
	}
	list := c.do("GET", "/v1/replays?state=cancelled&endpoint_id="+ep, nil).want(200)
	is.Equal(t, list.text("data.0.run_id"), queued.text("run_id"), "%s", list.raw)
}

// A run that is cancelled while it queues its first page queues no other, and counts that page.
func TestCancelWhileQueueing(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 700 {
		c.send(ep)
	}
	c.fake.CommandFunc = func(_ context.Context, w *event.Work) error {
		if len(c.fake.commands) != 100 {
			return nil
		}
		run, err := configuration.CancelRun(context.Background(), w.Run)
		if err == nil && (run.State != jobs.RunQueueing || run.ReportedState() != jobs.RunCancelled) {
			t.Errorf("%+v", run)
		}
		return err
	}
	a := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()})
	if a.wantError(400, "invalid_state", "").get("error.queued") != 500.0 {
		t.Fatalf("%s", a.raw)
	}
	run, _ := configuration.ReplayRun(a.text("error.run_id"))
	if run == nil || run.State != jobs.RunCancelled || run.Queued != 500 || len(c.fake.commands) != 500 {
		t.Errorf("%+v with %d commands", run, len(c.fake.commands))
	}
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true}).want(200)
}
