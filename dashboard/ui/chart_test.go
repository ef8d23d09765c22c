package ui

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// drawn renders a template of the charts.
func drawn(t *testing.T, name string, data any) string {
	t.Helper()
	all, err := template.New("").Funcs((&Dashboard{}).functions()).ParseFS(templateFiles, "templates/parts/chart.html")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	must.Do(t, all.ExecuteTemplate(&b, name, data))
	return b.String()
}

// A bar chart shows every value above 0, within its box, and all values in the table behind it. Labels are text.
func TestBarsHaveATable(t *testing.T) {
	c := NewBarChart("Requests <a minute>", "Minute (UTC)", []Series{{"delivered", ColourOK}, {"failed", ColourBad}},
		[]ChartRow{{Label: "08:13", Values: []int64{999_999, 1}, Path: "/a?b"},
			{Label: "08:14", Values: []int64{0, 0}}, {Label: "<08:15>", Values: []int64{12_345, 1}}})
	if c.Max != 1_000_000 || c.Top != 1_000_000 || len(c.Bars()) != 4 {
		t.Fatalf("%d, %v", c.Max, c.Bars())
	}
	for _, b := range c.Bars() {
		var v [4]float64
		for i, text := range []string{b.X, b.Y, b.Width, b.Height} {
			var err error
			if v[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		if v[0] < 0 || v[1] < 0 || v[3] < 1 || v[0]+v[2] > barsWidth || v[1]+v[3] > barsHeight+0.1 {
			t.Errorf("%v is not within the chart", b)
		}
	}
	page := drawn(t, "bars", c)
	for _, want := range []string{`aria-label="Requests &lt;a minute&gt;"`, "<span>500,000</span>",
		`<a href="/a?b" tabindex="-1"><title>08:13: 999,999 delivered, 1 failed</title>` +
			`<rect class="hit" x="0" width="200" height="100"/></a>`,
		`<td class="r">999,999</td>`,
		`<td class="r">12,345</td>`, "<th class=\"r\">failed</th>", "&lt;08:15&gt;", "<span>08:14</span>"} {
		is.Has(t, page, want)
	}
	if strings.Contains(page, "style=") || strings.Contains(page, "ZgotmplZ") {
		t.Error(page)
	}
	empty := drawn(t, "bars", NewBarChart("", "", []Series{{"events", ColourUse}}, nil))
	is.Lacks(t, empty, "<rect")
}

// A chart shows the day before and the latency as lines, which a step without a value interrupts, and has one tab stop.
func TestLinesOfAChart(t *testing.T) {
	c := NewBarChart("Requests", "Time (UTC)", []Series{{"delivered", ColourOK}}, []ChartRow{
		{Label: "1", Values: []int64{1}, Path: "/1", Before: 40, Latency: &wire.Latency{P50: 5, P95: 10}},
		{Label: "2", Values: []int64{2}, Path: "/2", Latency: &wire.Latency{P50: 10, P95: 10}},
		{Label: "3", Values: []int64{3}, Path: "/3"}, {Label: "4", Values: []int64{0}, Path: "/4",
			Latency: &wire.Latency{P50: 0, P95: 20}}})
	page := drawn(t, "bars", c)
	for _, want := range []string{`class="before" d="M75 1.5h.1L225 100L375 100L525 100"`, "<span>20\u00a0ms</span>",
		`class="p50" d="M75 75.4h.1L225 50.8M525 100h.1"`, `d="M75 50.8h.1L225 50.8M525 1.5h.1"`,
		"1: 1 delivered, 40 the day before, p50 5\u00a0ms, p95 10\u00a0ms</title>",
		"3: 3 delivered, 0 the day before</title>",
		`<td class="r">3</td><td class="r">0</td><td class="r">–</td><td class="r">–</td>`, `<a href="/4"><title>`} {
		is.Has(t, page, want)
	}
	is.Equal(t, strings.Count(page, `tabindex="-1"`), 3, "steps that are no tab stop")
	is.Equal(t, c.Top, 40, "the axis ends above the day before")
}

// A time to come is the nearest one: what was made to last 14 days does not end in 13.
func TestRelative(t *testing.T) {
	const day = 24 * time.Hour
	for ago, want := range map[time.Duration]string{
		0: "now", 59 * time.Second: "59 s ago", 119 * time.Second: "1 min ago", 47 * time.Hour: "47 h ago",
		71 * time.Hour:        "2 days ago",
		-14*day + time.Second: "in 14 days", -day + time.Second: "in 24 h", -10*time.Minute + time.Second: "in 10 min",
		-59*time.Minute - 40*time.Second: "in 1 h", -48*time.Hour + time.Second: "in 2 days", -59 * time.Second: "in 59 s",
	} {
		is.Equal(t, strings.ReplaceAll(Relative(ago), "\u00a0", " "), want, ago)
	}
}

func TestSparklinesAndStrips(t *testing.T) {
	if s := NewSparkline("few", []float64{1}); drawn(t, "spark", s) != "" {
		t.Error("one value is no line")
	}
	line := drawn(t, "spark", NewSparkline("load", []float64{0, math.NaN(), 5, 10}))
	if !strings.Contains(line, `d="M0 24 66.7 13 100 2"`) || strings.Contains(line, "NaN") {
		t.Error(line)
	}
	ends := drawn(t, "spark", NewSparkline("load", []float64{math.NaN(), 10, 5, math.NaN()}))
	if !strings.Contains(ends, `d="M33.3 2 66.7 13 66.7 24 33.3 24z"`) {
		t.Error("the area is not that below the line", ends)
	}
	is.Has(t, drawn(t, "spark", NewSparkline("none", []float64{0, 0})), `d="M0 24 100 24"`)
	s := Strip{"last 2 h", []string{RequestsClass(0, 0), RequestsClass(100, 9), RequestsClass(100, 10),
		RequestsClass(1, 0)}}
	page := drawn(t, "strip", s)
	for _, want := range []string{`viewBox="0 0 19 20"`, `class="none" x="0" y="14"`, `class="wait" x="5" y="0"`,
		`class="bad" x="10"`, `class="ok" x="15"`} {
		is.Has(t, page, want)
	}
}
