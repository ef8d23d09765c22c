// Package dashboard serves the pages under /app and their files under /static.
//
// The pages lie in areas, each a package that exports its routes, templates and lists: overview, endpoints, events,
// jobs, tenants and account; features add theirs. Areas know ui, which is what every page needs, and
// model, which is what several of them show of an endpoint, an event or an alert. They do not know each other.
//
// A page is a handler, a line in the table of routes of its area and a template. To add one:
//
//  1. A line in Area of its package, with method, path, who may open it, and the handler. A button that makes one call
//     of the API is a row alone, with [ui.Button].
//  2. A file for the family of pages, such as tenants/tenants.go. A handler is a func(v *ui.Visit) error: it
//     reads with [ui.Visit.Get] and changes with [ui.Visit.Do], which call the handlers of /v1 in this process,
//     and ends with [ui.Visit.Page] or [ui.Visit.Redirect]. A returned error becomes a page; web.Error says
//     which.
//  3. pages/NAME.html with the blocks "title" and "main". The data of the page is .Data. The parts in
//     ui/templates/parts (status, time, field, …) are used with {{template "status" .Status}}.
//  4. menu below: a line, if the page belongs in the navigation.
//
// A request of live.js (Relay-Part) gets the block "main" alone, or the block "#ID" if the page defines one for the
// part ID that it asks for. Every form holds {{template "nonce" .}} and is checked with [ui.Submit]: its nonce is
// the Idempotency-Key of the call, so that a second submit does nothing twice.
//
// Invariants, each with its test in test/invariants.md: the Host is checked before anything else; a request that
// is not GET is served only if the browser or its Origin says that it comes from our own page; no GET changes anything;
// a cookie opens nothing under /v1 and a key opens no page; every response forbids foreign scripts. Text that others
// wrote reaches a page through html/template alone, and through plain, which makes invisible characters visible.
package dashboard

import (
	"embed"
	"slices"

	"github.com/eventrelay/relay/dashboard/account"
	"github.com/eventrelay/relay/dashboard/endpoints"
	"github.com/eventrelay/relay/dashboard/events"
	"github.com/eventrelay/relay/dashboard/jobs"
	"github.com/eventrelay/relay/dashboard/overview"
	"github.com/eventrelay/relay/dashboard/tenants"
	"github.com/eventrelay/relay/dashboard/ui"
)

// Aliases for callers.
type (
	// Config is the configuration of a dashboard.
	Config = ui.Config
	// Deps is what a dashboard needs of other packages.
	Deps = ui.Deps
	// AgentActions reads and decides on changes that agents ask for.
	AgentActions = ui.AgentActions
	// Check is the result of one check.
	Check = ui.Check
	// Site has the pages of all areas.
	Site = ui.Site
	// Dashboard serves the pages.
	Dashboard = ui.Dashboard
)

// staticFiles are the style sheets and scripts; all pages work without scripts.
//
//go:embed static
var staticFiles embed.FS

// areas are all pages, with those of features. One that is left out has no pages, no items in the navigation and no
// lists.
func areas(features ...ui.Area) []ui.Area {
	return slices.Concat([]ui.Area{
		overview.Area(),
		endpoints.Area(),
		events.Area(),
		jobs.Area(),
		tenants.Area(),
	}, features, []ui.Area{account.Area()})
}

// NewSite parses the pages, with those of features, and compresses the files. One is enough for a process.
func NewSite(features ...ui.Area) (*Site, error) {
	return ui.NewSite(staticFiles, menu, areas(features...)...)
}

// New validates cfg and deps. It starts nothing.
func New(cfg Config, deps Deps, site *Site) (*Dashboard, error) { return ui.New(cfg, deps, site) }

// Style is the look of the product, for pages of other rooms.
func Style() (string, error) { return ui.StyleOf(staticFiles) }

// PortalPath is the first page of the portal.
const PortalPath = ui.PortalPath

// IssuerCallback is the path to which an OpenID Connect issuer sends browsers back.
const IssuerCallback = ui.IssuerPath + "/callback"

// URL returns the address of the dashboard, without a trailing slash: baseURL, with the name host if that is set.
func URL(baseURL, host string) string { return ui.URL(baseURL, host) }

// Serves reports whether a path belongs to the dashboard, or leads to it.
func Serves(path string) bool { return ui.Serves(path) }

// menu is the navigation. What no area has a page for is left out.
var menu = []ui.MenuGroup{
	{Items: []ui.MenuItem{{Path: "/app", Name: "Overview", Icon: "overview"}}},
	{Heading: "Traffic", Items: []ui.MenuItem{
		{Path: "/app/endpoints", Name: "Endpoints", Icon: "endpoint"},
		{Path: "/app/events", Name: "Events", Icon: "events"},
		{Path: "/app/replays", Name: "Replays", Icon: "replay"},
		{Path: "/app/recoveries", Name: "Recoveries", Icon: "recover"},
		{Path: "/app/issues", Name: "Issues", Icon: "failed"},
		{Path: "/app/event-types", Name: "Event types", Icon: "check"},
		{Path: "/app/fixtures", Name: "Fixtures", Icon: "fixture"},
	}},
	{Heading: "Leaks", Items: []ui.MenuItem{
		{Path: "/app/findings", Name: "Findings", Icon: "finding"},
		{Path: "/app/drains", Name: "Log drains", Icon: "drain"},
		{Path: "/app/applications", Name: "Applications", Icon: "app"},
		{Path: "/app/domains", Name: "Domains", Icon: "lock"},
		{Path: "/app/scans", Name: "Leak scans", Icon: "scan"},
	}},
	{Heading: "Account", Items: []ui.MenuItem{
		{Path: "/app/alerts", Name: "Alerts", Icon: "note", Tabs: []ui.MenuItem{
			{Path: "/app/alerts/history", Name: "Firing and past"},
			{Path: "/app/alerts/rules", Name: "Rules"},
			{Path: "/app/alerts/channels", Name: "Channels"},
		}},
		{Path: "/app/tenants", Name: "Tenants", Icon: "app"},
		{Path: "/app/usage", Name: "Usage", Icon: "usage"},
		{Path: "/app/audit", Name: "Audit log", Icon: "audit"},
		{Path: "/app/settings", Name: "Settings", Icon: "settings", Tabs: []ui.MenuItem{
			{Path: "/app/settings/keys", Name: "API keys"},
			{Path: "/app/settings/agents", Name: "Agents"},
			{Path: "/app/settings/people", Name: "People"},
			{Path: "/app/settings/detection", Name: "Detection rules"},
			{Path: "/app/settings/password", Name: "Password"},
			{Path: "/app/settings/about", Name: "About"},
		}},
	}},
}
