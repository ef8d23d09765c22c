package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// chart is a line chart as inline SVG. Its colours are classes of the page, so that they follow its scheme.
type chart struct {
	Title, Note string
	lines       []line
	xLabel      func(float64) string
	xTicks      []float64
	yUnit       string
	width       float64
	yLog        bool
}

// line is one series; a point is x and y.
type line struct {
	name   string
	dashed bool
	points [][2]float64
}

// The drawing's measures, in units of its view box.
const (
	wideChart, halfChart  = 1060.0, 500.0 // as wide as they are on a desktop's screen, so that text has its size
	chartHeight           = 240.0
	chartLeft, chartRight = 64.0, 24.0
	chartTop, chartBottom = 14.0, 34.0
)

// Legend names the series with the classes of their colours.
func (c chart) Legend() []legend {
	var out []legend
	for i, l := range c.lines {
		out = append(out, legend{l.name, fmt.Sprintf("c%d", i%8), l.dashed})
	}
	return out
}

type legend struct {
	Name, Class string
	Dashed      bool
}

// SVG draws the chart; nothing when there is nothing to draw.
func (c chart) SVG() template.HTML {
	minX, maxX, minY, maxY := math.Inf(1), math.Inf(-1), math.Inf(1), 0.0
	for _, l := range c.lines {
		for _, p := range l.points {
			minX, maxX = min(minX, p[0]), max(maxX, p[0])
			if p[1] > 0 {
				minY = min(minY, p[1])
			}
			maxY = max(maxY, p[1])
		}
	}
	if maxX <= minX || maxY <= 0 {
		return ""
	}
	ticks := linearTicks(maxY)
	low, high := 0.0, ticks[len(ticks)-1]
	scale := func(y float64) float64 { return y / high }
	if c.yLog {
		ticks = logTicks(minY, maxY)
		low, high = ticks[0], ticks[len(ticks)-1]
		scale = func(y float64) float64 { return math.Log(max(y, low)/low) / math.Log(high/low) }
	}
	atX := func(x float64) float64 {
		return chartLeft + (x-minX)/(maxX-minX)*(c.width-chartLeft-chartRight)
	}
	atY := func(y float64) float64 {
		return chartHeight - chartBottom - scale(y)*(chartHeight-chartTop-chartBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, c.width, chartHeight, template.HTMLEscapeString(c.Title))
	for _, t := range ticks {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			chartLeft, c.width-chartRight, atY(t), atY(t), chartLeft-8, atY(t)+4, template.HTMLEscapeString(short(t)+c.yUnit))
	}
	for _, x := range c.xTicks {
		if x >= minX && x <= maxX {
			fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, atX(x), chartHeight-chartBottom+20, template.HTMLEscapeString(c.xLabel(x)))
		}
	}
	for i, l := range c.lines {
		class := fmt.Sprintf("line c%d", i%8)
		if l.dashed {
			class += " dashed"
		}
		path := make([]string, len(l.points))
		for j, p := range l.points {
			path[j] = fmt.Sprintf("%.1f,%.1f", atX(p[0]), atY(p[1]))
		}
		fmt.Fprintf(&b, `<polyline class="%s" points="%s"/>`, class, strings.Join(path, " "))
		for _, p := range l.points {
			fmt.Fprintf(&b, `<circle class="spot" cx="%.1f" cy="%.1f" r="6"><title>%s, %s: %s%s</title></circle>`, atX(p[0]), atY(p[1]),
				template.HTMLEscapeString(l.name), template.HTMLEscapeString(c.xLabel(p[0])), short(p[1]), template.HTMLEscapeString(c.yUnit))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// linearTicks are four or five round values from 0 to at least most.
func linearTicks(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step*m*4.5 >= most {
			step *= m
			break
		}
	}
	out := []float64{0}
	for out[len(out)-1] < most {
		out = append(out, step*float64(len(out)))
	}
	return out
}

// logTicks are powers of ten, with 2 and 5 between where there are few, around least and most.
func logTicks(least, most float64) []float64 {
	first, last := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if last <= first {
		last = first + 1
	}
	steps := []float64{1}
	if last-first <= 3 {
		steps = []float64{1, 2, 5}
	}
	var out []float64
	for e := first; e <= last; e++ {
		for _, m := range steps {
			out = append(out, m*math.Pow(10, e))
		}
	}
	for len(out) > 2 && out[1] <= least {
		out = out[1:]
	}
	for len(out) > 2 && out[len(out)-2] >= most {
		out = out[:len(out)-1]
	}
	return out
}

// short writes a number for an axis: 12k, 0.5, 30.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", math.Round(v/1e4)/100)
	case v >= 1e4:
		return fmt.Sprintf("%gk", math.Round(v/100)/10)
	case v >= 100:
		return fmt.Sprintf("%g", math.Round(v))
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}
