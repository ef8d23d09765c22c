// Package overview has the start page: what needs a person, and the traffic of the last hour.
package overview

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// hidden is how many things are not shown.
func hidden[T any](c *wire.Counted[T]) int { return c.Total - len(c.Data) }

// endpointTrafficData is an endpoint with its traffic.
type endpointTrafficData struct {
	wire.OverviewEndpoint
	Strip ui.Strip
}

// Title is the name of the endpoint, or its id if it was deleted.
func (e *endpointTrafficData) Title() string {
	if e.Name == nil {
		return e.EndpointID
	}
	return *e.Name
}

// Path is the page of the endpoint, empty if it was deleted.
func (e *endpointTrafficData) Path() string {
	if e.Name == nil {
		return ""
	}
	return ui.PageOf(e.EndpointID)
}

// startPage is the data of the start page: the overview, or what to do first while there is no endpoint.
type startPage struct {
	HasEndpoints bool
	IsNew        bool   // there are so few endpoints that a sample may help
	Unavailable  string // why nothing could be read
	Heading      string
	Needs        []model.Need  // the first maxNeeds
	Further      []model.Need  // those behind them
	Paused       []model.Need  // destinations paused by a user: no action needed
	More         []ui.MenuItem // lists that have more things than are shown
	At           web.Time      // when the overview was made
	Live         string        // path of the page with its range
	Traffic      *overviewTraffic
	rejecting    []model.Rejecting
	endpoints    []*config.Endpoint
	Map          *flowMap // nil: there is no traffic, or no destination
}

// maxNeeds is how many lines are shown before the others are folded.
const maxNeeds = 5

// overviewTraffic is the traffic of the last hour, as the start page shows it.
type overviewTraffic struct {
	*wire.OverviewTraffic
	Menu        model.RangeMenu
	Tables      []endpointTable // the worst and the busiest endpoints
	Chart       *ui.BarChart
	Rate, First ui.Sparkline
}

// endpointTable is a list of endpoints with their traffic.
type endpointTable struct {
	Title, Note string
	Rows        []endpointTrafficData
}

// showStart shows the overview, and what to do first while there is no endpoint.
func showStart(v *ui.Visit) error {
	first, _ := v.Deps.Control.Endpoints(v.Person.Account, 0, fewEndpoints)
	p := startPage{HasEndpoints: len(first) > 0, IsNew: len(first) < fewEndpoints}
	if !p.HasEndpoints {
		return v.Page("start", p)
	}
	all, _ := v.Deps.Control.Endpoints(v.Person.Account, 0, math.MaxInt)
	menu := model.NewRangeMenu(v, "/app", time.Time{}, event.TrafficHour) // as the list of endpoints reads
	p.Live, p.endpoints = menu.Range, all
	var o wire.Overview
	err := v.Get("/v1/overview", url.Values{"range": {menu.Span.Name}}, &o)
	if x, ok := errors.AsType[*ui.APIError](err); ok && ui.IsUnavailable(err) {
		p.Unavailable = x.Message
	} else if err != nil {
		return err
	}
	if p.Unavailable == "" {
		alerts := make([]*model.Alert, len(o.Needs.Alerts.Data))
		for i, a := range o.Needs.Alerts.Data {
			alerts[i] = &model.Alert{Alert: *a}
		}
		if err := model.NameAlerts(v, alerts); err != nil {
			return err
		}
		if p.rejecting, err = model.RejectingEndpoints(v); err != nil {
			return err
		}
		addOverview(v, &p, &o, menu, alerts)
	}
	return v.Page("start", p)
}

// maxAskedShown is how many changes that agents ask for the overview shows.
const maxAskedShown = 5

