package api_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// tenant is a tenant with a key, an endpoint and what belongs to it.
type tenant struct {
	*client
	name string
	of   map[string]string // ids by the names of paths
}

// tenant creates a tenant and returns its name.
func (c *client) tenant(name string) string {
	c.t.Helper()
	return c.do("PUT", "/v1/tenants/"+name, nil).want(200).text("tenant")
}

// newTenant makes a tenant of the account with something of each kind.
func newTenant(c *client, t testing.TB) *tenant {
	t.Helper()
	name := fmt.Sprintf("customer-%d", time.Now().UnixNano())
	c.do("PUT", "/v1/tenants/"+name, map[string]any{"name": "marker of " + name}).want(200)
	created := c.do("POST", "/v1/tenants/"+name+"/keys", map[string]any{"name": "k", "scope": "read_write"}).want(201)
	x := &tenant{c.as(created.text("key")), name, map[string]string{"tenant": name, "key": created.text("id")}}
	awaitLease()
	ep := x.do("POST", "/v1/endpoints", map[string]any{"url": "https://" + name + ".example.com/h", "provider": "github",
		"name": "endpoint of " + name}).want(201)
	must.Equal(t, ep.text("tenant"), name, "created %s", ep.raw)
	x.of["endpoint"], x.of["destination"] = ep.text("id"), ep.text("destinations.0.id")
	x.of["event"] = x.send(ep.text("id"))
	x.of["recovery"] = x.do("POST", "/v1/recoveries", map[string]any{"endpoint_id": x.of["endpoint"], "since": since(),
		"rate_per_second": 1}).want(201).text("id")
	x.of["run"] = x.do("POST", "/v1/replays", map[string]any{"endpoint_id": x.of["endpoint"], "since": since()}).want(200).
		text("run_id")
	return x
}

// A key of a tenant reaches what belongs to the tenant and nothing else of the account. Each operation is called with
// what belongs to another tenant, and to the account; one that is not among the tenants' is 403.
func TestTenantsAreApart(t *testing.T) {
	c := newClient(t)
	a, b := newTenant(c, t), newTenant(c, t)
	operations := api.TenantOperations()
	cases := 0
	for path, methods := range api.Routes(c.api) {
		for _, method := range methods {
			allowed := operations[method+" "+path]
			delete(operations, method+" "+path)
			if strings.HasSuffix(path, "/stream") && allowed { // a stream of its own would not end
				a.do(method, filled(path, b.of), nil).wantError(404, "not_found", "")
				cases++
				continue
			}
			for _, body := range []any{nil, "{}", map[string]any{"endpoint_id": b.of["endpoint"], "since": since(),
				"rate_per_second": 1, "tenant": b.name, "type": "a.b", "data": map[string]any{}, "action": "cancel",
				"url": "https://a.example", "status": "processed", "events": []any{}}} {
				if body != nil && method == "GET" {
					continue
				}
				got := a.do(method, filled(path, b.of), body)
				cases++
				switch {
				case !allowed && got.Status != http.StatusForbidden:
					t.Errorf("%s %s: %d, want 403", method, path, got.Status)
				case allowed && strings.Contains(path, "{") && got.Status != http.StatusNotFound:
					t.Errorf("%s %s of another tenant: %d %s", method, path, got.Status, got.raw)
				}
				for kind, name := range b.of {
					if strings.Contains(string(got.raw), name) && !strings.Contains(fmt.Sprint(body), name) {
						t.Errorf("%s %s names the %s of another tenant: %s", method, path, kind, got.raw)
					}
				}
			}
		}
	}
	for operation := range operations {
		t.Errorf("%s is among the operations of tenants, and is none", operation)
	}
	t.Logf("%d calls", cases)
	// What belongs to the tenant is there.
	for _, path := range []string{"/v1/endpoints/{endpoint}", "/v1/events/{event}", "/v1/events/{event}/attempts",
		"/v1/recoveries/{recovery}", "/v1/replays/{run}", "/v1/tenants/{tenant}"} {
		a.do("GET", filled(path, a.of), nil).want(200)
		c.do("GET", filled(path, a.of), nil).want(200)
	}
	fired := func(endpoint string) {
		must.Get(configuration.ChangeAlert(t.Context(), "alr_"+endpoint, func(x *alerting.Alert) error {
			x.Account, x.Endpoint, x.Subject, x.Rule, x.Firing = configuration.Account().ID, endpoint, endpoint,
				"failure_rate", true
			x.FiredAt = time.Now()
			return nil
		}))(t)
	}
	fired(a.of["endpoint"])
	fired(b.of["endpoint"])
	for _, list := range []struct{ path, id string }{{"/v1/endpoints", "endpoint"}, {"/v1/events", "event"},
		{"/v1/recoveries", "recovery"}, {"/v1/replays", "run"}, {"/v1/alerts/history", "endpoint"}} {
		for who, got := range map[string]*answer{"a": a.do("GET", list.path, nil), "tenant=": c.do("GET",
			list.path+"?tenant="+a.name, nil)} {
			text := string(got.want(200).raw)
			if !strings.Contains(text, a.of[list.id]) || strings.Contains(text, b.of[list.id]) {
				t.Errorf("%s of %s: %s", list.path, who, text)
			}
		}
	}
	// Neither filters nor ids in bodies lead to another tenant, and an Idempotency-Key is the tenant's own.
	for _, query := range []string{"endpoint_id=" + b.of["endpoint"], "tenant=" + b.name, "q=" + b.name} {
		is.Lacks(t, string(a.do("GET", "/v1/events?"+query, nil).want(200).raw), b.of["event"], "?%s", query)
	}
	same := map[string]any{"url": "https://example.com/same"}
	first := a.do("POST", "/v1/endpoints", same, "Idempotency-Key", "same").want(201)
	second := b.do("POST", "/v1/endpoints", same, "Idempotency-Key", "same").want(201)
	if second.text("id") == first.text("id") {
		t.Error("two tenants share an Idempotency-Key")
	}
	if got := a.do("POST", "/v1/replays", map[string]any{
		"endpoint_id": b.of["endpoint"], "since": since()}).want(200); got.get("events") != 0.0 {
		t.Errorf("a replay of another tenant's endpoint: %s", got.raw)
	}
}

