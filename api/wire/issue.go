package wire

import "github.com/eventrelay/relay/pkg/web"

// Issue is what failed at one destination for one cause.
type Issue struct {
	ID         string `json:"id" ref:"IssueId"`
	Object     string `json:"object" const:"issue"`
	EndpointID string `json:"endpoint_id" ref:"EndpointId"`
	// `null`: the endpoint was deleted.
	EndpointName    *string `json:"endpoint_name"`
	DestinationID   string  `json:"destination_id" ref:"DestinationId"`
	DestinationName *string `json:"destination_name"`
	// `http_` and the status of the answer, an `error_code` of an attempt, or the `reason` of deliveries without one. A
	// destination has at most 20 causes; the rest are counted as `other`.
	Cause string `json:"cause" example:"http_503"`
	// A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after
	// the last failure, is resolved by the service.
	Status      string   `json:"status" in:"" enum:"open,acknowledged,resolved"`
	FirstSeenAt web.Time `json:"first_seen_at"`
	LastSeenAt  web.Time `json:"last_seen_at"`
	// Failed requests, and deliveries that failed without one. It is at most a minute behind.
	Count int `json:"count" minimum:"0"`
	// The newest events that it concerns, newest first.
	Events []string `json:"events" maxItems:"10"`
	// How often it was resolved and opened again.
	Reopened   int      `json:"reopened" minimum:"0"`
	ResolvedAt web.Time `json:"resolved_at" nullable:"true"`
	// Who takes care of it. Default: empty.
	Assignee  string    `json:"assignee" example:"ops@example.com" in:"name" maxLength:"100" pattern:"@text"`
	Note      string    `json:"note" in:"" maxLength:"2000"`
	CreatedAt web.Time  `json:"created_at"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// SetWarnings sets the warnings of the answer to a change.
func (x *Issue) SetWarnings(all []Warning) { x.Warnings = all }
