package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// endpoint is an endpoint of the world with its destinations.
type endpoint struct {
	id      string
	targets []*target
	groups  int    // its events have one of so many values; 0: none
	key     string // of the API; empty: that of the account
}

// target is a destination as clients and the oracle know it.
type target struct {
	id, host string
	ordered  bool
	pulled   bool
	// Guarded by oracle.mu.
	excused []window // deliveries of events that were acknowledged then need not be made
	bans    []*ban
	policy  policy
	sent    []time.Time    // requests, oldest first
	byJob   map[string]int // requests of the newest recovery job, by event
}

type window struct{ from, until time.Time }

// created is what a client needs of the answer to a new endpoint.
type created struct {
	ID           string `json:"id"`
	Destinations []struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	} `json:"destinations"`
}

// call makes a request with the bootstrap key to any node.
func (w *World) call(ctx context.Context, method, path, key string, body any) (int, []byte, error) {
	return w.callAs(ctx, "", method, path, key, body)
}

// callAs is call with a key of the API; empty: the bootstrap key.
func (w *World) callAs(ctx context.Context, apiKey, method, path, key string, body any) (int, []byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	alive := w.alive()
	if len(alive) == 0 {
		return 0, nil, errRefused
	}
	header := http.Header{"Authorization": {"Bearer " + cmp.Or(apiKey, bootstrapKey)}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	ctx, cancel := context.WithTimeout(ctx, w.between(5*time.Second, 20*time.Second))
	defer cancel()
	return alive[w.intn(len(alive))].Do(ctx, method, path, header, raw)
}

// newEndpoint creates an endpoint at new destinations, and tries until a node answers.
func (w *World) newEndpoint(hosts []string, settings map[string]any) *endpoint {
	return w.newEndpointAs("", hosts, settings)
}

func (w *World) newEndpointAs(apiKey string, hosts []string, settings map[string]any) *endpoint {
	var dests []map[string]any
	for _, h := range hosts {
		dest := maps.Clone(settings)
		if dest == nil {
			dest = make(map[string]any)
		}
		if settings["pull"] == nil {
			dest["url"] = "https://" + h + "/hook"
		}
		dests = append(dests, dest)
	}
	for {
		code, raw, err := w.callAs(context.Background(), apiKey, "POST", "/v1/endpoints", "", map[string]any{
			"destinations": dests, "retry_policy": exponentialRetry})
		if err == nil && code == http.StatusCreated {
			var c created
			if err := json.Unmarshal(raw, &c); err != nil {
				panic(err)
			}
			ep := &endpoint{id: c.ID, key: apiKey}
			for i, d := range c.Destinations {
				ep.targets = append(ep.targets, w.oracle.target(d.ID, hosts[i], settings))
			}
			if settings["ordering"] != nil {
				ep.groups = 5
			}
			return ep
		}
		if err == nil && code < 500 && (apiKey == "" || code != http.StatusUnauthorized) { // this node may not know it yet
			panic(fmt.Sprintf("create an endpoint: %d %s", code, raw))
		}
		time.Sleep(time.Second)
	}
}

// client sends events to an endpoint until ctx ends: half of them with an Idempotency-Key, which it repeats until it is
// answered, and sometimes once more.
func (w *World) client(ctx context.Context, name string, ep *endpoint) {
	for i := 0; ctx.Err() == nil; i++ {
		key, once := fmt.Sprintf("free-%s-%d", name, i), w.intn(2) == 0
		if once {
			key = fmt.Sprintf("once-%s-%d", name, i)
		}
		group := ""
		if ep.groups > 0 {
			group = fmt.Sprint("g", w.intn(ep.groups))
		}
		w.send(ep, key, once, group)
		if once && w.intn(4) == 0 {
			w.send(ep, key, once, group)
		}
		select {
		case <-time.After(w.between(200*time.Millisecond, 5*time.Second)):
		case <-ctx.Done():
		}
	}
}

func (w *World) send(ep *endpoint, key string, once bool, group string) {
	asked, header := time.Now(), ""
	if once {
		header = key
	}
	for range 8 {
		code, raw, err := w.callAs(context.Background(), ep.key, "POST", "/v1/endpoints/"+ep.id+"/events", header,
			map[string]any{"type": "order.created", "data": map[string]any{"key": key, "group": group}})
		switch {
		case err == nil && code == http.StatusAccepted:
			var a struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				panic(err)
			}
			w.oracle.acknowledged(key, a.ID, ep, group, asked)
			return
		case err == nil && code < 500 && code != http.StatusTooManyRequests && code != http.StatusConflict &&
			code != http.StatusNotFound && (ep.key == "" || code != http.StatusUnauthorized): // it is new at this node
			w.oracle.unexpected("a send was answered with %d %s", code, raw)
			return
		}
		if !once && !errors.Is(err, errRefused) {
			break // it may be stored
		}
		time.Sleep(w.between(500*time.Millisecond, 8*time.Second))
	}
}

