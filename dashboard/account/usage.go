package account

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
)

const usagePath = "/app/usage"

// periodFilter is the filter of the month. periodLayout is how the API writes one.
var periodFilter = []string{"period"}

const periodLayout = "2006-01"

// earlierMonths is how many months before this one the page leads to. The API keeps each of them whole.
const earlierMonths = 12

// usageData is the usage of a month.
type usageData struct {
	wire.Usage
	ByEndpoint []*endpointUse `json:"by_endpoint"`
}

// endpointUse is the usage of one endpoint. Daily is nil for the usage of a month.
type endpointUse struct {
	wire.EndpointDays
	Name string       `json:"-"` // empty: the endpoint was deleted, or is not among those that were read
	Line ui.Sparkline `json:"-"` // its last 30 days
}

// Title is the name of the endpoint, or its id.
func (e *endpointUse) Title() string { return cmp.Or(e.Name, e.EndpointID) }

// usageDaysData is the usage of the last 30 days.
type usageDaysData struct {
	wire.UsageDays
	ByEndpoint []*endpointUse `json:"by_endpoint"`
}

// usagePage is the data of the page of the usage.
type usagePage struct {
	*usageData
	now         time.Time
	Unavailable string         // why it could not be read
	Last        *usageDaysData // nil if it could not be read
	Chosen      *endpointUse   // the endpoint whose last 30 days are drawn; nil: all of them
}

// month returns the first moment of the period.
func (u *usageData) month() time.Time { return time.Time(u.PeriodStart) }

// Month is the name of the period.
func (u *usageData) Month() string { return u.month().Format("January 2006") }

// Earlier is the page of the month before; empty if the pages end here.
func (p *usagePage) Earlier() string {
	if m := p.month(); m.AddDate(0, earlierMonths, 0).After(thisMonth(p.now)) {
		return monthPath(m.AddDate(0, -1, 0))
	}
	return ""
}

// Later is the page of the month after.
func (p *usagePage) Later() string {
	if m := p.month().AddDate(0, 1, 0); m.Before(thisMonth(p.now)) {
		return monthPath(m)
	}
	return usagePath
}

// Ended reports whether the period is a month that has ended.
func (p *usagePage) Ended() bool { return p.month().Before(thisMonth(p.now)) }

// CSV is the path of a list of the period as CSV.
func (p *usagePage) CSV(name string) string {
	if !p.Ended() {
		return ui.CSVLink(name, nil)
	}
	return ui.CSVLink(name, url.Values{"period": {p.month().Format(periodLayout)}})
}

// thisMonth returns the first moment of the month of now, in UTC.
func thisMonth(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func monthPath(month time.Time) string {
	return ui.WithQuery(usagePath, nil, "period", month.Format(periodLayout))
}

// UsedPercent is the share of the allowance that is used, rounded down; empty without an allowance.
func (u *usageData) UsedPercent() string {
	if ui.Count(u.Allowance) == 0 {
		return ""
	}
	return strconv.FormatInt(u.Events.Total*100 / *u.Allowance, 10) + "\u00a0%"
}

// Days is the usage of each day of the period.
func (u *usageData) Days() *ui.BarChart {
	rows := make([]ui.ChartRow, len(u.Daily))
	for i, d := range u.Daily {
		rows[i] = ui.ChartRow{Label: d.Date, Values: []int64{d.Received, d.Sent, d.Findings}, Path: eventsOfDay(d.Date)}
	}
	title := ui.Number(u.Events.Total) + " events and findings in " + ui.Plural(len(rows), "day", "days")
	return ui.NewBarChart(title, "Day (UTC)",
		[]ui.Series{{"Received", ui.ColourOK}, {"Sent", ui.ColourUse}, {"Findings", ui.ColourWait}}, rows)
}

// eventsOfDay is the list of the events of a day in UTC, such as 2026-08-21.
func eventsOfDay(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return ""
	}
	return ui.WithQuery(ui.EventsPath, nil, "since", date, "until", day.AddDate(0, 0, 1).Format(time.DateOnly))
}

// LastDays is the chart of the last 30 days, of the chosen endpoint or of all.
func (p *usagePage) LastDays() *ui.BarChart {
	if p.Chosen == nil {
		last := usageData{Usage: wire.Usage{Daily: p.Last.Daily}}
		for _, d := range last.Daily {
			last.Events.Total += d.Total
		}
		return last.Days()
	}
	uses := p.Last.daysOf(p.Chosen)
	rows := make([]ui.ChartRow, len(uses))
	for i, d := range uses {
		rows[i] = ui.ChartRow{Label: d.Date, Values: []int64{d.Received, d.Sent}, Path: eventsOfDay(d.Date)}
	}
	title := ui.Number(p.Chosen.Total) + " events of " + p.Chosen.Title() + " in " +
		ui.Plural(len(rows), "day", "days")
	c := ui.NewBarChart(title, "Day (UTC)",
		[]ui.Series{{"Received", ui.ColourOK}, {"Sent", ui.ColourUse}}, rows)
	c.ID = "figures-days"
	return c
}

// daysOf returns all days of an endpoint, those without any use too.
func (u *usageDaysData) daysOf(e *endpointUse) []wire.EndpointDay {
	byDate := map[string]wire.EndpointDay{}
	for _, use := range e.Daily {
		byDate[use.Date] = use
	}
	days := make([]wire.EndpointDay, len(u.Daily))
	for i, d := range u.Daily {
		days[i] = byDate[d.Date]
		days[i].Date = d.Date
	}
	return days
}

// readLastDays reads the last 30 days into p, and draws a line for each endpoint. If they are unavailable, the page
// stays without them.
func readLastDays(v *ui.Visit, p *usagePage) error {
	last := &usageDaysData{}
	if unavailable, err := v.TryGet("/v1/usage/daily", nil, last); err != nil || unavailable != "" {
		return err
	}
	p.Last = last
	for _, e := range last.ByEndpoint {
		e.Name = v.EndpointName(e.EndpointID)
		var values []float64
		for _, d := range last.daysOf(e) {
			values = append(values, float64(d.Total))
		}
		e.Line = ui.NewSparkline(e.Title()+", events a day in the last 30 days", values)
		if e.EndpointID == v.R.URL.Query().Get("endpoint_id") {
			p.Chosen = e
		}
	}
	return nil
}

// showUsage shows the usage of a month by day and endpoint; of the present one, too, what it will be at its end, and
// the last 30 days.
func showUsage(v *ui.Visit) error {
	p := usagePage{usageData: &usageData{}, now: v.Now()}
	err := v.Get("/v1/usage", ui.FiltersOf(v.R.URL.Query(), periodFilter), p.usageData)
	if ui.IsUnavailable(err) {
		p.Unavailable, v.Status = ui.MessageOf(err), ui.StatusOf(err)
		return v.Page("usage", &p)
	} else if err != nil {
		return err
	}
	if !p.Ended() {
		if err := readLastDays(v, &p); err != nil {
			return err
		}
	}
	for _, e := range p.ByEndpoint {
		e.Name = v.EndpointName(e.EndpointID)
	}
	return v.Page("usage", &p)
}
