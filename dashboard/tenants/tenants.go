// Package tenants has the pages of an account's customers: their settings, usage, keys and links to the portal.
package tenants

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", listPath, ui.Reader, ui.WithNewForm(list)},
		{"POST", listPath, ui.Writer, ui.Submit(create)},
		{"GET", onePath, ui.Reader, ui.Show(read, show)},
		{"POST", onePath, ui.Writer, ui.Change(read, save)},
		{"POST", onePath + "/delete", ui.Writer, ui.Change(read, remove)},
		{"POST", onePath + "/links", ui.Writer, ui.Change(read, link)},
		{"POST", onePath + "/links/{link}/end", ui.Writer, ui.Button("DELETE "+oneAPI+"/portal_links/{link}", nil,
			onePath, "Ended. The portal asks for a new link.")},
	}}
}

//go:embed pages
var files embed.FS

const (
	listPath = "/app/tenants"
	onePath  = listPath + "/{tenant}"
	oneAPI   = "/v1/tenants/{tenant}"
)

// tenantData is a tenant of the API.
type tenantData struct{ wire.Tenant }

var read = ui.ReadAt[tenantData](oneAPI)

// Title is the display name, or the id.
func (x *tenantData) Title() string { return cmp.Or(x.Name, x.Tenant.Tenant) }

// Path is the page of the tenant.
func (x *tenantData) Path() string { return pathOf(x.Tenant.Tenant) }

func pathOf(name string) string { return listPath + "/" + url.PathEscape(name) }

// listData is a page of the list.
type listData struct {
	ui.ListPage[*tenantData]
	Form *ui.Form
}

// columns are those of the list.
var columns = []ui.Column[*tenantData]{
	{Name: "Tenant", Compare: ui.By(func(x *tenantData) string { return strings.ToLower(x.Title()) })},
	{Name: "Endpoints", Class: "r", Compare: ui.By(func(x *tenantData) int64 { return ui.Count(x.Endpoints) })},
	{Name: "Events a month", Class: "r", Compare: ui.By(func(x *tenantData) int64 { return ui.Count(x.AllowanceEvents) })},
	{Name: "Events a second", Class: "r",
		Compare: ui.By(func(x *tenantData) int64 { return ui.Count(x.Limits.EventsPerSecond) })},
	{Name: "Created", Compare: ui.By(func(x *tenantData) int64 { return time.Time(x.CreatedAt).UnixNano() })},
}

// list shows the tenants, newest first, or opens the page of the one that is looked for.
func list(v *ui.Visit, f *ui.Form) error {
	if name := strings.TrimSpace(v.R.URL.Query().Get("find")); config.IsTenant(name) {
		return v.Redirect(pathOf(name), "")
	}
	rows, err := ui.ReadList(v, "/v1/tenants", listPath, nil, nil, columns...)
	if err != nil {
		return err
	}
	return v.Page("tenants", listData{rows, f})
}

// create creates a tenant. It checks first that there is none: PUT would replace its settings.
func create(v *ui.Visit, f *ui.Form) error {
	name := strings.TrimSpace(f.Value("tenant"))
	path := "/v1/tenants/" + name
	err := ui.Fault("tenant", "must have 1 to 64 letters, digits, dots, colons, _ or -")
	if config.IsTenant(name) {
		err = v.Get(path, nil, &tenantData{})
	}
	switch {
	case err == nil:
		err = ui.Fault("tenant", "exists already")
	case ui.StatusOf(err) == http.StatusNotFound:
		err = v.Do("PUT "+path, f, ui.Object{"name": strings.TrimSpace(f.Value("name"))}, nil)
	}
	return v.Answer(f, err, func() error { return list(v, f) }, ui.Opens(v, pathOf(name), "Created"))
}

// tenantPage is the data of the page of one tenant.
type tenantPage struct {
	*tenantData
	Usage       wire.Usage
	Unavailable string           // why the usage could not be read
	Keys        []wire.TenantKey // that work, of the newest 100
	MoreKeys    bool             // there are older ones
	HasPortal   bool
	Links       []wire.PortalLink
	Form        *ui.Form
	Link        *ui.Form
	New         wire.PortalLink // the link that this request has made; its URL is shown this once
	Repeated    bool            // the form was sent before
}

