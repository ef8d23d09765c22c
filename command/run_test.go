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
		code = Program{Version: "1.2.3"}.Run(t.Context(), words, func(string) string { return "" }, &stdout, &stderr)
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
		{"help ready", ExitDone, "\n  --alive\n        ask only whether"},
		{"engine redis --help", ExitDone, "  --listen string\n        address to listen on"},
		{"version --help", ExitDone, "Usage: relay version"},
		{"version 2", ExitMisused, `unexpected argument "2"`},
	} {
		code, out, complaint := run(strings.Fields(x.words)...)
		if code != x.code || !strings.Contains(out+complaint, x.want) || strings.Count(out+complaint, "--lisen") > 1 {
			t.Errorf("relay %s is %d: %s%s", x.words, code, out, complaint)
		}
	}
	// Each command names the flag that may have been meant, and the help of each is no error.
	for _, words := range []string{
		"serve", "dev", "migrate", "doctor", "ready", "apply", "plan", "engine redis", "keys list", "users list", "dead list",
		"config export", "endpoints move",
	} {
		misspelt := "--jso"
		if words == "serve" || words == "dev" || words == "engine redis" {
			misspelt = "--lisen"
		}
		code, out, complaint := run(append(strings.Fields(words), misspelt)...)
		if code != ExitMisused || out != "" || !strings.HasSuffix(complaint, "; relay "+words+" --help lists them\n") ||
			!strings.Contains(complaint, ", did you mean --") || strings.Count(complaint, "\n") != 1 {
			t.Errorf("relay %s with a misspelt flag is %d: %s%s", words, code, out, complaint)
		}
		if code, out, complaint := run(append(strings.Fields(words), "--help")...); code != ExitDone || complaint != "" ||
			!strings.HasPrefix(out, "Usage:") && !strings.Contains(out, "\nUsage:\n") {
			t.Errorf("help of relay %s is %d: %s%s", words, code, out, complaint)
		}
	}
	if code, out, _ := run("version"); code != ExitDone || out != "1.2.3\n" {
		t.Errorf("version is %d: %s", code, out)
	}
}