// An erasure counts for the tenant whose key has asked.
func TestErasureNamesTenant(t *testing.T) {
	c := newClient(t)
	x := newTenant(c, t)
	for _, by := range []*client{x.client, c} {
		event := c.send(x.of["endpoint"])
		by.do("DELETE", "/v1/events/"+event+"/payload", nil).want(200)
		erasure, _ := entity.Get[config.Erasure](configuration, event)
		must.Equal(t, erasure.Tenant, map[bool]string{true: x.name}[by == x.client])
	}
}

// The usage of a tenant is that of its endpoints, with its own allowance.
func TestTenantUsage(t *testing.T) {
	c := newClient(t)
	x := newTenant(c, t)
	other := newTenant(c, t)
	c.do("PUT", "/v1/tenants/"+x.name, `{"allowance_events":100}`).want(200)
	counts := func(_ context.Context, of event.UsageOf) (*event.Usage, error) {
		now := time.Now()
		return &event.Usage{From: now, To: now, Allowance: of.Allowance, Use: event.Use{Sent: 30},
			Figures: event.Figures{AsOf: now, ByEndpoint: []event.EndpointUse{
				{Endpoint: cmp.Or(strings.Join(of.Endpoints, ","), "ep_all")}}}}, nil
	}
	c.fake.UsageFunc = counts
	for who, got := range map[string]*answer{"its key": x.do("GET", "/v1/usage", nil),
		"tenant=": c.do("GET", "/v1/usage?tenant="+x.name, nil)} {
		if got.want(200).text("by_endpoint.0.endpoint_id") != x.of["endpoint"] || got.get("allowance") != 100.0 ||
			got.get("remaining") != 70.0 {
			t.Errorf("%s: %s", who, got.raw)
		}
	}
	if got := other.do("GET", "/v1/usage?tenant="+x.name, nil).want(200); got.
		text("by_endpoint.0.endpoint_id") != "ep_none" {
		t.Errorf("another tenant: %s", got.raw)
	}
	if got := c.do("GET", "/v1/usage", nil).want(200); got.text("by_endpoint.0.endpoint_id") != "ep_all" {
		t.Errorf("the account: %s", got.raw)
	}
	c.do("GET", "/v1/usage?tenant=a+b", nil).wantError(400, "invalid_request", "tenant")
	c.do("PUT", "/v1/tenants/"+x.name, `{"allowance_events":0}`).wantError(400, "invalid_request", "allowance_events")
}

