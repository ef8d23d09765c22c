package wire

import (
	"slices"

	"github.com/eventrelay/relay/pkg/web"
)

// Counted is the first of several things, and how many there are.
type Counted[T any] struct {
	Total int `json:"total" minimum:"0"`
	Data  []T `json:"data" maxItems:"20"`
}

// Add counts a thing, and shows it if there is room.
func (c *Counted[T]) Add(x T) {
	if c.Total++; len(c.Data) < 20 {
		c.Data = append(c.Data, x)
	}
}

// WaitingDestination is a destination whose deliveries wait, or that the service has disabled.
type WaitingDestination struct {
	EndpointID      string  `json:"endpoint_id"`
	EndpointName    string  `json:"endpoint_name"`
	DestinationID   string  `json:"destination_id"`
	DestinationName *string `json:"destination_name"`
	Host            string  `json:"host"`
	State           string  `json:"state" enum:"held,paused,disabled"`
	StateReason     *string `json:"state_reason"`
	// When the next probe is sent to a `held` destination; else `null`.
	Until web.Time `json:"until" nullable:"true"`
}

// WaitingRecovery is a recovery job that waits for approval.
type WaitingRecovery struct {
	ID         string `json:"id"`
	EndpointID string `json:"endpoint_id"`
	// `null`: the endpoint was deleted.
	EndpointName  *string  `json:"endpoint_name"`
	DestinationID *string  `json:"destination_id"`
	Total         int      `json:"total" minimum:"0"`
	Canary        Canary   `json:"canary"`
	DeadlineAt    web.Time `json:"deadline_at"`
	CreatedBy     string   `json:"created_by"`
}

// CriticalFinding is an open finding of `critical` or `high` severity.
type CriticalFinding struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Name     string   `json:"name"`
	Masked   *string  `json:"masked"`
	Severity string   `json:"severity" enum:"high,critical"`
	OpenedAt web.Time `json:"opened_at"`
}

// OverviewNeeds is what needs a person. `total` counts all; `data` has the first 20.
type OverviewNeeds struct {
	// Alerts that fire.
	Alerts Counted[*Alert] `json:"alerts"`
	// Open issues, the last failure first.
	Issues Counted[*Issue] `json:"issues"`
	// Destinations that are held, and those that the service has disabled; then those that are paused.
	Destinations Counted[WaitingDestination] `json:"destinations"`
	// Recovery jobs that wait for approval.
	Recoveries Counted[WaitingRecovery] `json:"recoveries"`
	// Open findings of critical severity, then those of high severity, each newest first.
	Findings Counted[CriticalFinding] `json:"findings"`

	leftOut []func(*Alert) bool
}

// LeaveOut leaves out alerts that need no attention. Call it before alerts are added.
func (n *OverviewNeeds) LeaveOut(which func(*Alert) bool) { n.leftOut = append(n.leftOut, which) }

// AddAlert adds an alert, unless it is left out.
func (n *OverviewNeeds) AddAlert(x *Alert) {
	if !slices.ContainsFunc(n.leftOut, func(leftOut func(*Alert) bool) bool { return leftOut(x) }) {
		n.Alerts.Add(x)
	}
}

// Latency has quantiles of the durations of requests in milliseconds; `null` without requests.
type Latency struct {
	P50 int64 `json:"p50" minimum:"0"`
	P95 int64 `json:"p95" minimum:"0"`
	P99 int64 `json:"p99" minimum:"0"`
}

// MeasuredRequests counts requests to destinations. A delivery that is retried has several.
type MeasuredRequests struct {
	Requests int64 `json:"requests" minimum:"0"`
	// Requests that succeeded.
	Delivered int64 `json:"delivered" minimum:"0"`
	// Requests that failed.
	Failed int64 `json:"failed" minimum:"0"`
	// First attempts of automatic deliveries.
	FirstAttempts int64 `json:"first_attempts" minimum:"0"`
	// Those of them that succeeded.
	FirstDelivered int64 `json:"first_attempts_delivered" minimum:"0"`
	// Quantiles of the durations of the requests; `null` without requests.
	LatencyMS *Latency `json:"latency_ms"`
}

