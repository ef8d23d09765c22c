package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// endpoint is an endpoint of the world with its destinations.
type endpoint struct {
	id    string
	hosts []string
}

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
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	alive := w.alive()
	if len(alive) == 0 {
		return 0, nil, errRefused
	}
	header := http.Header{"Authorization": {"Bearer " + bootstrapKey}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	ctx, cancel := context.WithTimeout(ctx, w.between(5*time.Second, 20*time.Second))
	defer cancel()
	return alive[w.intn(len(alive))].Do(ctx, method, path, header, raw)
}

// newEndpoint creates an endpoint at new destinations, and tries until a node answers.
func (w *World) newEndpoint(ctx context.Context, hosts []string, settings map[string]any) *endpoint {
	var dests []map[string]any
	for _, h := range hosts {
		w.dests[h] = &destination{host: h}
		dest := map[string]any{"url": "https://" + h + "/hook"}
		for k, v := range settings {
			dest[k] = v
		}
		dests = append(dests, dest)
	}
	for {
		code, raw, err := w.call(ctx, "POST", "/v1/endpoints", "", map[string]any{"destinations": dests})
		if err == nil && code == http.StatusCreated {
			var c created
			if err := json.Unmarshal(raw, &c); err != nil {
				panic(err)
			}
			for i, d := range c.Destinations {
				w.oracle.host[d.ID] = hosts[i]
			}
			return &endpoint{c.ID, hosts}
		}
		if err == nil && code < 500 {
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
		w.send(ep, key, once)
		if once && w.intn(4) == 0 {
			w.send(ep, key, once)
		}
		select {
		case <-time.After(w.between(200*time.Millisecond, 5*time.Second)):
		case <-ctx.Done():
		}
	}
}

func (w *World) send(ep *endpoint, key string, once bool) {
	header := ""
	if once {
		header = key
	}
	for range 8 {
		code, raw, err := w.call(context.Background(), "POST", "/v1/endpoints/"+ep.id+"/events", header,
			map[string]any{"type": "order.created", "data": map[string]any{"key": key}})
		switch {
		case err == nil && code == http.StatusAccepted:
			var a struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				panic(err)
			}
			w.oracle.acknowledged(key, a.ID, ep.hosts)
			return
		case err == nil && code < 500 && code != http.StatusTooManyRequests && code != http.StatusConflict:
			w.oracle.unexpected("a send was answered with %d %s", code, raw)
			return
		}
		if !once && !errors.Is(err, errRefused) {
			break // it may be stored
		}
		time.Sleep(w.between(500*time.Millisecond, 8*time.Second))
	}
}

// scenario is the story of a world: endpoints, clients, faults, and the time in which all waits end.
func (w *World) scenario(ctx context.Context) {
	for len(w.alive()) == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	eps := []*endpoint{
		w.newEndpoint(ctx, []string{"d1.example.com"}, nil),
		w.newEndpoint(ctx, []string{"d2.example.com", "d3.example.com"}, nil),
	}
	sending, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i, ep := range eps {
		for j := range 2 {
			clients.Go(func() { w.client(sending, fmt.Sprint(i, j), ep) })
		}
	}
	w.misfortune(time.Duration(w.cfg.Minutes) * time.Minute)
	stop()
	clients.Wait()
	w.heal()
	w.trace("the faults are over")
	for range 48 { // four hours
		time.Sleep(5 * time.Minute)
		if w.oracle.settled() {
			break
		}
	}
	time.Sleep(time.Minute)
	w.oracle.check()
}
