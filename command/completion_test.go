package command

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// To complete a command line runs nothing: every command describes its words and flags instead.
func TestCommandsDescribeThemselves(t *testing.T) {
	var describe func(words ...string)
	describe = func(words ...string) {
		described := 0
		var out bytes.Buffer
		code := Program{describe: func(next []cli.Word, flags *flag.FlagSet) {
			described++
			switch {
			case flags == nil:
				for _, w := range next {
					describe(append(words, w.Name)...)
				}
			default:
				flags.VisitAll(func(f *flag.Flag) {
					if f.Usage == "" {
						t.Errorf("--%s of %q says nothing", f.Name, words)
					}
				})
			}
		}}.Run(t.Context(), words, func(string) string { return "" }, &out, &out)
		if described != 1 || code != cli.ExitDone || out.Len() > 0 {
			t.Errorf("%q describes itself %d times, exit %d: %s", words, described, code, &out)
		}
	}
	for _, s := range subcommands() {
		describe(s.Name)
	}
}

// words returns the names of the candidates for the last word.
func words(t *testing.T, line ...string) string {
	var names []string
	for _, w := range candidates(t.Context(), line) {
		names = append(names, w.Name)
	}
	return strings.Join(names, " ")
}

func TestCandidates(t *testing.T) {
	for _, x := range []struct{ line, want string }{
		{"do", "doctor"},
		{"help do", "doctor"},
		{"keys ", "create list revoke rewrap"},
		{"keys re", "revoke rewrap"},
		{"keys create --s", "--scope"},
		{"keys create --name ", ""}, // a value
		{"keys create --agent --n", "--name"},
		{"serve --kafka-c", "--kafka-cert-file"},
		{"serve --listen -", ""},
		{"demo re", "recovery reconcile"},
		{"demo --keep rec", "recovery reconcile"},
		{"engine re", "redis"},
		{"engine redis --li", "--library --listen"},
		{"completion ", "bash zsh fish"},
		{"version --", "--json --help"},
		{"nothing ", ""},
		{"keys nothing ", ""},
	} {
		is.Equal(t, words(t, strings.Split(x.line, " ")...), x.want, x.line)
	}
	for _, s := range subcommands() {
		is.Has(t, " "+words(t, "")+" ", " "+s.Name+" ")
	}
	is.List(t, candidates(t.Context(), []string{"keys", "l"}), []cli.Word{{Name: "list", Help: "List the API keys"}})
}

// The scripts ask for the words before the cursor, in each shell that this machine has.
func TestCompletionInShells(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "relay") // answers from a file for each command line
	must.Do(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nshift 2\ncat \"%s/line-$*\"\n", dir), 0o700))
	for _, line := range []string{"keys re", "serve --kafka-c", ""} {
		var out bytes.Buffer
		Program{}.Run(t.Context(), append([]string{"completion", "candidates"}, strings.Split(line, " ")...), os.Getenv,
			&out, &out)
		must.Do(t, os.WriteFile(filepath.Join(dir, "line-"+line), out.Bytes(), 0o600))
	}
	for shell, ask := range map[string]string{
		"bash": `source "$0"; words=(relay $LINE); [ -n "$LINE" ] || words+=(""); COMP_WORDS=("${words[@]}")
			COMP_CWORD=$((${#words[@]}-1)); _relay; printf '%s\n' "${COMPREPLY[@]}"`,
		"zsh": `compdef() { }; _describe() { print -l -- "${(P@)3}" | cut -d: -f1 }; source "$0"
			words=(relay ${=LINE}); [[ -n $LINE ]] || words+=(""); CURRENT=$#words; _relay`,
		"fish": `source $argv[1]; complete -C "relay $LINE" | cut -f1`,
	} {
		path, err := exec.LookPath(shell)
		if err != nil && shell != "bash" {
			continue
		}
		var script bytes.Buffer
		Program{}.Run(t.Context(), []string{"completion", shell}, os.Getenv, &script, &script)
		file := filepath.Join(dir, shell)
		must.Do(t, os.WriteFile(file, script.Bytes(), 0o600))
		for _, line := range []string{"keys re", "serve --kafka-c", ""} {
			cmd := exec.Command(path, "-c", ask, file)
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "LINE=" + line}
			out, err := cmd.CombinedOutput()
			must.Do(t, err, "%s: %s", shell, out)
			is.Equal(t, strings.Join(strings.Fields(string(out)), " "), words(t, strings.Split(line, " ")...),
				shell+" completes relay "+line)
		}
	}
}
