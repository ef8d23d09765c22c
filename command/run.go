// Package command is the command line of relay: its subcommands with their help, the settings, and what each does.
//
// Begin with run.go: subcommands lists all of them, Run runs one. dev, serve and engine start a process; migrate works
// on the engines; the commands with verbs (cli.Group), such as relay keys list, are clients of a running node.
// Clients send one request over the command socket in its data directory and print the answer as text, or as JSON with
// --json. node/admin serves that socket, defines the types of requests and answers, and decides what is allowed.
//
// settings.go reads every setting from flags and the environment, and settings_validate.go validates it. All faults are
// reported at once, each with the name of its variable.
package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/store/schema"
)

// subcommands lists all subcommands in the order of the help, with those of features.
func subcommands() []cli.Command {
	all := coreCommands()
	for _, f := range node.Features {
		for _, c := range f.Commands {
			after := slices.IndexFunc(all, func(s cli.Command) bool { return s.Name == c.After })
			all = slices.Insert(all, after+1, c)
		}
	}
	return all
}

func coreCommands() []cli.Command {
	return []cli.Command{
		{Name: "dev", Help: "try it on your own machine: serve with the defaults of development",
			Run: withSettings(runServe)},
		{Name: "serve", Help: "run a node: alone, with its engines inside, or one of several on Kafka, Redis and ClickHouse",
			Run: withSettings(runServe)},
		{Name: "migrate", Help: "create the topics and tables that serve needs, and check existing ones",
			Run: migrateCommand},
		{Name: "ready", Help: "ask the node on this machine whether it can serve requests: a health check",
			Run: readyCommand},
		{Name: "config", Help: "export the whole configuration, or import it into an empty log", Run: configCommands().Run},
		{Name: "engine", Help: "run one embedded engine: redis or clickhouse",
			Run: func(ctx context.Context, c cli.Call) int { return cli.ExitCode(runEngine(ctx, c), c.Stderr) }},
		{Name: "dead", Help: "list dead letters (records that could not be decoded or stored), and retry them",
			Run: deadCommands().Run},
		{Name: "keys", Help: "create, list or revoke API keys, or seal all secrets with a new master key",
			Run: keysCommands().Run},
		{Name: "users", Help: "add, list, reset or remove dashboard users, or change what they may do",
			Run: usersCommands().Run},
		{Name: "completion", Help: "print a script that completes commands and flags in a shell", Run: completionCommand},
		{Name: "version", Help: "print the version", Run: versionCommand},
	}
}

func writeHelp(w io.Writer) {
	fmt.Fprint(w, "Usage:\n  relay <command> [flags]\n\nrelay receives webhooks and events, stores every one and "+
		"delivers each to its destinations.\n\nCommands:\n")
	for _, s := range subcommands() {
		fmt.Fprintf(w, "  %-10s  %s\n", s.Name, cli.Sentence(s.Help))
	}
	fmt.Fprint(w, "\nrelay <command> --help lists the flags of a command\n")
}

// Program is a binary with all subcommands: what it decides, and no setting can.
type Program struct {
	Version string
	Waits   nodeconfig.Waits // of the nodes that it runs

	describe func([]cli.Word, *flag.FlagSet) // Call.Describe of each call
}

// Run runs a command line and returns the exit code of the process. It is main without os.Exit.
func (p Program) Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		writeHelp(stderr)
		return cli.ExitMisused
	}
	name, args := args[0], args[1:]
	if name == "help" && len(args) > 0 {
		name, args = args[0], append(args[1:], "--help")
	}
	if name == "help" || name == "-h" || name == "--help" {
		writeHelp(stdout)
		return cli.ExitDone
	}
	if name == "--version" {
		name = "version"
	}
	var names []string
	for _, s := range subcommands() {
		if s.Name == name {
			c := cli.Call{Version: p.Version, Waits: p.Waits, Name: name, Help: s.Help, Args: args, Getenv: getenv,
				Stdout: stdout, Stderr: stderr, Color: cli.WantsColor(getenv, stdout), Describe: p.describe}
			c.WithSettings = func(do func(cli.Settings, *slog.Logger) error, more ...cli.Toggle) int {
				return withSettings(func(_ context.Context, _ cli.Call, s settings, log *slog.Logger) error {
					return do(cli.Settings{Config: s.Config, Argument: s.argument, Previous: s.previous}, log)
				}, more...)(ctx, c)
			}
			return s.Run(ctx, c)
		}
		names = append(names, s.Name)
	}
	return cli.ExitCode(cli.UsageError{Err: fmt.Errorf("unknown command %q%s; relay help lists them", name,
		cli.DidYouMean(name, names))},
		stderr)
}

