package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// comparison is the result of `relay-bench compare`.
type comparison struct {
	Scenario string           `json:"scenario"`
	Settings string           `json:"settings"`
	Base     string           `json:"base"` // version
	New      string           `json:"new"`
	Turns    int              `json:"turns"`
	Machine  Machine          `json:"machine"`
	Figures  []comparedFigure `json:"figures"`
}

// comparedFigure is one figure of both binaries: median, minimum and maximum of all turns.
type comparedFigure struct {
	Name  string `json:"name"`
	Base  spread `json:"base"`
	New   spread `json:"new"`
	Ratio spread `json:"ratio"` // new ÷ base of each turn
	More  spread `json:"more"`  // new − base of each turn
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newSpread(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return spread{mid, v[0], v[len(v)-1]}
}

const compareSummary = "runs a scenario on two binaries alternately and compares the figures"

// compare runs a scenario on two binaries alternately. Base runs first in even turns and second in odd ones, so that a
// machine that gets busier or quieter meanwhile favours neither.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	beside, err := relayBeside()
	if err != nil {
		return err
	}
	var base, with string
	var each repeatFlags
	fs := newFlags("compare", "--base FILE [flags] [scenario [its flags]]", compareSummary)
	fs.StringVar(&base, "base", "", "binary to compare with")
	fs.StringVar(&with, "relay", beside, "binary under test")
	each.flags(fs, 5)
	if err := errors.Join(parse(fs, args, stderr), each.validate()); err != nil {
		return err
	}
	name, rest := "flat", fs.Args()
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	i := slices.IndexFunc(definitions(), func(d definition) bool { return d.name == name && d.start == nil })
	switch {
	case base == "":
		return MisuseError{errors.New("--base is missing: name the binary to compare with")}
	case i < 0:
		return MisuseError{fmt.Errorf(
			"there is no scenario %q that runs a relay; relay-bench help lists the scenarios", name)}
	}
	side := func(binary string) variant {
		return variant{definitions()[i], append(slices.Clone(rest), "--relay", binary), binary}
	}
	results, err := runAlternating(ctx, [2]variant{side(base), side(with)}, each.turns, stderr)
	if err != nil {
		return err
	}
	return newComparison(results).write(stdout, each.json)
}

// variant is one of the two sides of a comparison.
type variant struct {
	definition
	args []string
	name string // for errors
}

// runAlternating runs two variants alternately and returns the results of each.
func runAlternating(ctx context.Context, variants [2]variant, turns int, stderr io.Writer) (
	results [2][]*Result, err error) {
	for turn := range turns {
		for k := range 2 {
			which := (turn + k) % 2
			v := variants[which]
			r, err := v.parseAndMeasure(ctx, append(slices.Clone(v.args), "--quiet"), stderr)
			if err == nil {
				err = r.verdict()
			}
			if err != nil {
				return results, fmt.Errorf("turn %d of %s: %w", turn+1, v.name, err)
			}
			results[which] = append(results[which], r)
			fmt.Fprintf(stderr, "turn %d of %d, %-4s %8.0f accepted/s %8.1f CPU µs/event   load %.1f\n",
				turn+1, turns, [2]string{"base", "new"}[which], rate(r.Accepted, r.PostSeconds), r.relayCost(), r.Machine.LoadAfter)
		}
	}
	return results, nil
}

// parseAndMeasure parses a scenario's flags and runs it.
func (d definition) parseAndMeasure(ctx context.Context, args []string, stderr io.Writer) (*Result, error) {
	o, err := d.options(args, stderr)
	if err != nil {
		return nil, err
	}
	return d.measure(ctx, o, stderr)
}

