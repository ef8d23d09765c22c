// Command suite is what test/run.sh and test/torture.sh do with tests beyond running them: it prints a run of
// go test -json for a reader and records each test, and finds tests that no step ran.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `pass one of the subcommands
  suite report -step NAME -records FILE   print go test -json from stdin; append a line for each test to FILE
    [-figures FILE]                       and write what passing tests log at their end
  suite unrun -records FILE [-strict]     fail if a test is not in FILE, or an invariant's test did not pass`

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// run carries out one subcommand in the module of the working directory.
func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	step := flags.String("step", "", "the step's name in the records")
	records := flags.String("records", "", "the file of records")
	figures := flags.String("figures", "", "the file for what passing tests log")
	strict := flags.Bool("strict", false, "no invariant's test may be skipped")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "report":
		return reportRun(*step, *records, *figures, stdin, stdout)
	case "unrun":
		return checkAllRan(".", *records, *strict, stdout)
	}
	return errors.New(usage)
}
