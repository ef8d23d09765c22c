// Package command is the command line: subcommands, their help and settings, what starts a process, and the client side
// of the commands that speak to a running one.
//
// Of those, in flow the words of a command line; out flow one request over the socket in the data directory of the
// process, and its answer as text, or as JSON with --json. The types of requests and answers are those of
// node/admin, which serves the socket. A command decides nothing by itself: whether it is allowed is decided by the
// process that is asked.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"github.com/eventrelay/relay/node/admin"
)

// Exit codes of every command.
const (
	ExitDone      = 0
	ExitRefused   = 1
	ExitMisused   = 2
	ExitNoProcess = 3 // no running process answers on the socket
)

// DefaultDataDir is where the data directory is unless a flag or RELAY_DATA_DIR says otherwise.
const DefaultDataDir = "./.relay"

// Env is what a command sees of the process around it.
type Env struct {
	Getenv         func(string) string
	Stdout, Stderr io.Writer
}

// Group is the commands that share their first word, such as relay keys.
type Group struct {
	name  string
	help  string
	verbs map[string]verb
}

// verb declares the flags of one command and returns what it does with them.
type verb func(*flag.FlagSet) action

// action is a command whose flags have been read.
type action struct {
	// misuse says what is wrong with the words beside the flags, or with the flags; "" if nothing is.
	misuse func(words []string) string
	do     func(ctx context.Context, c *Client, words []string) error
}

const exitCodes = `
The commands speak to the running process over the socket in its data directory (--data-dir, RELAY_DATA_DIR).
--json prints the answer as JSON.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no running process.
`

// Run runs the command that args name and returns its exit code.
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
		return misused(fmt.Sprintf("unknown command %q", name))
	}
	flags := flag.NewFlagSet("relay "+g.name+" "+name, flag.ContinueOnError)
	flags.SetOutput(env.Stderr)
	flags.Usage = func() { fmt.Fprint(env.Stderr, usage) }
	dir := flags.String("data-dir", orDefault(env.Getenv("RELAY_DATA_DIR"), DefaultDataDir),
		"data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	act := declare(flags)
	words, err := interleaved(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ExitDone
	case err != nil:
		return ExitMisused
	}
	if fault := act.misuse(words); fault != "" {
		return misused(fault)
	}
	c := NewClient(*dir, *asJSON, env)
	return c.Exit(act.do(ctx, c, words))
}

// interleaved parses flags that stand before, between and after other words, and returns the words.
func interleaved(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// noWords is the misuse of a command that takes flags only.
func noWords(words []string) string {
	if len(words) > 0 {
		return fmt.Sprintf("unexpected argument %q", words[0])
	}
	return ""
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// NewClient makes a client of the process that has this data directory. Nothing is dialled yet.
func NewClient(dir string, asJSON bool, env Env) *Client {
	return &Client{path: filepath.Join(dir, admin.SocketFile), asJSON: asJSON, out: env.Stdout, err: env.Stderr}
}
