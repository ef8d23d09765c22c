package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// defaultDataDir is the data directory without --data-dir and RELAY_DATA_DIR.
const defaultDataDir = "./.relay"

// Group is the commands that share their first argument, such as relay keys.
type Group struct {
	Name  string
	Verbs []Verb
	About string // follows how they are called
}

// Verb is one command of a group.
type Verb struct {
	Name, Args, Help string
	// Flags defines its flags in the flag set and returns its action.
	Flags func(*flag.FlagSet) Action
}

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

// form returns how a command of the group is called.
func (g Group) form(v Verb) string {
	return strings.TrimSpace("relay " + g.Name + " " + v.Name + " " + v.Args)
}

// Run runs the command that the arguments begin with and returns its exit code.
func (g Group) Run(ctx context.Context, c Call) int {
	var forms []string
	var words []Word
	for _, v := range g.Verbs {
		forms, words = append(forms, g.form(v)), append(words, Word{v.Name, v.Help})
	}
	usage := func(w io.Writer) {
		writeUsage(w, forms)
		fmt.Fprint(w, "\n"+g.About+exitCodes)
	}
	if len(c.Args) == 0 {
		if c.Describe != nil {
			c.Describe(words, nil)
			return ExitDone
		}
		usage(c.Stderr)
		return ExitMisused
	}
	name, args := c.Args[0], c.Args[1:]
	if name == "help" || name == "-h" || name == "--help" {
		usage(c.Stdout)
		return ExitDone
	}
	misused := func(fault string) int {
		fmt.Fprintf(c.Stderr, "relay %s: %s\n\n", g.Name, fault)
		usage(c.Stderr)
		return ExitMisused
	}
	var names []string
	for _, v := range g.Verbs {
		if names = append(names, v.Name); v.Name == name {
			return g.run(ctx, c, v, args, misused)
		}
	}
	return misused(fmt.Sprintf("unknown command %q%s", name, DidYouMean(name, names)))
}

func (g Group) run(ctx context.Context, c Call, v Verb, args []string, misused func(fault string) int) int {
	flags := flag.NewFlagSet("relay "+g.Name+" "+v.Name, flag.ContinueOnError)
	dir := flags.String("data-dir", cmp.Or(c.Getenv("RELAY_DATA_DIR"), defaultDataDir),
		"data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	act := v.Flags(flags)
	arguments, err := c.Parse(flags, args, Help{Usage: g.form(v), About: Sentence(v.Help), More: g.About + exitCodes})
	if err != nil {
		return ExitCode(err, c.Stderr)
	}
	if fault := act.Misuse(arguments); fault != "" {
		return misused(fault)
	}
	return ExitCode(act.Do(ctx, c.Client(*dir, *asJSON), arguments), c.Stderr)
}
