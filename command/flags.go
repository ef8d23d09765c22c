package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// parseFlags parses a command's flags. For --help it prints the help and returns flag.ErrHelp; any other error is a
// usageError.
func parseFlags(fs *flag.FlagSet, args []string, help func()) error {
	fs.SetOutput(io.Discard) // the error says what to do, without all flags around it
	fs.Usage = func() {}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		help()
		return err
	case err != nil:
		return usageError{misspeltFlag(fs, err)}
	}
	return nil
}

// misspeltFlag returns the error of parsing flags, with the flag that may have been meant.
func misspeltFlag(fs *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, "--"+f.Name) })
	return fmt.Errorf("unknown flag --%s%s; %s --help lists them", name, didYouMean("--"+name, known), fs.Name())
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
