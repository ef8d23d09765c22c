// Package command is the command line of relay: its subcommands with their help, the settings, and what each does.
//
// Begin with run.go: subcommands lists all of them, Run runs one. dev, serve and engine start a process; migrate works
// on the engines; doctor and the commands with verbs (group), such as relay keys list, are clients of a running node.
// Clients send one request over the command socket in its data directory and print the answer as text, or as JSON with
// --json. node/admin serves that socket, defines the types of requests and answers, and decides what is allowed.
//
// settings.go reads every setting from flags and the environment and validates it. All faults are reported at once,
// each with the name of its variable.
package command

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/eventrelay/relay/node/admin"
)

// Exit codes of every command.
const (
	ExitDone      = 0
	ExitRefused   = 1
	ExitMisused   = 2
	ExitNoProcess = 3 // no running node answers on the socket
)

// defaultDataDir is the data directory without --data-dir and RELAY_DATA_DIR.
const defaultDataDir = "./.relay"

// group is the commands that share their first argument, such as relay keys.
type group struct {
	name  string
	help  string
	verbs map[string]verb
}

// verb defines the flags of one command in the flag set and returns its action.
type verb func(*flag.FlagSet) action

// action is a command whose flags have been read.
type action struct {
	// misuse returns what is wrong with the arguments or flags; "" = nothing.
	misuse func(arguments []string) string
	do     func(ctx context.Context, c *client, arguments []string) error
}

const exitCodes = `
These commands ask the running process through the socket in its data directory (--data-dir, RELAY_DATA_DIR).
--json prints the answer as JSON.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no running process.
`

// run runs the command that the arguments begin with and returns its exit code.
func (g group) run(ctx context.Context, c call) int {
	usage := g.help + exitCodes
	if len(c.args) == 0 {
		fmt.Fprint(c.stderr, usage)
		return ExitMisused
	}
	name, args := c.args[0], c.args[1:]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprint(c.stdout, usage)
		return ExitDone
	}
	misused := func(fault string) int {
		fmt.Fprintf(c.stderr, "relay %s: %s\n\n%s", g.name, fault, usage)
		return ExitMisused
	}
	declare, ok := g.verbs[name]
	if !ok {
		return misused(fmt.Sprintf("unknown command %q%s", name, didYouMean(name, slices.Sorted(maps.Keys(g.verbs)))))
	}
	flags := flag.NewFlagSet("relay "+g.name+" "+name, flag.ContinueOnError)
	dir := flags.String("data-dir", withDefault(c.getenv("RELAY_DATA_DIR"), defaultDataDir),
		"data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	act := declare(flags)
	arguments, err := parseInterleaved(flags, args, func() { fmt.Fprint(c.stdout, usage) })
	if err != nil {
		return exitCode(err, c.stderr)
	}
	if fault := act.misuse(arguments); fault != "" {
		return misused(fault)
	}
	to := newClient(*dir, *asJSON, c)
	return exitCode(act.do(ctx, to, arguments), c.stderr)
}

// parseInterleaved parses flags before, between and after the arguments, and returns the arguments.
func parseInterleaved(flags *flag.FlagSet, args []string, help func()) (arguments []string, err error) {
	for {
		if err := parseFlags(flags, args, help); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return arguments, nil
		}
		arguments, args = append(arguments, args[0]), args[1:]
	}
}

// noArguments reports a misuse of a command that takes flags only.
func noArguments(arguments []string) string {
	if len(arguments) > 0 {
		return fmt.Sprintf("unexpected argument %q", arguments[0])
	}
	return ""
}

func withDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// newClient returns a client of the process with this data directory, which prints to the output of the call. It
// connects with the first request.
func newClient(dir string, asJSON bool, c call) *client {
	return &client{path: filepath.Join(dir, admin.SocketFile), asJSON: asJSON, out: c.stdout, err: c.stderr}
}
