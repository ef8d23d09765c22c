package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/eventrelay/relay/bench"
)

// runBench runs one scenario of the benchmark.
func runBench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New("which scenario? relay bench help lists them")}
	}
	name := args[0]
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Fprint(stdout, "relay bench measures a relay on this machine.\n\nUsage: relay bench <scenario> [flags]\n\n")
		for _, s := range scenarios() {
			fmt.Fprintf(stdout, "  %-10s %s\n", s.Name, s.Summary)
		}
		fmt.Fprint(stdout, "\nrelay bench <scenario> --help lists the flags of a scenario.\n")
		return nil
	}
	if known, err := bench.Helper(ctx, name, args[1:], os.Stdin, stdout, stderr); known {
		return err
	}
	for _, s := range scenarios() {
		if s.Name != name {
			continue
		}
		err := s.Run(ctx, args[1:], stdout, stderr)
		var misuse bench.MisuseError
		if errors.As(err, &misuse) && !errors.Is(err, flag.ErrHelp) {
			return usageError{err}
		}
		return err
	}
	return usageError{fmt.Errorf("unknown scenario %q; relay bench help lists them", name)}
}
