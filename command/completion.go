package command

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/eventrelay/relay/command/cli"
)

// scripts are what a shell loads. They ask relay completion candidates for what may come next.
//
//go:embed completion
var scripts embed.FS

const completionHelp = `Prints a script that completes commands, flags and their values in a shell. Load it:

  bash:  source <(relay completion bash)        in ~/.bashrc
  zsh:   source <(relay completion zsh)         in ~/.zshrc, after compinit
  fish:  relay completion fish >~/.config/fish/completions/relay.fish`

func completionCommand(ctx context.Context, c cli.Call) int {
	if c.Describe == nil && len(c.Args) > 1 && c.Args[0] == "candidates" {
		for _, w := range candidates(ctx, c.Args[1:]) {
			fmt.Fprintf(c.Stdout, "%s\t%s\n", w.Name, w.Help)
		}
		return cli.ExitDone
	}
	flags := flag.NewFlagSet("relay completion", flag.ContinueOnError)
	shells, err := c.Parse(flags, c.Args, cli.Help{Usage: "relay completion bash|zsh|fish", About: completionHelp},
		cli.Word{Name: "bash"}, cli.Word{Name: "zsh"}, cli.Word{Name: "fish"})
	if err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	script, err := scripts.ReadFile("completion/" + strings.Join(shells, " "))
	if err != nil {
		return cli.ExitCode(cli.UsageError{Err: errors.New("name a shell: relay completion bash|zsh|fish")}, c.Stderr)
	}
	_, err = c.Stdout.Write(script)
	return cli.ExitCode(err, c.Stderr)
}

// candidates returns what the last of some words of a command line may become; none: a value or a file. The command
// describes itself and does not run.
func candidates(ctx context.Context, words []string) (found []cli.Word) {
	before, typed := words[:len(words)-1], words[len(words)-1]
	add := func(name, help string) {
		if help, _, _ = strings.Cut(help, ". "); strings.HasPrefix(name, typed) {
			found = append(found, cli.Word{Name: name, Help: strings.TrimSuffix(cli.Sentence(help), ".")})
		}
	}
	if len(before) == 0 || len(before) == 1 && before[0] == "help" {
		for _, s := range subcommands() {
			add(s.Name, s.Help)
		}
		return found
	}
	describe := func(words []cli.Word, flags *flag.FlagSet) {
		last := strings.TrimLeft(before[len(before)-1], "-")
		if flags != nil && last != before[len(before)-1] && takesValue(flags.Lookup(last)) {
			return
		}
		for _, w := range words {
			add(w.Name, w.Help)
		}
		if flags == nil || !strings.HasPrefix(typed, "-") {
			return
		}
		flags.VisitAll(func(f *flag.Flag) {
			_, help := flag.UnquoteUsage(f)
			add("--"+f.Name, help)
		})
		add("--help", "print the help")
	}
	Program{describe: describe}.Run(ctx, before, func(string) string { return "" }, io.Discard, io.Discard)
	return found
}

func takesValue(f *flag.Flag) bool {
	if f == nil {
		return false
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}
