package main

import (
	"encoding/json"
	"strings"
)

// board is one dashboard.
type board struct {
	name, title string // name of its file and its address; title
	about       string
	rows        []row
}

// row is a heading with panels side by side.
type row struct {
	title  string
	panels []panel
}

// panel shows some queries as lines over time, as one number, or as a table of the highest values.
type panel struct {
	kind    kind
	title   string
	about   string // what it means when it moves
	unit    unit
	queries []query
}

// query is a PromQL expression, in which `$i` stands for the chosen instances, and the legend of its series.
type query struct{ expr, legend string }

type kind string

// Kinds of panels, by Grafana's name of the plugin.
const (
	lines  kind = "timeseries"
	number kind = "stat"
	top    kind = "bargauge"
)

type unit string

// Units of values, by Grafana's name.
const (
	count     unit = "short"
	perSecond unit = "ops"
	seconds   unit = "s"
	bytes     unit = "bytes"
	ratio     unit = "percentunit"
	yesNo     unit = "bool_yes_no"
)

// Sizes of panels; a dashboard is 24 wide.
const (
	fullWidth    = 24
	panelHeight  = 8
	numberHeight = 4
)

// datasource is the one that the dashboard's list of data sources has chosen.
var datasource = map[string]any{"type": "prometheus", "uid": "${datasource}"}

// chosen matches the installations that are chosen in the lists; outside Kubernetes no metric has these labels.
const chosen = `namespace=~"$namespace",release=~"$release"`

// expand replaces `$i` by the matcher of the chosen instances.
func expand(expr string) string {
	return strings.ReplaceAll(expr, "$i", chosen+`,instance=~"$instance"`)
}

// json returns the dashboard as Grafana imports it, schema version 39 (Grafana 11).
func (b board) json() ([]byte, error) {
	var panels []any
	y := 0
	for _, r := range b.rows {
		panels = append(panels, map[string]any{
			"type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"id": len(panels) + 1, "gridPos": position{fullWidth, 1, 0, y},
		})
		y++
		width, height := fullWidth/len(r.panels), panelHeight
		if r.panels[0].kind == number {
			height = numberHeight
		}
		for i, p := range r.panels {
			panels = append(panels, p.model(len(panels)+1, position{width, height, i * width, y}))
		}
		y += height
	}
	text, err := json.MarshalIndent(map[string]any{
		"uid": "relay-" + b.name, "title": b.title, "description": b.about, "tags": []string{"eventrelay"},
		"schemaVersion": 39, "editable": true, "refresh": "30s", "timezone": "",
		"time":       map[string]string{"from": "now-3h", "to": "now"},
		"templating": map[string]any{"list": variables()}, "panels": panels,
		"links": []any{map[string]any{
			"type": "dashboards", "title": "EventRelay", "tags": []string{"eventrelay"}, "asDropdown": true, "keepTime": true,
		}},
	}, "", "  ")
	return append(text, '\n'), err
}

// position is where a panel is and how large.
type position struct {
	W int `json:"w"`
	H int `json:"h"`
	X int `json:"x"`
	Y int `json:"y"`
}

// variables are the lists at the top of each dashboard: the data source, the installations of the Helm chart, and their
// nodes.
func variables() []any {
	list := func(name, label, values string) map[string]any {
		return map[string]any{
			"name": name, "label": label, "type": "query", "datasource": datasource, "refresh": 2,
			"query": "label_values(" + values + ", " + name + ")", "multi": true, "includeAll": true, "allValue": ".*",
			"current": map[string]any{"text": "All", "value": "$__all"},
		}
	}
	return []any{
		map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
		list("namespace", "Namespace", "relay_node_info"),
		list("release", "Release", `relay_node_info{namespace=~"$namespace"}`),
		list("instance", "Node", `relay_node_info{`+chosen+`}`),
	}
}

// model is the panel in Grafana's form.
func (p panel) model(id int, at position) map[string]any {
	var targets []any
	for i, q := range p.queries {
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "expr": expand(q.expr), "legendFormat": q.legend, "datasource": datasource,
			"instant": p.kind != lines, "range": p.kind == lines,
		})
	}
	options := map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
	switch p.kind {
	case lines:
		options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	case top:
		options["orientation"], options["displayMode"] = "horizontal", "basic"
	}
	return map[string]any{
		"id": id, "type": string(p.kind), "title": p.title, "description": p.about, "gridPos": at,
		"datasource": datasource, "targets": targets, "options": options,
		"fieldConfig": map[string]any{
			"defaults":  map[string]any{"unit": string(p.unit), "min": 0},
			"overrides": []any{},
		},
	}
}
