package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Endpoints with settings of which a destination sees whether they hold: few attempts, a rate, times at which events
// are sent or expire. Others are made while faults happen, and stay.

// specialEndpoint creates an endpoint at one new destination with these settings.
func (w *World) specialEndpoint(ctx context.Context, host string, p policy, settings, retry map[string]any) *endpoint {
	ctx = context.WithoutCancel(ctx)
	dest := map[string]any{"url": "https://" + host + "/hook"}
	for name, value := range settings {
		dest[name] = value
	}
	for {
		code, raw, err := w.call(ctx, "POST", "/v1/endpoints", "", map[string]any{
			"destinations": []any{dest}, "retry_policy": retry})
		if err == nil && code == http.StatusCreated {
			var c created
			if err := json.Unmarshal(raw, &c); err != nil {
				panic(err)
			}
			t := w.oracle.target(c.Destinations[0].ID, host, settings)
			t.policy = p
			return &endpoint{id: c.ID, targets: []*target{t}}
		}
		if err == nil && code < 500 {
			panic(fmt.Sprintf("create an endpoint: %d %s", code, raw))
		}
		time.Sleep(time.Second)
	}
}

var exponentialRetry = map[string]any{"strategy": "exponential", "initial_seconds": 5, "max_seconds": 300,
	"max_attempts": 50, "retry_on": []string{"3xx", "4xx"}}

// special starts clients of such endpoints.
func (w *World) special(ctx context.Context, start func(func())) {
	strict := w.specialEndpoint(ctx, "strict.example.com",
		policy{most: 3, delays: seconds(4, 9), jitter: 0.2, mayFail: true}, nil,
		map[string]any{"strategy": "schedule", "schedule_seconds": []int{4, 9}, "max_attempts": 3, "jitter": 0.2,
			"retry_on": []string{"3xx", "4xx"}})
	w.strict = strict
	start(func() { w.recoveries(ctx, strict) })
	start(func() { w.client(ctx, "strict", strict) })
	limited := exponential
	limited.perSec, limited.burst = 2, 2
	rated := w.specialEndpoint(ctx, "rated.example.com", limited,
		map[string]any{"rate_limit": map[string]any{"per_second": 2, "burst": 2}}, exponentialRetry)
	start(func() { w.bursts(ctx, "rated", rated) })
	timed := w.specialEndpoint(ctx, "timed.example.com", exponential, nil, exponentialRetry)
	start(func() { w.timed(ctx, timed) })
	start(func() { w.found(ctx) })
	start(func() { w.replays(ctx) })
	start(func() { w.trouble(ctx) })
}

// bursts sends several events at once, now and then.
func (w *World) bursts(ctx context.Context, name string, ep *endpoint) {
	for i := 0; ctx.Err() == nil; i++ {
		var sending sync.WaitGroup
		for j := range 4 + w.intn(6) {
			sending.Go(func() { w.send(ep, fmt.Sprintf("once-%s-%d-%d", name, i, j), true, "") })
		}
		sending.Wait()
		select {
		case <-time.After(w.between(5*time.Second, 40*time.Second)):
		case <-ctx.Done():
		}
	}
}

// timed sends events that are to be sent later, or expire.
func (w *World) timed(ctx context.Context, ep *endpoint) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprint("once-timed-", i)
		times := make(map[string]time.Time)
		if w.intn(3) > 0 {
			times["from"] = time.Now().Add(w.between(time.Second, 3*time.Minute))
		}
		if len(times) == 0 || w.intn(3) == 0 {
			times["until"] = time.Now().Add(w.between(190*time.Second, 5*time.Minute))
			if times["from"].IsZero() {
				times["until"] = time.Now().Add(w.between(4*time.Second, time.Minute))
			}
		}
		w.sendTimed(ep, key, times)
		select {
		case <-time.After(w.between(time.Second, 10*time.Second)):
		case <-ctx.Done():
		}
	}
}

func (w *World) sendTimed(ep *endpoint, key string, times map[string]time.Time) {
	asked, data := time.Now(), map[string]any{"key": key}
	body := map[string]any{"type": "order.created", "data": data}
	for name, at := range times {
		data[name], body[map[string]string{"from": "deliver_at", "until": "expires_at"}[name]] = at, at
	}
	for range 8 {
		code, raw, err := w.call(context.Background(), "POST", "/v1/endpoints/"+ep.id+"/events", key, body)
		if err == nil && code == http.StatusAccepted {
			var a struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				panic(err)
			}
			if _, expires := times["until"]; expires {
				w.oracle.mayExpire(a.ID)
			}
			w.oracle.acknowledged(key, a.ID, ep, "", asked)
			return
		}
		if err == nil && code < 500 && code != http.StatusTooManyRequests && code != http.StatusConflict {
			return // it has expired meanwhile
		}
		time.Sleep(w.between(500*time.Millisecond, 8*time.Second))
	}
}

