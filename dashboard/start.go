package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// startPage is the data of the start page: the overview, or what to do first while there is no endpoint.
type startPage struct {
	HasEndpoints bool
	Unavailable  string // why nothing could be read
	Heading      string
	Needs        []need
	Paused       []need     // destinations that a person has paused: nobody has to act
	More         []menuItem // lists that have more things than are shown
	At           web.Time   // when the overview was made
	Traffic      *overviewTraffic
}

// need is one thing that needs a person.
type need struct {
	Class, Icon   string
	Subject, Text string // the sentence begins with the subject
	Detail        string
	Since, Until  web.Time // may be zero
	Path, Button  string
}

// overviewTraffic is the traffic of the last hour, as the start page shows it.
type overviewTraffic struct {
	*wire.OverviewTraffic
	Tables               []endpointTable // the worst and the busiest endpoints
	Chart                *barChart
	Rate, First, Latency sparkline
}

// endpointTable is a list of endpoints with their traffic.
type endpointTable struct {
	Title, Note string
	Rows        []endpointTrafficData
}

// showStart shows the overview, and what to do first while there is no endpoint.
func showStart(v *visit) error {
	var list wire.List[struct{}]
	var o wire.Overview
	err := v.get("/v1/endpoints", url.Values{"limit": {"1"}}, &list)
	p := startPage{HasEndpoints: len(list.Data) > 0}
	if err == nil && p.HasEndpoints {
		err = v.get("/v1/overview", nil, &o)
	}
	if x, ok := errors.AsType[*apiError](err); ok && isUnavailable(err) {
		p.Unavailable = x.Message
	} else if err != nil {
		return err
	}
	if p.HasEndpoints && p.Unavailable == "" {
		alerts := make([]*alertData, len(o.Needs.Alerts.Data))
		for i, a := range o.Needs.Alerts.Data {
			alerts[i] = &alertData{Alert: *a}
		}
		if err := nameAlerts(v, alerts); err != nil {
			return err
		}
		addOverview(v, &p, &o, alerts)
	}
	return v.page("start", p)
}

// maxAskedShown is how many changes that agents ask for the overview shows.
const maxAskedShown = 5

// addOverview adds what the overview says.
func addOverview(v *visit, p *startPage, o *wire.Overview, alerts []*alertData) {
	p.At = o.At
	asked := v.deps.Acts.Pending(v.person.Account)
	shown := asked[:min(len(asked), maxAskedShown)]
	addNeeds(v, p, o, shown, alerts)
	n, total := &o.Needs, len(p.Needs)
	more := hidden(&n.Destinations)
	if len(p.Paused) > 0 { // they are last, so those that are left out are paused too
		p.Paused, more = pausedNeeds(p.Paused, len(p.Paused)+more), 0
	}
	for _, x := range []struct {
		more       int
		path, name string
	}{
		{len(asked) - len(shown), agentsPath, "changes of agents"}, {hidden(&n.Recoveries), recoveriesPath, "recoveries"},
		{hidden(&n.Findings), findingsPath, "findings"}, {more, endpointsPath, "destinations"},
		{hidden(&n.Alerts), alertsPath, "alerts"},
	} {
		if x.more > 0 {
			total += x.more
			p.More = append(p.More, menuItem{Path: x.path, Name: number(int64(x.more)) + " more " + x.name})
		}
	}
	p.Heading = needsHeading(total)
	if o.Traffic != nil {
		p.Traffic = newOverviewTraffic(o.Traffic, time.Time(o.At).UTC())
	}
}

// addNeeds adds what needs a person, the most urgent first: decisions that something waits for, critical findings,
// destinations that get nothing, other findings, alerts. What a person has paused comes after that, apart.
func addNeeds(v *visit, p *startPage, o *wire.Overview, asked []*config.Act, alerts []*alertData) {
	for _, a := range asked {
		p.Needs = append(p.Needs, need{Class: "held", Icon: "held", Subject: a.KeyName, Text: "asks for a change.",
			Detail: a.Summary, Until: web.Time(a.ExpiresAt()), Path: pageOf(a.ID), Button: "Decide"})
	}
	for _, r := range o.Needs.Recoveries.Data {
		p.Needs = append(p.Needs, recoveryNeed(&r, v.nameOf(r.CreatedBy)))
	}
	var findings []need // of high severity
	for _, f := range o.Needs.Findings.Data {
		if f.Severity == "critical" {
			p.Needs = append(p.Needs, findingNeed(&f))
		} else {
			findings = append(findings, findingNeed(&f))
		}
	}
	shown := map[string]bool{} // destinations whose state is named
	for _, d := range o.Needs.Destinations.Data {
		shown[d.DestinationID] = true
		if d.State == "paused" {
			p.Paused = append(p.Paused, destinationNeed(&d))
		} else {
			p.Needs = append(p.Needs, destinationNeed(&d))
		}
	}
	alerts = slices.DeleteFunc(alerts, func(a *alertData) bool {
		return a.Rule == "destination_state" && shown[textOf(a.DestinationID)]
	})
	p.Needs = slices.Concat(p.Needs, findings, alertNeeds(alerts))
}

// maxDestinationLines is how many lines the destinations of one alert rule, or those that are paused, have. More are
// named in one line.
const maxDestinationLines = 3

// alertNeeds are the lines of alerts, in their order.
func alertNeeds(alerts []*alertData) (needs []need) {
	byRule := map[string][]*alertData{} // of destinations
	for _, a := range alerts {
		if a.DestinationID != nil {
			byRule[a.Rule] = append(byRule[a.Rule], a)
		}
	}
	for _, a := range alerts {
		switch group := byRule[a.Rule]; {
		case a.DestinationID == nil || len(group) <= maxDestinationLines:
			needs = append(needs, alertNeed(a))
		case a == group[0]:
			needs = append(needs, groupNeed(group))
		}
	}
	return needs
}