// addOverview adds what the overview says.
func addOverview(v *ui.Visit, p *startPage, o *wire.Overview, menu model.RangeMenu, alerts []*model.Alert) {
	p.At = o.At
	asked := v.AskedChanges()
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
		{len(asked) - len(shown), ui.AgentsPath, "changes of agents"},
		{hidden(&n.Recoveries), ui.RecoveriesPath, "recoveries"}, {more, ui.EndpointsPath, "destinations"},
		{hidden(&n.Alerts), ui.AlertHistoryPath, "alerts"}, {hidden(&n.Issues), ui.IssuesPath, "issues"},
	} {
		if x.more > 0 {
			total += x.more
			p.More = append(p.More, ui.MenuItem{Path: x.path, Name: ui.Number(int64(x.more)) + " more " + x.name})
		}
	}
	p.Heading = needsHeading(total)
	if len(p.Needs) > maxNeeds {
		p.Needs, p.Further = p.Needs[:maxNeeds], p.Needs[maxNeeds:]
	}
	if o.Traffic != nil {
		p.Map = newFlowMap(p.endpoints, o)
		p.Traffic = newOverviewTraffic(o.Traffic, menu, time.Time(o.At).UTC())
	}
}

// addNeeds adds what needs a person, the most urgent first: decisions that something waits for, leaked keys if one is
// critical, destinations with everything that is wrong with them, other leaked keys. What a person has paused comes
// after that, apart.
func addNeeds(v *ui.Visit, p *startPage, o *wire.Overview, asked []*config.Action, alerts []*model.Alert) {
	for _, a := range asked {
		p.Needs = append(p.Needs, model.Need{Class: "held", Icon: "held", Subject: a.KeyName, Text: "asks for a change.",
			Detail: a.Summary, Until: web.Time(a.ExpiresAt()), Links: []ui.MenuItem{{Path: ui.PageOf(a.ID),
				Name: "Decide"}}})
	}
	for _, r := range o.Needs.Recoveries.Data {
		p.Needs = append(p.Needs, recoveryNeed(&r, v.NameOf(r.CreatedBy)))
	}
	leaks := findingNeeds(&o.Needs.Findings)
	critical := slices.ContainsFunc(o.Needs.Findings.Data, func(f wire.CriticalFinding) bool {
		return f.Severity == "critical"
	})
	if critical {
		p.Needs = append(p.Needs, leaks...)
	}
	x := model.NewCauses(v)
	if o.Traffic != nil {
		for _, e := range slices.Concat(o.Traffic.Busiest, o.Traffic.Worst) {
			x.AddRequests(e.Destinations)
		}
	}
	for _, d := range o.Needs.Destinations.Data {
		if d.State == "paused" {
			p.Paused = append(p.Paused, model.Need{Icon: "held", Subject: model.NameOfWaiting(&d),
				Text: "is paused by hand. Deliveries wait until it is unpaused.",
				Path: ui.DestinationPageOf(d.EndpointID, d.DestinationID)})
			continue
		}
		x.AddWaiting(model.NameOfWaiting(&d), &d)
	}
	for _, i := range o.Needs.Issues.Data {
		x.AddIssue(i)
	}
	for _, a := range alerts {
		x.AddAlert(a, a.Subject())
	}
	p.Needs = append(p.Needs, x.Needs()...)
	for _, x := range p.rejecting {
		if !model.SaysRejecting(alerts, x.EndpointID) {
			p.Needs = append(p.Needs, x.Need(cmp.Or(v.EndpointName(x.EndpointID), x.EndpointID)))
		}
	}
	if !critical {
		p.Needs = append(p.Needs, leaks...)
	}
}

// maxNames is how many names a line has.
const maxNames = 3

// firstNames are the first of n names in a line.
func firstNames(names []string, n int) string {
	names = names[:min(len(names), maxNames)]
	return fmt.Sprintf("%s and %d more", strings.Join(names, "; "), n-len(names))
}

// pausedNeeds are the lines of n destinations that a person has paused, of which some are shown.
func pausedNeeds(shown []model.Need, n int) []model.Need {
	if n <= maxNames && n == len(shown) {
		return shown
	}
	names := make([]string, len(shown))
	for i, x := range shown {
		names[i] = x.Subject
	}
	return []model.Need{{Icon: "held", Subject: ui.Plural(n, "destination", "destinations"),
		Links: []ui.MenuItem{{Path: ui.EndpointsPath, Name: "Open"}},
		Text:  "are paused by hand. Deliveries wait until they are unpaused.", Detail: firstNames(names, n)}}
}

