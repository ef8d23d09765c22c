package event

import "time"

// Use is what counts against an allowance: events that were accepted and are billed, and findings.
type Use struct {
	Received int64 // from providers
	Sent     int64 // through the API
	Findings int64
	Bytes    int64 // of the bodies of the events
}

// Total is what is compared with the allowance.
func (u Use) Total() int64 { return u.Received + u.Sent + u.Findings }

// UsageSpan says what is to be counted. Its times are whole hours.
type UsageSpan struct {
	From, To time.Time // the period, [From, To)
	Recent   time.Time // Figures.Recent counts from here, which may be before From
}

// Figures are the counts of a span.
type Figures struct {
	Daily      []DayUse      // days with any use, oldest first
	ByEndpoint []EndpointUse // the 20 with the most, greatest first
	Recent     int64         // total from UsageSpan.Recent to UsageSpan.To
	Deliveries int64         // requests that succeeded; counted at least once
	Attempts   int64         // requests that were made; counted at least once
	AsOf       time.Time     // everything acknowledged before is counted
	QueryTime  time.Duration // of counting, without the wait for the store
}

// Sum is the use of all days.
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
}

// Usage is what an account has used in the current period, and what that will come to.
type Usage struct {
	From, To time.Time // the period
	Use
	Figures          // Daily has every day up to now
	Allowance  int64 // 0 = none
	Projection Projection
}

// Over is what total exceeds the allowance by.
func (u *Usage) Over(total int64) int64 {
	if u.Allowance == 0 {
		return 0
	}
	return max(0, total-u.Allowance)
}

// Projection is the use expected at the end of the period.
type Projection struct {
	Events int64
	// Certain is false while there is less than a day to go by.
	Certain bool
}

// Traffic is what requests to destinations came to in a span. Requests are counted at least once.
type Traffic struct {
	Step      time.Duration     // between two points: a minute or an hour
	Points    []TrafficPoint    // those with any request, oldest first
	Endpoints []EndpointTraffic // those with any request, the most first
}

// Requests are counts of requests to destinations.
type Requests struct{ Attempts, Delivered, Failed int64 }

// TrafficPoint is one step of time.
type TrafficPoint struct {
	At time.Time
	Requests
}

// EndpointTraffic is the whole span of one endpoint.
type EndpointTraffic struct {
	Endpoint string
	Requests
}
