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
	"strings"
	"unicode"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/store/schema"
)

// subcommand is chosen by the first argument of the command line.
type subcommand struct {
	name, help string
	run        func(ctx context.Context, c call) int
}

// call is one call of a subcommand: its arguments, and the process in which it runs.
type call struct {
	Program
	name           string
	args           []string
	getenv         func(string) string
	stdout, stderr io.Writer
}

// subcommands lists all subcommands in the order of the help.
func subcommands() []subcommand {
	return []subcommand{
		{"dev", "try it on your own machine: serve with the defaults of development", withSettings(
			func(ctx context.Context, c call, s settings, log *slog.Logger) error {
				return runServe(ctx, s, log, c)
			})},
		{"demo", "show a promise: crash, neighbour, recovery, signature, rate or leak, on a relay of its own", demoCommand},
		{"serve", "run a node: alone, with its engines inside, or one of several on Kafka, Redis and ClickHouse",
			withSettings(
				func(ctx context.Context, c call, s settings, log *slog.Logger) error {
					return runServe(ctx, s, log, c)
				})},
		{"migrate", "create the topics and tables that serve needs, and check existing ones", migrateCommand},
		{"ready", "ask the node on this machine whether it can serve requests: a health check", readyCommand},
		{"doctor", "check the running process and its engines, and say what to do next", doctorCommand},
		{"backup", "write a backup of a node that has its engines inside, while it runs", backupCommand},
		{"restore", "restore a backup into an empty data directory", withSettings(
			func(ctx context.Context, c call, s settings, log *slog.Logger) error {
				return runRestore(ctx, s, log, c)
			})},
		{"upgrade", "with --check: say what this version would do with the data directory of a running node", upgradeCommand},
		{"config", "export the whole configuration, or import it into an empty log", configCommands().run},
		{"apply", "create, update and delete endpoints to match a YAML file", applyCommand},
		{"listen", "copy the events of an endpoint to a URL on your machine", listenCommand},
		{"plan", "print how many machines and how large disks a cluster needs for a given load", planCommand},
		{"engine", "run one embedded engine: redis or clickhouse", func(ctx context.Context, c call) int {
			return exitCode(runEngine(ctx, c), c.stderr)
		}},
		{"endpoints", "move an endpoint to another partition", endpointsCommands().run},
		{"dead", "list dead letters (records that could not be decoded or stored), and retry them", deadCommands().run},
		{"keys", "create, list or revoke API keys, or seal all secrets with a new master key", keysCommands().run},
		{"users", "add, list, reset or remove dashboard users, or change what they may do", usersCommands().run},
		{"version", "print the version", versionCommand},
	}
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
	Waits   node.Waits // of the nodes that it runs
}

// Run runs a command line and returns the exit code of the process. It is main without os.Exit.
func (p Program) Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		writeHelp(stderr)
		return ExitMisused
	}
	name, args := args[0], args[1:]
	if name == "help" && len(args) > 0 {
		name, args = args[0], append(args[1:], "--help")
	}
	if name == "help" || name == "-h" || name == "--help" {
		writeHelp(stdout)
		return ExitDone
	}
	var names []string
	for _, s := range subcommands() {
		if s.name == name {
			return s.run(ctx, call{p, name, args, getenv, stdout, stderr})
		}
		names = append(names, s.name)
	}
	return exitCode(usageError{fmt.Errorf("unknown command %q%s; relay help lists them", name, didYouMean(name, names))},
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
	err := parseFlags(flags, c.args, func() { fmt.Fprintln(c.stdout, "Usage: relay version\n\nPrints the version.") })
	switch {
	case err != nil:
		return exitCode(err, c.stderr)
	case flags.NArg() > 0:
		return exitCode(usageError{errors.New(noArguments(flags.Args()))}, c.stderr)
	}
	fmt.Fprintln(c.stdout, c.Version)
	return ExitDone
}

func migrateCommand(ctx context.Context, c call) int {
	var fix, finalize, asJSON, ddl, grants bool
	return withSettings(func(ctx context.Context, c call, s settings, _ *slog.Logger) error {
		switch {
		case ddl:
			return printStatements(s, c.stdout, schema.DDL)
		case grants:
			return printStatements(s, c.stdout, schema.Grants)
		}
		return runMigrate(ctx, s, fix, finalize, asJSON, c.stdout)
	}, toggle{"fix", "correct topic settings that differ, where that moves no data", &fix, false},
		toggle{"finalize", "end an upgrade: from now on write what older versions do not know; refused while an older " +
			"node runs",
			&finalize, false},
		toggle{"print", "print the statements that create the tables (with --cluster, the replicated ones) and do " +
			"nothing else", &ddl, true},
		toggle{"print-grants", "print the statements that create a ClickHouse role for each kind of user, with the rights " +
			"that it needs, and do nothing else", &grants, true},
		jsonToggle(&asJSON))(ctx, c)
}

func doctorCommand(ctx context.Context, c call) int {
	var asJSON bool
	return withSettings(func(ctx context.Context, c call, s settings, _ *slog.Logger) error {
		return runDoctor(ctx, s, c, asJSON)
	}, jsonToggle(&asJSON))(ctx, c)
}

// usageError is a mistake in the command line or the settings.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error, stderr io.Writer) int {
	var misuse usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitDone
	case errors.As(err, &misuse):
		printError(stderr, err)
		return ExitMisused
	case errors.Is(err, errNoProcess):
		printError(stderr, err)
		return ExitNoProcess
	default:
		printError(stderr, err)
		return ExitRefused
	}
}

// printable replaces characters of foreign text that could break the line or move the terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

// printError prints an error, which may name what others wrote. Its lines stay lines.
func printError(stderr io.Writer, err error) {
	for i, text := range strings.Split(err.Error(), "\n") {
		if i == 0 {
			text = "relay: " + text
		}
		fmt.Fprintln(stderr, printable(strings.ReplaceAll(text, "\t", "  ")))
	}
}

// withSettings makes a subcommand that reads and validates its settings first, and reports all faults at once.
func withSettings(do func(context.Context, call, settings, *slog.Logger) error, more ...toggle) func(context.Context,
	call) int {
	return func(ctx context.Context, c call) int {
		s, log, err := readSettings(c, more...)
		if err == nil {
			if err = do(ctx, c, s, log); s.logFailure(log, err) {
				return exitCode(err, io.Discard)
			}
		}
		return exitCode(err, c.stderr)
	}
}

func readSettings(c call, more ...toggle) (settings, *slog.Logger, error) {
	s, err := loadSettings(c.name, c.args, c.getenv, c.stdout, more...)
	if _, misused := errors.AsType[usageError](err); misused || errors.Is(err, flag.ErrHelp) {
		return s, nil, err
	}
	if c.name == "dev" {
		s.ignoreEngines()
	}
	needs := c.name
	for _, t := range more {
		if t.alone && *t.value {
			needs = c.name + " --" + t.flag
		}
	}
	if err = errors.Join(err, s.Validate(needs)); err != nil {
		return s, nil, usageError{fmt.Errorf("these settings cannot be used:\n%w", err)}
	}
	s.Version, s.Waits = c.Version, c.Waits
	if s.Dev = c.name == "dev"; s.Dev || c.name == "serve" && len(s.KafkaBrokers) == 0 {
		s.alone()
	}
	s.LogFormat = cmp.Or(s.LogFormat, logText)
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // Validate has checked it
	handler := logHandler(c.stderr, s.LogFormat, level)
	if c.name == "serve" || c.name == "dev" {
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
