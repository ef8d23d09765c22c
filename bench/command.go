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

// Exit codes of relay-bench, as those of relay.
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
		return MisuseError{errors.New("which scenario? relay-bench help lists them")}
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

// newFlags makes the flags of a scenario, whose help says what it is for. args are the words besides flags.
func newFlags(name, args, summary string) *flag.FlagSet {
	fs := flag.NewFlagSet("relay-bench "+name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "%s\n\nUsage: relay-bench %s %s\n\n", summary, name, args)
		fs.PrintDefaults()
	}
	return fs
}

// parse reads flags. What is wrong with them is told in one line, for all of them would hide it.
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

// series are the flags of what runs scenarios several times.
type series struct {
	turns int
	json  bool
}

func (s *series) flags(fs *flag.FlagSet, turns int) {
	fs.IntVar(&s.turns, "turns", turns, "how often each is run")
	fs.BoolVar(&s.json, "json", false, "print one line of JSON instead of the table")
}

func (s *series) validate() error {
	if s.turns < 1 || s.turns > 1000 {
		return MisuseError{fmt.Errorf("--turns: %d is not from 1 to 1000", s.turns)}
	}
	return nil
}

// relayBeside is the relay that lies in the directory of this binary, where make build puts both.
func relayBeside() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(own), "relay"), nil
}
