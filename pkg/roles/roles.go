// Package roles names what a node does: RELAY_ROLES lists its roles. A component of a node, a setting and the advice of
// relay doctor use these names, so that none of them can name a role that no node has.
package roles

// The roles of nodes.
const (
	Ingest   = "ingest"   // accepts webhooks
	Dispatch = "dispatch" // delivers
	Write    = "write"    // copies the log into ClickHouse
	API      = "api"      // answers /v1
)

// All returns every role, in the order of an event.
func All() []string { return []string{Ingest, Dispatch, Write, API} }
