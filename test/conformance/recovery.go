package conformance

import (
	"fmt"
	"net/http"
	"time"
)

// failures makes an endpoint whose destination fails until it is mended, and so many events that failed for good.
func (c *C) failures(n int) (ep object, mend func(), r *Receiver) {
	c.Helper()
	fixed := make(chan struct{})
	r = c.receiver(func(int) int {
		select {
		case <-fixed:
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
		c.becomes(id, "failed")
	}
	return ep, func() { close(fixed) }, r
}

// prepared starts a recovery job and waits until it is ready.
func (c *C) prepared(ep object, more object) object {
	c.Helper()
	body := object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 50}
	for name, value := range more {
		body[name] = value
	}
	job := c.must(http.StatusCreated, "POST", "/v1/recoveries", body)
	return c.job(job, "ready")
}

// job polls a job until it has one of the states; at every poll its counters must add up.
func (c *C) job(job object, states ...string) object {
	c.Helper()
	id := text(job, "id")
	c.eventually(patience, func() string {
		job = c.must(200, "GET", "/v1/recoveries/"+id, nil)
		c.addsUp(job)
		for _, s := range states {
			if job["state"] == s {
				return ""
			}
		}
		return fmt.Sprintf("job %s is %v, want %v: %v", id, job["state"], states, job)
	})
	return job
}

func (c *C) addsUp(job object) {
	c.Helper()
	sum := 0
	for _, name := range []string{"pending", "queued", "delivered", "failed", "skipped"} {
		sum += number(job, name)
	}
	if sum != number(job, "total") {
		c.Errorf("the counters of a job do not add up to %d: %v", number(job, "total"), job)
	}
}

// act sends an action.
func (c *C) act(job object, action string) object {
	c.Helper()
	return c.must(200, "POST", "/v1/recoveries/"+text(job, "id"), object{"action": action})
}

// stateCases are the sentences of "States and transitions". One function because it is one table.
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
				c.equal("state after "+step.send, got["state"], step.shows)
				c.equal("applied after "+step.send, got["applied"], step.applied)
				c.equal("processing of the event after "+step.send, c.event(id)["processing"], step.shows)
			}
		}},
		{"Recovery states 1", "a new job becomes ready; preparation sends no requests", func(c *C) {
			ep, _, r := c.failures(2)
			before := len(r.deliveries())
			job := c.prepared(ep, nil)
			c.equal("total", job["total"], 2)
			c.equal("pending", job["pending"], 2)
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
				ep, mend, r := c.failures(7)
				mend()
				job := c.prepared(ep, nil)
				if s := text(c.act(job, "canary"), "state"); s != "canary_running" && s != "awaiting_approval" {
					c.Errorf("after canary it is %s", s)
				}
				job = c.job(job, "awaiting_approval")
				c.equal("canary", job["canary"], object{"total": 5, "delivered": 5, "failed": 0})
				c.equal("delivered", job["delivered"], 5)
				c.equal("pending", job["pending"], 2)
				if n := len(r.deliveries()); n != 7+5 {
					c.Errorf("%d requests after the canary, want 12", n)
				}
				c.act(job, "continue")
				job = c.job(job, "completed")
				c.equal("delivered", job["delivered"], 7)
				for _, e := range c.list("/v1/events?endpoint_id="+text(ep, "id"), 50) {
					c.equal("status of an event", e["status"], "delivered")
				}
			}},
		{"Recovery states 3", "with five or fewer deliveries a canary that succeeds completes the job", func(c *C) {
			ep, mend, _ := c.failures(5)
			mend()
			job := c.prepared(ep, nil)
			c.act(job, "canary")
			job = c.job(job, "completed")
			c.equal("delivered", job["delivered"], 5)
			if job["started_at"] == nil || job["finished_at"] == nil {
				c.Errorf("started %v, finished %v", job["started_at"], job["finished_at"])
			}
		}},
		{"Recovery states 4", "cancel while waiting for approval stops what is pending", func(c *C) {
			ep, mend, r := c.failures(6)
			mend()
			job := c.prepared(ep, nil)
			c.act(job, "canary")
			job = c.job(job, "awaiting_approval")
			c.equal("state", c.act(job, "cancel")["state"], "cancelled")
			job = c.job(job, "cancelled")
			c.equal("delivered", job["delivered"], 5)
			c.equal("skipped", job["skipped"], 1)
			c.equal("stop_reason", job["stop_reason"], "cancelled")
			if n := len(r.deliveries()); n != 6+5 {
				c.Errorf("%d requests, want 11", n)
			}
			left := 0
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 2) {
				if item["state"] == "skipped" {
					left++
					c.equal("skipped_reason", item["skipped_reason"], "job_cancelled")
				}
			}
			c.equal("skipped items", left, 1)
			c.equal("cancelled again", c.act(job, "cancel")["state"], "cancelled")
		}},
		{"Recovery states 5", "a job stops when a delivery fails", func(c *C) {
			ep, _, _ := c.failures(6)
			job := c.prepared(ep, nil)
			c.act(job, "canary")
			job = c.job(job, "stopped")
			c.equal("stop_reason", job["stop_reason"], "delivery_failed")
			c.eventually(patience, func() string {
				job = c.must(200, "GET", "/v1/recoveries/"+text(job, "id"), nil)
				c.addsUp(job)
				if number(job, "failed") < 1 || number(job, "pending") > 0 || number(job, "queued") > 0 {
					return fmt.Sprintf("stopped, it has %v", job)
				}
				return ""
			})
		}},
		{"Recovery states 6", "the deadline is 24 hours from creation", func(c *C) {
			job := c.prepared(c.endpoint(nil), nil)
			made, err1 := time.Parse(time.RFC3339, text(job, "created_at"))
			ends, err2 := time.Parse(time.RFC3339, text(job, "deadline_at"))
			if err1 != nil || err2 != nil || ends.Sub(made) != 24*time.Hour {
				c.Errorf("created %v, deadline %v", job["created_at"], job["deadline_at"])
			}
		}},
	}
}

