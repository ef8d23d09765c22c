package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/wait"
)

// crash kills the relay while events are sent, twice, and compares what was acknowledged with what arrives.
func crash(ctx context.Context, w *world) error {
	const events, kills = 2000, 2
	endpoint, err := w.endpoint(ctx, "/slow", nil, object{"retry_policy": object{"strategy": "schedule",
		"schedule_seconds": []int{1, 1, 2, 2, 5, 5}}})
	if err != nil {
		return err
	}
	var ids []string
	var failed error
	var sending sync.WaitGroup
	sending.Go(func() { ids, failed = w.send(ctx, endpoint, events, 16) })
	defer sending.Wait()
	for n := range kills {
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
		acknowledged, open := w.open()
		w.kill()
		w.say("SIGKILL %d of %d after %d acknowledged events, %d of which had not arrived; the relay starts again", n+1,
			kills, acknowledged, open)
		if err := w.start(ctx); err != nil {
			return err
		}
	}
	if sending.Wait(); failed != nil {
		return failed
	}
	var missing, twice int
	err = w.until(ctx, "all have arrived", func() bool { missing, twice = w.missing(ids); return missing == 0 })
	w.say("%d ids were acknowledged, and %d of them arrived", len(ids), len(ids)-missing)
	w.say("%d arrived again with the same webhook-id: how the last second before a kill ended was not stored yet", twice)
	w.show("/v1/events?endpoint_id=" + endpoint)
	return err
}

// neighbour measures deliveries without and beside destinations that never answer.
func neighbour(ctx context.Context, w *world) error {
	const events, hanging, atMost = 200, 100, 3 * time.Second
	measure := func(when string) (slowest time.Duration, err error) {
		healthy, err := w.endpoint(ctx, "/orders", nil, nil)
		if err != nil {
			return 0, err
		}
		ids, err := w.send(ctx, healthy, events, 8)
		if err != nil {
			return 0, err
		}
		err = w.until(ctx, "all have arrived", func() bool { missing, _ := w.missing(ids); return missing == 0 })
		if err != nil {
			return 0, err
		}
		slowest = w.slowest(ids)
		w.say("%s: of %d events the slowest took %d ms from sending to arrival", when, events, slowest.Milliseconds())
		return slowest, nil
	}
	if _, err := measure("alone"); err != nil {
		return err
	}
	var hung string
	for range hanging {
		var err error
		if hung, err = w.endpoint(ctx, "/hang", nil, nil); err == nil {
			_, err = w.send(ctx, hung, 2, 1)
		}
		if err != nil {
			return err
		}
	}
	w.say("%d more destinations accept connections and never answer, %d events wait for each", hanging, 2)
	slowest, err := measure("beside them")
	if err != nil {
		return err
	}
	w.show("/v1/events?status=pending&endpoint_id=" + hung)
	if slowest > atMost {
		return fmt.Errorf("that is more than %v", atMost)
	}
	return nil
}

// recovery lets deliveries fail, mends the destination and recovers them with a canary.
func recovery(ctx context.Context, w *world) error {
	const events = 40
	w.setFailing(true)
	endpoint, err := w.endpoint(ctx, "/orders", nil, object{"retry_policy": object{"strategy": "none"}})
	if err != nil {
		return err
	}
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	ids, err := w.send(ctx, endpoint, events, 4)
	if err != nil {
		return err
	}
	list := "/v1/events?status=failed&limit=100&endpoint_id=" + endpoint
	failed := func() int {
		got, _ := w.call(ctx, "GET", list, nil)
		return len(got.Get("data").Array())
	}
	if err := w.until(ctx, "all have failed", func() bool { return failed() == events }); err != nil {
		return err
	}
	w.setFailing(false)
	w.say("%d deliveries were answered 503 and have failed: no attempt is left. Now the receiver works again", events)
	job, err := w.call(ctx, "POST", "/v1/recoveries", object{"endpoint_id": endpoint, "since": since,
		"rate_per_second": 50})
	if err != nil {
		return err
	}
	path := "/v1/recoveries/" + job.Get("id").Str
	reach := func(state string) error {
		return w.until(ctx, "the job is "+state, func() bool {
			now, _ := w.call(ctx, "GET", path, nil)
			return now.Get("state").Str == state
		})
	}
	arrived := func() int { missing, _ := w.missing(ids); return events - missing }
	act := func(action string) error {
		_, err := w.call(ctx, "POST", path, object{"action": action})
		return err
	}
	if err := reach("ready"); err != nil {
		return err
	}
	w.say("a recovery job for them is ready: %d have arrived. Its action canary sends five", arrived())
	if err := act("canary"); err != nil {
		return err
	}
	if err := reach("awaiting_approval"); err != nil {
		return err
	}
	first := arrived()
	if err := wait.For(ctx, 2*time.Second); err != nil {
		return err
	}
	w.say("the job awaits approval: %d have arrived, 2 s later %d. The demo approves with the action continue", first,
		arrived())
	if first != 5 || arrived() != first {
		return fmt.Errorf("the job did not wait for the approval")
	}
	if err := act("continue"); err != nil {
		return err
	}
	if err := reach("completed"); err != nil {
		return err
	}
	missing, twice := w.missing(ids)
	w.say("the job is completed: %d have arrived, %d of them twice", events-missing, twice)
	w.show(path)
	if missing > 0 || twice > 0 {
		return fmt.Errorf("%d are missing, %d came twice", missing, twice)
	}
	return nil
}

