package event

import "time"

// Use counts what is billed: accepted events and findings, whose sum is compared with the allowance. Bytes is for
// information.
type Use struct {
	Received int64 // from providers
	Sent     int64 // through the API
	Findings int64
	Bytes    int64 // of the events' bodies
}

// Total returns the number that is compared with the allowance.
func (u Use) Total() int64 { return u.Received + u.Sent + u.Findings }

// UsageOf says whose use is counted: that of an account, or of some of its endpoints, such as those of a tenant.
type UsageOf struct {
	Account   string
	Endpoints []string // nil: all, and findings, which belong to no endpoint
	Allowance int64    // of these endpoints, a month; 0 = none. That of an account is a setting
	Created   time.Time
}

// UsageSpan is the span whose use is counted. Its times are whole hours.
type UsageSpan struct {
	From, To time.Time // the period, [From, To)
	Recent   time.Time // Figures.Recent counts from here; may be before From
	// EndpointDays asks for the days of each of Figures.ByEndpoint.
	EndpointDays bool
}

// Figures are the counts of a span.
type Figures struct {
	Daily      []DayUse      // days with any use, oldest first
	ByEndpoint []EndpointUse // the 20 busiest endpoints, busiest first
	Recent     int64         // total from UsageSpan.Recent to UsageSpan.To
	Deliveries int64         // requests that succeeded; counted at least once
	Attempts   int64         // requests that were made; counted at least once
	AsOf       time.Time     // everything acknowledged before is counted
	QueryTime  time.Duration // duration of the queries, without the wait for the writer
}

// Sum returns the use of all days.
func (f *Figures) Sum() (sum Use) {
	for _, d := range f.Daily {
		sum.Received += d.Received
		sum.Sent += d.Sent
		sum.Findings += d.Findings
		sum.Bytes += d.Bytes
	}
	return sum
}

// DayUse is the use of one day, in UTC.
type DayUse struct {
	Day time.Time
	Use
}

// EndpointUse is the use of one endpoint.
type EndpointUse struct {
	Endpoint string
	Use
	Days []DayUse // days with any use, oldest first; nil unless UsageSpan.EndpointDays is set
}

// UsageDays is the use of an account in the last days.
type UsageDays struct {
	From, To time.Time // [From, To); To is the end of today
	Figures            // Daily has every day
}

// Usage is the use of an account in a period, with a projection to its end.
type Usage struct {
	From, To time.Time // the period
	Use
	Figures          // Daily has every day of the period up to now
	Allowance  int64 // 0 = none
	Projection Projection
}

// Over returns by how much total exceeds the allowance; 0 without an allowance.
func (u *Usage) Over(total int64) int64 {
	if u.Allowance == 0 {
		return 0
	}
	return max(0, total-u.Allowance)
}

// Projection is the use expected at the end of the period.
type Projection struct {
	Events int64
	// Certain is false while the projection is based on less than a day.
	Certain bool
}

// Requests are counts of requests to destinations.
type Requests struct{ Attempts, Delivered, Failed int64 }

// Latency has quantiles of the durations of requests, in milliseconds; zero without requests. Those of several shards
// are the greatest of each.
type Latency struct{ P50, P95, P99 float64 }

// Measured are requests with their latency. First counts first attempts of automatic deliveries; its Failed is 0.
type Measured struct {
	Requests
	First   Requests
	Latency Latency
}

// MeasuredStep is one step of time.
type MeasuredStep struct {
	At time.Time
	Measured
}

// MeasuredGroup are the requests of one endpoint, or to one destination: in the last hour, and in each hour of the last
// day in which there were any, oldest first.
type MeasuredGroup struct {
	ID   string
	Hour Measured
	Day  []MeasuredStep // without latency and First for endpoints
	// Destinations are the requests of the last hour by destination, of an endpoint in an Overview only.
	Destinations []DestinationRequests
	// Total and Steps are the requests of a TrafficRange, of a destination only.
	Total Measured
	Steps []MeasuredStep
	// DayBefore are the same steps of the day before, for ranges of a day or less.
	DayBefore []MeasuredStep
}

// TrafficRange is a span of time that ends with the step of now.
type TrafficRange struct {
	Name  string // such as 24h
	Step  time.Duration
	Steps int
}

// TrafficHour has the minutes of an hour, and TrafficDay the hours of a day.
var (
	TrafficHour = TrafficRange{"1h", time.Minute, 60}
	TrafficDay  = TrafficRange{"24h", time.Hour, 24}
)

// TrafficRanges are the ranges of traffic, the shortest first.
var TrafficRanges = []TrafficRange{{"15m", time.Minute, 15}, TrafficHour, {"6h", 10 * time.Minute, 36}, TrafficDay,
	{"7d", 6 * time.Hour, 28}, {"30d", 24 * time.Hour, 30}}

// Span is the length of the range.
func (r TrafficRange) Span() time.Duration { return time.Duration(r.Steps) * r.Step }

// Start is when the range begins; end is the end of the current minute.
func (r TrafficRange) Start(end time.Time) time.Time {
	return end.Add(-time.Minute).Truncate(r.Step).Add(-time.Duration(r.Steps-1) * r.Step)
}

// DestinationRequests are requests to one destination.
type DestinationRequests struct {
	ID string
	Requests
}

// Overview is the traffic of an account: the last hour by the minute, and endpoints of the last day. Requests are
// counted at least once.
type Overview struct {
	AsOf    time.Time // requests after it may be missing; zero: none is
	Hour    Measured
	Minutes []MeasuredStep  // with any request, oldest first
	Range   MeasuredGroup   // Total, Steps and DayBefore of all endpoints; without latency if the range is over a day
	Busiest []MeasuredGroup // endpoints with the most requests in the last day
	Worst   []MeasuredGroup // endpoints with the greatest part of failed requests in the last hour
}

// DestinationTraffic is the traffic of an endpoint by destination.
type DestinationTraffic struct {
	AsOf         time.Time
	Destinations []MeasuredGroup
}