// Percent is the part of the allowance that is used, as a whole number.
func (p *tenantPage) Percent() int64 {
	if p.Usage.Allowance == nil {
		return 0
	}
	return p.Usage.Events.Total * 100 / *p.Usage.Allowance
}

var fields = ui.FieldTable{{ui.TrimmedField, "name portal.title portal.color portal.logo_url portal.logo_dark_url"},
	{ui.OptionalNumber, "allowance_events limits.endpoints limits.destinations limits.events_per_second"},
	{ui.JSONField, "metadata"}}

func show(v *ui.Visit, x *tenantData) error {
	return showPage(v, x, &tenantPage{Form: ui.EditForm(fields.Values(x))})
}

// showPage shows a tenant with the forms of p; those that p lacks are created empty.
func showPage(v *ui.Visit, x *tenantData, p *tenantPage) (err error) {
	p.tenantData = x
	if p.Form == nil {
		p.Form = ui.EditForm(fields.Values(x))
	}
	if p.Link == nil {
		p.Link = ui.NewForm(nil, "")
	}
	if p.Unavailable, err = v.TryGet("/v1/usage", url.Values{"tenant": {x.Tenant.Tenant}}, &p.Usage); err != nil {
		return err
	}
	most := url.Values{"limit": {"100"}}
	keys, err := ui.ReadRows[wire.TenantKey](v, oneAPI+"/keys", most)
	if err != nil {
		return err
	}
	p.MoreKeys = keys.NextCursor != ""
	p.Keys = slices.DeleteFunc(keys.Data, func(k wire.TenantKey) bool {
		return !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !v.Now().Before(time.Time(k.ExpiresAt))
	})
	if p.HasPortal = v.HasPage(ui.PortalPath); p.HasPortal {
		links, err := ui.ReadRows[wire.PortalLink](v, oneAPI+"/portal_links", most)
		p.Links = links.Data
		if err != nil {
			return err
		}
	}
	return v.Page("tenant", p)
}

// save replaces the settings: the call of the API clears what it is not given.
func save(v *ui.Visit, f *ui.Form, x *tenantData) error {
	stored := fields.Values(x)
	body := fields.Changes(f, stored)
	if len(body) > 0 {
		body = fields.All(f)
		if body["metadata"] == nil {
			body["metadata"] = ui.Object{}
		}
	}
	return v.Save(ui.Saving{Form: f, Stored: stored, Body: body, Call: "PUT " + oneAPI, Back: x.Path(),
		Again: func() error { return showPage(v, x, &tenantPage{Form: f}) }, Then: ui.Opens(v, x.Path(), "Saved")})
}

// remove deletes a tenant whose name the person has typed.
func remove(v *ui.Visit, f *ui.Form, x *tenantData) error {
	if strings.TrimSpace(f.Value("confirm")) != x.Tenant.Tenant {
		return v.Redirect(x.Path(), "To delete a tenant, type its id. Nothing was deleted.")
	}
	if err := v.Do("DELETE "+oneAPI, f, nil, nil); err != nil {
		return err
	}
	return v.Redirect(listPath, "Deleted, with its endpoints. Its keys and sessions have ended.")
}

// link makes a link to the portal, and shows it.
func link(v *ui.Visit, f *ui.Form, x *tenantData) error {
	p, body := &tenantPage{Link: f}, ui.Object{"can": append([]string{}, f.Values["can"]...)}
	for _, name := range []string{"lang", "theme"} {
		if value := f.Value(name); value != "" {
			body[name] = value
		}
	}
	return v.Ask("POST "+oneAPI+"/portal_links", f, body, &p.New,
		func() error { return showPage(v, x, p) }, func() error {
			if p.Link, p.Repeated = nil, v.Replayed; p.Repeated {
				p.New.URL = ""
			}
			return showPage(v, x, p)
		})
}
