package wire

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/web"
)

// ReplayRun is one replay of the events of a selection.
type ReplayRun struct {
	RunID  string          `json:"run_id" ref:"RunId"`
	Object string          `json:"object" const:"replay_run"`
	Filter json.RawMessage `json:"filter" ref:"ReplayRunFilter"`
	Since  web.Time        `json:"since"`
	Until  web.Time        `json:"until"`
	State  jobs.RunState   `json:"state" ref:"ReplayRunState"`
	// Whether every delivery that was queued is delivered, failed or skipped.
	Ended bool `json:"ended"`
	// Events selected.
	Events int `json:"events" minimum:"0"`
	// Deliveries queued so far.
	Queued    int      `json:"queued" minimum:"0"`
	Delivered int      `json:"delivered" minimum:"0"`
	Failed    int      `json:"failed" minimum:"0"`
	Skipped   int      `json:"skipped" minimum:"0"`
	CreatedAt web.Time `json:"created_at"`
	// An API key or a person. `null`: an earlier version created it.
	CreatedBy *string `json:"created_by"`
}

// ReplayResult is the response to a replay.
type ReplayResult struct {
	Events    int       `json:"events"`
	Queued    int       `json:"queued"`
	RunID     *string   `json:"run_id"` // null for a dry run
	Truncated bool      `json:"truncated"`
	Warnings  []Warning `json:"warnings,omitempty"`
}
