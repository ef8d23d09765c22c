package conformance

import (
	"fmt"
	"net/http"
	"time"
)

// failedEvents creates an endpoint with n events that failed finally. Its destination answers 500 until repair is
// called.
func (c *C) failedEvents(n int) (ep object, repair func(), r *Receiver) {
	c.Helper()
	repaired := make(chan struct{})
	r = c.receiver(func(int) int {
		select {
		case <-repaired:
			return http.StatusOK
		default:
			return http.StatusInternalServerError
		}
	})
	ep = c.endpoint(object{"retry_policy": object{"strategy": "none", "max_attempts": 1}}, r)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = c.send(ep, "a.b", object{"n": i})
	}
	for _, id := range ids {
		c.awaitStatus(id, "failed")
	}
	return ep, func() { close(repaired) }, r
}

// prepared starts a recovery job and waits until it is ready.
func (c *C) prepareJob(ep object, more object) object {
	c.Helper()
	body := object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 50}
	for name, value := range more {
		body[name] = value
	}
	job := c.must(http.StatusCreated, "POST", "/v1/recoveries", body)
	return c.awaitJob(job, "ready")
}

// awaitJob polls a recovery job until it has one of the states. At every poll its counters must add up.
func (c *C) awaitJob(job object, states ...string) object {
	c.Helper()
	id := text(job, "id")
	c.eventually(waitLimit, func() string {
		job = c.must(200, "GET", "/v1/recoveries/"+id, nil)
		c.checkCounters(job)
		for _, s := range states {
			if job["state"] == s {
				return ""
			}
		}
		return fmt.Sprintf("job %s is %v, want %v: %v", id, job["state"], states, job)
	})
	return job
}

func (c *C) checkCounters(job object) {
	c.Helper()
	sum := 0
	for _, name := range []string{"pending", "queued", "delivered", "failed", "skipped"} {
		sum += number(job, name)
	}
	if sum != number(job, "total") {
		c.Errorf("the counters of a job do not add up to %d: %v", number(job, "total"), job)
	}
}

// doAction sends an action, such as canary, to a recovery job.
func (c *C) doAction(job object, action string) object {
	c.Helper()
	return c.must(200, "POST", "/v1/recoveries/"+text(job, "id"), object{"action": action})
}

