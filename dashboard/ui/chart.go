package ui

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
)

// Charts are SVG, drawn by the templates "bars", "spark" and "strip". Their geometry is in attributes and their
// colours are classes of dashboard.css, so that they need neither script nor inline style. Figures stand in the title,
// and those of a bar chart in a table behind it.

// Classes of a chart's colours.
const (
	ColourOK   = "ok"
	ColourBad  = "bad"
	ColourWait = "wait"
	ColourUse  = "use"
	ColourNone = "none" // no data
)

// Size of a bar chart in units of its viewBox, and the lowest bar that can be seen.
const (
	barsWidth  = 600
	barsHeight = 100
	barsLowest = 1.5
)

// axisLabels is how many labels the axis of a bar chart has at most.
const axisLabels = 5

// Series is one colour of a bar chart and one column of its table.
type Series = struct{ Name, Class string }

// ChartRow is one step of a bar chart and one row of its table. Values has a number for each series.
type ChartRow struct {
	Label   string // of the step, such as 08:13
	Values  []int64
	Path    string        // page of what the step counts; may be empty
	Before  int64         // the sum of the values one day before
	Latency *wire.Latency // of its requests; nil: not known
	at      time.Time
}

// BarChart is data of the template "bars": stacked bars, the first series at the bottom.
type BarChart struct {
	ID     string // of its table, which stays open when the chart is drawn again; unique in a page
	Title  string // in words and figures, for screen readers
	Step   string // heading of the labels in the table, such as "Minute (UTC)"
	Series []Series
	Rows   []ChartRow
	Max    int64 // the highest sum of a row
	Top    int64 // the number at the upper end of the axis: even, at least Max
	Linked bool  // steps lead to pages
	Before bool  // there was something the day before: a line
	// Slowest is the number at the upper end of a second plot, of latency; 0: there is none.
	Slowest int64
	First   string // when the first step begins, for those who see their own time; empty: steps are days or have no time
	Every   int    // seconds of a step
}

// NewBarChart returns a chart with a bar for each row.
func NewBarChart(title, step string, of []Series, rows []ChartRow) *BarChart {
	c := &BarChart{ID: "figures", Title: title, Step: step, Series: of, Rows: rows}
	for _, row := range rows {
		sum := int64(0)
		for _, n := range row.Values {
			sum += n
		}
		c.Max, c.Linked = max(c.Max, sum), c.Linked || row.Path != ""
		c.Top, c.Before = max(c.Top, sum, row.Before), c.Before || row.Before > 0
		if row.Latency != nil {
			c.Slowest = max(c.Slowest, row.Latency.P95, 1)
		}
	}
	if c.Top = roundUp(c.Top); c.Slowest > 0 {
		c.Slowest = roundUp(c.Slowest)
	}
	if len(rows) > 1 && !rows[0].at.IsZero() {
		if step := rows[1].at.Sub(rows[0].at); step < 24*time.Hour {
			c.First, c.Every = rows[0].at.Format(time.RFC3339), int(step.Seconds())
		}
	}
	return c
}

// roundUp returns the next even number with one digit that is not 0: 2, 4, 6, 8, 10, 20, 40 and so on.
func roundUp(n int64) int64 {
	unit := int64(2)
	for n > 5*unit {
		unit *= 10
	}
	return max((n+unit-1)/unit*unit, 2)
}

// Half is the number in the middle of the axis.
func (c *BarChart) Half() int64 { return c.Top / 2 }

// bar is a rectangle of a chart.
type bar struct{ Class, X, Y, Width, Height string }

// step is the part of a chart that answers a pointer, with what it counts in words. One of a chart is a tab stop; the
// arrow keys lead from there to the others.
type step struct {
	X, Width, Text, Path string
	Stop                 bool
}

