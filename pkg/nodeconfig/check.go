package nodeconfig

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// States of a check.
const (
	StateOK   = "ok"
	StateWarn = "warn" // needs attention within a day
	StateFail = "fail" // something does not work, or events may be lost
)

// Check is the result of one check of an engine, of the configuration or of a feature.
type Check struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Text    string   `json:"text"`
	Advice  string   `json:"advice,omitempty"` // what to do next
	Details []string `json:"details,omitempty"`
}

// CheckFunc makes a check of a feature.
type CheckFunc = func(ctx context.Context, log stream.Config, now func() time.Time) Check

// The roles of nodes.
const (
	RoleIngest   = "ingest"   // accepts webhooks
	RoleDispatch = "dispatch" // delivers
	RoleWrite    = "write"    // copies the log into ClickHouse
	RoleAPI      = "api"      // answers /v1
)

// Roles returns every role, in the order of an event.
func Roles() []string { return []string{RoleIngest, RoleDispatch, RoleWrite, RoleAPI} }
