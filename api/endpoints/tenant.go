package endpoints

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
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

// Tenants reads and changes tenants and their keys.
type Tenants interface {
	entity.Access
	Tenant(account, name string) *config.Tenant
	TenantEndpoints(account, name string) []*config.Endpoint
	// PutTenant creates or changes a tenant. DeleteTenant ends its keys and endpoints, too.
	PutTenant(ctx context.Context, account, name string, change func(*config.Tenant) error) (*config.Tenant, error)
	DeleteTenant(ctx context.Context, t *config.Tenant) error
	CreateKey(ctx context.Context, n config.NewKey) (text string, k *config.Key, err error)
	Keys(account string) []*config.Key
	RevokeKey(ctx context.Context, key string) error
	// CreatePortalLink returns the token of a new link.
	CreatePortalLink(ctx context.Context, s *config.PortalSession, life time.Duration) (token string,
		created *config.PortalSession, err error)
	EndPortalSession(ctx context.Context, id string) error
}

// tenants serves tenants and their keys.
type tenants struct {
	*frame.Core
	endpoints *endpoints
	config    Tenants
	portal    Portal
}

// Portal says where the portal is and which origins may lead to it.
type Portal struct {
	URL     string   // address of its pages, without a trailing slash
	Origins []string // of applications that may show it, such as https://app.example.com
}

// routes returns the routes of tenants.
func (a *tenants) routes() []frame.Route {
	const one = "/v1/tenants/{tenant}"
	return []frame.Route{
		{Path: "/v1/tenants", Methods: frame.Methods{"GET": a.list}},
		{Path: one, Methods: frame.Methods{"GET": a.read, "PUT": a.put, "DELETE": a.remove}},
		{Path: one + "/keys", Methods: frame.Methods{"GET": a.listKeys, "POST": a.createKey},
			InPath: frame.Finds(a.inPath)},
		{Path: one + "/keys/{key}", Methods: frame.Methods{"DELETE": a.revokeKey}},
		{Path: one + "/portal_links", Methods: frame.Methods{"GET": a.listLinks, "POST": a.createLink},
			InPath: frame.Finds(a.inPath)},
		{Path: one + "/portal_links/{link}", Methods: frame.Methods{"DELETE": a.endLink}},
	}
}

// inPath returns the tenant that the path names, or the 404.
func (a *tenants) inPath(r *http.Request, key *config.Key) (*config.Tenant, error) {
	name := web.InfoOf(r).Vars["tenant"]
	find := func(name string) (*config.Tenant, entity.Presence) {
		if t := a.config.Tenant(key.Account, name); t != nil {
			return t, entity.Present
		}
		return nil, entity.Unknown
	}
	t := frame.Find(r.Context(), a.Core, find, name)
	if t == nil || key.Tenant != "" && key.Tenant != name {
		return nil, web.Missing("there is no such tenant")
	}
	return t, nil
}

func (a *tenants) list(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.ConfigPage(r, frame.NewQuery(r, "tenants "+key.Account))
	if err != nil {
		return err
	}
	all, more := entity.List[config.Tenant](a.config, key.Account, p.Before, p.Limit, nil)
	return frame.WriteConfigPage(w, p, all, more, frame.ViewsOf(all, a.view))
}