// Steps are the parts of the chart that answer a pointer.
func (c *BarChart) Steps() (steps []step) {
	width := float64(barsWidth) / float64(max(len(c.Rows), 1))
	for i, row := range c.Rows {
		var facts []string
		for j, n := range row.Values {
			if n > 0 {
				facts = append(facts, Number(n)+" "+strings.ToLower(c.Series[j].Name))
			}
		}
		if len(facts) == 0 {
			facts = []string{"none"}
		}
		if c.Before {
			facts = append(facts, Number(row.Before)+" the day before")
		}
		if row.Latency != nil {
			facts = append(facts, "p50 "+milliseconds(row.Latency.P50), "p95 "+milliseconds(row.Latency.P95))
		}
		steps = append(steps, step{decimal(float64(i) * width), decimal(width), row.Label + ": " + strings.Join(facts, ", "),
			row.Path, i == len(c.Rows)-1})
	}
	return steps
}

// BeforeLine is the path of the line of the day before.
func (c *BarChart) BeforeLine() string {
	return c.line(c.Top, func(row *ChartRow) (int64, bool) { return row.Before, c.Before })
}

// P50 and P95 are the paths of the lines of latency.
func (c *BarChart) P50() string {
	return c.latency(func(l *wire.Latency) int64 { return l.P50 })
}

// P95 is the line of the 95th percentiles.
func (c *BarChart) P95() string {
	return c.latency(func(l *wire.Latency) int64 { return l.P95 })
}

func (c *BarChart) latency(of func(*wire.Latency) int64) string {
	return c.line(c.Slowest, func(row *ChartRow) (int64, bool) {
		if row.Latency == nil {
			return 0, false
		}
		return of(row.Latency), true
	})
}

// line returns the path through the middle of the steps. A step without a value interrupts it; one alone is a dot.
func (c *BarChart) line(top int64, value func(*ChartRow) (int64, bool)) string {
	var path strings.Builder
	step, drawn := float64(barsWidth)/float64(max(len(c.Rows), 1)), false
	for i := range c.Rows {
		n, ok := value(&c.Rows[i])
		if ok {
			y := barsHeight - float64(n)/float64(top)*(barsHeight-barsLowest)
			path.WriteString(map[bool]string{false: "M", true: "L"}[drawn] + decimal((float64(i)+0.5)*step) + " " + decimal(y))
			if !drawn {
				path.WriteString("h.1")
			}
		}
		drawn = ok
	}
	return path.String()
}

// Bars returns the rectangles of the chart. A value above 0 is always visible.
func (c *BarChart) Bars() (bars []bar) {
	step := float64(barsWidth) / float64(max(len(c.Rows), 1))
	tallest := barsHeight - barsLowest*float64(len(c.Series)) // leaves room for values that are drawn higher than they are
	for i, row := range c.Rows {
		top := float64(barsHeight)
		for j, n := range row.Values {
			if n <= 0 {
				continue
			}
			height := max(float64(n)/float64(c.Top)*tallest, barsLowest)
			top -= height
			x := (float64(i) + 0.1) * step
			bars = append(bars, bar{c.Series[j].Class, decimal(x), decimal(top), decimal(0.8 * step), decimal(height)})
		}
	}
	return bars
}

// Axis returns the labels below the chart, of the first row, the last, and some between them at equal distances.
func (c *BarChart) Axis() (labels []string) {
	n := min(len(c.Rows), axisLabels)
	for i := range n {
		labels = append(labels, c.Rows[i*(len(c.Rows)-1)/max(n-1, 1)].Label)
	}
	return labels
}

// Size of a sparkline in units of its viewBox.
const (
	sparkWidth  = 100
	sparkHeight = 24
)

// Sparkline is data of the template "spark": a line. Empty if there are fewer than two values.
type Sparkline struct {
	Title string
	Line  string // path of the line
	Area  string // path of what lies below the line
}

// NewSparkline draws values at equal distances, from 0 to the greatest. NaN is a step without a value; it is left out.
func NewSparkline(title string, values []float64) Sparkline {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(known) < 2 {
		return Sparkline{}
	}
	greatest := max(slices.Max(known), math.SmallestNonzeroFloat64)
	var path []string
	var ends []string // x of each point
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		x := decimal(float64(i) / float64(len(values)-1) * sparkWidth)
		ends = append(ends, x)
		path = append(path, x+" "+decimal(sparkHeight-v/greatest*(sparkHeight-2)))
	}
	line, bottom := "M"+strings.Join(path, " "), " "+strconv.Itoa(sparkHeight)
	return Sparkline{title, line, line + " " + ends[len(ends)-1] + bottom + " " + ends[0] + bottom + "z"}
}