// recoveryCases are the "Rules for recovery" and the fields of jobs and items. One function because it is one table.
func recoveryCases() []testCase {
	return []testCase{
		{"Recovery rules 1", "rate_per_second must be an integer from 1 to 100", func(c *C) {
			ep := c.endpoint(nil)
			for _, bad := range []any{0, 101, -1, 1.5, "5", nil, true, []int{5}} {
				c.refused(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries",
					object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": bad})
			}
			c.refused(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries",
				object{"endpoint_id": ep["id"], "since": ago(time.Hour)})
			c.refused(400, "invalid_request", "rate_per_second", "POST", "/v1/recoveries", `{"endpoint_id":"`+text(ep, "id")+
				`","since":"`+ago(time.Hour)+`","rate_per_second":1e1}`)
			for _, good := range []int{1, 100} {
				c.equal("rate", c.prepared(ep, object{"rate_per_second": good})["rate_per_second"], good)
			}
		}},
		{"Recovery rules 2", "destination_id must be an enabled destination of the endpoint", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(object{"destinations": []object{{"url": r.URL}, {"url": r.URL + "?off", "enabled": false}}})
			other := c.endpoint(nil, r)
			for _, bad := range []any{
				"dst_nope", path(ep, "destinations", 1, "id"), path(other, "destinations", 0, "id"), "", 5} {
				c.refused(400, "invalid_request", "destination_id", "POST", "/v1/recoveries",
					object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 5, "destination_id": bad})
			}
			c.equal("destination_id",
				c.prepared(ep, object{"destination_id": path(ep, "destinations", 0, "id")})["destination_id"],
				path(ep, "destinations", 0, "id"))
		}},
		{"Recovery rules 3", "items are one for each destination delivery, with their state", func(c *C) {
			fixed := make(chan struct{})
			until := func(int) int {
				select {
				case <-fixed:
					return 200
				default:
					return 500
				}
			}
			one, two := c.receiver(until), c.receiver(until)
			ep := c.endpoint(object{"retry_policy": object{"strategy": "none", "max_attempts": 1}}, one, two)
			id := c.send(ep, "a.b", object{})
			c.becomes(id, "failed")
			job := c.prepared(ep, nil)
			c.equal("total", job["total"], 2)
			items := c.list("/v1/recoveries/"+text(job, "id")+"/items", 1)
			if len(items) != 2 || items[0]["destination_id"] == items[1]["destination_id"] {
				c.Fatalf("items: %v", items)
			}
			for _, item := range items {
				c.has("item", item, "id", "recovery_id", "event_id", "destination_id", "delivery_id", "state", "skipped_reason",
					"canary", "attempts",
					"last_response_status", "last_error_code", "updated_at")
				c.equal("state", item["state"], "pending")
				c.equal("event", item["event_id"], id)
			}
			close(fixed)
			c.act(job, "canary")
			job = c.job(job, "completed")
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 10) {
				c.equal("state", item["state"], "delivered")
				c.equal("canary", item["canary"], true)
				c.equal("last_response_status", item["last_response_status"], 200)
			}
			for _, a := range rows(c.event(id), "attempts") {
				if a["trigger"] == "canary" {
					c.equal("recovery_id of an attempt", a["recovery_id"], job["id"])
				}
			}
		}},
		{"Recovery rules 4", "counters count destination deliveries, and add up at every poll", func(c *C) {
			ep, mend, _ := c.failures(8)
			mend()
			job := c.prepared(ep, object{"rate_per_second": 100})
			c.act(job, "canary")
			job = c.job(job, "awaiting_approval")
			c.act(job, "continue")
			job = c.job(job, "completed")
			c.equal("delivered", job["delivered"], 8)
			c.has("job", job, "id", "object", "endpoint_id", "destination_id", "since", "until", "rate_per_second", "state",
				"total", "pending", "queued",
				"delivered", "failed", "skipped", "canary", "by_destination", "eta_seconds", "stop_reason", "created_at",
				"started_at", "finished_at", "deadline_at", "created_by")
		}},
		{"Recovery rules 5", "the upper time bound is fixed when preparation starts", func(c *C) {
			ep, _, _ := c.failures(1)
			job := c.prepared(ep, nil)
			c.becomes(c.send(ep, "a.b", object{}), "failed")
			job = c.must(200, "GET", "/v1/recoveries/"+text(job, "id"), nil)
			c.equal("total", job["total"], 1)
			if u := text(job, "until"); u == "" || u > now() {
				c.Errorf("until is %v", job["until"])
			}
		}},
		{"Recovery rules 6", "an event delivered meanwhile is skipped", func(c *C) {
			ep, mend, _ := c.failures(2)
			job := c.prepared(ep, nil)
			mend()
			first := c.list("/v1/events?endpoint_id="+text(ep, "id"), 10)[0]
			c.must(200, "POST", "/v1/events/"+text(first, "id")+"/replay", nil)
			c.becomes(text(first, "id"), "delivered")
			c.act(job, "canary")
			job = c.job(job, "completed")
			c.equal("delivered", job["delivered"], 1)
			c.equal("skipped", job["skipped"], 1)
			for _, item := range c.list("/v1/recoveries/"+text(job, "id")+"/items", 10) {
				if item["event_id"] == first["id"] {
					c.equal("skipped_reason", item["skipped_reason"], "already_delivered")
				}
			}
		}},
		{"Recovery rules 7", "actions are taken in their states only, and a repeated one changes nothing", func(c *C) {
			ep, mend, _ := c.failures(6)
			mend()
			job := c.prepared(ep, nil)
			route := "/v1/recoveries/" + text(job, "id")
			c.refused(400, "invalid_state", "action", "POST", route, object{"action": "continue"})
			c.refused(400, "invalid_request", "action", "POST", route, object{"action": "retry"})
			c.refused(400, "invalid_request", "action", "POST", route, object{})
			c.act(job, "canary")
			job = c.job(job, "awaiting_approval")
			c.refused(400, "invalid_state", "action", "POST", route, object{"action": "canary"})
			c.act(job, "continue")
			c.act(job, "continue")
			c.job(job, "completed")
			c.refused(400, "invalid_state", "action", "POST", route, object{"action": "cancel"})
		}},
	}
}
