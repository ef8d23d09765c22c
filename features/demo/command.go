package demo

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "demo", Commands: []cli.Command{{
	Name: "demo", After: "dev", Run: demoCommand,
	Help: "show a promise on a relay of its own: demo --help lists all",
}}}

// writeDemoHelp lists the demonstrations.
func writeDemoHelp(w io.Writer) {
	fmt.Fprint(w, "Usage: relay demo [--keep] NAME\n\nShows a promise on a relay of its own, which is removed "+
		"afterwards: starts it,\nsends events, breaks something and counts. Exit code 1: the promise did not hold.\n\n")
	for _, d := range All {
		fmt.Fprintf(w, "  %-9s %s\n", d.Name, d.Promise)
	}
	fmt.Fprint(w, "\n  --keep    leave the relay running until Ctrl-C, to look at it\n")
}

// demoCommand runs a demonstration.
func demoCommand(ctx context.Context, c cli.Call) int {
	flags := flag.NewFlagSet("relay demo", flag.ContinueOnError)
	keep := flags.Bool("keep", false, "")
	names, err := cli.ParseInterleaved(flags, c.Args, func() { writeDemoHelp(c.Stdout) })
	if err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	if len(names) == 0 {
		writeDemoHelp(c.Stderr)
		fmt.Fprintln(c.Stderr, "\nrelay demo: NAME is missing")
		return cli.ExitMisused
	}
	var all []string
	for _, d := range All {
		if all = append(all, d.Name); d.Name == names[0] && len(names) == 1 {
			program, err := os.Executable()
			if err == nil {
				err = d.Run(ctx, program, *keep, c.Stdout)
			}
			return cli.ExitCode(err, c.Stderr)
		}
	}
	return cli.ExitCode(cli.UsageError{Err: fmt.Errorf("there is no demonstration %q%s; relay demo --help lists them",
		names[0],
		cli.DidYouMean(names[0], all))}, c.Stderr)
}