// comparedFigures are the figures of a comparison.
var comparedFigures = []figureOf{
	{"accepted per second", func(r *Result) float64 { return rate(r.Accepted, r.PostSeconds) }},
	{"delivered per second", func(r *Result) float64 { return rate(r.Delivered, r.AllSeconds) }},
	{"CPU µs per event", (*Result).relayCost},
	{"  relay", func(r *Result) float64 { return r.CPU[0].PerEvent }},
	{"allocations per event", func(r *Result) float64 { return r.Mallocs }},
	{"bytes allocated per event", func(r *Result) float64 { return r.Bytes }},
	{"accept p50 ms", func(r *Result) float64 { return r.Streams[0].Accept.P50 }},
	{"accept p99 ms", func(r *Result) float64 { return r.Streams[0].Accept.P99 }},
	{"arrival p50 ms", func(r *Result) float64 { return r.arrival().P50 }},
	{"arrival p99 ms", func(r *Result) float64 { return r.arrival().P99 }},
	{"memory MB, max", func(r *Result) float64 { return float64(r.RSSMax) / (1 << 20) }},
	{"disk B per event", func(r *Result) float64 { return float64(r.Disk) }},
}

// figureOf is a figure of a comparison.
type figureOf struct {
	name string
	of   func(*Result) float64
}

// scenarioFigures are the figures of the scenario that all results have.
func scenarioFigures(results [2][]*Result) (figures []figureOf) {
	all := slices.Concat(results[0], results[1])
	for _, f := range all[0].Figures {
		named := func(other Figure) bool { return other.Name == f.Name }
		if slices.ContainsFunc(all, func(r *Result) bool { return !slices.ContainsFunc(r.Figures, named) }) {
			continue
		}
		figures = append(figures, figureOf{f.Name, func(r *Result) float64 {
			return r.Figures[slices.IndexFunc(r.Figures, named)].Value
		}})
	}
	return figures
}

// arrival returns the latency of the first destination that is counted.
func (r *Result) arrival() Latency {
	for _, s := range r.Streams {
		if len(s.Arrivals) > 0 {
			return s.Arrivals[0].Latency
		}
	}
	return Latency{}
}

func newComparison(results [2][]*Result) comparison {
	first, last := results[0][0], results[1][len(results[1])-1]
	c := comparison{
		Scenario: first.Scenario, Settings: first.Settings, Base: first.Version, New: last.Version,
		Turns: len(results[0]), Machine: first.Machine,
	}
	c.Machine.LoadAfter = last.Machine.LoadAfter
	for _, f := range slices.Concat(comparedFigures, scenarioFigures(results)) {
		var values [2][]float64
		var ratios, more []float64
		for i := range results[0] {
			a, b := f.of(results[0][i]), f.of(results[1][i])
			values[0], values[1], more = append(values[0], a), append(values[1], b), append(more, b-a)
			if a > 0 {
				ratios = append(ratios, b/a)
			}
		}
		c.Figures = append(c.Figures,
			comparedFigure{f.name, newSpread(values[0]), newSpread(values[1]), newSpread(ratios), newSpread(more)})
	}
	return c
}

func (c comparison) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s: base %s, new %s, %d turns, load average %.1f → %.1f; median (min … max)\n",
		c.Scenario, c.Settings, c.Base, c.New, c.Turns, c.Machine.LoadBefore, c.Machine.LoadAfter)
	fmt.Fprintf(w, "  %s\n", c.Machine.Disk)
	row := func(name, base, with, ratio, more string) {
		text := fmt.Sprintf("  %-42s %-28s %-28s %-22s %s", name, base, with, ratio, more)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
	row("", "base", "new", "new ÷ base", "new − base")
	for _, f := range c.Figures {
		row(f.Name, f.Base.String(), f.New.String(), f.Ratio.String(), f.More.String())
	}
}

// write prints the comparison as a table or a line of JSON.
func (c comparison) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(c)
	}
	c.print(w)
	return nil
}

// String returns the median with minimum and maximum.
func (s spread) String() string {
	return fmt.Sprintf("%s (%s … %s)", number(s.Median), number(s.Min), number(s.Max))
}
