package api

import (
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
)

// destinationMembers are what the page of a destination in the portal has fields for.
var destinationMembers = []string{"name", "url", "enabled", "paused", "filter.types"}

// portalOperations are what a token of the portal may call: what its pages do, with the same rights. Each is among
// tenantOperations, so that it reaches only what belongs to the tenant.
var portalOperations = map[string]frame.PortalOperation{
	"GET /v1/endpoints":                    {Right: config.PortalView},
	"GET /v1/endpoints/{endpoint}":         {Right: config.PortalView},
	"GET /v1/endpoints/{endpoint}/traffic": {Right: config.PortalView},
	"GET /v1/event_types":                  {Right: config.PortalView},
	"GET /v1/event_types/{event_type}":     {Right: config.PortalView},
	"GET /v1/events":                       {Right: config.PortalView},
	"GET /v1/events/counts":                {Right: config.PortalView},
	"GET /v1/events/{event}":               {Right: config.PortalView},
	"GET /v1/events/{event}/attempts":      {Right: config.PortalView},
	"GET /v1/replays/{run}":                {Right: config.PortalView},

	"POST /v1/endpoints/{endpoint}/destinations": {Right: config.PortalDestinations,
		Members: destinationMembers},
	"PATCH /v1/endpoints/{endpoint}/destinations/{destination}": {Right: config.PortalDestinations,
		Members: destinationMembers},
	"DELETE /v1/endpoints/{endpoint}/destinations/{destination}": {Right: config.PortalDestinations},
	"POST /v1/endpoints/{endpoint}/destinations/{destination}/rotate_secret": {Right: config.PortalSecrets,
		Members: []string{"overlap_seconds"}},

	"POST /v1/events/{event}/replay":     {Right: config.PortalReplay},
	"POST /v1/replays":                   {Right: config.PortalReplay},
	"POST /v1/endpoints/{endpoint}/test": {Right: config.PortalTest},
}