// stateCases test the sentences of "States and transitions".
func stateCases() []testCase {
	return []testCase{
		{"Receipt states 1", "a completed receipt is not downgraded by a late failure", func(c *C) {
			id := c.send(c.endpoint(nil), "a.b", object{})
			for _, step := range []struct {
				send, shows string
				applied     bool
			}{{"processing", "processing", true}, {"failed", "failed", true}, {"processing", "processing", true},
				{"processed", "processed", true}, {"failed", "processed", false}, {"processing", "processed", false}} {
				got := c.must(200, "POST", "/v1/events/"+id+"/processing", object{"state": step.send})
				c.wantEqual("state after "+step.send, got["state"], step.shows)
				c.wantEqual("applied after "+step.send, got["applied"], step.applied)
				c.wantEqual("processing of the event after "+step.send, c.event(id)["processing"], step.shows)
			}
		}},
		{"Recovery states 1", "a new job becomes ready; preparation sends no requests", func(c *C) {
			ep, _, r := c.failedEvents(2)
			before := len(r.deliveries())
			job := c.prepareJob(ep, nil)
			c.wantEqual("total", job["total"], 2)
			c.wantEqual("pending", job["pending"], 2)
			listed := c.list("/v1/recoveries?endpoint_id="+text(ep, "id"), 10)
			if len(listed) != 1 || listed[0]["id"] != job["id"] || listed[0]["state"] != "ready" {
				c.Errorf("the list has %v", listed)
			}
			if n := len(r.deliveries()); n != before {
				c.Errorf("preparation sent %d requests", n-before)
			}
		}},
		{"Recovery states 2", "a canary that succeeds, with more left, waits for approval; continue recovers the rest",
			func(c *C) {
				ep, repair, r := c.failedEvents(7)
				repair()
				job := c.prepareJob(ep, nil)
				if s := text(c.doAction(job, "canary"), "state"); s != "canary_running" && s != "awaiting_approval" {
					c.Errorf("after canary it is %s", s)
				}
				job = c.awaitJob(job, "awaiting_approval")
				c.wantEqual("canary", job["canary"], object{"total": 5, "delivered": 5, "failed": 0})
				c.wantEqual("delivered", job["delivered"], 5)
				c.wantEqual("pending", job["pending"], 2)
				if n := len(r.deliveries()); n != 7+5 {
					c.Errorf("%d requests after the canary, want 12", n)
				}
				c.doAction(job, "continue")
				job = c.awaitJob(job, "completed")
				c.wantEqual("delivered", job["delivered"], 7)
				for _, e := range c.list("/v1/events?endpoint_id="+text(ep, "id"), 50) {
					c.wantEqual("status of an event", e["status"], "delivered")
				}
			}},
		{"Recovery states 3", "with five or fewer deliveries a canary that succeeds completes the job", func(c *C) {
			ep, repair, _ := c.failedEvents(5)
			repair()
			job := c.prepareJob(ep, nil)
			c.doAction(job, "canary")
			job = c.awaitJob(job, "completed")
			c.wantEqual("delivered", job["delivered"], 5)
			if job["started_at"] == nil || job["finished_at"] == nil {
				c.Errorf("started %v, finished %v", job["started_at"], job["finished_at"])
			}
		}},
		{"Recovery states 4", "cancel while waiting for approval stops what is pending", func(c *C) {
			ep, repair, r := c.failedEvents(6)
			repair()
			job := c.prepareJob(ep, nil)
			c.doAction(job, "canary")
			job = c.awaitJob(job, "awaiting_approval")
			c.wantEqual("state", c.doAction(job, "cancel")["state"], "cancelled")
			job = c.awaitJob(job, "cancelled")
			c.wantEqual("delivered", job["delivered"], 5)
			c.wantEqual("skipped", job["skipped"], 1)
			c.wantEqual("stop_reason", job["stop_reason"], "cancelled")
			if n := len(r.deliveries()); n != 6+5 {
				c.Errorf("%d requests, want 11", n)
			}
			left := 0
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 2) {
				if item["state"] == "skipped" {
					left++
					c.wantEqual("skipped_reason", item["skipped_reason"], "job_cancelled")
				}
			}
			c.wantEqual("skipped items", left, 1)
			c.wantEqual("cancelled again", c.doAction(job, "cancel")["state"], "cancelled")
		}},
		{"Recovery states 5", "a job stops when a delivery fails", func(c *C) {
			ep, _, _ := c.failedEvents(6)
			job := c.prepareJob(ep, nil)
			c.doAction(job, "canary")
			job = c.awaitJob(job, "stopped")
			c.wantEqual("stop_reason", job["stop_reason"], "delivery_failed")
			c.eventually(waitLimit, func() string {
				job = c.must(200, "GET", "/v1/recoveries/"+text(job, "id"), nil)
				c.checkCounters(job)
				if number(job, "failed") < 1 || number(job, "pending") > 0 || number(job, "queued") > 0 {
					return fmt.Sprintf("a stopped job must have a failed delivery and none pending or queued: %v", job)
				}
				return ""
			})
		}},
		{"Recovery states 6", "the deadline is 24 hours from creation", func(c *C) {
			job := c.prepareJob(c.endpoint(nil), nil)
			made, err1 := time.Parse(time.RFC3339, text(job, "created_at"))
			ends, err2 := time.Parse(time.RFC3339, text(job, "deadline_at"))
			if err1 != nil || err2 != nil || ends.Sub(made) != 24*time.Hour {
				c.Errorf("created %v, deadline %v", job["created_at"], job["deadline_at"])
			}
		}},
	}
}

