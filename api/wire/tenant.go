package wire

import (
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it.
type Tenant struct {
	Object string `json:"object" const:"tenant"`
	// Your name for it, such as the id of the customer in your database.
	Tenant string `json:"tenant" ref:"TenantName"`
	// Printable characters, for people. Default: empty.
	Name     string            `json:"name" in:"name" maxLength:"100" pattern:"@text"`
	Metadata map[string]string `json:"metadata" in:"own" inref:"MetadataInput" maxProperties:"20"`
	// What the tenant may use at most. Above a limit the answer is 429 and names it.
	Limits config.TenantLimits `json:"limits" in:"null"`
	// Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none.
	AllowanceEvents *int `json:"allowance_events" in:"null" minimum:"1" maximum:"1000000000000"`
	// How its portal looks. `null`: the defaults.
	Portal *config.TenantPortal `json:"portal" in:"null"`
	// The endpoint that events sent to the tenant go to; `null` before the first one.
	EndpointID *string `json:"endpoint_id"`
	// Number of its endpoints.
	Endpoints int       `json:"endpoints" minimum:"0" maximum:"1000"`
	CreatedAt web.Time  `json:"created_at"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account.
type TenantKey struct {
	ID     string       `json:"id" ref:"KeyId"`
	Object string       `json:"object" const:"key"`
	Tenant string       `json:"tenant" ref:"TenantName"`
	Name   string       `json:"name" in:"required,name" minLength:"1" maxLength:"100" pattern:"@text"`
	Scope  config.Scope `json:"scope" in:"required" enum:"read,read_write"`
	// `true`: for an agent, whose changes a person has to approve. Default `false`.
	Agent bool `json:"agent" in:""`
	// The key. Only in the answer that creates it.
	Key   string `json:"key,omitempty"`
	Last4 string `json:"last4"`
	// When the key ends; `null`: it does not.
	ExpiresAt web.Time `json:"expires_at" in:"null" nullable:"true"`
	RevokedAt web.Time `json:"revoked_at" nullable:"true"`
	CreatedAt web.Time `json:"created_at"`
}

// PortalLink is a link to the pages of a tenant, and then the session of who has opened it.
type PortalLink struct {
	ID     string `json:"id" ref:"LinkId"`
	Object string `json:"object" const:"portal_link"`
	Tenant string `json:"tenant" ref:"TenantName"`
	// Address to send the person's browser to. It can be opened once. Only in the answer that creates it.
	URL string `json:"url,omitempty" format:"uri"`
	// What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing
	// `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`.
	Can []string `json:"can" in:"" maxItems:"5" uniqueItems:"true" items.enum:"view,destinations,secrets,replay,test"`
	// Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
	ReturnURL *string `json:"return_url" in:"null" maxLength:"2000" format:"uri"`
	// Page of your application that creates the next link and leads to it. The portal opens it when the session has
	// ended. Its origin must be in RELAY_PORTAL_ORIGINS.
	RefreshURL *string `json:"refresh_url" in:"null" maxLength:"2000" format:"uri"`
	// How long the link can be opened. Default 600, ten minutes.
	ExpiresSeconds int `json:"expires_seconds,omitempty" in:"only" minimum:"10" maximum:"86400"`
	// How long the session lasts once the link is opened. Default 3600, an hour.
	SessionSeconds int `json:"session_seconds" in:"" minimum:"60" maximum:"86400"`
	// When the link was opened; `null`: it can still be.
	OpenedAt web.Time `json:"opened_at" nullable:"true"`
	// When the link ends; once it is opened, when the session does.
	EndsAt    web.Time `json:"ends_at"`
	CreatedAt web.Time `json:"created_at"`
}
