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
