package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Exit codes of relay-bench, the same as those of relay.
const (
	exitDone    = 0
	exitFailed  = 1
	exitMisused = 2
)

// Run runs the scenario that args name and returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdin, stdout, stderr)
	var misuse MisuseError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &misuse):
		fmt.Fprintln(stderr, "relay-bench:", err)
		return exitMisused
	default:
		fmt.Fprintln(stderr, "relay-bench:", err)
		return exitFailed
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return MisuseError{errors.New("a scenario is missing; relay-bench help lists them")}
	}
	name, args := args[0], args[1:]
	if name == "help" || name == "-h" || name == "--help" {
		help(stdout)
		return nil
	}
	if known, err := Helper(ctx, name, args, stdin, stdout, stderr); known {
		return err
	}
	for _, s := range Scenarios() {
		if s.Name == name {
			return s.Run(ctx, args, stdout, stderr)
		}
	}
	return MisuseError{fmt.Errorf("unknown scenario %q; relay-bench help lists them", name)}
}

func help(w io.Writer) {
	fmt.Fprint(w, "relay-bench measures a relay on this machine.\n\nUsage: relay-bench <scenario> [flags]\n\n")
	for _, s := range Scenarios() {
		fmt.Fprintf(w, "  %-10s %s\n", s.Name, s.Summary)
	}
	fmt.Fprint(w, "\nrelay-bench <scenario> --help lists the flags of a scenario.\n")
}

// newFlags creates the flag set of a scenario. Its help shows summary and args, the synopsis of the arguments.
func newFlags(name, args, summary string) *flag.FlagSet {
	fs := flag.NewFlagSet("relay-bench "+name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "%s\n\nUsage: relay-bench %s %s\n\n", summary, name, args)
		fs.PrintDefaults()
	}
	return fs
}

// parse parses flags. An error is one line without the list of flags, which would hide it.
func parse(fs *flag.FlagSet, args []string, stderr io.Writer) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stderr)
		fs.Usage()
		return err
	case err != nil:
		return MisuseError{fmt.Errorf("%w; %s --help lists the flags", err, fs.Name())}
	}
	return nil
}

// repeatFlags are the flags of commands that run scenarios several times.
type repeatFlags struct {
	turns int
	json  bool
}

func (s *repeatFlags) flags(fs *flag.FlagSet, turns int) {
	fs.IntVar(&s.turns, "turns", turns, "how often each scenario runs")
	fs.BoolVar(&s.json, "json", false, "print one line of JSON instead of the table")
}

func (s *repeatFlags) validate() error {
	if s.turns < 1 || s.turns > 1000 {
		return MisuseError{fmt.Errorf("--turns: %d is out of range, use 1 to 1000", s.turns)}
	}
	return nil
}

// relayBeside returns the path of the relay binary in the directory of this binary, where make build puts both.
func relayBeside() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(own), "relay"), nil
}
