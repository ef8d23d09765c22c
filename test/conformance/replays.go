package conformance

import (
	"fmt"
	"time"
)

// replayCases test the "Rules for POST /v1/replays" and the fields of its result.
func replayCases() []testCase {
	return []testCase{
		{"Replay 1", "every matching event of the range goes to each destination that is enabled now", func(c *C) {
			one, two := c.receiver(nil), c.receiver(nil)
			ep := c.endpoint(nil, one)
			for range 3 {
				c.send(ep, "a.b", object{})
			}
			one.wait(c, 3)
			c.must(201, "POST", "/v1/endpoints/"+text(ep, "id")+"/destinations", object{"url": two.URL})
			got := c.must(200, "POST", "/v1/replays",
				object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 100})
			c.wantEqual("events", got["events"], 3)
			c.wantEqual("queued", got["queued"], 6)
			c.wantEqual("truncated", got["truncated"], false)
			c.wantMembers("result", got, "run_id")
			one.wait(c, 6)
			two.wait(c, 3)
			c.eventually(waitLimit, func() string {
				run := c.must(200, "GET", "/v1/replays/"+text(got, "run_id"), nil)
				if run["state"] != "queued" || number(run, "delivered") != 6 {
					return fmt.Sprintf("the run is %v", run)
				}
				return ""
			})
			if n := len(c.list("/v1/events?run_id="+text(got, "run_id"), 2)); n != 3 {
				c.Errorf("%d events of the run, want 3", n)
			}
		}},
		{"Replay 2", "the upper time bound is fixed when the request starts", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			c.send(ep, "a.b", object{})
			got := c.must(200, "POST", "/v1/replays", object{"endpoint_id": ep["id"], "since": ago(time.Hour)})
			c.send(ep, "a.b", object{})
			run := c.must(200, "GET", "/v1/replays/"+text(got, "run_id"), nil)
			c.wantEqual("events", run["events"], 1)
			if u := text(run, "until"); u == "" || u > now() {
				c.Errorf("until is %v", run["until"])
			}
		}},
		{"Replay 3", "pacing counts destination deliveries", func(c *C) {
			one, two := c.receiver(nil), c.receiver(nil)
			ep := c.endpoint(nil, one, two)
			for range 10 {
				c.send(ep, "a.b", object{})
			}
			one.wait(c, 10)
			two.wait(c, 10)
			began := time.Now()
			got := c.must(200, "POST", "/v1/replays",
				object{"endpoint_id": ep["id"], "since": ago(time.Hour), "rate_per_second": 5})
			c.wantEqual("queued", got["queued"], 20)
			if len(one.deliveries())+len(two.deliveries()) == 40 {
				c.Errorf("the request took %v: it waited for the paced deliveries", time.Since(began))
			}
			one.wait(c, 20)
			two.wait(c, 20)
			// At 5 a second, 20 deliveries take 3.8 s from the first to the last.
			if took := time.Since(began); took < 3500*time.Millisecond {
				c.Errorf("20 deliveries at 5 a second took %v", took)
			}
		}},
		{"Replay 4", "filters narrow it: by endpoint, destination, status, type and time", func(c *C) {
			good, bad := c.receiver(nil), c.receiver(alwaysStatus(500))
			ep := c.endpoint(object{"retry_policy": object{"strategy": "none", "max_attempts": 1}}, good, bad)
			paid, sent := c.send(ep, "order.paid", object{}), c.send(ep, "order.sent", object{})
			c.awaitStatus(paid, "failed")
			c.awaitStatus(sent, "failed")
			dry := func(more object) int {
				c.Helper()
				body := object{"endpoint_id": ep["id"], "since": ago(time.Hour), "dry_run": true}
				for name, value := range more {
					body[name] = value
				}
				got := c.must(200, "POST", "/v1/replays", body)
				return number(got, "queued")
			}
			for _, x := range []struct {
				more object
				want int
			}{
				{nil, 4}, {object{"type": "order.paid"}, 2}, {object{"type": "order.*"}, 4}, {object{"status": "failed"}, 4},
				{object{"status": "delivered"}, 0},
				{object{"destination_id": member(ep, "destinations", 0, "id")}, 2}, {object{"until": ago(30 * time.Minute)}, 0},
			} {
				c.wantEqual(fmt.Sprint("deliveries of ", x.more), dry(x.more), x.want)
			}
			if n := len(good.deliveries()); n != 2 {
				c.Errorf("dry runs sent %d requests", n-2)
			}
			inside := c.must(200, "POST", "/v1/replays",
				object{"filter": object{"endpoint_id": ep["id"], "type": "order.paid", "since": ago(time.Hour)}, "dry_run": true})
			c.wantEqual("filter as a member", inside["events"], 1)
		}},
		{"Replay 5", "a filter that is not known, missing or wrong is refused and nothing is queued", func(c *C) {
			ep := c.endpoint(nil)
			since := ago(time.Hour)
			for _, x := range []struct {
				body  any
				param string
			}{
				{object{"endpoint_id": ep["id"]}, "since"},
				{object{"since": since}, "-"},
				{object{"endpoint_id": ep["id"], "since": since, "statuss": "failed"}, "statuss"},
				{object{"endpoint_id": ep["id"], "since": since, "status": "lost"}, "status"},
				{object{"endpoint_id": ep["id"], "since": since, "until": ago(2 * time.Hour)}, "until"},
				{object{"endpoint_id": ep["id"], "since": "tomorrow"}, "since"},
				{object{"endpoint_id": ep["id"], "since": since, "rate_per_second": 0}, "rate_per_second"},
				{object{"endpoint_id": ep["id"], "since": since, "rate_per_second": 101}, "rate_per_second"},
				{object{"endpoint_id": ep["id"], "since": since, "dry_run": "yes"}, "dry_run"},
			} {
				c.wantError(400, "invalid_request", x.param, "POST", "/v1/replays", x.body)
			}
			c.wantError(400, "selection_too_large", "-", "POST", "/v1/replays",
				object{"endpoint_id": ep["id"], "since": ago(32 * 24 * time.Hour)})
		}},
		{"Replay 6", "repeating a request makes a new run, unless it has an Idempotency-Key", func(c *C) {
			r := c.receiver(nil)
			ep := c.endpoint(nil, r)
			c.send(ep, "a.b", object{})
			r.wait(c, 1)
			body := object{"endpoint_id": ep["id"], "since": ago(time.Hour)}
			runs := map[string]bool{}
			for range 2 {
				runs[text(c.must(200, "POST", "/v1/replays", body), "run_id")] = true
			}
			key := "conformance-" + text(ep, "id")
			first := c.must(200, "POST", "/v1/replays", body, "Idempotency-Key", key)
			again := c.do("POST", "/v1/replays", body, "Idempotency-Key", key)
			runs[text(first, "run_id")] = true
			if len(runs) != 3 || again.body["run_id"] != first["run_id"] || again.header.Get("Idempotent-Replayed") != "true" {
				c.Errorf("runs %v; the repeat is %v", runs, again.body)
			}
			c.wantError(400, "idempotency_mismatch", "-", "POST", "/v1/replays",
				object{"endpoint_id": ep["id"], "since": ago(2 * time.Hour)}, "Idempotency-Key", key)
			r.wait(c, 4)
			listed := 0
			for _, run := range c.list("/v1/replays?endpoint_id="+text(ep, "id"), 2) {
				c.wantMembers("run", run, "run_id", "filter", "since", "until", "state", "events", "queued", "delivered", "failed",
					"skipped", "created_at")
				listed++
			}
			c.wantEqual("listed runs", listed, 3)
		}},
		{"Replay 7", "an event without an enabled destination queues nothing", func(c *C) {
			ep := c.endpoint(nil)
			id := c.send(ep, "a.b", object{})
			c.wantEqual("one event", c.must(200, "POST", "/v1/events/"+id+"/replay", nil)["queued"], 0)
			c.wantEqual("a selection", c.must(
				200, "POST", "/v1/replays", object{"endpoint_id": ep["id"], "since": ago(time.Hour)})["queued"], 0)
		}},
	}
}
