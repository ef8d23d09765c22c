package command

import (
	"bytes"
	"strings"
	"testing"
)

// The help names every subcommand once, each with its help. The error for an unknown command names relay help.
func TestHelpNamesEverySubcommand(t *testing.T) {
	run := func(words ...string) (code int, out, complaint string) {
		var stdout, stderr bytes.Buffer
		code = Run(t.Context(), "1.2.3", words, func(string) string { return "" }, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, help, _ := run("help")
	if code != ExitDone || !strings.HasSuffix(help, "lists the flags of a command\n") {
		t.Errorf("help ends with %d: %s", code, help)
	}
	for _, s := range subcommands() {
		if s.help == "" || s.run == nil || len(s.name) > 9 || strings.Count(help, "\n  "+s.name+" ") != 1 {
			t.Errorf("%q: %q, in the help:\n%s", s.name, s.help, help)
		}
	}
	if code, _, complaint := run("deliver"); code != ExitMisused || !strings.Contains(complaint, "relay help lists them") {
		t.Errorf("an unknown command is %d: %s", code, complaint)
	}
	for _, x := range []struct {
		words string
		code  int
		want  string
	}{
		{"doctr", ExitMisused, `unknown command "doctr", did you mean doctor; relay help`},
		{"keys creat", ExitMisused, `unknown command "creat", did you mean create`},
		{"dev --lisen 1", ExitMisused, "relay: unknown flag --lisen, did you mean --listen; relay dev --help lists them\n"},
		{"help doctor", ExitDone, "Usage: relay doctor [flags]\n\ncheck the running process"},
		{"help keys", ExitDone, "relay keys create"},
	} {
		code, out, complaint := run(strings.Fields(x.words)...)
		if code != x.code || !strings.Contains(out+complaint, x.want) || strings.Count(out+complaint, "--lisen") > 1 {
			t.Errorf("relay %s is %d: %s%s", x.words, code, out, complaint)
		}
	}
	if code, out, _ := run("version"); code != ExitDone || out != "1.2.3\n" {
		t.Errorf("version is %d: %s", code, out)
	}
}