// recoveryCases test the "Rules for recovery" and the fields of jobs and items.
func recoveryCases() []testCase {
	return []testCase{
		{"Recovery rules 1", "rate_per_second must be an integer from 1 to 100", func(c *C) {
			ep := c.endpoint(nil)
			for _, bad := range []any{0, 101, -1, 1.5, "5", nil, true, []int{5}} {
				c.wantError(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries",
					object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": bad})
			}
			c.wantError(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries",
				object{"endpoint_id": ep["id"], "since": ago(time.Hour)})
			c.wantError(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries", `{"endpoint_id":"`+text(ep, "id")+
				`","since":"`+ago(time.Hour)+`","rate_per_second":1e1}`)
			for _, good := range []int{1, 100} {
				c.wantEqual("rate", c.prepareJob(ep, object{"rate_per_second": good})["rate_per_second"], good)
			}
		}},
		{"Recovery rules 2", "destination_id must be an enabled destination of the endpoint", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(object{"destinations": []object{{"url": r.URL}, {"url": r.URL + "?off", "enabled": false}}})
			other := c.endpoint(nil, r)
			for _, bad := range []any{
				"dst_nope", member(ep, "destinations", 1, "id"), member(other, "destinations", 0, "id"), "", 5} {
				c.wantError(400, "invalid_request", "destination_id", "POST", "/v1/recoveries",
					object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 5, "destination_id": bad})
			}
			c.wantEqual("destination_id",
				c.prepareJob(ep, object{"destination_id": member(ep, "destinations", 0, "id")})["destination_id"],
				member(ep, "destinations", 0, "id"))
		}},
		{"Recovery rules 3", "items are one for each destination delivery, with their state", func(c *C) {
			repaired := make(chan struct{})
			until := func(int) int {
				select {
				case <-repaired:
					return 200
				default:
					return 500
				}
			}
			one, two := c.receiver(until), c.receiver(until)
			ep := c.endpoint(object{"retry_policy": object{"strategy": "none", "max_attempts": 1}}, one, two)
			id := c.send(ep, "a.b", object{})
			c.awaitStatus(id, "failed")
			job := c.prepareJob(ep, nil)
			c.wantEqual("total", job["total"], 2)
			items := c.list("/v1/recoveries/"+text(job, "id")+"/items", 1)
			if len(items) != 2 || items[0]["destination_id"] == items[1]["destination_id"] {
				c.Fatalf("items: %v", items)
			}
			for _, item := range items {
				c.wantMembers("item", item, "id", "recovery_id", "event_id", "destination_id", "delivery_id", "state",
					"skipped_reason",
					"canary", "attempts",
					"last_response_status", "last_error_code", "updated_at")
				c.wantEqual("state", item["state"], "pending")
				c.wantEqual("event", item["event_id"], id)
			}
			close(repaired)
			c.doAction(job, "canary")
			job = c.awaitJob(job, "completed")
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 10) {
				c.wantEqual("state", item["state"], "delivered")
				c.wantEqual("canary", item["canary"], true)
				c.wantEqual("last_response_status", item["last_response_status"], 200)
			}
			for _, a := range rows(c.event(id), "attempts") {
				if a["trigger"] == "canary" {
					c.wantEqual("recovery_id of an attempt", a["recovery_id"], job["id"])
				}
			}
		}},
		{"Recovery rules 4", "counters count destination deliveries, and add up at every poll", func(c *C) {
			ep, repair, _ := c.failedEvents(8)
			repair()
			job := c.prepareJob(ep, object{"rate_per_second": 100})
			c.doAction(job, "canary")
			job = c.awaitJob(job, "awaiting_approval")
			c.doAction(job, "continue")
			job = c.awaitJob(job, "completed")
			c.wantEqual("delivered", job["delivered"], 8)
			c.wantMembers("job", job, "id", "object", "endpoint_id", "destination_id", "since", "until",
				"rate_per_second", "state",
				"total", "pending", "queued",
				"delivered", "failed", "skipped", "canary", "by_destination", "eta_seconds", "stop_reason", "created_at",
				"started_at", "finished_at", "deadline_at", "created_by")
		}},
		{"Recovery rules 5", "the upper time bound is repaired when preparation starts", func(c *C) {
			ep, _, _ := c.failedEvents(1)
			job := c.prepareJob(ep, nil)
			c.awaitStatus(c.send(ep, "a.b", object{}), "failed")
			job = c.must(200, "GET", "/v1/recoveries/"+text(job, "id"), nil)
			c.wantEqual("total", job["total"], 1)
			if u := text(job, "until"); u == "" || u > now() {
				c.Errorf("until is %v", job["until"])
			}
		}},
		{"Recovery rules 6", "an event delivered meanwhile is skipped", func(c *C) {
			ep, repair, _ := c.failedEvents(2)
			job := c.prepareJob(ep, nil)
			repair()
			first := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)[0]
			c.must(200, "POST", "/v1/events/"+text(first, "id")+"/replay", nil)
			c.awaitStatus(text(first, "id"), "delivered")
			c.doAction(job, "canary")
			job = c.awaitJob(job, "completed")
			c.wantEqual("delivered", job["delivered"], 1)
			c.wantEqual("skipped", job["skipped"], 1)
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 10) {
				if item["event_id"] == first["id"] {
					c.wantEqual("skipped_reason", item["skipped_reason"], "already_delivered")
				}
			}
		}},
		{"Recovery rules 7", "actions are taken in their states only, and a repeated one changes nothing", func(c *C) {
			ep, repair, _ := c.failedEvents(6)
			repair()
			job := c.prepareJob(ep, nil)
			route := "/v1/recoveries/" + text(job, "id")
			c.wantError(400, "invalid_state", "action", "POST", route, object{"action": "continue"})
			c.wantError(400, "invalid_request", "action", "POST", route, object{"action": "retry"})
			c.wantError(400, "invalid_request", "action", "POST", route, object{})
			c.doAction(job, "canary")
			job = c.awaitJob(job, "awaiting_approval")
			c.wantError(400, "invalid_state", "action", "POST", route, object{"action": "canary"})
			c.doAction(job, "continue")
			c.doAction(job, "continue")
			c.awaitJob(job, "completed")
			c.wantError(400, "invalid_state", "action", "POST", route, object{"action": "cancel"})
		}},
	}
}
