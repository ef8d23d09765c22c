package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// pair compares a small and a large amount of one thing.
type pair struct {
	name, description string
	base, with        string // scenarios with their flags; {n} stands for the amount
	n                 int    // default amount; 0 = the pair has none
}

var pairs = []pair{
	{"endpoints", "many endpoints that get events in turn, against one",
		"flat", "flat --endpoints {n}", 1000},
	{"configured", "many idle endpoints, against none",
		"flat", "flat --configured {n}", 100_000},
	{"tenants", "idle endpoints of as many tenants, against as many without tenants",
		"flat --configured {n}", "flat --configured {n} --tenants", 100_000},
	{"partitions", "64 endpoints on many partitions, against four partitions",
		"flat --endpoints 64 --partitions 4", "flat --endpoints 64 --partitions {n}", 64},
	{"backlog", "events of other, paused endpoints that wait in the log, against none",
		"flat", "flat --backlog {n}", 1_000_000},
	{"longer", "a long backlog, against one of 20,000 events",
		"flat --backlog 20000", "flat --backlog {n}", 1_000_000},
	{"drain", "a backlog posted to a paused endpoint and then delivered, against events that are delivered immediately",
		"flat", "drain --events {n}", 1_000_000},
	{"stopped", "a backlog posted while no dispatcher ran, against events that are delivered immediately",
		"flat", "drain --stopped --events {n}", 1_000_000},
	{"stored", "100 events a second while the store has many of the same day, against an empty one",
		"steady --rate 100", "steady --rate 100 --stored {n}", 1_000_000},
	{"tls", "a destination with TLS, against plain HTTP",
		"flat --sink-net-http", "tls", 0},
	{"http2", "a destination with HTTP/2, against HTTP/1.1, both with TLS",
		"tls", "tls --http2", 0},
}

const growthSummary = "runs a small and a large amount of something alternately: does an event cost more?"

// growth compares a small with a large amount of a thing, in alternating runs.
func growth(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var n int
	var each repeatFlags
	summary := growthSummary + "\n"
	for _, p := range pairs {
		summary += fmt.Sprintf("\n  %-11s %s: %s", p.name, p.description, strings.ReplaceAll(p.with, "{n}", fmt.Sprint(p.n)))
	}
	fs := newFlags("growth", "[flags] PAIR [flags of both scenarios]", summary)
	fs.IntVar(&n, "n", 0, "the large amount; 0 = as listed above")
	each.flags(fs, 5)
	if err := errors.Join(parse(fs, args, stderr), each.validate()); err != nil {
		return err
	}
	i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == fs.Arg(0) })
	switch {
	case fs.NArg() == 0:
		return MisuseError{errors.New("growth: a pair is missing; relay-bench growth --help lists them")}
	case i < 0:
		return MisuseError{fmt.Errorf("growth: there is no pair %q; relay-bench growth --help lists them", fs.Arg(0))}
	case n < 0 || n > 0 && pairs[i].n == 0:
		return MisuseError{fmt.Errorf("--n: %d cannot be used with %s", n, pairs[i].name)}
	case slices.ContainsFunc(fs.Args(), func(a string) bool { return strings.Contains(a, "-data-dir") }):
		return MisuseError{errors.New(
			"--data-dir: cannot be used with growth, because each run needs a new directory")}
	}
	for _, a := range fs.Args()[1:] {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); strings.HasPrefix(a, "-") && fs.Lookup(name) != nil {
			return MisuseError{fmt.Errorf(
				"--%s: put it before %s; flags after the pair are for both scenarios", name, pairs[i].name)}
		}
	}
	if n == 0 {
		n = pairs[i].n
	}
	side := func(command string) variant { return pairs[i].variant(command, n, fs.Args()[1:]) }
	results, err := runAlternating(ctx, [2]variant{side(pairs[i].base), side(pairs[i].with)}, each.turns, stderr)
	if err != nil {
		return err
	}
	c := newComparison(results)
	c.Scenario, c.Settings = "growth", pairs[i].name
	c.Base, c.New = "is "+describe(results[0][0]), "is "+describe(results[1][0])
	return c.write(stdout, each.json)
}

func describe(r *Result) string { return r.Scenario + " (" + r.Settings + ")" }

// variant returns one side of a pair, with the flags for both sides.
func (p pair) variant(command string, n int, both []string) variant {
	words := strings.Fields(strings.ReplaceAll(command, "{n}", fmt.Sprint(n)))
	all := definitions()
	i := slices.IndexFunc(all, func(d definition) bool { return d.name == words[0] })
	return variant{all[i], append(words[1:], both...), command}
}
