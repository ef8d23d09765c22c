package frame

import (
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
}

// Site is what the dashboards of a process share: the areas with their parsed pages, the navigation and the files.
type Site struct {
	Areas  []Area
	menu   []MenuGroup
	Lists  map[string]CSVList
	parsed map[string]*template.Template // only cloned: what was executed cannot be cloned
	assets *assets
}

// NewSite parses the pages of areas. Items of the menu that no area has a page for are left out.
func NewSite(static fs.FS, menu []MenuGroup, areas ...Area) (*Site, error) {
	s := &Site{Areas: areas, Lists: map[string]CSVList{}, parsed: map[string]*template.Template{}}
	functions, pages := functionsOf(nil, areas), map[string]bool{}
	shared, err := template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html",
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
			page, err := shared.Clone()
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(path.Base(file), ".html")
			if s.parsed[name], err = page.ParseFS(a.Pages, file); err != nil {
				return nil, err
			}
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
