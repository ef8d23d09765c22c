package plan

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "plan", Commands: []cli.Command{{
	Name: "plan", After: "listen", Run: planCommand,
	Help: "print how many machines and how large disks a cluster needs for a given load",
}}}

var planHelp = cli.Help{
	Usage: "relay plan --events-per-second N --size BYTES [flags]",
	About: `Prints what a cluster needs for a given work: brokers, partitions, nodes by role, Redis, ClickHouse servers,
cores, memory and disks, and what it assumed. It connects to nothing.`,
	More: `The figures are measurements of one machine, in CPU time: other machines differ by a factor of two and more.
Measure yours with relay-bench capacity before you order machines.

Exit codes: 0 done, 2 wrong usage.`,
}

func planCommand(_ context.Context, c cli.Call) int {
	return cli.ExitCode(runPlan(c), c.Stderr)
}

func runPlan(c cli.Call) error {
	w, asJSON, err := readPlan(c)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	p := For(w)
	if asJSON {
		return json.NewEncoder(c.Stdout).Encode(p)
	}
	return printPlan(c.Stdout, p)
}

// readPlan reads the command line. It reports every fault at once: flags that are missing, values that are not numbers,
// or else those out of range.
func readPlan(c cli.Call) (w Work, asJSON bool, err error) {
	w = Usual()
	flags := flag.NewFlagSet("relay plan", flag.ContinueOnError)
	flags.Var(decimal(&w.Events), "events-per-second", "events that are accepted in a second, in the mean of a day")
	flags.Var(size(&w.Size), "size", "body of an event in the mean, such as 800, 2KB or 1.5MB")
	flags.Var(decimal(&w.Destinations), "destinations",
		"destinations that an event is delivered to, in the mean; default 1")
	flags.Var(decimal(&w.Attempts), "attempts",
		"requests for a delivery, in the mean: 1.1 means that one of ten fails; default 1.1")
	flags.Var(whole(&w.RetentionDays), "retention",
		"days that events stay readable, as RELAY_RETENTION_DAYS; default 30")
	flags.Var(decimal(&w.Peak), "peak", "events in the busiest minute, as a multiple of the mean; default 3")
	flags.Var(whole(&w.LogHours), "log-hours",
		"hours for which Kafka's disks hold everything while ClickHouse is unavailable; default 24")
	flags.Var(decimal(&w.Compression), "compression",
		"size of a body on ClickHouse's disk, as a part of --size; 0.225, as JSON of orders, invoices "+
			"and commits has, unless you give it; 1 for what is compressed already")
	flags.Var(decimal(&w.Deduplicated), "deduplicated",
		"share of the events with deduplication or an Idempotency-Key, which Redis keeps for up to a "+
			"day, 0 to 1; default 1")
	flags.Var(whole(&w.Cores), "cores", "cores of each machine; default 4")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	arguments, err := c.Parse(flags, c.Args, planHelp)
	if err != nil {
		return w, false, err
	}
	var faults []error
	if fault := cli.NoArguments(arguments); fault != "" {
		faults = append(faults, errors.New(fault))
	}
	flags.VisitAll(func(f *flag.Flag) {
		switch v, _ := f.Value.(*planValue); {
		case v == nil:
		case v.fault != nil:
			faults = append(faults, fmt.Errorf("--%s: %w", f.Name, v.fault))
		case !v.given && (f.Name == "events-per-second" || f.Name == "size"):
			faults = append(faults, fmt.Errorf("--%s: is required; relay plan --help says what it is", f.Name))
		}
	})
	if len(faults) > 0 {
		return w, false, errors.Join(faults...)
	}
	return w, asJSON, w.Validate()
}

// planValue is the value of a flag. It keeps its fault, because the flag package stops at the first one.
type planValue struct {
	read  func(text string) error
	given bool
	fault error
}

func (v *planValue) Set(text string) error {
	v.given, v.fault = true, v.read(text)
	return nil
}

func (v *planValue) String() string { return "" }

func decimal(to *float64) *planValue {
	return &planValue{read: func(text string) (err error) {
		if *to, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		return nil
	}}
}

// whole reads a whole number; 30d is 30.
func whole(to *int) *planValue {
	return &planValue{read: func(text string) (err error) {
		if *to, err = strconv.Atoi(strings.TrimSuffix(text, "d")); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		return nil
	}}
}

// size reads a number of bytes with the unit B, KB (1,000) or MB, or none.
func size(to *int) *planValue {
	return &planValue{read: func(text string) error {
		number, unit := strings.ToUpper(text), 1.0
		for _, u := range []struct {
			suffix string
			bytes  float64
		}{{"KB", 1e3}, {"MB", 1e6}, {"B", 1}} {
			if before, ok := strings.CutSuffix(number, u.suffix); ok {
				number, unit = strings.TrimSpace(before), u.bytes
				break
			}
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n*unit >= -1e12 && n*unit <= 1e12) {
			return fmt.Errorf("%q is not a number of bytes, such as 800, 2KB or 1.5MB", text)
		}
		*to = int(n * unit)
		return nil
	}}
}

func printPlan(to io.Writer, p Plan) error {
	w := p.Work
	fmt.Fprintf(to, "%v events a second of %d B, %v destinations, %v attempts: at the peak %.0f events and %.0f requests "+
		"a second; %d days\n\n", w.Events, w.Size, w.Destinations, w.Attempts, p.PeakEvents, p.PeakRequests, w.RetentionDays)
	table := cli.NewTable("PART", "MACHINES", "CORES IN USE AT THE PEAK", "MEMORY OF EACH", "DISK OF EACH")
	for _, part := range p.Parts {
		disk := "none"
		if part.DiskGB > 0 {
			disk = fmt.Sprintf("%d GB", part.DiskGB)
		}
		table.Row(part.Name, part.Count, fmt.Sprintf("%.1f of %d", part.Cores, part.Count*w.Cores),
			fmt.Sprintf("%d GB", part.MemoryGB), disk)
	}
	table.Print(to, false)
	fmt.Fprintf(to, "\nRELAY_PARTITIONS=%d RELAY_REPLICATION_FACTOR=%d RELAY_RETENTION_DAYS=%d\n\n",
		p.Partitions, p.Replicas, w.RetentionDays)
	assumed := cli.NewTable("ASSUMED", "VALUE", "FROM")
	for _, a := range p.Assumed {
		assumed.Row(a.What, a.Value, a.From)
	}
	assumed.Print(to, false)
	return nil
}
