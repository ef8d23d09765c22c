package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (out, fault string, code int) {
		var o, e bytes.Buffer
		code = Run(t.Context(), args, strings.NewReader(""), &o, &e)
		return o.String(), e.String(), code
	}
	if out, _, code := run("help"); code != exitDone || strings.Count(out, "\n  ") != len(Scenarios()) {
		t.Errorf("help: %d\n%s", code, out)
	}
	if _, fault, code := run(); code != exitMisused || !strings.Contains(fault, "a scenario is missing") {
		t.Errorf("no scenario: %d\n%s", code, fault)
	}
	if _, fault, code := run("nothing"); code != exitMisused || !strings.Contains(fault, `unknown scenario "nothing"`) {
		t.Errorf("unknown scenario: %d\n%s", code, fault)
	}
	for _, s := range Scenarios() {
		if _, fault, code := run(s.Name, "--help"); code != exitDone ||
			!strings.Contains(fault, "Usage: relay-bench "+s.Name) {
			t.Errorf("%s --help: %d\n%s", s.Name, code, fault)
		}
		_, fault, code := run(s.Name, "--no-such-flag")
		if want := "relay-bench " + s.Name + " --help lists the flags\n"; code != exitMisused ||
			!strings.HasSuffix(fault, want) || strings.Count(fault, "\n") != 1 {
			t.Errorf("%s with an unknown flag: %d\n%s", s.Name, code, fault)
		}
	}
}
