package endpoints

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// traffic is the traffic of an endpoint in a range of time.
type traffic struct {
	wire.EndpointTraffic
	Unavailable string `json:"-"` // why it could not be read
	span        event.TrafficRange
}

// readTraffic reads the traffic of the endpoint in the path, in the range that the visitor has chosen.
func readTraffic(v *frame.Visit) (t *traffic, err error) {
	t = &traffic{span: event.TrafficDay}
	for _, span := range event.TrafficRanges {
		if span.Name == v.R.URL.Query().Get("range") {
			t.span = span
		}
	}
	t.Unavailable, err = v.TryGet(endpointAPI+"/traffic", url.Values{"range": {t.span.Name}}, t)
	return t, err
}

// of returns a destination of the endpoint with its requests.
func (t *traffic) of(d *model.Destination, now time.Time) *destinationTraffic {
	out := &destinationTraffic{Destination: d, Known: t.Unavailable == ""}
	for i := range t.Destinations {
		if x := &t.Destinations[i]; x.DestinationID == d.ID {
			out.DestinationTraffic = *x
		}
	}
	out.Strip = model.HourStrip(d.Title(), model.HoursOf(out.Hours), now)
	return out
}

// trafficView shows the requests of a range: of an endpoint, or to one of its destinations.
type trafficView struct {
	Unavailable string           // why they are not known
	Path        string           // of the page
	Ranges      []frame.MenuItem // of the range menu
	Range       string           // path of the current one
	Span        string           // such as 24h
	Chart       *frame.BarChart
	Total       wire.MeasuredRequests // without latency for several destinations
	Backlog     *backlog              // of one destination; nil: they are those to several
	Latency     frame.Sparkline       // p95, of one destination
	Failing     frame.Sparkline       // share of the requests that failed
}

// view draws the requests to some destinations of the endpoint. A bar leads to the events of its step.
func (t *traffic) view(page string, events url.Values, now time.Time, of ...*destinationTraffic) *trafficView {
	x := &trafficView{Unavailable: t.Unavailable, Path: page, Span: t.span.Name,
		Range: frame.WithQuery(page, nil, "range", t.span.Name)}
	for _, span := range event.TrafficRanges {
		x.Ranges = append(x.Ranges, frame.MenuItem{Path: frame.WithQuery(page, nil, "range", span.Name), Name: span.Name})
	}
	if t.Unavailable != "" {
		return x
	}
	line := frame.NewTimeline(now, t.span.Step, t.span.Steps)
	rows, p95 := line.Rows(2), line.Unknown()
	line.LinkEvents(rows, events)
	for _, d := range of {
		x.Total.Requests += d.Total.Requests
		x.Total.Delivered += d.Total.Delivered
		x.Total.Failed += d.Total.Failed
		x.Total.LatencyMS = d.Total.LatencyMS
		for _, s := range d.Steps {
			if i, ok := line.Index(time.Time(s.At)); ok {
				rows[i].Values[0] += s.Delivered
				rows[i].Values[1] += s.Failed
				p95[i] = frame.LatencyOf(&s.MeasuredRequests)
			}
		}
	}
	x.Chart = frame.NewBarChart(fmt.Sprintf("Requests in the last %s: %s delivered, %s failed", t.span.Name,
		frame.Number(x.Total.Delivered), frame.Number(x.Total.Failed)), "Time (UTC)",
		[]frame.Series{{Name: "delivered", Class: frame.ColourOK}, {Name: "failed", Class: frame.ColourBad}}, rows)
	x.Latency, x.Failing = frame.NewSparkline("p95 of requests", p95), failing(rows)
	return x
}

// failing draws the share of failed requests in the steps that had some. A line of zeros is left out.
func failing(rows []frame.ChartRow) frame.Sparkline {
	shares, worst, whole := make([]float64, len(rows)), int64(0), int64(1)
	for i, row := range rows {
		n := row.Values[0] + row.Values[1]
		shares[i] = float64(row.Values[1]) / float64(n) // NaN: no requests
		if row.Values[1]*whole > worst*n {
			worst, whole = row.Values[1], n
		}
	}
	if worst == 0 {
		return frame.Sparkline{}
	}
	return frame.NewSparkline("Failed requests, at most "+frame.Percent(worst, whole), shares)
}

// backlog is what waits for a destination.
type backlog struct {
	Unavailable string
	Events      int // that wait
	More        bool
	Oldest      web.Time // when the oldest was received; zero if More
	Path        string   // list of them
}

// readBacklog counts the open deliveries of a destination. It reads one page of events.
func readBacklog(v *frame.Visit, about url.Values, d *model.Destination) (b *backlog, err error) {
	query := maps.Clone(about)
	query.Set("status", waitingStatuses)
	b = &backlog{Path: frame.WithQuery(frame.EventsPath, query)}
	query.Set("limit", "100")
	var list wire.List[*model.EventRow]
	if b.Unavailable, err = v.TryGet("/v1/events", query, &list); err != nil || b.Unavailable != "" {
		return b, err
	}
	b.More = list.NextCursor != ""
	for _, x := range list.Data {
		if slices.ContainsFunc(x.Deliveries, func(s wire.DeliveryState) bool {
			return s.DestinationID == d.ID && model.IsOpen(s.Status)
		}) {
			b.Events++
			b.Oldest = x.ReceivedAt
		}
	}
	if b.More {
		b.Oldest = web.Time{}
	}
	return b, nil
}
