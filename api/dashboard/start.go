package dashboard

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// startPage is the data of the start page: the overview, or what to do first while there is no endpoint.
type startPage struct {
	HasEndpoints bool
	Unavailable  string // why nothing could be read
	Pages        map[string]bool
	Heading      string
	Needs        []need
	More         []menuItem // lists that have more things than are shown
	At           string     // when the overview was made
	Traffic      *overviewTraffic
}

// need is one thing that needs a person.
type need struct {
	Class, Icon   string
	Subject, Text string // the sentence begins with the subject
	Detail        string
	Since, Until  string // times; may be empty
	Path, Button  string
}

// overviewTraffic is the traffic of the last hour, as the start page shows it.
type overviewTraffic struct {
	*trafficData
	Tables               []endpointTable // the worst and the busiest endpoints
	Chart                *barChart
	Rate, First, Latency sparkline
}

// endpointTable is a list of endpoints with their traffic.
type endpointTable struct {
	Title, Note string
	Rows        []endpointTrafficData
}

// openStart leads to the start page.
func openStart(v *visit) error { return v.redirect("/app", "") }

// showStart shows the overview, and what to do first while there is no endpoint.
func showStart(v *visit) error {
	var list struct {
		Data []struct{} `json:"data"`
	}
	var o overviewData
	err := v.get("/v1/endpoints", url.Values{"limit": {"1"}}, &list)
	p := startPage{HasEndpoints: len(list.Data) > 0, Pages: map[string]bool{}}
	if err == nil && p.HasEndpoints {
		err = v.get("/v1/overview", nil, &o)
	}
	if e, ok := errors.AsType[*apiError](err); ok && e.isUnavailable() {
		p.Unavailable = e.Message
	} else if err != nil {
		return err
	}
	for path := range v.routes {
		p.Pages[path] = v.has(path)
	}
	if p.HasEndpoints && p.Unavailable == "" {
		if len(o.Needs.Alerts.Data) > 0 {
			if _, err := nameAlerts(v, o.Needs.Alerts.Data); err != nil {
				return err
			}
		}
		v.addOverview(&p, &o)
	}
	return v.page("start", p)
}

// maxAskedShown is how many changes that agents ask for the overview shows.
const maxAskedShown = 5

// addOverview adds what the overview says.
func (v *visit) addOverview(p *startPage, o *overviewData) {
	p.At = o.At
	total := o.Needs.Findings.Total + o.Needs.Destinations.Total + o.Needs.Recoveries.Total + o.Needs.Alerts.Total
	asked := v.deps.Acts.Pending(v.person.Account)
	total += len(asked)
	for _, a := range asked[:min(len(asked), maxAskedShown)] {
		p.Needs = append(p.Needs, need{Class: "held", Icon: "held", Subject: a.KeyName, Text: "asks for a change.",
			Detail: a.Summary, Until: a.ExpiresAt().UTC().Format(web.TimeFormat), Path: "/app/confirm/" + a.ID,
			Button: "Decide"})
	}
	for _, f := range o.Needs.Findings.Data {
		p.Needs = append(p.Needs, need{Class: "failed", Icon: "finding", Subject: f.Name,
			Text: "is an open finding of " + f.Severity + " severity.", Detail: textOf(f.Masked), Since: f.OpenedAt,
			Path:   findingsPath + "/" + url.PathEscape(f.ID),
			Button: "What to do"})
	}
	shown := map[string]bool{} // destinations whose state is named
	for _, d := range o.Needs.Destinations.Data {
		shown[d.DestinationID] = true
		p.Needs = append(p.Needs, d.need())
	}
	for _, r := range o.Needs.Recoveries.Data {
		r.CreatedBy = v.nameOf(r.CreatedBy)
		p.Needs = append(p.Needs, r.need())
	}
	for _, a := range o.Needs.Alerts.Data {
		if a.Rule == "destination_state" && a.DestinationID != nil && shown[*a.DestinationID] {
			total--
			continue
		}
		p.Needs = append(p.Needs, alertNeed(a))
	}
	p.Heading = needsHeading(total)
	for _, x := range []struct {
		total, shown int
		item         menuItem
	}{
		{len(asked), min(len(asked), maxAskedShown), menuItem{Path: agentsPath, Name: "changes of agents"}},
		{o.Needs.Findings.Total, len(o.Needs.Findings.Data), menuItem{Path: findingsPath, Name: "findings"}},
		{o.Needs.Destinations.Total, len(o.Needs.Destinations.Data), menuItem{Path: endpointsPath, Name: "destinations"}},
		{o.Needs.Recoveries.Total, len(o.Needs.Recoveries.Data), menuItem{Path: recoveriesPath, Name: "recoveries"}},
		{o.Needs.Alerts.Total, len(o.Needs.Alerts.Data), menuItem{Path: alertsPath, Name: "alerts"}},
	} {
		if x.total > x.shown {
			x.item.Name = fmt.Sprintf("%s more %s", number(int64(x.total-x.shown)), x.item.Name)
			p.More = append(p.More, x.item)
		}
	}
	if o.Traffic != nil {
		at, err := time.Parse(time.RFC3339, o.At)
		if err != nil {
			at = v.deps.Now()
		}
		p.Traffic = newOverviewTraffic(o.Traffic, at.UTC())
	}
}

