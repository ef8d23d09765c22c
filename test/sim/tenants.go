package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Tenants have endpoints and keys of their own. With its key a tenant sees its own endpoints and events alone, all of
// them. The key of a deleted tenant is refused, and its endpoints get nothing.

type tenant struct {
	name, key string // of the API
	ep        *endpoint
}

// tenants lets tenants come and go beside one that stays, until ctx ends.
func (w *World) tenants(ctx context.Context) {
	stays := w.newTenant("stays")
	for i := 0; ctx.Err() == nil; i++ {
		t := w.newTenant(fmt.Sprint("passes", i))
		for j := range 3 + w.intn(10) {
			w.send(t.ep, fmt.Sprintf("once-%s-%d", t.name, j), true, "")
			w.send(stays.ep, fmt.Sprintf("once-stays-%d-%d", i, j), true, "")
			w.look(t, stays)
			w.look(stays, t)
			time.Sleep(w.between(100*time.Millisecond, 10*time.Second))
		}
		w.deleteTenant(t)
	}
}

// newTenant makes a tenant with a key and an endpoint.
func (w *World) newTenant(name string) *tenant {
	at := "/v1/tenants/" + name
	w.change("PUT", at, map[string]any{})
	_, raw := w.change("POST", at+"/keys", map[string]any{"name": name, "scope": "read_write"})
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(raw, &made); err != nil || made.Key == "" {
		panic(fmt.Sprintf("create a key: %s", raw))
	}
	ep := w.newEndpointAs(made.Key, []string{name + ".example.com"}, nil)
	return &tenant{name, made.Key, ep}
}

// look reads with the key of a tenant what it has, and what another one has.
func (w *World) look(t, other *tenant) {
	w.hidden(t, "/v1/endpoints/"+other.ep.id)
	mine, asked := w.oracle.eventsOf(t.ep), time.Now()
	if all := w.oracle.eventsOf(other.ep); len(all) > 0 {
		w.hidden(t, "/v1/events/"+all[len(all)-1])
	}
	endpoints, _ := w.list(t, "/v1/endpoints", 100)
	for _, x := range endpoints {
		if x.Tenant != t.name {
			w.oracle.unexpected("%s sees the endpoint %s of another tenant", t.name, x.ID)
		}
	}
	seen := make(map[string]int)
	events, ok := w.list(t, "/v1/events", 25)
	for _, x := range events {
		if seen[x.ID]++; seen[x.ID] > 1 {
			w.oracle.unexpected("%s sees %s on two pages", t.name, x.ID)
		}
	}
	for _, id := range mine {
		if ok && len(seen) > 0 && seen[id] == 0 { // without any the node may not know the endpoint yet
			w.oracle.unexpected("%s does not see its event %s, acknowledged before %v", t.name, id, asked.Sub(w.began))
		}
		delete(seen, id)
	}
	for id := range seen { // it may be stored without an acknowledgement
		if w.store.endpointOf(id) != t.ep.id {
			w.oracle.unexpected("%s sees the event %s of another tenant", t.name, id)
		}
	}
}

// hidden checks that a tenant does not see something.
func (w *World) hidden(t *tenant, path string) {
	if code, raw, err := w.callAs(context.Background(), t.key, "GET", path, "", nil); err == nil && code < 400 {
		w.oracle.unexpected("%s sees %s of another tenant: %.300s", t.name, path, raw)
	}
}

// listed is an entry of a list.
type listed struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
}

// list returns a list from all of its pages; ok is false if one was not answered.
func (w *World) list(t *tenant, path string, limit int) (all []listed, ok bool) {
	for cursor := ""; ; {
		code, raw, err := w.callAs(context.Background(), t.key, "GET",
			fmt.Sprintf("%s?limit=%d&cursor=%s", path, limit, cursor), "", nil)
		var page struct {
			Data       []listed `json:"data"`
			NextCursor string   `json:"next_cursor"`
		}
		if err != nil || code != http.StatusOK || json.Unmarshal(raw, &page) != nil {
			return all, false
		}
		all = append(all, page.Data...)
		if cursor = page.NextCursor; cursor == "" {
			return all, true
		}
	}
}

func (w *World) deleteTenant(t *tenant) {
	dest := t.ep.targets[0]
	w.oracle.excuse(dest, time.Time{}, time.Now().Add(24*time.Hour))
	w.change("DELETE", "/v1/tenants/"+t.name, nil)
	w.oracle.ban(dest, ban{why: "its tenant was deleted"})
	for range 3 {
		code, raw, err := w.callAs(context.Background(), t.key, "GET", "/v1/endpoints", "", nil)
		if err == nil && code < 400 {
			w.oracle.unexpected("the key of the deleted tenant %s was accepted: %.300s", t.name, raw)
		}
	}
}