// Strip is data of the template "strip": the state of one step after the other.
type Strip struct {
	Title   string
	Classes []string // colour of each step, the oldest first
}

// Size of a step of a strip in units of its viewBox.
const (
	stripStep   = 5
	stripWidth  = 4
	stripHeight = 20
	stripEmpty  = 6 // height of a step without data
)

// Width of the strip's viewBox.
func (s Strip) Width() int { return max(len(s.Classes)*stripStep-1, 1) }

// Bars returns the rectangles of the strip.
func (s Strip) Bars() []bar {
	bars := make([]bar, len(s.Classes))
	for i, class := range s.Classes {
		height := stripHeight
		if class == ColourNone {
			height = stripEmpty
		}
		bars[i] = bar{class, strconv.Itoa(i * stripStep), strconv.Itoa(stripHeight - height), strconv.Itoa(stripWidth),
			strconv.Itoa(height)}
	}
	return bars
}

// RequestsClass is the colour of a step with that many requests, of which some failed: bad from a tenth of them on.
func RequestsClass(attempts, failed int64) string {
	switch {
	case attempts == 0:
		return ColourNone
	case failed*10 >= attempts:
		return ColourBad
	case failed > 0:
		return ColourWait
	}
	return ColourOK
}

// decimal writes a coordinate with at most one digit after the point.
func decimal(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// perMinute returns a number of an hour as an average of its minutes.
func perMinute(n int64) string {
	switch rate := float64(n) / 60; {
	case rate == 0:
		return "0"
	case rate < 0.1:
		return "< 0.1"
	case rate < 10:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	default:
		return Number(int64(math.Round(rate)))
	}
}

// milliseconds returns a duration in its unit.
func milliseconds(ms int64) string {
	if ms < 10_000 {
		return Number(ms) + "\u00a0ms"
	}
	return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "\u00a0s"
}

// Percent returns a part of a whole. It is 100 % only if nothing is missing, and 0 % only if nothing is there.
func Percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	tenths := math.Round(1000 * float64(part) / float64(whole))
	if part < whole {
		tenths = min(tenths, 999)
	}
	if part > 0 {
		tenths = max(tenths, 1)
	}
	return strconv.FormatFloat(tenths/10, 'f', -1, 64) + "\u00a0%"
}

// timeline is a number of steps of time, of which the last is that of now.
type timeline struct {
	first time.Time
	step  time.Duration
	Steps int
}

// NewTimeline returns that many steps of time up to now.
func NewTimeline(now time.Time, step time.Duration, steps int) timeline {
	return timeline{now.UTC().Truncate(step).Add(-time.Duration(steps-1) * step), step, steps}
}

// Index returns the step of a time.
func (t timeline) Index(at time.Time) (i int, ok bool) {
	i = int(at.Sub(t.first) / t.step)
	return i, !at.Before(t.first) && i < t.Steps
}

// Rows returns the rows of a bar chart, with a number of values that are 0.
func (t timeline) Rows(values int) []ChartRow {
	rows, layout := make([]ChartRow, t.Steps), "15:04"
	switch {
	case t.step < time.Minute:
		layout = "15:04:05"
	case t.step >= 24*time.Hour:
		layout = "Jan 2"
	case time.Duration(t.Steps)*t.step > 24*time.Hour:
		layout = "Jan 2, 15:04"
	}
	for i := range rows {
		rows[i] = ChartRow{Label: t.at(i).Format(layout), Values: make([]int64, values), at: t.at(i)}
	}
	return rows
}

// at is when a step begins.
func (t timeline) at(i int) time.Time { return t.first.Add(time.Duration(i) * t.step) }

// LinkEvents makes each row lead to the events of its step that match the parameters.
func (t timeline) LinkEvents(rows []ChartRow, parameters url.Values) {
	for i := range rows {
		rows[i].Path = WithQuery(EventsPath, parameters, "since", t.at(i).Format(time.RFC3339), "until",
			t.at(i+1).Format(time.RFC3339))
	}
}

// Unknown returns the values of a sparkline, none of which is known.
func (t timeline) Unknown() []float64 { return slices.Repeat([]float64{math.NaN()}, t.Steps) }
