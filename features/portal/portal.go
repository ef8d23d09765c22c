// Package portal has the pages for the people of tenants, and the links that lead to them.
package portal

import (
	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/portal/pages"
	"github.com/eventrelay/relay/features/portal/routes"
)

// Feature registers this package.
var Feature = features.Feature{Name: "portal", Pages: pages.Area, New: func(h *features.Host) features.Parts {
	return features.Parts{API: func(c *api.Core) api.Area { return routes.Area(c, h.Control) }}
}}