// batches sends batches of events until ctx ends. It repeats each until all of its events are stored.
func (w *World) batches(ctx context.Context, eps []*endpoint) {
	for i := 0; ctx.Err() == nil; i++ {
		ep, key := eps[w.intn(len(eps))], ""
		if w.intn(2) == 0 {
			key = fmt.Sprint("batch-", i)
		}
		events := make([]map[string]any, 1+w.intn(6))
		for j := range events {
			name, group := fmt.Sprintf("once-batch-%d-%d", i, j), ""
			if ep.groups > 0 {
				group = fmt.Sprint("g", w.intn(ep.groups))
			}
			events[j] = map[string]any{"type": "order.created", "data": map[string]any{"key": name, "group": group}}
			if key == "" {
				events[j]["idempotency_key"] = name
			}
		}
		asked := time.Now()
		for try := 0; try < 8 && !w.sendBatch(ep, key, events, asked); try++ {
			time.Sleep(w.between(500*time.Millisecond, 8*time.Second))
		}
		select {
		case <-time.After(w.between(time.Second, 15*time.Second)):
		case <-ctx.Done():
		}
	}
}

// sendBatch reports whether all events of a batch are stored.
func (w *World) sendBatch(ep *endpoint, key string, events []map[string]any, asked time.Time) bool {
	code, raw, err := w.call(context.Background(), "POST", "/v1/endpoints/"+ep.id+"/events/batch", key,
		map[string]any{"events": events})
	var got struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err != nil || code != http.StatusAccepted || json.Unmarshal(raw, &got) != nil {
		if err == nil && code < 500 && code != http.StatusTooManyRequests && code != http.StatusConflict {
			w.oracle.unexpected("a batch was answered with %d %s", code, raw)
		}
		return false
	}
	done := true
	for i, x := range got.Data {
		data := events[i]["data"].(map[string]any)
		if done = done && x.ID != ""; x.ID != "" {
			w.oracle.acknowledged(data["key"].(string), x.ID, ep, data["group"].(string), asked)
		}
	}
	return done
}

// scenario is the story of a world: endpoints, clients, faults, and the time in which all waits end.
func (w *World) scenario(ctx context.Context) {
	for len(w.alive()) == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	eps := []*endpoint{
		w.newEndpoint([]string{"d1.example.com"}, nil),
		w.newEndpoint([]string{"d2.example.com", "d3.example.com"}, nil),
		w.newEndpoint([]string{"ordered.example.com"}, map[string]any{"ordering": map[string]any{
			"by": "body:$.data.group", "when_failed": "skip", "unverified": "ordered"}}),
		w.newEndpoint([]string{"batch.example.com"}, map[string]any{"http_batch": map[string]any{
			"max_events": 5, "flush_seconds": 2}}),
		w.newEndpoint([]string{"pulled.example.com"}, map[string]any{"pull": map[string]any{"lease_seconds": 20}}),
	}
	sending, stop := context.WithCancel(ctx)
	pulling, stopPulling := context.WithCancel(ctx)
	var clients, consumers sync.WaitGroup
	for i, ep := range eps {
		for j := range 1 + w.intn(2) {
			clients.Go(func() { w.client(sending, fmt.Sprint(i, j), ep) })
		}
		if ep.targets[0].pulled {
			for j := range 2 {
				consumers.Go(func() { w.pull(pulling, fmt.Sprint("consumer", j), ep) })
			}
		}
	}
	for _, ep := range eps {
		clients.Go(func() { w.operate(sending, []*endpoint{ep}) })
	}
	clients.Go(func() { w.batches(sending, eps) })
	clients.Go(func() { w.tenants(sending) })
	w.special(sending, clients.Go)
	w.misfortune(time.Duration(w.cfg.Minutes) * time.Minute)
	stop()
	clients.Wait()
	w.heal()
	w.trace("the faults are over")
	w.calm.Store(true)
	w.settle()
	w.still(ctx, eps)
	w.settle()
	stopPulling()
	consumers.Wait()
	time.Sleep(time.Minute)
	w.oracle.check()
}

// settle waits until all deliveries have ended.
func (w *World) settle() {
	for range 144 { // twelve hours
		time.Sleep(5 * time.Minute)
		if w.oracle.settled() {
			break
		}
	}
}
