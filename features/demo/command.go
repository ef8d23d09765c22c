package demo

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/demo/pages"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "demo", New: newParts, Pages: pages.Area, Commands: commands}

var commands = []cli.Command{{
	Name: "demo", After: "dev", Run: demoCommand,
	Help: "show a sample shop, or a promise, on a relay of its own: demo --help lists all",
}}

// demoCommand runs a demonstration.
func demoCommand(ctx context.Context, c cli.Call) int {
	flags := flag.NewFlagSet("relay demo", flag.ContinueOnError)
	keep := flags.Bool("keep", false, "leave the relay running until Ctrl-C, to look at it")
	help := cli.Help{Usage: "relay demo [NAME] [--keep]", About: "Without NAME: a sample shop to watch in the browser, " +
		"until Ctrl-C. With NAME:\nshows a promise on a relay of its own, which is removed afterwards: starts it, " +
		"sends\nevents, breaks something and counts. Exit code 1: the promise did not hold.\n\nNames:"}
	var words []cli.Word
	for _, d := range All {
		words = append(words, cli.Word{Name: d.Name, Help: d.Promise})
		help.About += fmt.Sprintf("\n  %-9s  %s", d.Name, cli.Sentence(d.Promise))
	}
	names, err := c.Parse(flags, c.Args, help, words...)
	if err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	program, err := os.Executable()
	if err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	if len(names) == 0 {
		return cli.ExitCode(watch(ctx, program, c.Stdout), c.Stderr)
	}
	var all []string
	for _, d := range All {
		if all = append(all, d.Name); d.Name == names[0] && len(names) == 1 {
			return cli.ExitCode(d.Run(ctx, program, *keep, c.Stdout), c.Stderr)
		}
	}
	return cli.ExitCode(cli.UsageError{Err: fmt.Errorf("there is no demonstration %q%s; relay demo --help lists them",
		names[0],
		cli.DidYouMean(names[0], all))}, c.Stderr)
}
