package bench

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"math"
	"os"
	"slices"
	"time"
)

//go:embed report.html
var reportText string

// page is what the report's template shows.
type page struct {
	*Result
	Relay  float64 // CPU of relay and engines, µs an event
	Charts []chart
	Bars   []bar
	When   string
}

// bar is one stage: its width and that of its system calls, in percent of the widest.
type bar struct {
	Stage
	Width, Inner float64
}

// writeReport writes one HTML page that needs nothing else.
func writeReport(file string, r *Result) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"number": number, "percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }, "rate": rate,
		"mb": func(n int64) string { return fmt.Sprintf("%d MB", n>>20) }, "ms": func(v float64) string { return number(v) + " ms" },
		"answers": answers,
	}).Parse(reportText)
	if err != nil {
		return fmt.Errorf("parse report: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	p := page{Result: r, Relay: r.relayCost(), When: r.Began.UTC().Format(time.RFC1123), Bars: bars(r.Stages)}
	p.Charts = slices.DeleteFunc([]chart{r.quantileChart(), r.rateChart(), r.latencyChart(), r.cpuChart(), r.memoryChart()}, func(c chart) bool { return c.SVG() == "" })
	return errors.Join(t.Execute(out, p), out.Close())
}

func bars(stages []Stage) []bar {
	var out []bar
	for _, s := range stages {
		width := 100 * s.Share / stages[0].Share
		out = append(out, bar{s, width, width * s.Syscalls})
	}
	return out
}

// nines are the places of the quantile chart's axis: each step to the right is a tenth of the events left.
var nines = []float64{0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999}

// quantileChart shows each distribution whole. Its axis stretches the end, where trouble is.
func (r *Result) quantileChart() chart {
	place := func(q float64) float64 { return -math.Log10(1 - q) }
	c := chart{
		Title: "Latency by quantile", Note: "From when an event was due to its answer (accept), and to its arrival at the destination.", yUnit: " ms", yLog: true, width: wideChart,
		xLabel: func(x float64) string { return fmt.Sprintf("%g %%", math.Round(1e7*(1-math.Pow(10, -x)))/1e5) },
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		c.xTicks = append(c.xTicks, place(q))
	}
	add := func(name string, dashed bool, l Latency) {
		s := line{name: name, dashed: dashed}
		n := float64(l.All.N())
		for _, q := range nines {
			if n*(1-q) < 1 {
				break // one event says nothing about what is rarer than it
			}
			s.points = append(s.points, [2]float64{place(q), max(float64(l.All.Quantile(q).Microseconds())/1000, 0.01)})
		}
		if len(s.points) > 1 {
			c.lines = append(c.lines, s)
		}
	}
	for _, s := range r.Streams {
		name := ""
		if len(r.Streams) > 1 {
			name = s.Name + ": "
		}
		add(name+"accept", true, s.Accept)
		for _, a := range s.Arrivals {
			label := name + "arrival"
			if len(s.Arrivals) > 1 {
				label += fmt.Sprintf(" at %d", a.Destination)
			}
			add(label, false, a.Latency)
		}
	}
	return c
}

// overTime makes a chart of the run's seconds.
func (r *Result) overTime(title, note, unit string, values map[string]func(Sample) float64, order ...string) chart {
	c := chart{Title: title, Note: note, yUnit: unit, width: halfChart, xLabel: func(x float64) string { return fmt.Sprintf("%g s", math.Round(x*10)/10) }}
	for _, name := range order {
		s := line{name: name}
		for _, at := range r.Series {
			s.points = append(s.points, [2]float64{at.At, values[name](at)})
		}
		c.lines = append(c.lines, s)
	}
	if len(r.Series) > 0 {
		for _, x := range linearTicks(r.Series[len(r.Series)-1].At) {
			if x == math.Trunc(x) {
				c.xTicks = append(c.xTicks, x)
			}
		}
	}
	return c
}

func (r *Result) rateChart() chart {
	return r.overTime("Events a second", "", "", map[string]func(Sample) float64{
		"accepted": func(s Sample) float64 { return s.Accepted }, "arrived": func(s Sample) float64 { return s.Arrived },
	}, "accepted", "arrived")
}

func (r *Result) latencyChart() chart {
	c := r.overTime("Latency over time", "Quantiles of each second by itself.", " ms", map[string]func(Sample) float64{
		"accept p99": func(s Sample) float64 { return s.AcceptP99 }, "arrival p50": func(s Sample) float64 { return s.ArrivalP50 },
		"arrival p99": func(s Sample) float64 { return s.ArrivalP99 },
	}, "accept p99", "arrival p50", "arrival p99")
	c.yLog = true
	return c
}

func (r *Result) cpuChart() chart {
	values := map[string]func(Sample) float64{}
	var order []string
	for _, p := range r.CPU {
		order = append(order, p.Name)
		values[p.Name] = func(s Sample) float64 { return s.CPU[p.Name] }
	}
	return r.overTime("Cores in use", "CPU time of each process, from the kernel, by second; load and sink are the benchmark's own.", "", values, order...)
}

func (r *Result) memoryChart() chart {
	return r.overTime("Resident memory", "Relay and engines together.", " MB", map[string]func(Sample) float64{
		"memory": func(s Sample) float64 { return float64(s.RSS >> 20) },
	}, "memory")
}