// needsHeading says how many things need a person.
func needsHeading(n int) string {
	words := []string{"Nothing", "One thing", "Two things", "Three things", "Four things", "Five things", "Six things",
		"Seven things", "Eight things", "Nine things"}
	switch {
	case n < 2:
		return words[n] + " needs you"
	case n < len(words):
		return words[n] + " need you"
	}
	return number(int64(n)) + " things need you"
}

// need says why the deliveries of a destination wait.
func (d *waitingDestinationData) need() need {
	endpoint := endpointsPath + "/" + url.PathEscape(d.EndpointID)
	name := d.Host
	if d.DestinationName != nil && *d.DestinationName != "" {
		name = *d.DestinationName
	}
	x := need{Class: "held", Icon: "held", Subject: name, Detail: d.EndpointName + " → " + d.Host, Button: "Open",
		Path: endpoint + "/destinations/" + url.PathEscape(d.DestinationID)}
	switch {
	case d.State == "held":
		x.Text = "is held: it failed many times in a row. Deliveries wait and leave once a probe succeeds."
		x.Until = textOf(d.Until)
	case d.State == "paused":
		x.Class, x.Text = "", "is paused by hand. Deliveries wait until it is unpaused."
	case textOf(d.StateReason) == "gone_410":
		x.Class, x.Icon = "failed", "failed"
		x.Text = "was disabled: three events in a row were answered 410 Gone. Nothing is sent to it."
	default:
		x.Class, x.Icon, x.Text = "failed", "failed", "was disabled ("+textOf(d.StateReason)+"). Nothing is sent to it."
	}
	return x
}

// need says what a recovery job waits for.
func (r *waitingRecoveryData) need() need {
	name := r.EndpointID
	if r.EndpointName != nil {
		name = *r.EndpointName
	}
	return need{Icon: "recover", Subject: name, Until: r.DeadlineAt,
		Text: fmt.Sprintf("has a recovery that waits for approval: its canary delivered %d of %d, %s remain.",
			r.Canary.Delivered, r.Canary.Total, plural(r.Total-r.Canary.Total, "delivery", "deliveries")),
		Detail: "prepared by " + r.CreatedBy, Path: recoveriesPath + "/" + url.PathEscape(r.ID), Button: "Review"}
}

// alertNeed says what fires.
func alertNeed(a *alertData) need {
	x := need{Class: "failed", Icon: "failed", Subject: a.Title() + ".", Detail: a.Subject(), Since: a.FiredAt,
		Path: a.Path(), Button: "Open"}
	if path := a.FailedPath(); path != "" {
		x.Path, x.Button = path, "Show the events"
	}
	if found := a.Found(); found != "" {
		x.Detail += ": " + found
	}
	if x.Path == "" {
		x.Path = alertHistoryPath
	}
	return x
}

// newOverviewTraffic draws the traffic of the hour that ends with the minute of at.
func newOverviewTraffic(t *trafficData, at time.Time) *overviewTraffic {
	const minutes = 60
	first := at.Truncate(time.Minute).Add(-(minutes - 1) * time.Minute)
	rows := make([]chartRow, minutes)
	delivered, share, latency := make([]float64, minutes), make([]float64, minutes), make([]float64, minutes)
	for i := range rows {
		rows[i] = chartRow{first.Add(time.Duration(i) * time.Minute).Format("15:04"), []int64{0, 0}}
		share[i], latency[i] = math.NaN(), math.NaN()
	}
	for _, m := range t.Minutes {
		i := int(m.At.Sub(first) / time.Minute)
		if i < 0 || i >= minutes {
			continue
		}
		rows[i].Values = []int64{m.Delivered, m.Failed}
		delivered[i] = float64(m.Delivered)
		if m.FirstAttempts > 0 {
			share[i] = float64(m.FirstDelivered) / float64(m.FirstAttempts)
		}
		if m.LatencyMS != nil {
			latency[i] = float64(m.LatencyMS.P95)
		}
	}
	title := fmt.Sprintf("Requests a minute, %s to %s UTC: %s delivered, %s failed", rows[0].Label,
		rows[minutes-1].Label, number(t.LastHour.Delivered), number(t.LastHour.Failed))
	x := &overviewTraffic{trafficData: t,
		Chart: newBarChart(title, "Minute (UTC)", []series{{"delivered", colourOK}, {"failed", colourBad}}, rows),
		Rate:  newSparkline("Deliveries a minute in the last hour", delivered),
		First: newSparkline("Part of first attempts that succeeded, by the minute", share), Latency: newSparkline(
			"p95 of requests by the minute", latency)}
	for _, table := range []endpointTable{
		{"Worst endpoints", "most failed requests in the last hour; the strip is 24 hours", t.Worst},
		{"Busiest endpoints", "last 24 hours, an hour a bar; figures of the last hour", t.Busiest},
	} {
		for i := range table.Rows {
			x := &table.Rows[i]
			x.Strip = hourStrip(x.Title(), x.Hours, at)
		}
		if len(table.Rows) > 0 {
			x.Tables = append(x.Tables, table)
		}
	}
	return x
}
