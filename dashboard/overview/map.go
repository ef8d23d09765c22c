package overview

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
)

// Size of the map in units of its viewBox. A destination is a row; its endpoint stands in the middle of its rows.
const (
	mapRow   = 44
	mapLeft  = 260 // where lines begin, and
	mapRight = 540 // end
	mapWidth = 12  // of the line with the most requests
)

// maxMapped is how many destinations the map has: those with the most requests in the last hour.
const maxMapped = 10

// flowMap is a picture of endpoints and their destinations with the requests of the last hour.
type flowMap struct {
	Height  int
	Sources []flowSource
	More    string // what is left out, in words; empty: nothing is
}

// flowSource is an endpoint of the map.
type flowSource struct {
	Name, Path, Text string
	Y                int // of its middle
	Lines            []flowLine
	requests         int64
}

// flowLine is a destination of the map, with the line that leads to it.
type flowLine struct {
	Name, Path, Text, Class string
	Y                       int
	Line, Width             string

	of       *config.Endpoint
	requests int64
}

// newFlowMap returns the map of endpoints; nil if they have no destinations. The overview counts the requests of the
// busiest and the worst endpoints only: others look idle.
func newFlowMap(all []*config.Endpoint, o *wire.Overview) *flowMap {
	requests, states := map[string]wire.DestinationRequests{}, map[string]string{}
	for _, e := range slices.Concat(o.Traffic.Busiest, o.Traffic.Worst) {
		for _, d := range e.Destinations {
			requests[d.DestinationID] = d
		}
	}
	for _, d := range o.Needs.Destinations.Data {
		states[d.DestinationID] = d.State
	}
	var lines []flowLine
	for _, e := range all {
		for i := range e.Destinations {
			d := &e.Destinations[i]
			n := requests[d.ID]
			x := flowLine{Name: ui.Truncate(ui.NameOfDestination(d), 30), Path: ui.DestinationPageOf(e.ID, d.ID), of: e,
				Class: ui.RequestsClass(n.Requests, n.Failed), Text: "idle", requests: n.Requests}
			if n.Requests > 0 {
				x.Text = ui.Number(n.Requests) + " requests, " + ui.Percent(n.Failed, n.Requests) + " failed"
			}
			if state := states[d.ID]; state != "" {
				x.Text, x.Class = state+"; "+x.Text, "held"
			}
			lines = append(lines, x)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.SortStableFunc(lines, func(a, b flowLine) int { return cmp.Compare(b.requests, a.requests) })
	shown := lines[:min(len(lines), maxMapped)]
	m := &flowMap{Height: len(shown) * mapRow}
	var rest int64
	for _, x := range lines[len(shown):] {
		rest += x.requests
	}
	if n := len(lines) - len(shown); n > 0 {
		m.More = fmt.Sprintf("%s more have %s requests", ui.Plural(n, "destination", "destinations"), ui.Number(rest))
	}
	m.place(shown)
	return m
}

// place puts the lines, which are sorted by requests, below each other by endpoint.
func (m *flowMap) place(lines []flowLine) {
	for _, x := range lines {
		path := ui.PageOf(x.of.ID)
		i := slices.IndexFunc(m.Sources, func(s flowSource) bool { return s.Path == path })
		if i < 0 {
			i = len(m.Sources)
			m.Sources = append(m.Sources, flowSource{Name: ui.Truncate(x.of.Name, 30), Path: path})
		}
		m.Sources[i].Lines = append(m.Sources[i].Lines, x)
		m.Sources[i].requests += x.requests
	}
	row := 0
	for i := range m.Sources {
		s := &m.Sources[i]
		s.Y, s.Text = row*mapRow+len(s.Lines)*mapRow/2, ui.Number(s.requests)+" requests"
		for j := range s.Lines {
			x := &s.Lines[j]
			x.Y = row*mapRow + mapRow/2
			x.Line = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", mapLeft, s.Y, (mapLeft+mapRight)/2, s.Y, (mapLeft+mapRight)/2, x.Y,
				mapRight, x.Y)
			part := math.Sqrt(float64(x.requests) / float64(max(lines[0].requests, 1)))
			x.Width = fmt.Sprintf("%.1f", 1+part*(mapWidth-1))
			row++
		}
	}
}