func versionCommand(_ context.Context, c cli.Call) int {
	flags := flag.NewFlagSet("relay version", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	err := c.ParseFlags(flags, cli.Help{Usage: "relay version [flags]", About: cli.Sentence(c.Help)})
	switch {
	case err != nil:
	case *asJSON:
		err = json.NewEncoder(c.Stdout).Encode(map[string]string{"version": c.Version})
	default:
		fmt.Fprintln(c.Stdout, c.Version)
	}
	return cli.ExitCode(err, c.Stderr)
}

func migrateCommand(ctx context.Context, c cli.Call) int {
	var fix, finalize, asJSON, ddl, grants bool
	return withSettings(func(ctx context.Context, c cli.Call, s settings, _ *slog.Logger) error {
		switch {
		case ddl:
			return printStatements(s, c.Stdout, schema.DDL)
		case grants:
			return printStatements(s, c.Stdout, schema.Grants)
		}
		return runMigrate(ctx, s, fix, finalize, asJSON, c)
	}, cli.Toggle{Flag: "fix",
		Help:  "correct topic settings that differ, where that moves no data",
		Value: &fix},
		cli.Toggle{Flag: "finalize",
			Help: "end an upgrade: from now on write what older versions do not know; refused while an older " +
				"node runs",
			Value: &finalize},
		cli.Toggle{Flag: "print",
			Help: "print the statements that create the tables (with --cluster, the replicated ones) and do " +
				"nothing else",
			Value: &ddl, Alone: true},
		cli.Toggle{Flag: "print-grants",
			Help: "print the statements that create a ClickHouse role for each kind of user, with the " +
				"rights that it needs, and do nothing else",
			Value: &grants, Alone: true},
		cli.JSON(&asJSON))(ctx, c)
}

// withSettings makes a subcommand that reads and validates its settings first, and reports all faults at once.
func withSettings(do func(context.Context, cli.Call, settings, *slog.Logger) error, more ...cli.Toggle) func(
	context.Context, cli.Call) int {
	return func(ctx context.Context, c cli.Call) int {
		s, log, err := readSettings(c, more...)
		if err == nil {
			if err = do(ctx, c, s, log); logFailure(log, s.LogFormat, err) {
				return cli.ExitCode(err, io.Discard)
			}
		}
		return cli.ExitCode(err, c.Stderr)
	}
}

func readSettings(c cli.Call, more ...cli.Toggle) (settings, *slog.Logger, error) {
	s, err := loadSettings(c, more...)
	if _, misused := errors.AsType[cli.UsageError](err); misused || errors.Is(err, flag.ErrHelp) {
		return s, nil, err
	}
	if c.Name == "dev" {
		s.ignoreEngines()
	}
	needs := c.Name
	for _, t := range more {
		if t.Alone && *t.Value {
			needs = c.Name + " --" + t.Flag
		}
	}
	if err = errors.Join(err, s.Validate(needs)); err != nil {
		return s, nil, cli.UsageError{Err: fmt.Errorf("these settings cannot be used:\n%w", err)}
	}
	s.Version, s.Waits, s.RestoreStore = c.Version, c.Waits, restoreStore
	for _, f := range node.Features {
		if f.Check != nil {
			s.Checks = append(s.Checks, f.Check)
		}
	}
	if s.Dev = c.Name == "dev"; s.Dev || c.Name == "serve" && len(s.KafkaBrokers) == 0 {
		s.alone()
	}
	s.LogFormat = cmp.Or(s.LogFormat, logText)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // Validate has checked it
	handler := logHandler(c.Stderr, s.LogFormat, level)
	if c.Name == "serve" || c.Name == "dev" {
		if s.logs, err = otlp.NewLogs(s.OTLP(), handler); err != nil {
			return s, nil, err
		}
		if s.logs != nil {
			handler = s.logs.Handler()
		}
	}
	log := newLogger(handler, s.NodeName)
	s.logWarnings(log)
	warnMisspelt(log, os.Environ())
	return s, log, nil
}

// dirty ends the commit of a build from changed files.
const dirty = "-dirty"

// Version returns the version of the program: the number of a release, or for a pre-release and a changed release the
// number with the commit as build metadata (Semantic Versioning 2.0.0): 0.1.0-dev+a6d2758. If commit is empty, it uses
// the commit that the compiler recorded; tests and builds outside a repository have none.
func Version(release, commit string) string {
	release = strings.TrimSpace(release)
	if commit == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			commit = buildCommit(info.Settings)
		}
	}
	if commit == "" || !strings.Contains(release, "-") && !strings.HasSuffix(commit, dirty) {
		return release
	}
	return release + "+" + commit
}

// buildCommit returns the commit of a build, formatted as git describe --always --dirty does; "" if none was recorded.
func buildCommit(settings []debug.BuildSetting) string {
	var revision, changed string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(7, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = dirty
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}

// UntilSignal returns a context that ends with SIGINT (Ctrl-C), SIGTERM or SIGHUP, which says that the terminal was
// closed; under nohup SIGHUP stays ignored. A SIGINT after that ends the process at once: whoever presses Ctrl-C again
// does not want to wait. Supervisors repeat SIGTERM, so that it does not.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	return ctx, stop
}
