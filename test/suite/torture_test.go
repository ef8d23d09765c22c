package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tortured is a repository with the script of make torture and one of its tests, with the given body.
func tortured(t *testing.T, body string) (root string) {
	t.Helper()
	files := map[string]string{
		"go.mod":                 goMod,
		".gitignore":             "/bin/\n",
		"README.md":              "",
		"test/torture.sh":        readFile(t, "../../test/torture.sh"),
		"test/torture.md":        "| part |\n|---|\n",
		"pkg/limit/long_test.go": testFile("limit", "TestMinuteOfTraffic:"+body),
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if !strings.HasSuffix(name, "_test.go") {
			files["test/suite/"+name] = readFile(t, name)
		}
	}
	return repository(t, files, nil)
}

// torture runs the script and returns what it prints and the rows that it has added.
func torture(t *testing.T, root, part string, env ...string) (out string, rows []string, err error) {
	t.Helper()
	cmd := exec.Command("bash", "test/torture.sh", part)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(readFile(t, filepath.Join(root, "test/torture.md"))), "\n")
	return string(text), lines[2:], err
}

// A part that has passed is not run again with the same code: hours add up.
func TestTortureIsResumed(t *testing.T) {
	t.Parallel()
	root := tortured(t, `t.Log("3 of 4 | kept") `)
	for _, c := range []struct {
		name, file string // what is committed before
		env        string
		rows       int
	}{
		{"the first run", "", "RELAY_SEED=5", 1},
		{"the same code", "", "A=1", 1},
		{"another document", "README.md", "A=1", 1},
		{"on request", "", "AGAIN=1", 2},
		{"other code", "go.sum", "A=1", 3},
	} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(root, c.file), []byte("\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			commit(t, root)
		}
		out, rows, err := torture(t, root, "limits", c.env)
		if err != nil || len(rows) != c.rows {
			t.Fatalf("%s: %v, %d rows, want %d\n%s", c.name, err, len(rows), c.rows, out)
		}
		if first := rows[0]; !strings.HasPrefix(first, "| limits | ") || !strings.Contains(first, " | 5 | ") ||
			!strings.HasSuffix(first, " | MinuteOfTraffic: 3 of 4 / kept | passed |") {
			t.Fatalf("the row is %s\n%s", first, out)
		}
	}
	if out, _, err := torture(t, root, "unknown"); err == nil || !strings.Contains(out, "no part unknown") {
		t.Errorf("a part that does not exist: %v %s", err, out)
	}
}

func TestFailedTortureIsRunAgain(t *testing.T) {
	t.Parallel()
	root := tortured(t, `t.Error("lost") `)
	for rows := range 2 {
		out, got, err := torture(t, root, "limits")
		if err == nil || len(got) != rows+1 || !strings.HasSuffix(got[rows], " | failed: TestMinuteOfTraffic |") ||
			!strings.Contains(out, "lost") {
			t.Fatalf("%v, rows %q\n%s", err, got, out)
		}
	}
}

// A part that is a program has no records of tests.
func TestFailedProgramHasARow(t *testing.T) {
	t.Parallel()
	root := tortured(t, "")
	if err := os.MkdirAll(filepath.Join(root, "tools/release"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "tools/release/test.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	commit(t, root)
	out, rows, err := torture(t, root, "release")
	if err == nil || len(rows) != 1 || !strings.HasPrefix(rows[0], "| release | ") ||
		!strings.HasSuffix(rows[0], " | failed:  |") {
		t.Fatalf("%v, rows %q\n%s", err, rows, out)
	}
}

// What is not committed has no commit to stand for it.
func TestTortureOfUncommittedCodeCountsForItself(t *testing.T) {
	t.Parallel()
	root := tortured(t, "")
	if err := os.WriteFile(filepath.Join(root, "main.go"), []byte("package m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for rows := range 2 {
		out, got, err := torture(t, root, "limits")
		if err != nil || len(got) != rows+1 || !strings.Contains(got[rows], "-dirty | ") {
			t.Fatalf("%v, rows %q\n%s", err, got, out)
		}
	}
}

func TestTortureOfSkippedTestsFails(t *testing.T) {
	t.Parallel()
	root := tortured(t, `t.Skip("no engine") `)
	out, rows, err := torture(t, root, "limits")
	if err == nil || len(rows) != 1 || !strings.HasSuffix(rows[0], " | failed: no test ran |") {
		t.Fatalf("%v, rows %q\n%s", err, rows, out)
	}
}