// findingNeeds say in one line what leaked.
func findingNeeds(c *wire.Counted[wire.CriticalFinding]) []model.Need {
	if c.Total == 0 || len(c.Data) == 0 {
		return nil
	}
	f := &c.Data[0]
	x := model.Need{Class: "failed", Icon: "finding", Subject: f.Name, Text: "has leaked: severity " + f.Severity + ".",
		Detail: ui.TextOf(f.Masked), Since: f.OpenedAt,
		Links: []ui.MenuItem{{Path: ui.PageOf(f.ID), Name: "What to do"}}}
	if c.Total > 1 {
		names := make([]string, len(c.Data))
		for i := range c.Data {
			names[i] = c.Data[i].Name
		}
		x.Subject = ui.Plural(c.Total, "leaked key", "leaked keys")
		x.Text = "are open findings of high or critical severity."
		x.Links[0] = ui.MenuItem{Path: ui.FindingsPath, Name: "What to do"}
		if x.Detail = strings.Join(names, "; "); c.Total > maxNames {
			x.Detail = firstNames(names, c.Total)
		}
	}
	return []model.Need{x}
}

// needsHeading says how many things need a person.
func needsHeading(n int) string {
	words := []string{"Nothing", "One thing", "Two things", "Three things", "Four things", "Five things", "Six things",
		"Seven things", "Eight things", "Nine things"}
	switch {
	case n < 2:
		return words[n] + " needs attention"
	case n < len(words):
		return words[n] + " need attention"
	}
	return ui.Number(int64(n)) + " things need attention"
}

// recoveryNeed says what a recovery job waits for, and who has prepared it.
func recoveryNeed(j *wire.WaitingRecovery, preparer string) model.Need {
	return model.Need{Icon: "recover", Subject: cmp.Or(ui.TextOf(j.EndpointName), j.EndpointID), Until: j.DeadlineAt,
		Text: fmt.Sprintf("has a recovery that waits for approval: its canary delivered %d of %d.",
			j.Canary.Delivered, j.Canary.Total),
		Detail: "prepared by " + preparer, Links: []ui.MenuItem{{Path: ui.PageOf(j.ID), Name: "Review"}}}
}

// newOverviewTraffic draws the traffic of a range that ends with the minute of at, and lines of its figures by step.
func newOverviewTraffic(t *wire.OverviewTraffic, menu model.RangeMenu, at time.Time) *overviewTraffic {
	line := ui.NewTimeline(at, time.Minute, event.TrafficHour.Steps)
	share, delivered := line.Unknown(), make([]float64, line.Steps)
	for _, m := range t.Minutes {
		i, ok := line.Index(time.Time(m.At))
		if !ok {
			continue
		}
		delivered[i] = float64(m.Delivered)
		if m.FirstAttempts > 0 {
			share[i] = float64(m.FirstDelivered) / float64(m.FirstAttempts)
		}
	}
	x := &overviewTraffic{OverviewTraffic: t, Menu: menu,
		Chart: model.NewRequestChart(menu.Span, model.RequestRows(at, menu.Span, nil, [][]wire.MeasuredStep{t.Steps},
			[][]wire.MeasuredStep{t.DayBefore})),
		Rate:  ui.NewSparkline("Deliveries a minute in the last hour", delivered),
		First: ui.NewSparkline("Part of first attempts that succeeded, by the minute", share)}
	x.addTable("Worst endpoints", "most failed requests in the last hour; the strip is 24 hours", t.Worst, at)
	if len(t.Busiest) > fewEndpoints {
		x.addTable("Busiest endpoints", "last 24 hours, an hour a bar; figures of the last hour", t.Busiest, at)
	}
	return x
}

// fewEndpoints is how many endpoints the list of endpoints shows as well as a table of the busiest.
const fewEndpoints = 5

// addTable adds a list of endpoints unless it is empty.
func (x *overviewTraffic) addTable(title, note string, endpoints []wire.OverviewEndpoint, at time.Time) {
	if len(endpoints) == 0 {
		return
	}
	table := endpointTable{Title: title, Note: note}
	for _, e := range endpoints {
		row := endpointTrafficData{OverviewEndpoint: e}
		row.Strip = model.HourStrip(row.Title(), e.Hours, at)
		table.Rows = append(table.Rows, row)
	}
	x.Tables = append(x.Tables, table)
}

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", "/app", ui.Reader, showStart},
			{"GET", "/app/search", ui.Reader, search},
			{"GET", "/app/palette", ui.Reader, showPalette},
		},
	}
}

//go:embed pages
var files embed.FS
