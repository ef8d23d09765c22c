package ui

import (
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Area is a family of pages.
type Area struct {
	Routes []Route
	Pages  fs.FS              // their templates, pages/NAME.html
	Lists  map[string]CSVList // that can be downloaded as CSV, by the name in their path
	// functions are what only these templates call; nil: there are none. The dashboard is nil while they are parsed.
	Functions func(*Dashboard) template.FuncMap
	// EventActions are buttons on the page of an event.
	EventActions []EventAction
}

// EventAction is a button that posts to a path below the page of an event. Fits reports whether an event with that body
// has the button.
type EventAction struct {
	Path, Name string
	Fits       func(body []byte) bool
}

// Site is what the dashboards of a process share: the areas, the parts of their pages, the navigation and the files.
type Site struct {
	Areas  []Area
	menu   []MenuGroup
	Lists  map[string]CSVList
	shared *template.Template  // layout and parts; never executed itself: an executed template cannot be cloned
	files  map[string]pageFile // of the pages, by name
	assets *assets
}

// pageFile is where the template of a page is.
type pageFile struct {
	fs.FS
	name string
}

// NewSite parses what pages share. A page itself is parsed when it is first opened: with all that it calls it takes 300
// KB. Items of the menu that no area has a page for are left out.
func NewSite(static fs.FS, menu []MenuGroup, areas ...Area) (*Site, error) {
	s := &Site{Areas: areas, Lists: map[string]CSVList{}, files: map[string]pageFile{}}
	pages := map[string]bool{}
	var err error
	s.shared, err = template.New("").Funcs(functionsOf(nil, areas)).ParseFS(templateFiles, "templates/layout.html",
		"templates/parts/*.html")
	if err != nil {
		return nil, err
	}
	own, err := fs.Sub(templateFiles, "templates")
	if err != nil {
		return nil, err
	}
	s.Areas = append(s.Areas, Area{Pages: own, Routes: []Route{
		{"GET", "/", Public, LeadTo("/app")},
		{"GET", "/app/", Public, LeadTo("/app")},
		{"GET", csvPath + "/{list}", Reader, downloadCSV},
	}})
	for _, a := range s.Areas {
		maps.Copy(s.Lists, a.Lists)
		for _, x := range a.Routes {
			pages[x.Path] = pages[x.Path] || x.Method == http.MethodGet
		}
		if a.Pages == nil {
			continue
		}
		files, err := fs.Glob(a.Pages, "pages/*.html")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := strings.TrimSuffix(path.Base(file), ".html")
			if s.files[name].FS != nil {
				return nil, fmt.Errorf("two areas have a page %s", name)
			}
			s.files[name] = pageFile{a.Pages, file}
		}
	}
	s.menu = menuOf(menu, pages)
	s.assets, err = newAssets(static)
	return s, err
}

// menuOf returns the navigation to those pages that exist.
func menuOf(all []MenuGroup, exists map[string]bool) (menu []MenuGroup) {
	absent := func(x MenuItem) bool { return !exists[x.Path] }
	for _, g := range all {
		if g.Items = slices.DeleteFunc(slices.Clone(g.Items), absent); len(g.Items) > 0 {
			menu = append(menu, g)
		}
		for i := range g.Items {
			g.Items[i].Tabs = slices.DeleteFunc(slices.Clone(g.Items[i].Tabs), absent)
		}
	}
	return menu
}

// functionsOf are what the templates of areas call.
func functionsOf(d *Dashboard, areas []Area) template.FuncMap {
	all := d.functions()
	for _, a := range areas {
		if a.Functions != nil {
			maps.Copy(all, a.Functions(d))
		}
	}
	return all
}

// MenuGroup is a part of the navigation with an optional heading.
type MenuGroup struct {
	Heading string
	Items   []MenuItem
}

// MenuItem is a page of the navigation. A page belongs to the item with the longest Path that its own path begins with.
type MenuItem struct {
	Path, Name, Icon string
	Tabs             []MenuItem // pages that the page shows as tabs; the item leads to the first of them
}

// menuCount is the number of things at an item of the navigation that need a person.
type menuCount struct {
	Class, Text string // Text says what they are
	N           int
}

// waiting returns the numbers of the navigation that are not 0.
func (d *Dashboard) waiting(account string) map[string]*menuCount {
	counts := map[string]*menuCount{}
	if n := d.Deps.Control.AwaitingApproval(account); n > 0 {
		counts[RecoveriesPath] = &menuCount{"ask", "awaiting approval", n}
	}
	if n := d.Deps.Control.OutstandingFindings(); n > 0 {
		counts[FindingsPath] = &menuCount{"warn", "open or acknowledged", n}
	}
	return counts
}

// MenuItems are the items of the navigation.
func (v *Visit) MenuItems() (all []MenuItem) {
	for _, g := range v.menu {
		all = append(all, g.Items...)
	}
	return all
}

// menuShown is the navigation of the page: the portal has its own.
func (v *Visit) menuShown() []MenuGroup {
	if v.Portal != nil {
		return nil
	}
	return v.menu
}

// Target is the path that the item leads to.
func (x MenuItem) Target() string {
	if len(x.Tabs) > 0 {
		return x.Tabs[0].Path
	}
	return x.Path
}

// Holds reports whether a path belongs to the item.
func (x MenuItem) Holds(path string) bool {
	if x.Path == "/app" {
		return path == x.Path
	}
	return path == x.Path || len(path) > len(x.Path) && path[:len(x.Path)+1] == x.Path+"/"
}

// listOf returns the page of the menu that a path belongs to, nil if there is none.
func (d *Dashboard) listOf(path string) *MenuItem {
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
