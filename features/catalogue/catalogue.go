// Package catalogue has the catalogue of the types of events: their descriptions and the schemas of their data, for the
// account, its tenants, and everybody if the account says so.
package catalogue

import (
	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/catalogue/pages"
	"github.com/eventrelay/relay/features/catalogue/routes"
)

// Feature registers this package.
var Feature = features.Feature{Name: "catalogue", New: newParts, Pages: pages.Area}

func newParts(h *features.Host) features.Parts {
	return features.Parts{API: func(d *api.AreaDeps) api.Area { return Area(d, h.Control, h.CataloguePage) }}
}

type drawPage = func(title string, types []features.EventType) (*api.Page, error)

// Area returns the routes and, if something draws the page, what everybody may read.
func Area(d *api.AreaDeps, config routes.Configuration, draw drawPage) api.Area {
	all := routes.New(d.Core, config, d.Events)
	public := &publicPages{of: all, drawPage: draw}
	return api.Area{Routes: all.Routes(), Document: routes.Document(),
		Public: map[string]api.PublicHandler{pagePath: public.serve, documentPath: public.serve}}
}
