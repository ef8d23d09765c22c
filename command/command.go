// Package command is the command line of relay: its subcommands with their help, the settings, and what each does.
//
// Begin with run.go: subcommands lists all of them, Run runs one. dev, serve and engine start a process; migrate works
// on the engines; doctor and the commands with verbs (Group), such as relay keys list, are clients of a running node.
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
	"io"
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

// DefaultDataDir is the data directory without --data-dir and RELAY_DATA_DIR.
const DefaultDataDir = "./.relay"

// Env is the environment and the output of the process in which a command runs.
type Env struct {
	Getenv         func(string) string
	Stdout, Stderr io.Writer
}

// Group is the commands that share their first argument, such as relay keys.
type Group struct {
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
	do     func(ctx context.Context, c *Client, arguments []string) error
}

const exitCodes = `
These commands ask the running process through the socket in its data directory (--data-dir, RELAY_DATA_DIR).
--json prints the answer as JSON.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no running process.
`

// Run runs the command that args begin with and returns its exit code.
func (g Group) Run(ctx context.Context, env Env, args []string) int {
	usage := g.help + exitCodes
	if len(args) == 0 {
		fmt.Fprint(env.Stderr, usage)
		return ExitMisused
	}
	name, args := args[0], args[1:]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprint(env.Stdout, usage)
		return ExitDone
	}
	misused := func(fault string) int {
		fmt.Fprintf(env.Stderr, "relay %s: %s\n\n%s", g.name, fault, usage)
		return ExitMisused
	}
	declare, ok := g.verbs[name]
	if !ok {
		return misused(fmt.Sprintf("unknown command %q%s", name, didYouMean(name, slices.Sorted(maps.Keys(g.verbs)))))
	}
	flags := flag.NewFlagSet("relay "+g.name+" "+name, flag.ContinueOnError)
	dir := flags.String("data-dir", withDefault(env.Getenv("RELAY_DATA_DIR"), DefaultDataDir),
		"data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	act := declare(flags)
	arguments, err := parseInterleaved(flags, args, func() { fmt.Fprint(env.Stdout, usage) })
	if err != nil {
		return exitCode(err, env.Stderr)
	}
	if fault := act.misuse(arguments); fault != "" {
		return misused(fault)
	}
	c := NewClient(*dir, *asJSON, env)
	return c.Exit(act.do(ctx, c, arguments))
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

// NewClient returns a client of the process with this data directory. It connects with the first call.
func NewClient(dir string, asJSON bool, env Env) *Client {
	return &Client{path: filepath.Join(dir, admin.SocketFile), asJSON: asJSON, out: env.Stdout, err: env.Stderr}
}
