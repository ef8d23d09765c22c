// Package routes serves links to the portal.
package routes

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type links struct {
	*frame.Core
	config *config.Control
}

// Area returns the routes of links.
func Area(c *frame.Core, in *config.Control) frame.Area {
	const all = "/v1/tenants/{tenant}/portal_links"
	a := &links{c, in}
	return frame.Area{Routes: []frame.Route{
		{Path: all, Methods: frame.Methods{"GET": a.listLinks, "POST": a.createLink}, InPath: frame.Finds(a.TenantInPath)},
		{Path: all + "/{link}", Methods: frame.Methods{"DELETE": a.endLink}},
	}, Document: wire.Part{Texts: texts, Answers: []any{wire.PortalLink{}, wire.List[wire.PortalLink]{}},
		Requests: []any{wire.PortalLink{}}}}
}

// texts describe the operations in the OpenAPI document.
//
//go:embed openapi
var texts embed.FS

// linkPath is the path of links to the portal below its address, each with its token.
const linkPath = "/link/"

// Defaults of links to the portal.
const (
	portalLinkLife    = 600  // seconds
	portalSessionLife = 3600 // seconds
)

// What a session is for.
const usePages, useAPI = "pages", "api"

func linkView(s *config.PortalSession, link string) *wire.PortalLink {
	v := &wire.PortalLink{ID: s.ID, Object: "portal_link", Tenant: s.Tenant, URL: link, Can: s.Can,
		SessionSeconds: int(s.Lasts / time.Second), OpenedAt: web.Time(s.OpenedAt), EndsAt: web.Time(s.Until),
		CreatedAt: web.Time(s.CreatedAt), Theme: cmp.Or(s.Theme, "auto"), Use: usePages}
	if s.API {
		v.Use = useAPI
	}
	if s.Lang != "" {
		v.Lang = &s.Lang
	}
	if s.ReturnURL != "" {
		v.ReturnURL = &s.ReturnURL
	}
	if s.RefreshURL != "" {
		v.RefreshURL = &s.RefreshURL
	}
	return v
}

func (a *links) createLink(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	x := &wire.PortalLink{ExpiresSeconds: portalLinkLife, SessionSeconds: portalSessionLife, Theme: "auto",
		Use: usePages}
	o := in.NewObject("", body)
	o.Decode(x)
	o.RefuseUnknown()
	s := &config.PortalSession{Meta: a.NewMeta(r, id.PortalSession, key), Tenant: t.Tenant,
		Can: x.Can, Lang: *cmp.Or(x.Lang, new("")), Theme: x.Theme, API: x.Use == useAPI,
		Lasts:     time.Duration(x.SessionSeconds) * time.Second,
		ReturnURL: a.pageOfOwner(in, "return_url", x.ReturnURL), RefreshURL: a.pageOfOwner(in, "refresh_url", x.RefreshURL)}
	if !slices.Contains(s.Can, config.PortalView) {
		s.Can = append([]string{config.PortalView}, s.Can...)
	}
	if s.API && len(a.Portal.Origins) == 0 {
		in.Fail("use", "api needs the origins of your pages in RELAY_PORTAL_ORIGINS")
	}
	if in.Err != nil {
		return in.Err
	}
	if _, err := a.OwnEndpoint(r, key); err != nil { // the portal adds destinations to it
		return err
	}
	token, s, err := a.config.CreatePortalLink(r.Context(), s, time.Duration(x.ExpiresSeconds)*time.Second)
	if err != nil {
		return err
	}
	if s.API {
		v := linkView(s, "")
		v.Token = token
		return web.Answer(w, http.StatusCreated, v)
	}
	return web.Answer(w, http.StatusCreated, linkView(s, a.Portal.URL+linkPath+token))
}

// pageOfOwner checks an address that the portal leads to: a person who trusts the portal is sent there.
func (a *links) pageOfOwner(in *frame.Input, param string, page *string) string {
	if page == nil {
		return ""
	}
	u, err := url.Parse(*page)
	switch {
	case err != nil || u.Host == "" || u.User != nil || !web.IsPrintable(*page) || strings.Contains(*page, `\`):
		in.Fail(param, "must be an address such as https://app.example.com/webhooks")
	case !slices.Contains(a.Portal.Origins, u.Scheme+"://"+strings.ToLower(u.Host)):
		in.Fail(param, "must begin with an origin of RELAY_PORTAL_ORIGINS; add %s to that setting of the relay",
			u.Scheme+"://"+u.Host)
	}
	return *page
}

func (a *links) listLinks(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
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

func (a *links) endLink(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.TenantInPath(r, key)
	if err != nil {
		return err
	}
	name := web.InfoOf(r).Vars["link"]
	find := func(name string) (*config.PortalSession, entity.Presence) {
		return entity.Get[config.PortalSession](a.config, name)
	}
	s, err := frame.Find(r.Context(), a.Core, find, name)
	if err != nil {
		return err
	}
	if s == nil || s.Account != key.Account || s.Tenant != t.Tenant {
		return web.Missing("the tenant has no such portal link; it may have ended")
	}
	if err := a.config.EndPortalSession(r.Context(), name); err != nil {
		return err
	}
	return frame.WriteDeleted(w, name, "portal_link")
}
