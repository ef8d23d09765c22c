package model

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
)

// RangeMenu is the menu of the ranges of a chart, and the range that the visitor has chosen.
type RangeMenu struct {
	Span   event.TrafficRange
	Ranges []ui.MenuItem
	Range  string // path of the page with the current range
}

// NewRangeMenu returns the menu of the page at path. Without a choice the range is the shortest that reaches back to
// began, and at most longest: a young relay does not show one bar at the right edge of a day.
func NewRangeMenu(v *ui.Visit, path string, began time.Time, longest event.TrafficRange) RangeMenu {
	m := RangeMenu{Span: longest}
	for i := len(event.TrafficRanges) - 1; i >= 0; i-- {
		x := event.TrafficRanges[i]
		if x.Span() <= longest.Span() && v.Now().Sub(began) <= x.Span() {
			m.Span = x
		}
	}
	for _, x := range event.TrafficRanges {
		if x.Name == v.R.URL.Query().Get("range") {
			m.Span = x
		}
		m.Ranges = append(m.Ranges, ui.MenuItem{Path: ui.WithQuery(path, nil, "range", x.Name), Name: RangeText(x)})
	}
	m.Range = ui.WithQuery(path, nil, "range", m.Span.Name)
	return m
}

// RangeText is the name of a range for people: 15 min, 6 h, 30 days.
func RangeText(x event.TrafficRange) string {
	return strings.NewReplacer("m", "\u00a0min", "h", "\u00a0h", "d", "\u00a0days").Replace(x.Name)
}

// RequestRows returns the rows of a chart of requests in a range, which lead to the events of their steps that match
// the parameters. Several lists of steps are added up, without latency, which cannot be added.
func RequestRows(now time.Time, span event.TrafficRange, events url.Values, steps, before [][]wire.MeasuredStep,
) []ui.ChartRow {
	line := ui.NewTimeline(now, span.Step, span.Steps)
	rows := line.Rows(2)
	line.LinkEvents(rows, events)
	for _, list := range steps {
		for _, s := range list {
			if i, ok := line.Index(time.Time(s.At)); ok {
				rows[i].Values[0] += s.Delivered
				rows[i].Values[1] += s.Failed
				if len(steps) == 1 {
					rows[i].Latency = s.LatencyMS
				}
			}
		}
	}
	for _, list := range before {
		for _, s := range list {
			if i, ok := line.Index(time.Time(s.At).Add(event.TrafficDay.Span())); ok {
				rows[i].Before += s.Requests
			}
		}
	}
	return rows
}

// NewRequestChart draws rows of requests.
func NewRequestChart(span event.TrafficRange, rows []ui.ChartRow) *ui.BarChart {
	var delivered, failed int64
	for _, row := range rows {
		delivered, failed = delivered+row.Values[0], failed+row.Values[1]
	}
	return ui.NewBarChart(fmt.Sprintf("Requests of the last %s: %s delivered, %s failed", RangeText(span),
		ui.Number(delivered), ui.Number(failed)), "Time (UTC)",
		[]ui.Series{{Name: "delivered", Class: ui.ColourOK}, {Name: "failed", Class: ui.ColourBad}}, rows)
}
