package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// UsedEvents counts accepted events and findings. Retries, replays, duplicates, rejected events and test events do
// not count.
type UsedEvents struct {
	// Events from providers.
	Received int64 `json:"received" minimum:"0"`
	// Events sent through the API.
	Sent int64 `json:"sent" minimum:"0"`
	// Findings of the leak scan.
	Findings int64 `json:"findings" minimum:"0"`
	Total    int64 `json:"total" minimum:"0"`
}

// Overage counts what exceeds the allowance.
type Overage struct {
	// Events above the allowance.
	Events int64 `json:"events" minimum:"0"`
}

// Projection is the expected usage at the end of the period.
type Projection struct {
	Events        int64 `json:"events" minimum:"0"`
	OverageEvents int64 `json:"overage_events" minimum:"0"`
	// `last_7_days`: the usage so far, plus the rate of the last seven days for the rest of the period.
	Method string `json:"method" enum:"last_7_days"`
	// `low` in the first 24 hours of a period, or of the account.
	Confidence string `json:"confidence" enum:"low,ok"`
	// In minor units of the currency; `null` if there is no price.
	OverageAmount *int64  `json:"overage_amount"`
	Currency      *string `json:"currency"`
}

// EndpointUsage is what one endpoint has used.
type EndpointUsage struct {
	EndpointID string `json:"endpoint_id" ref:"EndpointId"`
	Received   int64  `json:"received" minimum:"0"`
	Sent       int64  `json:"sent" minimum:"0"`
	Total      int64  `json:"total" minimum:"0"`
	Bytes      int64  `json:"bytes" minimum:"0"`
}

// UsageDay is the usage of a day.
type UsageDay struct {
	Date string `json:"date" format:"date"`
	UsedEvents
	Bytes int64 `json:"bytes" minimum:"0"`
}

// Usage is what the account has used in a month. Deliveries and attempts are counted at least once.
type Usage struct {
	PeriodStart web.Time `json:"period_start"`
	PeriodEnd   web.Time `json:"period_end"`
	// Everything that was acknowledged before this time is counted.
	AsOf   web.Time   `json:"as_of"`
	Events UsedEvents `json:"events"`
	// Successful requests to destinations. After a failure some may be counted twice, unlike events.
	Deliveries int64 `json:"deliveries" minimum:"0"`
	// All requests to destinations, counted like deliveries.
	Attempts int64 `json:"attempts" minimum:"0"`
	// Bytes of the bodies of the events.
	Bytes int64 `json:"bytes" minimum:"0"`
	// Agreed events per month, as of now; `null` if there is none.
	Allowance *int64  `json:"allowance" minimum:"1"`
	Remaining *int64  `json:"remaining" minimum:"0"`
	Overage   Overage `json:"overage"`
	// Expected usage at the end of the period.
	Projection Projection `json:"projection"`
	// The 20 endpoints with the most events, largest first.
	ByEndpoint []EndpointUsage `json:"by_endpoint" maxItems:"20"`
	// Every day of the period up to now, oldest first. The days add up to `events`.
	Daily []UsageDay `json:"daily" maxItems:"32"`
}

// EndpointDay is what an endpoint has used on a day.
type EndpointDay struct {
	Date     string `json:"date" format:"date"`
	Received int64  `json:"received" minimum:"0"`
	Sent     int64  `json:"sent" minimum:"0"`
	Total    int64  `json:"total" minimum:"0"`
	Bytes    int64  `json:"bytes" minimum:"0"`
}

// EndpointDays is the usage of one endpoint with its days.
type EndpointDays struct {
	EndpointUsage
	// The days with an event, oldest first.
	Daily []EndpointDay `json:"daily" maxItems:"31"`
}

// UsageDays is what the account has used on each day.
type UsageDays struct {
	Object string   `json:"object" const:"usage_days"`
	From   web.Time `json:"from"`
	// The end of today in UTC.
	To web.Time `json:"to"`
	// Everything that was acknowledged before this time is counted.
	AsOf web.Time `json:"as_of"`
	// Every day, oldest first.
	Daily []UsageDay `json:"daily" maxItems:"31"`
	// The 20 endpoints with the most events in these days, largest first.
	ByEndpoint []EndpointDays `json:"by_endpoint" maxItems:"20"`
}
