package wire

import (
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
)

// AuditActor is who made a change.
type AuditActor struct {
	// `portal` is a person of a tenant in the portal; `operator` is someone who ran a `relay` command on a node; `system`
	// is the service itself.
	Type audit.ActorType `json:"type" enum:"key,user,portal,operator,system"`
	// Id of the key, the user or the portal link.
	ID *string `json:"id"`
	// Name of the key, the user, or the part of the service, at that time.
	Name *string `json:"name"`
}

// Entity is what an audit entry is about.
type Entity struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// KeyUse counts the requests with a key at one node.
type KeyUse struct {
	Count  uint64 `json:"count" minimum:"1"`
	LastAt string `json:"last_at" ref:"Time"`
	Node   string `json:"node"`
}

// AuditEntry is one change of the configuration.
type AuditEntry struct {
	ID     string     `json:"id" pattern:"^aud_[0-9a-hjkmnp-tv-z]{26}$"`
	Object string     `json:"object" const:"audit_entry"`
	At     string     `json:"at" ref:"Time"`
	Actor  AuditActor `json:"actor"`
	// What was done, such as `endpoint.created`, `endpoint.updated`, `key.revoked`, `key.used`, `tool.called`.
	Action string `json:"action"`
	Entity Entity `json:"entity"`
	// Paths of the members that an update changed, such as `destinations.dst_….enabled`. If there are too many, only the
	// first ones, followed by `…`.
	Changes []string `json:"changes" maxItems:"50"`
	// Id of a related entity. For an agent's request (`act_…`), the entity that it wants to change; for the change that
	// was then made, the `act_…`.
	RelatedID *string `json:"related_id"`
	// `X-Request-Id` of the request that made the change.
	RequestID *string `json:"request_id"`
	RemoteIP  *string `json:"remote_ip"`
	// Only for `key.used`: requests with the key at one node since `at`, over about an hour. Written once a minute.
	Use *KeyUse `json:"use"`
}

// Me is the API key of a request.
type Me struct {
	AccountID string       `json:"account_id"`
	KeyID     string       `json:"key_id" ref:"KeyId"`
	KeyName   string       `json:"key_name"`
	Scope     config.Scope `json:"scope" enum:"read,read_write"`
	// `true` for the key of an agent. It cannot make changes through the API; a person approves them in the dashboard.
	Agent bool `json:"agent"`
	// The tenant that the key is restricted to. Missing without one.
	Tenant string `json:"tenant,omitempty" ref:"TenantName"`
	// Version of the service.
	Version string `json:"version"`
}
