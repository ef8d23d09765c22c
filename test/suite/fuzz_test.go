package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The minutes of fuzz targets add up over runs. One that finds something gets none, makes the run fail, and keeps no
// other from running.
func TestFuzzingAddsUp(t *testing.T) {
	t.Parallel()
	const header = "# Fuzzing\n\n| target | minutes | commit |\n|---|---|---|\n"
	root := repository(t, map[string]string{
		"go.mod":           goMod,
		"test/fuzz.sh":     readFile(t, "../../test/fuzz.sh"),
		"test/fuzz.md":     header + "| ./a FuzzOld | 2 | abc |\n",
		"a/a_test.go":      "package a\n\nfunc FuzzOld(f *testing.F) {}\n\nfunc FuzzNew(f *testing.F) {}\n",
		"b/c/fuzz_test.go": "package c\n\nfunc FuzzFails(f *testing.F) {}\n",
		"bin/go":           "#!/bin/sh\ncase \"$*\" in *FuzzFails*) exit 1;; esac\n",
	})
	must.Do(t, os.Chmod(filepath.Join(root, "bin/go"), 0o755))
	commit := git(t, root, "rev-parse", "--short", "HEAD")
	for _, run := range []struct{ pattern, minutes string }{{".", "1.5"}, {"./a FuzzNew|Fails", "3.0"}} {
		cmd := exec.Command("bash", "test/fuzz.sh", "90", run.pattern)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "RELAY_FUZZ_TABLE=test/fuzz.md",
			"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
		text, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("no target has failed:\n%s", text)
		}
		want := header + "| ./a FuzzNew | " + run.minutes + " | " + commit + " |\n| ./a FuzzOld | 3.5 | " + commit + " |\n"
		if got := readFile(t, filepath.Join(root, "test/fuzz.md")); got != want {
			t.Fatalf("the table is\n%s\nwant\n%s\n%s", got, want, text)
		}
	}
}
