// Package catalogue has the catalogue of the types of events: their descriptions and the schemas of their data, for the
// account, its tenants, and everybody if the account says so.
package catalogue

import (
	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/catalogue/pages"
	"github.com/eventrelay/relay/features/catalogue/routes"
	"github.com/eventrelay/relay/pkg/config"
)

// Feature registers this package.
var Feature = features.Feature{Name: "catalogue", New: newParts, Pages: pages.Area}

func newParts(h *features.Host) features.Parts {
	return features.Parts{API: func(c *api.Core) api.Area { return Area(c, h.Control, h.CataloguePage) }}
}

type drawPage = func(title string, types []features.EventType) (*api.Page, error)

// Area returns the routes and, if something draws the page, what everybody may read.
func Area(c *api.Core, in *config.Control, draw drawPage) api.Area {
	all := routes.New(c, in)
	public := &publicPages{of: all, drawPage: draw}
	return api.Area{Routes: all.Routes(), Document: routes.Document(),
		Public: map[string]api.PublicHandler{pagePath: public.serve, documentPath: public.serve}}
}