func TestTenants(t *testing.T) {
	c := newClient(t)
	x := newTenant(c, t)
	path := "/v1/tenants/" + x.name
	for _, bad := range []string{"a%20b", strings.Repeat("x", 65), "%C3%A4", ".."} {
		if got := c.do("PUT", "/v1/tenants/"+bad, "{}"); got.Status != 400 && got.Status != 404 {
			t.Errorf("%s: %d", bad, got.Status)
		}
	}
	c.do("PUT", path, `{"limits":{"endpoints":0}}`).wantError(400, "invalid_request", "limits.endpoints")
	c.do("PATCH", "/v1/endpoints/"+x.of["endpoint"], `{"tenant":"other"}`).wantError(400, "invalid_request", "tenant")
	for name, who := range map[string]*client{"other": x.client, "nobody": c} {
		who.do("POST", "/v1/endpoints", `{"url":"https://example.com/h","tenant":"`+name+`"}`).
			wantError(400, "invalid_request", "tenant")
	}
	// The first event makes the tenant's own endpoint, and the next ones go there.
	sent := c.do("POST", path+"/events", `{"type":"order.paid","data":{}}`).want(202)
	own := c.do("GET", path, nil).want(200).text("endpoint_id")
	again := x.do("POST", path+"/events", `{"type":"order.paid","data":{}}`).want(202)
	if own == "" || sent.text("endpoint_id") != own || again.text("endpoint_id") != own || own == x.of["endpoint"] {
		t.Errorf("sent to %s and %s, own %s", sent.text("endpoint_id"), again.text("endpoint_id"), own)
	}
	// An endpoint that has the name of its tenant before the first event becomes that one.
	c.do("PUT", "/v1/tenants/"+x.name+".2", nil).want(200)
	named := c.do("POST", "/v1/endpoints", map[string]any{"name": x.name + ".2", "tenant": x.name + ".2",
		"url": "https://example.com/h"}).want(201).text("id")
	for range 2 {
		sent := c.do("POST", "/v1/tenants/"+x.name+".2/events", `{"type":"order.paid","data":{}}`).want(202)
		is.Equal(t, sent.text("endpoint_id"), named, "the endpoint with the name of the tenant")
	}
	c.do("POST", "/v1/tenants/nobody/events", `{"type":"a","data":{}}`).wantError(404, "not_found", "")
	d := x.do("POST", "/v1/endpoints/"+own+"/destinations", `{"url":"https://example.com/h"}`).want(201).text("id")
	x.do("DELETE", "/v1/endpoints/"+own+"/destinations/"+d, nil).want(200) // it may have none again
	// Limits
	c.do("PUT", path, map[string]any{"name": "n", "limits": map[string]any{"endpoints": 3, "destinations": 2}}).want(200)
	x.do("POST", "/v1/endpoints", `{"url":"https://example.com/h"}`).want(201)
	x.do("POST", "/v1/endpoints", `{"url":"https://example.com/h"}`).wantError(429, "rate_limited", "limits.destinations")
	x.do("POST", "/v1/endpoints/"+own+"/destinations", `{"url":"https://example.com/h"}`).
		wantError(429, "rate_limited", "limits.destinations")
	c.do("PUT", path, map[string]any{"limits": map[string]any{"endpoints": 3}}).want(200)
	x.do("POST", "/v1/endpoints", `{"url":"https://example.com/h"}`).wantError(429, "rate_limited", "limits.endpoints")
	x.do("DELETE", "/v1/endpoints/"+x.of["endpoint"], nil).want(200)
	x.do("POST", "/v1/endpoints", `{"url":"https://example.com/h"}`).want(201)
	// Keys
	if me := x.do("GET", "/v1/me", nil).want(200); me.text("tenant") != x.name {
		t.Errorf("%s", me.raw)
	}
	keys := c.do("GET", path+"/keys", nil).want(200)
	if keys.text("data.0.id") != x.of["key"] || strings.Contains(string(keys.raw), "rly_live") {
		t.Errorf("%s", keys.raw)
	}
	other := newTenant(c, t)
	c.do("DELETE", path+"/keys/"+other.of["key"], nil).wantError(404, "not_found", "")
	c.do("DELETE", "/v1/tenants/"+other.name+"/keys/"+other.of["key"], nil).want(200)
	other.do("GET", "/v1/me", nil).wantError(401, "invalid_api_key", "")
	// A tenant does not take the account's room for jobs.
	busy, job := newTenant(c, t), 429
	body := map[string]any{"endpoint_id": busy.of["endpoint"], "since": since(), "rate_per_second": 1}
	for range 20 {
		if job = busy.do("POST", "/v1/recoveries", body).Status; job != 201 {
			break
		}
	}
	is.Equal(t, job, 429, "the 21st open job of a tenant")
	c.do("POST", "/v1/recoveries", body).want(201)
	single := busy.do("POST", "/v1/events/"+busy.of["event"]+"/replay", nil).want(200).text("run_id")
	for _, name := range []string{single, busy.of["run"]} {
		run, _ := configuration.ReplayRun(name)
		is.Equal(t, run.Tenant, busy.name, "%s makes room among those of", name)
	}
	// The end of a tenant ends its keys and endpoints. It can come back, without them.
	c.do("DELETE", path, nil).want(200)
	x.do("GET", "/v1/me", nil).wantError(401, "invalid_api_key", "")
	for _, e := range []string{own, x.of["endpoint"]} {
		c.do("GET", "/v1/endpoints/"+e, nil).wantError(404, "not_found", "")
	}
	c.do("GET", path, nil).wantError(404, "not_found", "")
	if back := c.do("PUT", path, nil).want(200); back.get("endpoint_id") != nil || back.get("endpoints") != 0.0 {
		t.Errorf("%s", back.raw)
	}
	if names := c.do("GET", "/v1/tenants", nil).want(200); !strings.Contains(string(names.raw), `"`+x.name+`"`) {
		t.Errorf("%s", names.raw)
	}
}

