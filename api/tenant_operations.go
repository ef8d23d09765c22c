package api

import "github.com/eventrelay/relay/api/frame"

// tenantOperations are what a key of a tenant may call: each reaches only what belongs to the tenant. All others are
// 403. TestTenantsAreApart compares them with the routes, and calls every operation as one tenant with what belongs to
// another.
var tenantOperations = frame.TenantOperations{
	"GET /v1/me": true,

	"GET /v1/tenants/{tenant}":                                               true,
	"POST /v1/tenants/{tenant}/events":                                       true,
	"POST /v1/tenants/{tenant}/events/batch":                                 true,
	"POST /v1/tenants/{tenant}/test":                                         true,
	"GET /v1/endpoints":                                                      true,
	"POST /v1/endpoints":                                                     true,
	"POST /v1/endpoints/validate":                                            true,
	"GET /v1/endpoints/{endpoint}":                                           true,
	"PATCH /v1/endpoints/{endpoint}":                                         true,
	"DELETE /v1/endpoints/{endpoint}":                                        true,
	"POST /v1/endpoints/{endpoint}/validate":                                 true,
	"POST /v1/endpoints/{endpoint}/events":                                   true,
	"POST /v1/endpoints/{endpoint}/test":                                     true,
	"GET /v1/endpoints/{endpoint}/stream":                                    true,
	"GET /v1/endpoints/{endpoint}/traffic":                                   true,
	"GET /v1/endpoints/{endpoint}/reconciliation":                            true,
	"POST /v1/endpoints/{endpoint}/events/batch":                             true,
	"POST /v1/endpoints/{endpoint}/rotate-token":                             true,
	"POST /v1/endpoints/{endpoint}/transformation/preview":                   true,
	"GET /v1/endpoints/{endpoint}/transformation/versions":                   true,
	"POST /v1/endpoints/{endpoint}/filter/preview":                           true,
	"POST /v1/endpoints/{endpoint}/destinations":                             true,
	"PATCH /v1/endpoints/{endpoint}/destinations/{destination}":              true,
	"DELETE /v1/endpoints/{endpoint}/destinations/{destination}":             true,
	"POST /v1/endpoints/{endpoint}/destinations/{destination}/rotate_secret": true,
	"POST /v1/endpoints/{endpoint}/destinations/{destination}/purge":         true,
	"GET /v1/endpoints/{endpoint}/destinations/{destination}/pull":           true,
	"POST /v1/endpoints/{endpoint}/destinations/{destination}/ack":           true,
	"GET /v1/endpoints/{endpoint}/destinations/{destination}/consumers":      true,

	"GET /v1/event_types":              true,
	"GET /v1/event_types/openapi.json": true,
	"GET /v1/event_types/{event_type}": true,

	"GET /v1/events":                     true,
	"GET /v1/events/counts":              true,
	"GET /v1/events/{event}":             true,
	"GET /v1/events/{event}/attempts":    true,
	"GET /v1/events/{event}/signature":   true,
	"DELETE /v1/events/{event}/payload":  true,
	"POST /v1/events/{event}/processing": true,
	"POST /v1/events/{event}/replay":     true,

	"GET /v1/replays":                     true,
	"POST /v1/replays":                    true,
	"GET /v1/replays/{run}":               true,
	"POST /v1/replays/{run}":              true,
	"GET /v1/recoveries":                  true,
	"POST /v1/recoveries":                 true,
	"GET /v1/recoveries/{recovery}":       true,
	"POST /v1/recoveries/{recovery}":      true,
	"GET /v1/recoveries/{recovery}/items": true,

	"GET /v1/usage":          true,
	"GET /v1/usage/daily":    true,
	"GET /v1/alerts/history": true,
}
