package dashboard

import "slices"

// menuGroup is a part of the navigation with an optional heading.
type menuGroup struct {
	Heading string
	Items   []menuItem
}

// menuItem is a page of the navigation. A page belongs to the item with the longest Path that its own path begins with.
type menuItem struct {
	Path, Name, Icon string
	Tabs             []menuItem // pages that the page shows as tabs; the item leads to the first of them
}

// menuCount is how many things wait for a person at an item of the navigation.
type menuCount struct {
	Class, Text string // Text says what they are
	N           int
}

// waiting returns the numbers of the navigation that are not 0.
func (v *visit) waiting() map[string]*menuCount {
	counts := map[string]*menuCount{}
	if n := v.deps.Waiting.AwaitingApproval(v.person.Account); n > 0 {
		counts[recoveriesPath] = &menuCount{"ask", "awaiting approval", n}
	}
	if n := v.deps.Waiting.OutstandingFindings(); n > 0 {
		counts[findingsPath] = &menuCount{"warn", "open or acknowledged", n}
	}
	return counts
}

// menu is the navigation.
func menu() []menuGroup {
	return []menuGroup{
		{"", []menuItem{{Path: "/app", Name: "Overview", Icon: "overview"}}},
		{"Traffic", []menuItem{
			{Path: "/app/endpoints", Name: "Endpoints", Icon: "endpoint"},
			{Path: "/app/events", Name: "Events", Icon: "events"},
			{Path: replaysPath, Name: "Replays", Icon: "replay"},
			{Path: recoveriesPath, Name: "Recoveries", Icon: "recover"},
			{Path: fixturesPath, Name: "Fixtures", Icon: "fixture"},
		}},
		{"Leaks", []menuItem{
			{Path: findingsPath, Name: "Findings", Icon: "finding"},
			{Path: drainsPath, Name: "Log drains", Icon: "drain"},
			{Path: applicationsPath, Name: "Applications", Icon: "app"},
			{Path: domainsPath, Name: "Domains", Icon: "lock"},
			{Path: scansPath, Name: "Leak scans", Icon: "scan"},
		}},
		{"Account", []menuItem{
			{Path: alertsPath, Name: "Alerts", Icon: "note", Tabs: []menuItem{
				{Path: alertHistoryPath, Name: "Firing and past"},
				{Path: alertRulesPath, Name: "Rules"},
				{Path: alertChannelsPath, Name: "Channels"},
			}},
			{Path: usagePath, Name: "Usage", Icon: "usage"},
			{Path: auditPath, Name: "Audit log", Icon: "audit"},
			{Path: "/app/settings", Name: "Settings", Icon: "settings", Tabs: []menuItem{
				{Path: "/app/settings/keys", Name: "API keys"},
				{Path: agentsPath, Name: "Agents"},
				{Path: "/app/settings/people", Name: "People"},
				{Path: detectionPath, Name: "Detection rules"},
				{Path: "/app/settings/password", Name: "Password"},
				{Path: "/app/settings/about", Name: "About"},
			}},
		}},
	}
}

// Target is the path that the item leads to.
func (x menuItem) Target() string {
	if len(x.Tabs) > 0 {
		return x.Tabs[0].Path
	}
	return x.Path
}

// Holds reports whether a path belongs to the item.
func (x menuItem) Holds(path string) bool {
	if x.Path == "/app" {
		return path == x.Path
	}
	return path == x.Path || len(path) > len(x.Path) && path[:len(x.Path)+1] == x.Path+"/"
}

// listOf returns the page of the menu that a path belongs to, nil if there is none.
func (d *Dashboard) listOf(path string) *menuItem {
	for _, g := range d.menu {
		for _, item := range g.Items {
			for _, x := range append(slices.Clone(item.Tabs), item) {
				if x.Holds(path) {
					return &x
				}
			}
		}
	}
	return nil
}
