package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// pair is little and much of one thing.
type pair struct {
	name, says string
	base, with string // scenarios with their flags; {n} stands for how many
	n          int    // 0 = nothing is counted
}

var pairs = []pair{
	{"endpoints", "many endpoints busy in turn, against one",
		"flat", "flat --endpoints {n}", 1000},
	{"configured", "many endpoints that get nothing, against none",
		"flat", "flat --configured {n}", 100_000},
	{"partitions", "as many endpoints on many partitions, against four",
		"flat --endpoints 64 --partitions 4", "flat --endpoints 64 --partitions {n}", 64},
	{"backlog", "events of paused neighbours that wait in the log, against none",
		"flat", "flat --backlog {n}", 1_000_000},
	{"longer", "a long backlog, against one of 20,000 that comes by as often",
		"flat --backlog 20000", "flat --backlog {n}", 1_000_000},
	{"drain", "a backlog posted to a paused endpoint and then delivered, against events that are delivered at once",
		"flat", "drain --events {n}", 1_000_000},
	{"stopped", "a backlog that has come while no dispatcher ran",
		"flat", "drain --stopped --events {n}", 1_000_000},
	{"tls", "a destination that speaks TLS, against plain HTTP",
		"flat --sink-net-http", "tls", 0},
	{"http2", "a destination that speaks HTTP/2, against HTTP/1.1, both over TLS",
		"tls", "tls --http2", 0},
}

const growthSummary = "little and much of something in turns: whether an event costs more"

// growth compares little with much of a thing, in turns.
func growth(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var n int
	var each series
	summary := growthSummary + "\n"
	for _, p := range pairs {
		summary += fmt.Sprintf("\n  %-11s %s: %s", p.name, p.says, strings.ReplaceAll(p.with, "{n}", fmt.Sprint(p.n)))
	}
	fs := newFlags("growth", "[flags] PAIR [flags of both scenarios]", summary)
	fs.IntVar(&n, "n", 0, "how much is much; 0 = as the list says")
	each.flags(fs, 5)
	if err := errors.Join(parse(fs, args, stderr), each.validate()); err != nil {
		return err
	}
	i := slices.IndexFunc(pairs, func(p pair) bool { return p.name == fs.Arg(0) })
	switch {
	case fs.NArg() == 0:
		return MisuseError{errors.New("growth of what? relay-bench growth --help lists the pairs")}
	case i < 0:
		return MisuseError{fmt.Errorf("no pair %q; relay-bench growth --help lists them", fs.Arg(0))}
	case n < 0 || n > 0 && pairs[i].n == 0:
		return MisuseError{fmt.Errorf("--n: %d of %s cannot be had", n, pairs[i].name)}
	case slices.ContainsFunc(fs.Args(), func(a string) bool { return strings.Contains(a, "-data-dir") }):
		return MisuseError{errors.New(
			"--data-dir: each run begins with nothing, or the base would have what the new one has")}
	}
	for _, a := range fs.Args()[1:] {
		if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); strings.HasPrefix(a, "-") && fs.Lookup(name) != nil {
			return MisuseError{fmt.Errorf("--%s comes before %s: flags behind it are for both scenarios", name, pairs[i].name)}
		}
	}
	if n == 0 {
		n = pairs[i].n
	}
	side := func(command string) variant { return pairs[i].variant(command, n, fs.Args()[1:]) }
	results, err := inTurns(ctx, [2]variant{side(pairs[i].base), side(pairs[i].with)}, each.turns, stderr)
	if err != nil {
		return err
	}
	c := newComparison(results)
	c.Scenario, c.Settings = "growth", pairs[i].name
	c.Base, c.New = "is "+describe(results[0][0]), "is "+describe(results[1][0])
	return c.write(stdout, each.json)
}

func describe(r *Result) string { return r.Scenario + " (" + r.Settings + ")" }

// variant is one side of a pair, with the flags that both are given besides.
func (p pair) variant(command string, n int, both []string) variant {
	words := strings.Fields(strings.ReplaceAll(command, "{n}", fmt.Sprint(n)))
	all := definitions()
	i := slices.IndexFunc(all, func(d definition) bool { return d.name == words[0] })
	return variant{all[i], append(words[1:], both...), command}
}
