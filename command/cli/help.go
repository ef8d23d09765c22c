package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Help is what --help prints about a command.
type Help struct {
	Usage string // its forms, one on each line
	About string // what it does
	// Flags are those that it lists; nil: all.
	Flags *flag.FlagSet
	More  string // follows the flags
}

// write writes the help of a command with these flags.
func (h Help) write(w io.Writer, flags *flag.FlagSet) {
	writeUsage(w, strings.Split(h.Usage, "\n"))
	fmt.Fprintf(w, "\n%s\n", h.About)
	if h.Flags != nil {
		flags = h.Flags
	}
	heading := "\nFlags:\n"
	flags.VisitAll(func(f *flag.Flag) {
		value, help := flag.UnquoteUsage(f)
		text, preset := "--"+f.Name, f.DefValue
		if value != "" {
			text += " " + strings.ToUpper(strings.Replace(value, "string", "value", 1))
		}
		switch preset {
		case "false", "0", "0s", "-1":
			preset = ""
		}
		fmt.Fprint(w, heading)
		WriteFlag(w, text, help, preset)
		heading = ""
	})
	if h.More != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(h.More))
	}
}

func writeUsage(w io.Writer, forms []string) {
	fmt.Fprintf(w, "Usage:\n  %s\n", strings.Join(forms, "\n  "))
}

// WriteFlag writes a flag, what it does, and what holds without it; "" = nothing.
func WriteFlag(w io.Writer, flag, help, preset string) {
	fmt.Fprintf(w, "  %s\n        %s\n", flag, Sentence(help))
	if preset != "" {
		fmt.Fprintf(w, "        Default: %s\n", preset)
	}
}

// Sentence returns a text that begins with a capital and ends with a period.
func Sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size > 0 {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	return strings.TrimSuffix(text, ".") + "."
}

// Word is a word of a command line, and what it does.
type Word struct{ Name, Help string }

// Parse parses flags before, between and after the arguments, and returns the arguments. For --help it prints the help
// and returns flag.ErrHelp; any other error is a UsageError. If the command line is completed, it describes the flags,
// and the words that the arguments may be.
func (c Call) Parse(flags *flag.FlagSet, args []string, help Help, words ...Word) (arguments []string, err error) {
	if c.Describe != nil {
		c.Describe(words, flags)
		return nil, flag.ErrHelp
	}
	flags.SetOutput(io.Discard) // the error says what to do, without all flags around it
	flags.Usage = func() {}
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			help.write(c.Stdout, flags)
			return nil, err
		case err != nil:
			return nil, UsageError{Err: misspeltFlag(flags, err)}
		}
		if args = flags.Args(); len(args) == 0 {
			return arguments, nil
		}
		arguments, args = append(arguments, args[0]), args[1:]
	}
}

// ParseFlags is Parse for a command without arguments.
func (c Call) ParseFlags(flags *flag.FlagSet, help Help) error {
	arguments, err := c.Parse(flags, c.Args, help)
	if fault := NoArguments(arguments); err == nil && fault != "" {
		return UsageError{Err: errors.New(fault)}
	}
	return err
}
