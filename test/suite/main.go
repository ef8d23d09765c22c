// Command suite is what make check, test/run.sh and test/torture.sh do with tests beyond running them: it prints a
// run of go test -json for a reader and records each test, finds tests that no step ran, and runs the tests of the
// packages that a change concerns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `pass one of the subcommands
  suite report -step NAME -records FILE   print go test -json from stdin; append a line for each test to FILE
    [-figures FILE]                       and write what passing tests log at their end
  suite unrun -records FILE [-strict]     fail if a test is not in FILE, or an invariant's test did not pass
  suite check [-limit DURATION] [-list]   lint and test what changed; -list prints the packages only`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// run carries out one subcommand in the module of the working directory.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	step := flags.String("step", "", "the step's name in the records")
	records := flags.String("records", "", "the file of records")
	figures := flags.String("figures", "", "the file for what passing tests log")
	strict := flags.Bool("strict", false, "no invariant's test may be skipped")
	limit := flags.Duration("limit", checkLimit, "how long the check may take")
	list := flags.Bool("list", false, "print the packages and run nothing")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "report":
		return reportRun(*step, *records, *figures, stdin, stdout)
	case "unrun":
		return checkAllRan(".", *records, *strict, stdout)
	case "check":
		return check{".", lint, stdout}.run(ctx, *limit, *list)
	}
	return errors.New(usage)
}