// MeasuredStep is one step of time, such as a minute.
type MeasuredStep struct {
	// When the step begins.
	At web.Time `json:"at"`
	MeasuredRequests
}

// Hour is one hour of an endpoint.
type Hour struct {
	At        web.Time `json:"at"`
	Requests  int64    `json:"requests" minimum:"0"`
	Delivered int64    `json:"delivered" minimum:"0"`
	Failed    int64    `json:"failed" minimum:"0"`
}

// DestinationRequests are the requests of the last hour to one destination.
type DestinationRequests struct {
	DestinationID string `json:"destination_id"`
	Requests      int64  `json:"requests" minimum:"0"`
	Delivered     int64  `json:"delivered" minimum:"0"`
	Failed        int64  `json:"failed" minimum:"0"`
}

// OverviewEndpoint is an endpoint in an overview.
type OverviewEndpoint struct {
	EndpointID string `json:"endpoint_id"`
	// `null`: the endpoint was deleted.
	Name     *string          `json:"name"`
	Provider *string          `json:"provider" example:"shopify"`
	LastHour MeasuredRequests `json:"last_hour"`
	// The last 24 hours with any request, oldest first; the current hour is the last of the 24.
	Hours []Hour `json:"hours" maxItems:"24"`
	// The destinations with any request in the last hour, removed ones included.
	Destinations []DestinationRequests `json:"destinations"`
}

// OverviewTraffic is the traffic of an account.
type OverviewTraffic struct {
	LastHour MeasuredRequests `json:"last_hour"`
	// The minutes of the last hour with any request, oldest first.
	Minutes []MeasuredStep `json:"minutes" maxItems:"60"`
	// The range of total, steps and day_before.
	Range       string `json:"range" enum:"15m,1h,6h,24h,7d,30d"`
	StepSeconds int64  `json:"step_seconds" minimum:"1"`
	// The requests of the range. A range of more than 24h has no latency.
	Total MeasuredRequests `json:"total"`
	// The steps of the range with any request, oldest first.
	Steps []MeasuredStep `json:"steps" maxItems:"60"`
	// The same steps one day before; empty for a range of more than 24h.
	DayBefore []MeasuredStep `json:"day_before" maxItems:"60"`
	// The endpoints with the most requests in the last 24 hours.
	Busiest []OverviewEndpoint `json:"busiest" maxItems:"20"`
	// The endpoints with the greatest part of failed requests in the last hour.
	Worst []OverviewEndpoint `json:"worst" maxItems:"10"`
}

// Overview is what needs a person now, and the traffic of the last day.
type Overview struct {
	Object string `json:"object" const:"overview"`
	// When it was made.
	At    web.Time      `json:"at"`
	Needs OverviewNeeds `json:"needs"`
	// Null while the event store does not answer.
	Traffic *OverviewTraffic `json:"traffic"`
}

// WaitingEvents are the newest events with an open delivery.
type WaitingEvents struct {
	Data []EventRow `json:"data" maxItems:"5"`
	More bool       `json:"more"`
}

// DestinationTraffic is the traffic of one destination, also of one that was removed.
type DestinationTraffic struct {
	DestinationID string           `json:"destination_id"`
	LastHour      MeasuredRequests `json:"last_hour"`
	// The last 24 hours with any request, oldest first.
	Hours []MeasuredStep `json:"hours" maxItems:"24"`
	// The requests of the range.
	Total MeasuredRequests `json:"total"`
	// The steps of the range with any request, oldest first.
	Steps []MeasuredStep `json:"steps" maxItems:"60"`
	// The same steps one day before; empty for a range of more than 24h.
	DayBefore []MeasuredStep `json:"day_before" maxItems:"60"`
}

// EndpointTraffic is the response to GET /v1/endpoints/{endpoint}/traffic.
type EndpointTraffic struct {
	Object       string               `json:"object" const:"endpoint_traffic"`
	EndpointID   string               `json:"endpoint_id"`
	Range        string               `json:"range" enum:"15m,1h,6h,24h,7d,30d"`
	StepSeconds  int64                `json:"step_seconds" minimum:"1"`
	Destinations []DestinationTraffic `json:"destinations"`
	Waiting      WaitingEvents        `json:"waiting"`
}
