package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// price is the cost per event of a stage or process.
type price struct {
	CPU     float64 `json:"us"`
	Mallocs float64 `json:"mallocs"`
	Bytes   float64 `json:"bytes"`
}

func (p price) plus(q price) price {
	return price{p.CPU + q.CPU, p.Mallocs + q.Mallocs, p.Bytes + q.Bytes}
}

// sheet is the result of `relay-bench costs`: the prices of the relay and of the bare pipeline by stage, and of the
// pipeline's parts.
type sheet struct {
	Settings  string           `json:"settings"`
	Version   string           `json:"version"`
	Turns     int              `json:"turns"`
	Machine   Machine          `json:"machine"`
	Rates     map[string]int64 `json:"events_per_second"` // by scenario, in the last turn
	Relay     map[string]price `json:"relay"`
	Floor     map[string]price `json:"floor"`
	Parts     map[string]price `json:"parts"`
	Processes map[string]price `json:"processes"` // of the relay's engines; only their CPU time is known
}

// sheetStages are the rows of the sheet, in the order in which an event passes them.
var sheetStages = []string{
	"HTTP server", "accept", "produce", "log client", "broker", "barrier", "consume", "lanes, deliver", "sign",
	"HTTP client", "TLS", "outcome", "store rows", "GC", "scheduler", "others",
}

// floorPart is a part of the bare pipeline that runs alone, with the relay's stages that do the same work.
type floorPart struct {
	scenario, description string
	stages                []string
	process               string // engine whose CPU time belongs to the part; empty = none
}

var floors = []floorPart{
	{"floor-http", "a bare net/http exchange: one request in, one request out",
		[]string{"HTTP server", "HTTP client", "TLS"}, ""},
	{"floor-log", "a record, its barrier, its consumer and an outcome record on the embedded broker",
		[]string{"produce", "log client", "broker", "barrier", "consume"}, ""},
	{"floor-row", "a row in ClickHouse, native insert", []string{"store rows"}, "clickhouse"},
}

const costsSummary = "prints the cost of an event by stage, next to that of a bare pipeline"

// costs runs the relay, the bare pipeline and its parts alternately and prints the cost sheet.
func costs(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var runs repeatFlags
	var each time.Duration
	fs := newFlags("costs", "[flags] [-- flags of all runs, such as --posters]", costsSummary)
	fs.DurationVar(&each, "each", 20*time.Second, "how long each scenario runs in a turn")
	runs.flags(fs, 3)
	own, rest := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		own, rest = args[:i], args[i+1:]
	}
	if err := errors.Join(parse(fs, own, stderr), runs.validate()); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return MisuseError{fmt.Errorf("costs takes no argument %q; put the flags of the runs after --", fs.Arg(0))}
	}
	rest = append(rest, "--duration", each.String(), "--stages", "--quiet")
	results := map[string][]*Result{}
	for turn := range runs.turns {
		for _, name := range []string{"flat", "floor", "floor-http", "floor-log", "floor-row"} {
			all := definitions()
			d := all[slices.IndexFunc(all, func(d definition) bool { return d.name == name })]
			r, err := d.parseAndMeasure(ctx, rest, stderr)
			if err == nil {
				err = r.verdict()
			}
			if err != nil {
				return fmt.Errorf("turn %d of %s: %w", turn+1, name, err)
			}
			results[name] = append(results[name], r)
			fmt.Fprintf(stderr, "turn %d of %d, %-10s %8.0f events/s %8.1f CPU µs/event   load %.1f\n", turn+1, runs.turns, name,
				rate(r.Accepted, r.PostSeconds), r.relayCost(), r.Machine.LoadAfter)
		}
	}
	s := newSheet(results)
	if runs.json {
		return json.NewEncoder(stdout).Encode(s)
	}
	s.print(stdout)
	return nil
}

func newSheet(results map[string][]*Result) sheet {
	flat := results["flat"]
	s := sheet{
		Settings: flat[0].Settings, Version: flat[0].Version, Turns: len(flat), Machine: flat[0].Machine,
		Rates: map[string]int64{}, Relay: stagePrices(flat), Floor: stagePrices(results["floor"]),
		Parts: map[string]price{}, Processes: map[string]price{},
	}
	s.Machine.LoadAfter = flat[len(flat)-1].Machine.LoadAfter
	for name, runs := range results {
		last := runs[len(runs)-1]
		s.Rates[name] = int64(rate(last.Accepted, last.PostSeconds))
	}
	for _, f := range floors {
		s.Parts[f.scenario] = medianPrice(results[f.scenario], func(r *Result) price {
			p := price{r.relayCost(), r.Mallocs, r.Bytes}
			if f.process != "" {
				p.CPU += r.process("load") // the load process creates the blocks
			}
			return p
		})
	}
	for _, name := range []string{"clickhouse", "kafka", "redis"} {
		if p := medianPrice(flat, func(r *Result) price { return price{CPU: r.process(name)} }); p.CPU > 0 {
			s.Processes[name] = p
		}
	}
	return s
}