// order lets an ordered destination fail, kills the relay, and compares the order of what arrives.
func order(ctx context.Context, w *world) error {
	const events = 40
	w.setFailing(true)
	endpoint, err := w.endpoint(ctx, "/orders", object{"ordering": object{"by": "endpoint"}}, object{
		"retry_policy": object{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50}})
	if err != nil {
		return err
	}
	ids, err := w.send(ctx, endpoint, events, 1)
	if err != nil {
		return err
	}
	if err := wait.For(ctx, time.Second); err != nil {
		return err
	}
	w.say("%d events wait behind the first, which gets 503. SIGKILL; the relay starts again, the receiver works",
		events-1)
	w.kill()
	if err := w.start(ctx); err != nil {
		return err
	}
	w.setFailing(false)
	err = w.until(ctx, "all have arrived", func() bool { missing, _ := w.missing(ids); return missing == 0 })
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < events; i++ {
		if !w.arrived[ids[i-1]][0].Before(w.arrived[ids[i]][0]) {
			return fmt.Errorf("event %d has arrived before event %d", i, i-1)
		}
	}
	w.say("all %d have arrived, one after the other as they were sent", events)
	w.show("/v1/events?endpoint_id=" + endpoint)
	return nil
}

// signature signs a request with a secret that ends with a newline, the most usual mistake, and asks for the cause.
func signature(ctx context.Context, w *world) error {
	const secret = "a secret of twenty letters"
	made, err := w.call(ctx, "POST", "/v1/endpoints", object{"name": "pushes", "provider": "github",
		"verification": object{"secret": secret}, "destinations": []object{{"url": w.receiver.URL + "/orders"}}})
	if err != nil {
		return err
	}
	body := `{"ref":"refs/heads/main"}`
	mac := hmac.New(sha256.New, []byte(secret+"\n"))
	mac.Write([]byte(body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, made.Get("ingest_url").Str, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	if _, err := answerOf(req); err == nil {
		return fmt.Errorf("a wrong signature was accepted")
	}
	w.say("a request of GitHub, signed with a secret that ends with a newline, is refused and stored as rejected")
	var event string
	if err := w.until(ctx, "the rejected event is listed", func() bool {
		got, _ := w.call(ctx, "GET", "/v1/events?status=rejected", nil)
		event = got.Get("data.0.id").Str
		return event != ""
	}); err != nil {
		return err
	}
	path := "/v1/events/" + event + "/signature"
	why, err := w.call(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	finding := why.Get("findings.0")
	w.say("why: %s (%s)", finding.Get("message").Str, finding.Get("code").Str)
	w.show(path)
	if code := finding.Get("code").Str; code != "secret_whitespace" {
		return fmt.Errorf("the cause is %q", code)
	}
	return nil
}

// rate sends many events at once to a destination with a rate.
func rate(ctx context.Context, w *world) error {
	const events, perSecond = 100, 20
	endpoint, err := w.endpoint(ctx, "/orders", object{"rate_limit": object{"per_second": perSecond, "burst": 1}}, nil)
	if err != nil {
		return err
	}
	ids, err := w.send(ctx, endpoint, events, 8)
	if err != nil {
		return err
	}
	err = w.until(ctx, "all have arrived", func() bool { missing, _ := w.missing(ids); return missing == 0 })
	if err != nil {
		return err
	}
	times, most := w.times(ids), 0
	for i, from := range times {
		n := 0
		for _, at := range times[i:] {
			if at.Sub(from) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	took := times[len(times)-1].Sub(times[0])
	w.say("%d events sent at once to a destination with %d a second: they arrived within %.1f s, at most %d in any second",
		events, perSecond, took.Seconds(), most)
	w.show("/v1/endpoints/" + endpoint)
	if allowed := perSecond + perSecond/4; most > allowed { // requests that waited on the way arrive together
		return fmt.Errorf("%d arrived in one second, more than %d", most, allowed)
	}
	return nil
}

// leak logs a key and looks for the finding.
func leak(ctx context.Context, w *world) error {
	key := "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc" // in parts, or this file would be a finding
	drain, err := w.call(ctx, "POST", "/v1/drains", object{"name": "production"})
	if err != nil {
		return err
	}
	to, err := url.Parse(drain.Get("url").Str)
	if err != nil {
		return err
	}
	line := `{"level":"error","msg":"charge failed with ` + key + `"}` + "\n"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(line))
	if err != nil {
		return err
	}
	if _, err := answerOf(req); err != nil {
		return err
	}
	w.say("one line of a log with a key of Stripe went to the log drain")
	var found string
	if err := w.until(ctx, "there is a finding", func() bool {
		got, _ := w.call(ctx, "GET", "/v1/findings", nil)
		found = got.Get("data.0").Raw
		return found != ""
	}); err != nil {
		return err
	}
	w.say("the finding: %s, %s, severity %s", gjson.Get(found, "name").Str, gjson.Get(found, "masked").Str,
		gjson.Get(found, "severity").Str)
	w.show("/v1/findings")
	if strings.Contains(found, key) {
		return fmt.Errorf("the finding shows the key")
	}
	return nil
}
