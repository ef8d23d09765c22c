// Package command is the command line of relay: its subcommands with their help, the settings, and what each does.
//
// Begin with run.go: subcommands lists all of them, Run runs one. dev, serve and engine start a process; migrate works
// on the engines; the commands with verbs (cli.Group), such as relay keys list, are clients of a running node.
// Clients send one request over the command socket in its data directory and print the answer as text, or as JSON with
// --json. node/admin serves that socket, defines the types of requests and answers, and decides what is allowed.
//
// settings.go reads every setting from flags and the environment and validates it. All faults are reported at once,
// each with the name of its variable.
package command

import (
	"cmp"
	"context"
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
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/store/schema"
)

// subcommand is chosen by the first argument of the command line.
type subcommand struct {
	name, help string
	run        func(ctx context.Context, c call) int
}

// call is one call of a subcommand of the core.
type call struct {
	cli.Call
	waits nodeconfig.Waits
}

// subcommands lists all subcommands in the order of the help, with those of features.
func subcommands() []subcommand {
	all := coreCommands()
	for _, f := range node.Features {
		for _, c := range f.Commands {
			after := slices.IndexFunc(all, func(s subcommand) bool { return s.name == c.After })
			all = slices.Insert(all, after+1, subcommand{c.Name, c.Help, func(ctx context.Context, of call) int {
				of.WithSettings = func(do func(cli.Settings, *slog.Logger) error, more ...cli.Toggle) int {
					return withSettings(func(_ context.Context, _ call, s settings, log *slog.Logger) error {
						return do(cli.Settings{Config: s.Config, Argument: s.argument, Previous: s.previous}, log)
					}, more...)(ctx, of)
				}
				return c.Run(ctx, of.Call)
			}})
		}
	}
	return all
}

func coreCommands() []subcommand {
	return []subcommand{
		{"dev", "try it on your own machine: serve with the defaults of development", withSettings(
			func(ctx context.Context, c call, s settings, log *slog.Logger) error {
				return runServe(ctx, s, log, c)
			})},
		{"serve", "run a node: alone, with its engines inside, or one of several on Kafka, Redis and ClickHouse",
			withSettings(
				func(ctx context.Context, c call, s settings, log *slog.Logger) error {
					return runServe(ctx, s, log, c)
				})},
		{"migrate", "create the topics and tables that serve needs, and check existing ones", migrateCommand},
		{"ready", "ask the node on this machine whether it can serve requests: a health check", readyCommand},
		{"config", "export the whole configuration, or import it into an empty log", ofGroup(configCommands())},
		{"engine", "run one embedded engine: redis or clickhouse", func(ctx context.Context, c call) int {
			return cli.ExitCode(runEngine(ctx, c), c.Stderr)
		}},
		{"dead", "list dead letters (records that could not be decoded or stored), and retry them", ofGroup(deadCommands())},
		{"keys", "create, list or revoke API keys, or seal all secrets with a new master key", ofGroup(keysCommands())},
		{"users", "add, list, reset or remove dashboard users, or change what they may do", ofGroup(usersCommands())},
		{"version", "print the version", versionCommand},
	}
}

func ofGroup(g cli.Group) func(context.Context, call) int {
	return func(ctx context.Context, c call) int { return g.Run(ctx, c.Call) }
}

func writeHelp(w io.Writer) {
	fmt.Fprint(w, "relay receives webhooks and events, stores every one and delivers each to its destinations.\n\n"+
		"Usage: relay <command> [flags]\n\n")
	for _, s := range subcommands() {
		fmt.Fprintf(w, "  %-9s %s\n", s.name, s.help)
	}
	fmt.Fprint(w, "\nrelay <command> --help lists the flags of a command\n")
}

// Program is a binary with all subcommands: what it decides, and no setting can.
type Program struct {
	Version string
	Waits   nodeconfig.Waits // of the nodes that it runs
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
	var names []string
	for _, s := range subcommands() {
		if s.name == name {
			return s.run(ctx, call{cli.Call{Version: p.Version, Name: name, Args: args, Getenv: getenv, Stdout: stdout,
				Stderr: stderr}, p.Waits})
		}
		names = append(names, s.name)
	}
	return cli.ExitCode(cli.UsageError{Err: fmt.Errorf("unknown command %q%s; relay help lists them", name,
		cli.DidYouMean(name, names))},
		stderr)
}

// helpOf returns what a subcommand does.
func helpOf(name string) string {
	for _, s := range subcommands() {
		if s.name == name {
			return s.help
		}
	}
	return ""
}

func versionCommand(_ context.Context, c call) int {
	flags := flag.NewFlagSet("relay version", flag.ContinueOnError)
	err := cli.ParseFlags(flags, c.Args, func() { fmt.Fprintln(c.Stdout, "Usage: relay version\n\nPrints the version.") })
	switch {
	case err != nil:
		return cli.ExitCode(err, c.Stderr)
	case flags.NArg() > 0:
		return cli.ExitCode(cli.UsageError{Err: errors.New(cli.NoArguments(flags.Args()))}, c.Stderr)
	}
	fmt.Fprintln(c.Stdout, c.Version)
	return cli.ExitDone
}

func migrateCommand(ctx context.Context, c call) int {
	var fix, finalize, asJSON, ddl, grants bool
	return withSettings(func(ctx context.Context, c call, s settings, _ *slog.Logger) error {
		switch {
		case ddl:
			return printStatements(s, c.Stdout, schema.DDL)
		case grants:
			return printStatements(s, c.Stdout, schema.Grants)
		}
		return runMigrate(ctx, s, fix, finalize, asJSON, c.Stdout)
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
func withSettings(
	do func(context.Context, call, settings, *slog.Logger) error, more ...cli.Toggle) func(context.Context, call) int {
	return func(ctx context.Context, c call) int {
		s, log, err := readSettings(c, more...)
		if err == nil {
			if err = do(ctx, c, s, log); s.logFailure(log, err) {
				return cli.ExitCode(err, io.Discard)
			}
		}
		return cli.ExitCode(err, c.Stderr)
	}
}

func readSettings(c call, more ...cli.Toggle) (settings, *slog.Logger, error) {
	s, err := loadSettings(c.Name, c.Args, c.Getenv, c.Stdout, more...)
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
	s.Version, s.Waits, s.RestoreStore = c.Version, c.waits, restoreStore
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

// listFlags writes each flag with its default and what it does.
func listFlags(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: %s [flags]\n\n", fs.Name())
	fs.VisitAll(func(f *flag.Flag) {
		name, help := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  --%s", f.Name)
		if name != "" {
			fmt.Fprintf(w, " %s", name)
		}
		if f.DefValue != "" && f.DefValue != "false" {
			help += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "\n        %s\n", help)
	})
}

// warnMisspelt logs variables whose names are close to a setting's. Other unknown RELAY_ variables may belong to other
// programs.
func warnMisspelt(log *slog.Logger, environ []string) {
	known := []string{engineKeyEnv, cli.APIKeyEnv, cli.APIKeyFileEnv}
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		known = append(known, f.env)
		if f.secret {
			known = append(known, f.env+"_FILE")
		}
	})
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RELAY_") || slices.Contains(known, name) {
			continue
		}
		if near := web.Nearest(name, known, cli.MaxTypos); near != "" {
			log.Warn("no setting has this name; the variable is ignored", "variable", name, "did_you_mean", near)
		}
	}
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
