package wire

import "github.com/eventrelay/relay/pkg/web"

// StatusCounts counts events by their status.
type StatusCounts struct {
	Delivered int `json:"delivered" minimum:"0"`
	Failed    int `json:"failed" minimum:"0"`
	Retrying  int `json:"retrying" minimum:"0"`
	Pending   int `json:"pending" minimum:"0"`
	Skipped   int `json:"skipped" minimum:"0"`
	Rejected  int `json:"rejected" minimum:"0"`
}

// CountedStep has the events that were received in one step of time.
type CountedStep struct {
	At web.Time `json:"at"`
	StatusCounts
}

// CountedEvents is the response to GET /v1/events/counts.
type CountedEvents struct {
	Object string `json:"object" const:"event_counts"`
	// Events that were counted: the newest.
	Counted int `json:"counted" minimum:"0" maximum:"1000"`
	// Older events match, too.
	More     bool         `json:"more"`
	Statuses StatusCounts `json:"statuses"`
	// Length of a step of time.
	StepSeconds int64 `json:"step_seconds" minimum:"1"`
	// Steps with any event, oldest first.
	Steps []CountedStep `json:"steps" maxItems:"61"`
}
