package control

import (
	"encoding/json"
	"time"
)

// RunState is how far a replay run is.
type RunState string

// States of a run.
const (
	RunQueueing    RunState = "queueing"    // its deliveries are being put into the log
	RunQueued      RunState = "queued"      // all of them are
	RunInterrupted RunState = "interrupted" // it ended half-way; what was queued stays queued
)

// Run is one replay of a selection. Its id is a time-ordered run_….
type Run struct {
	Meta
	Endpoint string          `json:"endpoint,omitempty"` // that it was narrowed to; empty = several
	Filter   json.RawMessage `json:"filter"`             // as it was asked for
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"` // fixed when the request started
	State    RunState        `json:"state"`
	Events   int             `json:"events"`
	Queued   int             `json:"queued"` // deliveries that the log has acknowledged
}
