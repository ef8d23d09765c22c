package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
)

// defaultDataDir is the data directory without --data-dir and RELAY_DATA_DIR.
const defaultDataDir = "./.relay"

// Group is the commands that share their first argument, such as relay keys.
type Group struct {
	Name  string
	Help  string
	Verbs map[string]Verb
}

// Verb defines the flags of one command in the flag set and returns its action.
type Verb func(*flag.FlagSet) Action

// Action is a command whose flags have been read.
type Action struct {
	// Misuse returns what is wrong with the arguments or flags; "" = nothing.
	Misuse func(arguments []string) string
	Do     func(ctx context.Context, c *Client, arguments []string) error
}

const exitCodes = `
These commands ask the running process through the socket in its data directory (--data-dir, RELAY_DATA_DIR).
--json prints the answer as JSON.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no running process.
`

// Run runs the command that the arguments begin with and returns its exit code.
func (g Group) Run(ctx context.Context, c Call) int {
	usage := g.Help + exitCodes
	if len(c.Args) == 0 {
		fmt.Fprint(c.Stderr, usage)
		return ExitMisused
	}
	name, args := c.Args[0], c.Args[1:]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprint(c.Stdout, usage)
		return ExitDone
	}
	misused := func(fault string) int {
		fmt.Fprintf(c.Stderr, "relay %s: %s\n\n%s", g.Name, fault, usage)
		return ExitMisused
	}
	declare, ok := g.Verbs[name]
	if !ok {
		return misused(fmt.Sprintf("unknown command %q%s", name, DidYouMean(name, slices.Sorted(maps.Keys(g.Verbs)))))
	}
	flags := flag.NewFlagSet("relay "+g.Name+" "+name, flag.ContinueOnError)
	dir := flags.String("data-dir", cmp.Or(c.Getenv("RELAY_DATA_DIR"), defaultDataDir),
		"data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	act := declare(flags)
	arguments, err := ParseInterleaved(flags, args, func() { fmt.Fprint(c.Stdout, usage) })
	if err != nil {
		return ExitCode(err, c.Stderr)
	}
	if fault := act.Misuse(arguments); fault != "" {
		return misused(fault)
	}
	to := c.Client(*dir, *asJSON)
	return ExitCode(act.Do(ctx, to, arguments), c.Stderr)
}
