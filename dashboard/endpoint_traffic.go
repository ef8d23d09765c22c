package dashboard

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
)

// endpointOverview is what the page of an endpoint shows besides its settings: traffic, what waits, and what fires.
type endpointOverview struct {
	*endpointPage
	TrafficUnavailable string // why the traffic could not be read
	Chart              *barChart
	Traffic            []*destinationTraffic // one for each destination, in their order
	Waiting            []*eventRow           // the newest events with an open delivery
	WaitingMore        bool
	WaitingPath        string // of the list of all of them
	Alerts             []*alertData
}

// destinationTraffic is a destination with its requests of the last hour and the last day.
type destinationTraffic struct {
	*destinationData
	Known    bool // its requests could be read
	LastHour measuredData
	Hours    []measuredStepData
	Strip    strip
	Latency  sparkline // p95 of requests by the hour
}

// waitingStatuses are the states of events with an open delivery: one that is held makes its event pending.
const waitingStatuses = "pending,retrying"

// endpointTraffic is the traffic of an endpoint as the API returns it.
type endpointTraffic struct {
	Destinations []struct {
		ID       string             `json:"destination_id"`
		LastHour measuredData       `json:"last_hour"`
		Hours    []measuredStepData `json:"hours"`
	} `json:"destinations"`
	Waiting struct {
		Data []*eventRow `json:"data"`
		More bool        `json:"more"`
	} `json:"waiting"`

	Unavailable string `json:"-"` // why it could not be read
}

// readTraffic reads the traffic of the endpoint in the path.
func readTraffic(v *visit) (t *endpointTraffic, err error) {
	t = &endpointTraffic{}
	t.Unavailable, err = v.tryGet(endpointAPI+"/traffic", nil, t)
	return t, err
}

// of returns a destination of the endpoint with its requests.
func (t *endpointTraffic) of(d *destinationData) *destinationTraffic {
	out := &destinationTraffic{destinationData: d, Known: t.Unavailable == ""}
	for _, x := range t.Destinations {
		if x.ID == d.ID {
			out.LastHour, out.Hours = x.LastHour, x.Hours
		}
	}
	return out
}

// newEndpointOverview reads what the page of an endpoint shows.
func newEndpointOverview(v *visit, e *endpointData) (*endpointOverview, error) {
	p := &endpointOverview{endpointPage: newEndpointPage(e),
		WaitingPath: eventsPath + "?" + url.Values{"endpoint_id": {e.ID}, "status": {waitingStatuses}}.Encode()}
	traffic, err := readTraffic(v)
	if err != nil {
		return nil, err
	}
	p.TrafficUnavailable = traffic.Unavailable
	alerts, err := readRows[*alertData](v, "/v1/alerts/history", url.Values{"endpoint_id": {e.ID}, "state": {"firing"}})
	if err != nil {
		return nil, err
	}
	p.Waiting, p.WaitingMore, p.Alerts = traffic.Waiting.Data, traffic.Waiting.More, alerts.Data
	for _, a := range p.Alerts {
		if d := e.destination(textOf(a.DestinationID)); d != nil {
			a.Destination = d.Title()
		}
	}
	for i := range e.Destinations {
		p.Traffic = append(p.Traffic, traffic.of(&e.Destinations[i]))
	}
	p.draw(v.deps.Now().UTC())
	return p, nil
}

// draw draws the requests of the 24 hours of which the last is that of now.
func (p *endpointOverview) draw(now time.Time) {
	const hours = 24
	first := now.Truncate(time.Hour).Add(-(hours - 1) * time.Hour)
	rows := make([]chartRow, hours)
	for i := range rows {
		rows[i] = chartRow{first.Add(time.Duration(i) * time.Hour).Format("15:04"), []int64{0, 0}}
	}
	var delivered, failed int64
	for _, d := range p.Traffic {
		latency := make([]float64, hours)
		for i := range latency {
			latency[i] = math.NaN()
		}
		for _, h := range d.Hours {
			i := int(h.At.Sub(first) / time.Hour)
			if h.At.Before(first) || i >= hours {
				continue
			}
			rows[i].Values[0] += h.Delivered
			rows[i].Values[1] += h.Failed
			delivered, failed = delivered+h.Delivered, failed+h.Failed
			if h.LatencyMS != nil {
				latency[i] = float64(h.LatencyMS.P95)
			}
		}
		d.Strip = hourStrip(d.Title(), d.Hours, now)
		d.Latency = newSparkline("p95 of requests to "+d.Title()+" by the hour", latency)
	}
	if p.TrafficUnavailable == "" {
		p.Chart = newBarChart(fmt.Sprintf("Requests by the hour, last 24 h: %s delivered, %s failed", number(delivered),
			number(failed)), "Hour (UTC)", []series{{"delivered", colourOK}, {"failed", colourBad}}, rows)
	}
}

// Settings are those of the destination.
func (d *destinationTraffic) Settings() *destinationData { return d.destinationData }

// Status is the state of the destination. One that is active looks well only if its requests succeed, or if there were
// none; a warning means that they cannot be read.
func (d *destinationTraffic) Status() status {
	s := d.destinationData.Status()
	if d.State != "active" {
		return s
	}
	switch n := &d.LastHour; {
	case !d.Known:
		s.Mark = "note"
	case n.Failed > 0 && n.Delivered == 0:
		return status{Word: "failing", Mark: "failed", On: true}
	case n.Failed > 0:
		s.Mark, s.On = "retrying", true
	}
	return s
}

// Why explains the state, and says how many requests have failed.
func (d *destinationTraffic) Why() string {
	return strings.TrimSpace(d.destinationData.Why() + " " + d.LastHour.Problem())
}

// Clock is the hour of a step.
func (s measuredStepData) Clock() string { return s.At.UTC().Format("2 Jan 15:04") }

// TransformationText says what changes the bodies of deliveries.
func (e *endpointData) TransformationText() string {
	if e.Transformation == nil {
		return "None: destinations get the body as it was received."
	}
	return fmt.Sprintf("Version %d changes the body of each delivery.", e.TransformationVersion)
}
