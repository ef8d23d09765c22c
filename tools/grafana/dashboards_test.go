package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const dashboards = "../../deploy/grafana/dashboards"

// The files are what the generator writes, and no others are there.
func TestDashboardsAreGenerated(t *testing.T) {
	want := map[string]bool{}
	for _, b := range boards() {
		path := filepath.Join(dashboards, b.name+".json")
		want[path] = true
		text, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != string(text) {
			t.Errorf("%s is not what boards.go says: run make generate (%v)", path, err)
		}
	}
	files, err := filepath.Glob(dashboards + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !want[name] {
			t.Errorf("%s belongs to no dashboard", name)
		}
	}
}

// Panels fill the width, have ids of their own, queries and legends, and no placeholder is left.
func TestPanelsAreComplete(t *testing.T) {
	for _, b := range boards() {
		text, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		var model struct {
			Panels []struct {
				ID      int
				Title   string
				Type    string
				GridPos position
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal(text, &model); err != nil {
			t.Fatal(err)
		}
		ids, widths := map[int]bool{}, map[int]int{}
		for _, p := range model.Panels {
			if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > fullWidth {
				t.Errorf("%s: %+v", b.name, p)
			}
			ids[p.ID] = true
			widths[p.GridPos.Y] += p.GridPos.W
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %s has no query", b.name, p.Title)
			}
			for _, target := range p.Targets {
				if strings.Contains(target.Expr, "$i}") || strings.Contains(target.Expr, "$i,") ||
					p.Type != string(number) && target.LegendFormat == "" {
					t.Errorf("%s: %s: %+v", b.name, p.Title, target)
				}
			}
		}
		for y, width := range widths {
			if width != fullWidth {
				t.Errorf("%s: the panels at %d are %d wide", b.name, y, width)
			}
		}
	}
}