// groupNeed says what fires at several destinations.
func groupNeed(group []*alertData) need {
	a := group[0]
	x := need{Class: "failed", Icon: "failed", Subject: a.Title() + ":",
		Text: plural(len(group), "destination", "destinations") + ".", Since: a.FiredAt, Button: "Open",
		Path: withQuery(alertHistoryPath, nil, "rule", a.Rule, "state", "firing")}
	names := make([]string, len(group))
	for i, other := range group {
		if names[i] = other.Subject(); time.Time(other.FiredAt).Before(time.Time(x.Since)) {
			x.Since = other.FiredAt
		}
	}
	x.Detail = firstNames(names, len(names))
	return x
}

// firstNames are the first of n names in a line.
func firstNames(names []string, n int) string {
	names = names[:min(len(names), maxDestinationLines)]
	return fmt.Sprintf("%s and %d more", strings.Join(names, "; "), n-len(names))
}

// pausedNeeds are the lines of n destinations that a person has paused, of which some are shown.
func pausedNeeds(shown []need, n int) []need {
	if n <= maxDestinationLines && n == len(shown) {
		return shown
	}
	names := make([]string, len(shown))
	for i, x := range shown {
		names[i] = x.Subject
	}
	return []need{{Icon: "held", Subject: plural(n, "destination", "destinations"), Path: endpointsPath, Button: "Open",
		Text: "are paused by hand. Deliveries wait until they are unpaused.", Detail: firstNames(names, n)}}
}

// findingNeed says what leaked.
func findingNeed(f *wire.CriticalFinding) need {
	return need{Class: "failed", Icon: "finding", Subject: f.Name, Button: "What to do", Path: pageOf(f.ID),
		Text: "is an open finding of " + f.Severity + " severity.", Detail: textOf(f.Masked), Since: f.OpenedAt}
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

// destinationNeed says why the deliveries of a destination wait.
func destinationNeed(d *wire.WaitingDestination) need {
	x := need{Class: "held", Icon: "held", Subject: cmp.Or(textOf(d.DestinationName), d.Host), Button: "Open",
		Detail: d.EndpointName + " → " + d.Host, Path: destinationPageOf(d.EndpointID, d.DestinationID)}
	switch {
	case d.State == "held":
		x.Text = "is held: it failed many times in a row. Deliveries wait and leave once a probe succeeds."
		x.Until = d.Until
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

// recoveryNeed says what a recovery job waits for, and who has prepared it.
func recoveryNeed(j *wire.WaitingRecovery, by string) need {
	return need{Icon: "recover", Subject: cmp.Or(textOf(j.EndpointName), j.EndpointID), Until: j.DeadlineAt,
		Text: fmt.Sprintf("has a recovery that waits for approval: its canary delivered %d of %d.",
			j.Canary.Delivered, j.Canary.Total),
		Detail: "prepared by " + by, Path: pageOf(j.ID), Button: "Review"}
}

// alertNeed says what fires.
func alertNeed(a *alertData) need {
	x := need{Class: "failed", Icon: "failed", Subject: a.Title() + ".", Detail: a.Subject(), Since: a.FiredAt,
		Path: cmp.Or(a.FailedPath(), a.Path(), alertHistoryPath), Button: "Open"}
	if a.FailedPath() != "" {
		x.Button = "Show the events"
	}
	if found := a.Found(); found != "" {
		x.Detail += ": " + found
	}
	return x
}

// newOverviewTraffic draws the traffic of the hour that ends with the minute of at.
func newOverviewTraffic(t *wire.OverviewTraffic, at time.Time) *overviewTraffic {
	const minutes = 60
	line := newTimeline(at, time.Minute, minutes)
	rows, share, latency, delivered := line.rows(2), line.unknown(), line.unknown(), make([]float64, minutes)
	for _, m := range t.Minutes {
		i, ok := line.index(time.Time(m.At))
		if !ok {
			continue
		}
		rows[i].Values = []int64{m.Delivered, m.Failed}
		delivered[i], latency[i] = float64(m.Delivered), latencyOf(&m.MeasuredRequests)
		if m.FirstAttempts > 0 {
			share[i] = float64(m.FirstDelivered) / float64(m.FirstAttempts)
		}
	}
	title := fmt.Sprintf("Requests a minute, %s to %s UTC: %s delivered, %s failed", rows[0].Label,
		rows[minutes-1].Label, number(t.LastHour.Delivered), number(t.LastHour.Failed))
	x := &overviewTraffic{OverviewTraffic: t,
		Chart:   newBarChart(title, "Minute (UTC)", []series{{"delivered", colourOK}, {"failed", colourBad}}, rows),
		Rate:    newSparkline("Deliveries a minute in the last hour", delivered),
		First:   newSparkline("Part of first attempts that succeeded, by the minute", share),
		Latency: newSparkline("p95 of requests by the minute", latency)}
	x.addTable("Worst endpoints", "most failed requests in the last hour; the strip is 24 hours", t.Worst, at)
	x.addTable("Busiest endpoints", "last 24 hours, an hour a bar; figures of the last hour", t.Busiest, at)
	return x
}

// addTable adds a list of endpoints unless it is empty.
func (x *overviewTraffic) addTable(title, note string, endpoints []wire.OverviewEndpoint, at time.Time) {
	if len(endpoints) == 0 {
		return
	}
	table := endpointTable{Title: title, Note: note}
	for _, e := range endpoints {
		row := endpointTrafficData{OverviewEndpoint: e}
		row.Strip = hourStrip(row.Title(), e.Hours, at)
		table.Rows = append(table.Rows, row)
	}
	x.Tables = append(x.Tables, table)
}
