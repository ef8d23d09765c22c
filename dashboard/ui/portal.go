package ui

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/web"
)

// PortalPath is the first page of the portal, the pages that people of a tenant come to by a link. They have a cookie,
// a look and rights of their own, may have a host name of their own, and may be shown in frames of listed origins.
const PortalPath = "/portal"

func isOfPortal(path string) bool {
	return path == PortalPath || strings.HasPrefix(path, PortalPath+"/")
}

// PortalVisit is a request to the portal. Without a session only Origins is set.
type PortalVisit struct {
	*config.PortalSession
	Look    config.TenantPortal
	Name    string   // of the tenant, for people; may be empty
	Origins []string // that may show the page in a frame
}

// Can reports whether the visitor has a right.
func (p *PortalVisit) Can(right config.PortalRight) bool {
	return p != nil && p.PortalSession != nil && p.Has(right)
}

// Part is the part of the portal that a page belongs to: events, event-types, requests, or "" for destinations.
func (*PortalVisit) Part(path string) string {
	for _, part := range []string{"events", "event-types", "requests"} {
		if strings.HasPrefix(path+"/", PortalPath+"/"+part+"/") {
			return part
		}
	}
	return ""
}

// pictures are the origins of the logos, for the Content-Security-Policy.
func (p *PortalVisit) pictures() (origins string) {
	if p == nil {
		return ""
	}
	for _, address := range []string{p.Look.LogoURL, p.Look.LogoDarkURL} {
		if u, err := url.Parse(address); err == nil && u.Host != "" && !strings.Contains(origins, " https://"+u.Host) {
			origins += " https://" + u.Host
		}
	}
	return origins
}

// theme is light or dark if the address of the frame or the link says so; empty: as the browser prefers.
func (v *Visit) theme() string {
	theme := cmp.Or(v.themeOfURL(), v.Session.Theme)
	if theme == "" && v.Portal.PortalSession != nil {
		theme = v.Portal.Theme
	}
	return strings.TrimPrefix(theme, "auto")
}

// themeOfURL is the theme that the address of the page names; empty: none.
func (v *Visit) themeOfURL() string {
	if theme := v.R.URL.Query().Get("theme"); slices.Contains([]string{"auto", "light", "dark"}, theme) {
		return theme
	}
	return ""
}

// chooseHosts finds out whether the request is for the portal, and under which names that may be.
func (v *Visit) chooseHosts() {
	own := v.Config.PortalHost != "" && v.portal.check(v.R) == nil
	if own || isOfPortal(v.R.URL.Path) {
		v.hosts, v.Portal = v.portal, &PortalVisit{Origins: v.Config.PortalOrigins}
	}
}

// framers are the origins that may show the page in a frame.
func (v *Visit) framers() []string {
	if v.Portal == nil {
		return nil
	}
	return v.Portal.Origins
}

// isEmbeddable reports whether browsers keep a cookie of the portal in frames of another site: they do so for what is
// secure, and on this machine.
func (v *Visit) isEmbeddable() bool {
	return len(v.Portal.Origins) > 0 && (v.isSecure() || isOnlyHere(v.Config.BaseURL))
}

// refreshLife is how long after the end of its session a cookie still leads to the application for the next link.
const refreshLife = 7 * 24 * time.Hour

// BeginPortal writes the cookie of a visitor who has just opened a link.
func (v *Visit) BeginPortal(s *config.PortalSession) error {
	now := v.Now().Unix()
	return v.setSealed("", session{ID: rand.Text(), User: s.ID, Began: now, Issued: now, Refresh: s.RefreshURL,
		Theme: v.themeOfURL()}, s.Until.Sub(v.Now())+refreshLife)
}

