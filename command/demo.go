package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/eventrelay/relay/command/demo"
)

// writeDemoHelp lists the demonstrations.
func writeDemoHelp(w io.Writer) {
	fmt.Fprint(w, "Usage: relay demo [--keep] NAME\n\nShows a promise on a relay of its own, which is removed "+
		"afterwards: starts it,\nsends events, breaks something and counts. Exit code 1: the promise did not hold.\n\n")
	for _, d := range demo.All {
		fmt.Fprintf(w, "  %-9s %s\n", d.Name, d.Promise)
	}
	fmt.Fprint(w, "\n  --keep    leave the relay running until Ctrl-C, to look at it\n")
}

// demoCommand runs a demonstration.
func demoCommand(ctx context.Context, c call) int {
	flags := flag.NewFlagSet("relay demo", flag.ContinueOnError)
	keep := flags.Bool("keep", false, "")
	names, err := parseInterleaved(flags, c.args, func() { writeDemoHelp(c.stdout) })
	if err != nil {
		return exitCode(err, c.stderr)
	}
	if len(names) == 0 {
		writeDemoHelp(c.stderr)
		fmt.Fprintln(c.stderr, "\nrelay demo: NAME is missing")
		return ExitMisused
	}
	var all []string
	for _, d := range demo.All {
		if all = append(all, d.Name); d.Name == names[0] && len(names) == 1 {
			program, err := os.Executable()
			if err == nil {
				err = d.Run(ctx, program, *keep, c.stdout)
			}
			return exitCode(err, c.stderr)
		}
	}
	return exitCode(usageError{fmt.Errorf("there is no demonstration %q%s; relay demo --help lists them", names[0],
		didYouMean(names[0], all))}, c.stderr)
}