func (a *tenants) view(t *config.Tenant) *wire.Tenant {
	v := &wire.Tenant{Object: "tenant", Tenant: t.Tenant, Name: t.Name, Metadata: t.Metadata, Limits: t.Limits,
		Portal: t.Portal, AllowanceEvents: t.AllowanceEvents,
		Endpoints: len(a.config.TenantEndpoints(t.Account, t.Tenant)), CreatedAt: web.Time(t.CreatedAt),
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
	t, err := a.inPath(r, key)
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
	in := a.endpoints.newEndpointInput(true)
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
	t, err := a.config.PutTenant(r.Context(), key.Account, name, func(t *config.Tenant) error {
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
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	if err := a.config.DeleteTenant(r.Context(), t); err != nil {
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
	t, err := a.inPath(r, key)
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
	text, k, err := a.config.CreateKey(r.Context(), config.NewKey{Name: x.Name, Scope: x.Scope, Agent: x.Agent,
		Tenant: t.Tenant, ExpiresAt: time.Time(x.ExpiresAt)})
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, keyView(k, text))
}

func (a *tenants) listKeys(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	p, err := a.ConfigPage(r, frame.NewQuery(r, "keys "+t.ID))
	if err != nil {
		return err
	}
	all, more := entity.List(a.config, key.Account, p.Before, p.Limit, func(k *config.Key) bool {
		return k.Tenant == t.Tenant
	})
	return frame.WriteConfigPage(w, p, all, more,
		frame.ViewsOf(all, func(k *config.Key) *wire.TenantKey { return keyView(k, "") }))
}

func (a *tenants) revokeKey(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	name := web.InfoOf(r).Vars["key"]
	if !slices.ContainsFunc(a.config.Keys(key.Account), func(k *config.Key) bool {
		return k.ID == name && k.Tenant == t.Tenant
	}) {
		return web.Missing("the tenant has no such key")
	}
	if err := a.config.RevokeKey(r.Context(), name); err != nil {
		return err
	}
	return frame.WriteDeleted(w, name, "key")
}

// ownEndpoint returns the endpoint that events sent to a tenant go to. The first event creates it, without a
// destination: the tenant adds its own.
func (a *tenants) ownEndpoint(r *http.Request, key *config.Key) (*config.Endpoint, error) {
	t, err := a.inPath(r, key)
	if err != nil {
		return nil, err
	}
	if e := a.PresentEndpoint(t.Own, t.Account); e != nil {
		return e, nil
	}
	name := id.Random(id.Endpoint)
	t, err = a.config.PutTenant(r.Context(), t.Account, t.Tenant, func(t *config.Tenant) error {
		if _, presence := a.ConfigReader.Endpoint(t.Own); t.Own == "" || presence == entity.Deleted {
			t.Own = name
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e := &config.Endpoint{ID: t.Own, Account: t.Account, Tenant: t.Tenant, Name: t.Tenant, Provider: verify.Generic,
		TypeSource: defaultTypeSource(verify.Generic), RetryPolicy: retry.Default(),
		EndpointSettings: config.NewEndpointSettings(verify.Generic),
		Destinations:     []config.Destination{}, Metadata: map[string]string{}, CreatedAt: a.Now()}
	e.Token = a.endpoints.newToken(e.ID)
	created, err := a.endpoints.config.CreateEndpoint(r.Context(), e)
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
	t := a.ConfigReader.Tenant(e.Account, e.Tenant)
	if t == nil || t.Limits.Destinations == nil {
		return nil
	}
	before, n := 0, len(e.Destinations)
	for _, other := range a.ConfigReader.TenantEndpoints(e.Account, e.Tenant) {
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

// PortalLinkPath is the path of links to the portal below its address, each with its token.
const PortalLinkPath = "/link/"

// Defaults of links to the portal.
const (
	portalLinkLife    = 600  // seconds
	portalSessionLife = 3600 // seconds
)

func linkView(s *config.PortalSession, link string) *wire.PortalLink {
	v := &wire.PortalLink{ID: s.ID, Object: "portal_link", Tenant: s.Tenant, URL: link, Can: s.Can,
		SessionSeconds: int(s.Lasts / time.Second), OpenedAt: web.Time(s.OpenedAt), EndsAt: web.Time(s.Until),
		CreatedAt: web.Time(s.CreatedAt)}
	if s.ReturnURL != "" {
		v.ReturnURL = &s.ReturnURL
	}
	if s.RefreshURL != "" {
		v.RefreshURL = &s.RefreshURL
	}
	return v
}

func (a *tenants) createLink(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	x := &wire.PortalLink{ExpiresSeconds: portalLinkLife, SessionSeconds: portalSessionLife}
	o := in.NewObject("", body)
	o.Decode(x)
	o.RefuseUnknown()
	s := &config.PortalSession{Meta: a.NewMeta(r, id.PortalSession, key), Tenant: t.Tenant,
		Can: x.Can, Lasts: time.Duration(x.SessionSeconds) * time.Second,
		ReturnURL: a.pageOfOwner(in, "return_url", x.ReturnURL), RefreshURL: a.pageOfOwner(in, "refresh_url", x.RefreshURL)}
	if !slices.Contains(s.Can, config.PortalView) {
		s.Can = append([]string{config.PortalView}, s.Can...)
	}
	if in.Err != nil {
		return in.Err
	}
	if _, err := a.ownEndpoint(r, key); err != nil { // the portal adds destinations to it
		return err
	}
	token, s, err := a.config.CreatePortalLink(r.Context(), s, time.Duration(x.ExpiresSeconds)*time.Second)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusCreated, linkView(s, a.portal.URL+PortalLinkPath+token))
}

// pageOfOwner checks an address that the portal leads to: a person who trusts the portal is sent there.
func (a *tenants) pageOfOwner(in *frame.Input, param string, page *string) string {
	if page == nil {
		return ""
	}
	u, err := url.Parse(*page)
	switch {
	case err != nil || u.Host == "" || u.User != nil || !web.IsPrintable(*page) || strings.Contains(*page, `\`):
		in.Fail(param, "must be an address such as https://app.example.com/webhooks")
	case !slices.Contains(a.portal.Origins, u.Scheme+"://"+strings.ToLower(u.Host)):
		in.Fail(param, "must begin with an origin of RELAY_PORTAL_ORIGINS; add %s to that setting of the relay",
			u.Scheme+"://"+u.Host)
	}
	return *page
}

func (a *tenants) listLinks(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	p, err := a.ConfigPage(r, frame.NewQuery(r, "portal links "+t.ID))
	if err != nil {
		return err
	}
	all, more := entity.List(a.config, key.Account, p.Before, p.Limit, func(s *config.PortalSession) bool {
		return s.Tenant == t.Tenant
	})
	return frame.WriteConfigPage(w, p, all, more,
		frame.ViewsOf(all, func(s *config.PortalSession) *wire.PortalLink { return linkView(s, "") }))
}

func (a *tenants) endLink(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	name := web.InfoOf(r).Vars["link"]
	find := func(name string) (*config.PortalSession, entity.Presence) {
		return entity.Get[config.PortalSession](a.config, name)
	}
	if s := frame.Find(r.Context(), a.Core, find, name); s == nil || s.Account != key.Account || s.Tenant != t.Tenant {
		return web.Missing("the tenant has no such portal link; it may have ended")
	}
	if err := a.config.EndPortalSession(r.Context(), name); err != nil {
		return err
	}
	return frame.WriteDeleted(w, name, "portal_link")
}
