package frame

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// A key of a tenant sees the endpoints of the tenant and what belongs to them, and nothing else of the account. Which
// operations it may use is decided in TenantOperations; within them, everything that a path or a body names goes
// through Owns, and every list through OfTenant.

// TenantOperations has the operations that a key of a tenant may use, by method and path. Others concern the account.
type TenantOperations map[string]bool

// check returns the 403 of a key of a tenant.
func (t TenantOperations) check(key *config.Key, method, path string) error {
	if key.Tenant == "" || t[method+" "+path] {
		return nil
	}
	return &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
		Message: "a key of a tenant cannot do this, because it concerns the whole account; use a key without a tenant"}
}

// Owns reports whether an endpoint belongs to the account of a key, and to its tenant if it has one.
func Owns(key *config.Key, e *config.Endpoint) bool {
	return e.Account == key.Account && (key.Tenant == "" || e.Tenant == key.Tenant)
}

// ScopeOf names what a key sees, for the cursors and shared answers of lists.
func ScopeOf(key *config.Key) string {
	if key.Tenant == "" {
		return key.Account
	}
	return key.Account + " " + key.Tenant
}

// NoEndpoint is the id of no endpoint: a filter without any endpoint would select all of the account.
const NoEndpoint = "ep_none"

// OfTenant reads the filter tenant, and restricts a query to the endpoints of that tenant and of the key's.
func (c *Core) OfTenant(from FilterSource, key *config.Key, to *event.Query) {
	names := from.List("tenant")
	for _, name := range names {
		if !config.IsTenant(name) {
			from.Fail(from.Param("tenant"), "must be the name of a tenant: 1 to 64 letters, digits, dots, colons, _ or -")
		}
	}
	switch {
	case key.Tenant == "" && len(names) == 0:
		return
	case key.Tenant != "" && len(names) > 0 && !slices.Contains(names, key.Tenant):
		to.Endpoints = []string{NoEndpoint}
		return
	case key.Tenant != "":
		names = []string{key.Tenant}
	}
	to.Endpoints = c.endpointsOf(key.Account, names, to.Endpoints)
	if most := config.MaxTenantEndpoints; len(to.Endpoints) > most {
		from.Fail(from.Param("tenant"), "selects more than %d endpoints; send fewer tenants", most)
	}
}

// TenantEndpoints reads the filter tenant, and returns the endpoints of those tenants and of the key's. They are not
// restricted if neither names a tenant.
func (c *Core) TenantEndpoints(from FilterSource, key *config.Key) (endpoints []string, restricted bool) {
	var q event.Query
	c.OfTenant(from, key, &q)
	return q.Endpoints, q.Endpoints != nil
}

// TenantFilter is TenantEndpoints for a list from memory: it returns whether an endpoint belongs to them.
func (c *Core) TenantFilter(from FilterSource, key *config.Key) func(endpoint string) bool {
	endpoints, restricted := c.TenantEndpoints(from, key)
	of := make(map[string]bool, len(endpoints))
	for _, name := range endpoints {
		of[name] = true
	}
	return func(endpoint string) bool { return !restricted || of[endpoint] }
}

// endpointsOf returns the ids of the endpoints of tenants: those in asked, if there are any.
func (c *Core) endpointsOf(account string, tenants, asked []string) (all []string) {
	for _, name := range tenants {
		for _, e := range c.Config.TenantEndpoints(account, name) {
			if len(asked) == 0 || slices.Contains(asked, e.ID) {
				all = append(all, e.ID)
			}
		}
	}
	if len(all) == 0 {
		return []string{NoEndpoint}
	}
	return all
}