// An Idempotency-Key ends with its tenant: one of the same name, made later, stores its own events and gets its own
// keys and links. So does an endpoint that takes the place of the tenant's deleted one.
func TestIdempotencyKeysEndWithTheirTenant(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	name := c.tenant("reused")
	path := "/v1/tenants/" + name
	const other = `{"type":"order.paid","data":{"n":2}}`
	batch := `{"events":[` + strings.TrimSuffix(paid, "}") + `,"idempotency_key":"item"}]}`
	seen := map[string]bool{}
	life := func(what, body string) {
		t.Helper()
		fresh := func(a *answer, member string) {
			t.Helper()
			if got := a.replayed(false).text(member); seen[got] {
				t.Errorf("%s: %s is of an earlier life", what, got)
			} else {
				seen[got] = true
			}
		}
		sent := c.sendOnce(path+"/events", "k", body).want(202)
		fresh(sent, "id")
		is.Equal(t, c.sendOnce(path+"/events", "k", body).want(202).replayed(true).text("id"), sent.text("id"), what)
		c.sendOnce(path+"/events", "k", `{"type":"x","data":{}}`).wantError(400, "idempotency_mismatch", "Idempotency-Key")
		item := c.do("POST", path+"/events/batch", batch).want(202)
		fresh(item, "data.0.id")
		is.Equal(t, c.do("POST", path+"/events/batch", batch).want(202).text("data.0.id"), item.text("data.0.id"), what)
	}
	calls := func(what string) {
		t.Helper()
		for _, route := range []string{"/keys", "/portal_links"} {
			body := `{}`
			if route == "/keys" {
				body = `{"name":"k","scope":"read_write"}`
			}
			a := c.sendOnce(path+route, "k", body).want(201).replayed(false)
			if seen[a.text("id")] {
				t.Errorf("%s: POST %s answers with what is gone", what, route)
			}
			seen[a.text("id")] = true
			is.Equal(t, c.sendOnce(path+route, "k", body).want(201).replayed(true).text("id"), a.text("id"), what)
		}
	}
	life("first tenant", paid)
	calls("first tenant")
	own := c.do("GET", path, nil).want(200).text("endpoint_id")
	c.do("DELETE", "/v1/endpoints/"+own, nil).want(200)
	life("another endpoint", other)
	for _, body := range []string{paid, other} {
		c.do("DELETE", path, nil).want(200)
		c.tenant(name)
		life("tenant of the same name", body)
		calls("tenant of the same name")
	}
}

// A tenant without limits has a share of the configuration, and its account can give it more.
func TestTenantsHaveADefaultLimit(t *testing.T) {
	c := newClient(t)
	name := "share-" + strings.ToLower(rand.Text())
	create := func() *answer {
		return c.do("POST", "/v1/endpoints", `{"url":"https://example.com/h","tenant":"`+name+`"}`)
	}
	c.do("PUT", "/v1/tenants/"+name, `{}`).want(200)
	for range config.DefaultTenantEndpoints {
		create().want(201)
	}
	create().wantError(429, "rate_limited", "limits.endpoints")
	c.do("PUT", "/v1/tenants/"+name, `{"limits":{"endpoints":101}}`).want(200)
	create().want(201)
}