// trouble lets destinations fail for short times: that is no fault, but what retries are for.
func (w *World) trouble(ctx context.Context) {
	for {
		d, mode := w.dest(receivers[w.intn(len(receivers))]), w.intn(modes)
		d.set(time.Now().Add(w.between(time.Second, 30*time.Second)), mode, []int{500, 503, 429, 400}[w.intn(4)])
		select {
		case <-time.After(w.between(time.Second, 20*time.Second)):
		case <-ctx.Done():
			return
		}
	}
}

// replays replays events, also while their first deliveries go on.
func (w *World) replays(ctx context.Context) {
	for {
		select {
		case <-time.After(w.between(time.Second, 8*time.Second)):
			w.replay()
		case <-ctx.Done():
			return
		}
	}
}

// found makes endpoints to which events come at once: the owner of the partition may not know them yet.
func (w *World) found(ctx context.Context) {
	for i := 0; ctx.Err() == nil && i < 20; i++ {
		select {
		case <-time.After(w.between(5*time.Second, 40*time.Second)):
		case <-ctx.Done():
			return
		}
		host := fmt.Sprintf("founded%d.example.com", i)
		ep := w.newEndpoint([]string{host}, nil)
		for j := range 2 {
			w.send(ep, fmt.Sprintf("once-%s-%d", host, j), true, "")
		}
	}
}

// compete makes another change to the same destination at the same time, at any node. It returns what waits for it.
func (w *World) compete(at string) (wait func()) {
	change := map[string]any{"max_in_flight": 20 + w.intn(40)}
	var changing sync.WaitGroup
	changing.Go(func() { w.change("PATCH", at, change) })
	return changing.Wait
}

// still checks, after the faults, that waits end when their reason does.
func (w *World) still(ctx context.Context, eps []*endpoint) {
	send := func(ep *endpoint, n int, name string) (sent []string) {
		for i := range n {
			key := fmt.Sprintf("once-still-%s-%d", name, i)
			w.send(ep, key, true, "")
			if id := w.oracle.idOf(key); id != "" {
				sent = append(sent, id)
			}
			time.Sleep(500 * time.Millisecond)
		}
		return sent
	}
	expect := func(sent []string, within time.Duration) {
		for _, id := range sent {
			w.oracle.inTime(id, within)
		}
	}
	w.trace("nothing is wrong")
	w.quiet.Store(true)
	one, two := eps[0], eps[1]
	at := "/v1/endpoints/" + one.id + "/destinations/" + one.targets[0].id
	w.change("PATCH", at, map[string]any{"paused": true})
	sent := send(one, 3, "paused")
	time.Sleep(w.between(time.Second, time.Minute))
	w.change("PATCH", at, map[string]any{"paused": false})
	expect(sent, time.Minute)
	for _, ep := range eps {
		if ep.targets[0].ordered {
			continue
		}
		within := 45 * time.Second
		if ep.targets[0].pulled { // consumers let leases end
			within = 10 * time.Minute
		}
		expect(send(ep, 2, ep.targets[0].host), within)
	}
	time.Sleep(time.Minute)
	d := w.dest(two.targets[0].host)
	d.set(time.Now().Add(24*time.Hour), answersError, http.StatusInternalServerError)
	sent = send(two, 70, "failing") // its circuit breaker opens
	d.set(time.Time{}, 0, 0)
	expect(sent, 15*time.Minute)
	time.Sleep(15 * time.Minute)
	d.set(time.Now().Add(20*time.Second), answersError, http.StatusInternalServerError)
	for _, id := range sent[:3] { // retries have delivered these before
		w.replayEvent(id)
	}
	w.dest(w.strict.targets[0].host).set(time.Now().Add(time.Minute), answersError, http.StatusInternalServerError)
	sent = send(w.strict, 3, "strict")
	for _, id := range sent {
		w.replayEvent(id) // which fails too; the retries go on
	}
	time.Sleep(2 * time.Minute)
	w.oracle.triedAll(w.strict.targets[0], sent)
	w.recover(w.strict, "last-job")
	for _, ep := range eps {
		w.suspend(ctx, ep, ep.targets[0], map[string]any{"paused": true}, map[string]any{"paused": false}, false)
	}
	d.set(time.Now().Add(24*time.Hour), answersError, http.StatusInternalServerError)
	send(two, 3, "purged")
	time.Sleep(2 * time.Second)
	w.purge(two.targets[0], "/v1/endpoints/"+two.id+"/destinations/"+two.targets[0].id)
	d.set(time.Time{}, 0, 0)
	time.Sleep(2 * time.Minute)
}