// process returns the CPU time of a kind of process, in microseconds per event.
func (r *Result) process(name string) float64 {
	for _, p := range r.CPU {
		if p.Name == name {
			return p.PerEvent
		}
	}
	return 0
}

func stagePrices(runs []*Result) map[string]price {
	out := map[string]price{}
	for _, name := range sheetStages {
		p := medianPrice(runs, func(r *Result) price {
			for _, s := range r.Stages {
				if s.Name == name {
					return price{s.PerEvent, s.Mallocs, s.Bytes}
				}
			}
			return price{}
		})
		if p != (price{}) {
			out[name] = p
		}
	}
	return out
}

func medianPrice(runs []*Result, of func(*Result) price) price {
	var cpu, mallocs, bytes []float64
	for _, r := range runs {
		p := of(r)
		cpu, mallocs, bytes = append(cpu, p.CPU), append(mallocs, p.Mallocs), append(bytes, p.Bytes)
	}
	return price{newSpread(cpu).Median, newSpread(mallocs).Median, newSpread(bytes).Median}
}

// print writes two Markdown tables: the relay's stages next to those of the bare pipeline, and the pipeline's parts
// alone.
func (s sheet) print(w io.Writer) {
	fmt.Fprintf(w, "`relay-bench costs`: %s; %s; %d cores, %s, load average %.1f → %.1f; medians of %d turns. Events per "+
		"second: flat %d, bare pipeline %d; %s.\n\n",
		s.Settings, s.Version, s.Machine.Cores, s.Machine.CPU, s.Machine.LoadBefore, s.Machine.LoadAfter, s.Turns,
		s.Rates["flat"], s.Rates["floor"], s.Machine.Disk)
	fmt.Fprint(w, "| per event | CPU µs | allocations | bytes | bare pipeline: CPU µs | allocations | bytes | CPU ÷ "+
		"bare |\n|---|---|---|---|---|---|---|---|\n")
	row := func(name string, p, floor price) {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", name, cell(p.CPU), cell(p.Mallocs), cell(p.Bytes),
			cell(floor.CPU), cell(floor.Mallocs), cell(floor.Bytes), ratio(p.CPU, floor.CPU))
	}
	var relay, floor price
	for _, name := range sheetStages {
		row(name, s.Relay[name], s.Floor[name])
		relay, floor = relay.plus(s.Relay[name]), floor.plus(s.Floor[name])
	}
	row("**the process**", relay, floor)
	all := relay
	for _, name := range []string{"clickhouse", "kafka", "redis"} {
		if p, ok := s.Processes[name]; ok {
			row(name+", its process", p, price{})
			all = all.plus(p)
		}
	}
	row("**all**", all, floor)
	fmt.Fprint(w, "\n| alone | CPU µs | allocations | bytes | the same stages of the relay: CPU µs | allocations | "+
		"bytes | CPU ÷ floor |\n|---|---|---|---|---|---|---|---|\n")
	// A part that runs alone includes its own garbage collection and scheduling, so each stage gets its share of them
	// too.
	share := relay.CPU / max(relay.CPU-s.Relay["GC"].CPU-s.Relay["scheduler"].CPU, 1)
	compare := func(name, does string, floor, p price) {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s%s | %s | %s | %s |\n", name, cell(floor.CPU), cell(floor.Mallocs),
			cell(floor.Bytes), does, cell(p.CPU), cell(p.Mallocs), cell(p.Bytes), ratio(p.CPU, floor.CPU))
	}
	var least, same price
	for _, f := range floors {
		var p price
		for _, name := range f.stages {
			p = p.plus(s.Relay[name])
		}
		p.CPU = p.CPU*share + s.Processes[f.process].CPU
		part := s.Parts[f.scenario]
		least, same = least.plus(part), same.plus(p)
		compare(f.description, strings.Join(f.names(), ", ")+": ", part, p)
	}
	compare("**all of it**", "", least, same)
	compare("**the whole event**", "", least, all)
}

// names returns the names of the stages, and of the process.
func (p floorPart) names() []string {
	if p.process == "" {
		return p.stages
	}
	return append(slices.Clone(p.stages), p.process)
}

// cell formats a number of a table; 0 is an empty cell.
func cell(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

// ratio formats v ÷ floor; it is empty if one of them is 0.
func ratio(v, floor float64) string {
	if v == 0 || floor == 0 {
		return ""
	}
	return number(v / floor)
}
