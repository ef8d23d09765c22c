package endpoints

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// tenants serves tenants and their keys.
type tenants struct{ *endpoints }

// routes returns the routes of tenants.
func (a *tenants) routes() []frame.Route {
	const one = "/v1/tenants/{tenant}"
	return []frame.Route{
		{Path: "/v1/tenants", Methods: frame.Methods{"GET": a.list}},
		{Path: one, Methods: frame.Methods{"GET": a.read, "PUT": a.put, "DELETE": a.remove}},
		{Path: one + "/keys", Methods: frame.Methods{"GET": a.listKeys, "POST": a.createKey},
			InPath: frame.Finds(a.TenantInPath)},
		{Path: one + "/keys/{key}", Methods: frame.Methods{"DELETE": a.revokeKey}},
	}
}

func (a *tenants) list(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.ConfigPage(r, frame.NewQuery(r, "tenants "+key.Account))
	if err != nil {
		return err
	}
	all, more := entity.List[config.Tenant](a.Config, key.Account, p.Before, p.Limit, nil)
	return frame.WriteConfigPage(w, p, all, more, frame.ViewsOf(all, a.view))
}

func (a *tenants) view(t *config.Tenant) *wire.Tenant {
	v := &wire.Tenant{Object: "tenant", Tenant: t.Tenant, Name: t.Name, Metadata: t.Metadata, Limits: t.Limits,
		Portal: t.Portal, AllowanceEvents: t.AllowanceEvents,
		Endpoints: len(a.Config.TenantEndpoints(t.Account, t.Tenant)), CreatedAt: web.Time(t.CreatedAt),
		UpdatedAt: web.Time(t.UpdatedAt)}
	if e := a.PresentEndpoint(t.Own, t.Account); e != nil {
		v.EndpointID = &e.ID
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	return v
}

func (a *tenants) read(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	t, err := a.TenantInPath(r, key)
	if err == nil {
		web.WriteJSON(w, http.StatusOK, a.view(t))
	}
	return err
}

// put creates or replaces the settings of a tenant.
func (a *tenants) put(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	name := web.InfoOf(r).Vars["tenant"]
	if !config.IsTenant(name) {
		return web.Invalid("tenant", "must have 1 to 64 letters, digits, dots, colons, _ or -")
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := a.newEndpointInput(key, true)
	o, x := in.NewObject("", body), &wire.Tenant{}
	o.Decode(x)
	of := &config.Endpoint{Metadata: map[string]string{}}
	in.metadata(o, of)
	o.WarnUnknown()
	if in.Err != nil {
		return in.Err
	}
	if err := x.Portal.Validate(); err != nil {
		return err
	}
	t, err := a.Config.PutTenant(r.Context(), key.Account, name, func(t *config.Tenant) error {
		if t.Deleting {
			return web.WrongState("tenant", "is being deleted; repeat the DELETE, then create it again")
		}
		t.Name, t.Metadata, t.Limits, t.Portal = x.Name, of.Metadata, x.Limits, x.Portal
		t.AllowanceEvents = x.AllowanceEvents
		return nil
	})
	if err != nil {
		return err
	}
	v := a.view(t)
	v.Warnings = in.Warnings
	return web.Answer(w, http.StatusOK, v)
}

func (a *tenants) remove(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.Config.DeleteTenant(r.Context(), t); err != nil {
		return err
	}
	return frame.WriteDeleted(w, t.Tenant, "tenant")
}

func keyView(k *config.Key, text string) *wire.TenantKey {
	return &wire.TenantKey{ID: k.ID, Object: "key", Tenant: k.Tenant, Name: k.Name, Scope: k.Scope, Agent: k.Agent,
		Key: text, Last4: k.Last4, ExpiresAt: web.Time(k.ExpiresAt), RevokedAt: web.Time(k.RevokedAt),
		CreatedAt: web.Time(k.CreatedAt)}
}

func (a *tenants) createKey(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in, x := &frame.Input{}, &wire.TenantKey{}
	o := in.NewObject("", body)
	o.Decode(x)
	o.RefuseUnknown()
	if in.Err != nil {
		return in.Err
	}
	text, k, err := a.Config.CreateKey(r.Context(), config.NewKey{Name: x.Name, Scope: x.Scope, Agent: x.Agent,
		Tenant: t.Tenant, ExpiresAt: time.Time(x.ExpiresAt)})
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, keyView(k, text))
}

func (a *tenants) listKeys(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	p, err := a.ConfigPage(r, frame.NewQuery(r, "keys "+t.ID))
	if err != nil {
		return err
	}
	all, more := entity.List(a.Config, key.Account, p.Before, p.Limit, func(k *config.Key) bool {
		return k.Tenant == t.Tenant
	})
	return frame.WriteConfigPage(w, p, all, more,
		frame.ViewsOf(all, func(k *config.Key) *wire.TenantKey { return keyView(k, "") }))
}

func (a *tenants) revokeKey(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	name := web.InfoOf(r).Vars["key"]
	if !slices.ContainsFunc(a.Config.Keys(key.Account), func(k *config.Key) bool {
		return k.ID == name && k.Tenant == t.Tenant
	}) {
		return web.Missing("the tenant has no such key")
	}
	if err := a.Config.RevokeKey(r.Context(), name); err != nil {
		return err
	}
	return frame.WriteDeleted(w, name, "key")
}

// ownEndpoint returns the endpoint that events sent to a tenant go to. For the first event it is the one with the name
// of the tenant, which a file of relay apply may have created before; otherwise that event creates it, without a
// destination: the tenant adds its own.
func (a *tenants) ownEndpoint(r *http.Request, key *config.Key) (*config.Endpoint, error) {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return nil, err
	}
	if e := a.PresentEndpoint(t.Own, t.Account); e != nil {
		return e, nil
	}
	name := id.Random(id.Endpoint)
	for _, e := range a.Config.TenantEndpoints(t.Account, t.Tenant) {
		if e.Name == t.Tenant {
			name = e.ID
			break
		}
	}
	t, err = a.Config.PutTenant(r.Context(), t.Account, t.Tenant, func(t *config.Tenant) error {
		if _, presence := a.Config.Endpoint(t.Own); t.Own == "" || presence == entity.Deleted {
			t.Own = name
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e := a.PresentEndpoint(t.Own, t.Account); e != nil {
		return e, nil
	}
	e := &config.Endpoint{ID: t.Own, Account: t.Account, Tenant: t.Tenant, Name: t.Tenant, Provider: verify.Generic,
		TypeSource: defaultTypeSource(verify.Generic), RetryPolicy: retry.Default(),
		EndpointSettings: config.NewEndpointSettings(verify.Generic),
		Destinations:     []config.Destination{}, Metadata: map[string]string{}, CreatedAt: a.Now()}
	e.Token = a.newToken(e.ID)
	created, err := a.Config.CreateEndpoint(r.Context(), e)
	if errors.Is(err, config.ErrConflict) { // another request has created it
		created, err = a.PresentEndpoint(t.Own, t.Account), nil
	}
	if err == nil && created == nil {
		err = config.ErrConflict
	}
	return created, err
}

// checkDestinations returns the error of an endpoint whose tenant would have too many destinations.
func (a *endpoints) checkDestinations(e *config.Endpoint) error {
	if e.Tenant == "" {
		return nil
	}
	t := a.Config.Tenant(e.Account, e.Tenant)
	if t == nil || t.Limits.Destinations == nil {
		return nil
	}
	before, n := 0, len(e.Destinations)
	for _, other := range a.Config.TenantEndpoints(e.Account, e.Tenant) {
		if other.ID != e.ID {
			n += len(other.Destinations)
		} else {
			before = len(other.Destinations)
		}
	}
	if len(e.Destinations) > before && n > *t.Limits.Destinations {
		return &config.LimitError{Name: "limits.destinations", Most: *t.Limits.Destinations}
	}
	return nil
}