// openPortal sets the visitor whose session the cookie holds, if it lasts.
func (v *Visit) openPortal() error {
	if found, err := v.openSealed("", &v.Session); !found || err != nil {
		return err
	}
	s, err := v.Deps.Control.PortalSession(v.Session.User)
	switch {
	case errors.Is(err, config.ErrSessionEnded):
		return nil
	case err != nil:
		return toWebError(err)
	}
	v.Portal.PortalSession = s
	if t := v.Deps.Control.Tenant(s.Account, s.Tenant); t != nil {
		v.Portal.Name = t.Name
		if t.Portal != nil {
			v.Portal.Look = *t.Portal
		}
	}
	v.Person = &config.User{Meta: entity.Meta{ID: s.ID, Account: s.Account}, Scope: s.Scope()}
	v.setHeaders() // with the origin of the logo
	return nil
}

// admitToPortal checks the session and the right that a route needs. Without a session a visitor is sent to the
// application for another link, if that is known.
func (v *Visit) admitToPortal(x Route, sessionErr error) (admitted bool, err error) {
	switch {
	case sessionErr != nil:
		return false, sessionErr
	case v.Person == nil && v.Session.Refresh != "" && x.Method == http.MethodGet && v.MayLeadTo(v.Session.Refresh):
		v.SendTo(v.Session.Refresh)
		return false, nil
	case v.Person == nil:
		return false, &web.Error{Status: http.StatusUnauthorized, Type: web.AuthenticationRequired,
			Message: "Your session has ended, or none was begun. Nothing was done."}
	case !v.Portal.Has(rights[x.Access]):
		return false, &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
			Message: "The link that you came by does not allow this."}
	}
	return true, nil
}

// LeadsBack reports whether the portal knows where its visitor came from.
func (v *Visit) LeadsBack() bool { return v.Portal.ReturnURL != "" && v.MayLeadTo(v.Portal.ReturnURL) }

// MayLeadTo reports whether an address has a listed origin: the list may be another one than when the link was made.
func (v *Visit) MayLeadTo(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains(v.Portal.Origins, u.Scheme+"://"+strings.ToLower(u.Host))
}

// TenantActions are those of actions that keys of the visitor's tenant asked for.
func (v *Visit) TenantActions(of []*config.Action) (all []*config.Action) {
	for _, a := range of {
		if a.Tenant == v.Portal.Tenant {
			all = append(all, a)
		}
	}
	return all
}

// describeInPortal says what an error means for a visitor of the portal, who knows nothing of the relay. In another
// language than English, the title stands for a message that has no translation, unless that names a fault.
func (v *Visit) describeInPortal(e *web.Error, x errorView) errorView {
	x = v.meaningInPortal(e, x)
	if v.Language() != nil && e.Status != http.StatusBadRequest && v.T(x.Message) == x.Message {
		x.Message = x.Title
	}
	x.Title, x.Message, x.Todo = v.T(x.Title), v.T(x.Message), v.T(x.Todo)
	return x
}

func (v *Visit) meaningInPortal(e *web.Error, x errorView) errorView {
	x.List = nil
	switch {
	case e.Code == codeHost:
		x.Title, x.DashboardURL = "Unknown host name", v.hosts.start
	case e.Status == http.StatusUnauthorized, e.Code == CodeLink:
		x.Title, x.Todo = "Open it again", "Go back to the application that led you here and open the page from there."
	case e.Status == http.StatusForbidden:
		x.Title = "Not allowed"
	case e.Status == http.StatusNotFound:
		x.Title, x.Todo = "Not found", "It may have been deleted in the meantime."
	case e.Status == http.StatusTooManyRequests:
		x.Title, x.Todo = "Too many requests", "Wait, then try again."
	case e.Status >= http.StatusInternalServerError && v.acting:
		x.Title, x.Todo = "Not confirmed", "Open the page again and see what is stored before you repeat it."
	case e.Status >= http.StatusInternalServerError:
		x.Title, x.Todo = "Unavailable at the moment", "Try again in some seconds."
	default:
		x.Title, x.Todo = "Not possible", "Go back, change what it names, and try again."
	}
	return x
}
