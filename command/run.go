package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
)

const helpText = `relay receives webhooks and events, stores every one and delivers each to its destinations.

Usage: relay <command> [flags]

  dev       run everything in one process, on embedded engines; nothing to install
  serve     run a node on Kafka, Redis and ClickHouse
  migrate   create the topics and tables that serve needs, and check what is there
  doctor    say how the running process and its engines are, and what to do next
  config    export the whole configuration, or import it into an empty log
  engine    run one embedded engine: kafka, redis or clickhouse
  endpoints move one to another partition
  dead      list what could not be read or stored, and do it again
  keys      create, list or revoke API keys, seal secrets with a new master key
  users     add, list, reset or remove people who sign in to the dashboard
  version   print the version

relay <command> --help lists the flags of a command
`

// Run is main without the process around it.
func Run(ctx context.Context, version string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, helpText)
		return ExitMisused
	}
	name, args := args[0], args[1:]
	var err error
	switch name {
	case "dev":
		err = withSettings(name, version, args, getenv, stderr, func(s Settings, log *slog.Logger) error {
			return runDev(ctx, s, log, stdout)
		})
	case "serve":
		err = withSettings(name, version, args, getenv, stderr, func(s Settings, log *slog.Logger) error {
			return runServe(ctx, s, log, stdout)
		})
	case "migrate":
		var fix, finalize, asJSON, ddl bool
		err = withSettings(name, version, args, getenv, stderr, func(s Settings, _ *slog.Logger) error {
			if ddl {
				return printTables(s, stdout)
			}
			return runMigrate(ctx, s, fix, finalize, asJSON, stdout)
		}, toggle{"fix", "set the settings of topics that differ, where no data has to be moved for it", &fix},
			toggle{"finalize", "end an upgrade: write what older versions do not know; refused while an older node runs",
				&finalize},
			toggle{"print", "print the statements that make the tables, with those of --cluster, and do nothing", &ddl},
			jsonToggle(&asJSON))
	case "doctor":
		var asJSON bool
		err = withSettings(name, version, args, getenv, stderr, func(s Settings, _ *slog.Logger) error {
			return runDoctor(ctx, s, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, asJSON)
		}, jsonToggle(&asJSON))
	case "engine":
		err = runEngine(ctx, args, stdout, stderr)
	case "dead":
		return Dead().Run(ctx, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, args)
	case "config":
		return Config().Run(ctx, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, args)
	case "endpoints":
		return Endpoints().Run(ctx, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, args)
	case "keys":
		return Keys().Run(ctx, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, args)
	case "users":
		return Users().Run(ctx, Env{Getenv: getenv, Stdout: stdout, Stderr: stderr}, args)
	case "version":
		fmt.Fprintln(stdout, version)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, helpText)
	default:
		err = usageError{fmt.Errorf("unknown command %q; relay help lists them", name)}
	}
	return exitCode(err, stderr)
}

// usageError is an error of whoever typed the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error, stderr io.Writer) int {
	var misuse usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitDone
	case errors.As(err, &misuse):
		fmt.Fprintln(stderr, "relay:", err)
		return ExitMisused
	case errors.Is(err, ErrNoProcess):
		fmt.Fprintln(stderr, "relay:", err)
		return ExitNoProcess
	default:
		fmt.Fprintln(stderr, "relay:", err)
		return ExitRefused
	}
}

// withSettings reads and judges the settings of a command, all faults at once, and runs it.
func withSettings(name, version string, args []string, getenv func(string) string, stderr io.Writer,
	do func(Settings, *slog.Logger) error, more ...toggle) error {
	s, err := loadSettings(name, args, getenv, stderr, more...)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if name == "dev" {
		s.ignoreEngines()
	}
	if err = errors.Join(err, s.Validate(name)); err != nil {
		return usageError{fmt.Errorf("these settings cannot be used:\n%w", err)}
	}
	s.Version = version
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return usageError{fmt.Errorf("RELAY_LOG_LEVEL: %q is none of debug, info, warn, error", s.LogLevel)}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	s.warn(log)
	warnUnknown(log, os.Environ())
	return do(s, log)
}
