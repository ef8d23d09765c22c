package wire

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Canary counts the first deliveries, or the next ones if all of those were skipped. `delivered` and `failed` are
// theirs.
type Canary struct {
	Total     int `json:"total" minimum:"0" maximum:"5"`
	Delivered int `json:"delivered" minimum:"0"`
	Failed    int `json:"failed" minimum:"0"`
}

// RecoveryDestination counts the deliveries of a job to one destination.
type RecoveryDestination struct {
	ID     string `json:"id"`
	Total  int    `json:"total" minimum:"0"`
	Failed int    `json:"failed" minimum:"0"`
	// The most frequent error code of its failed deliveries.
	TopError *string `json:"top_error"`
}

// Recovery is a job that delivers failed deliveries again. Its five counters always add up to `total`.
type Recovery struct {
	ID            string   `json:"id" ref:"RecoveryId"`
	Object        string   `json:"object" const:"recovery"`
	EndpointID    string   `json:"endpoint_id" ref:"EndpointId"`
	DestinationID *string  `json:"destination_id"`
	Since         web.Time `json:"since"`
	// When the job was created; later events are not selected.
	Until         web.Time           `json:"until"`
	RatePerSecond int                `json:"rate_per_second" minimum:"1" maximum:"100"`
	State         jobs.RecoveryState `json:"state" ref:"RecoveryState"`
	// Number of deliveries. Always the sum of the next five counters.
	Total   int `json:"total" minimum:"0"`
	Pending int `json:"pending" minimum:"0"`
	// Submitted for delivery and without a result yet.
	Queued    int `json:"queued" minimum:"0"`
	Delivered int `json:"delivered" minimum:"0"`
	Failed    int `json:"failed" minimum:"0"`
	Skipped   int `json:"skipped" minimum:"0"`
	// The first deliveries, or the next ones if all of those were skipped. `delivered` and `failed` are results; the
	// others were skipped or have none yet.
	Canary        Canary                `json:"canary"`
	ByDestination []RecoveryDestination `json:"by_destination"`
	// Estimated time to the end of the job.
	ETASeconds *int     `json:"eta_seconds" minimum:"0"`
	StopReason *string  `json:"stop_reason" enum:"delivery_failed,destination_unavailable,deadline,cancelled"`
	CreatedAt  web.Time `json:"created_at"`
	StartedAt  web.Time `json:"started_at" nullable:"true"`
	FinishedAt web.Time `json:"finished_at" nullable:"true"`
	// 24 hours after `created_at`. Deliveries not sent by then are skipped.
	DeadlineAt web.Time  `json:"deadline_at"`
	CreatedBy  string    `json:"created_by" ref:"KeyId"`
	Warnings   []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// RecoveryItem is one delivery of a recovery job.
type RecoveryItem struct {
	ID         string `json:"id" pattern:"^ritem_[0-9a-z]+$"`
	RecoveryID string `json:"recovery_id" ref:"RecoveryId"`
	EventID    string `json:"event_id" ref:"EventId"`
	// Type of the event; `null` if it has none.
	EventType     *string       `json:"event_type"`
	DestinationID string        `json:"destination_id"`
	DeliveryID    string        `json:"delivery_id" ref:"DeliveryId"`
	State         event.Status  `json:"state" ref:"RecoveryItemState"`
	SkippedReason *event.Reason `json:"skipped_reason" enum:"payload_expired,already_delivered,destination_disabled,destination_deleted,endpoint_deleted,job_stopped,job_cancelled,deadline,filtered,purged"`
	Canary        bool          `json:"canary"`
	// Number of HTTP attempts within the job, at most three: the second after 2 seconds, the third after 10 more. The
	// endpoint's retry policy does not apply to deliveries of a job.
	Attempts           int              `json:"attempts" minimum:"0"`
	LastResponseStatus *int             `json:"last_response_status"`
	LastErrorCode      *event.ErrorCode `json:"last_error_code"`
	UpdatedAt          web.Time         `json:"updated_at"`
}

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
