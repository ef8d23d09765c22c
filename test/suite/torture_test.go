package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// make torture adds a row for each run of a part. A part that has passed is not run again with the same code: hours add
// up. What is not committed has no commit to stand for it.
func TestTorture(t *testing.T) {
	t.Parallel()
	const long, program = "pkg/limit/long_test.go", "tools/release/test.sh"
	part := func(body string) string { return testFile("limit", "TestMinuteOfTraffic:"+body) }
	files := map[string]string{
		"go.mod":          goMod,
		".gitignore":      "/bin/\n",
		"README.md":       "",
		"test/torture.sh": readFile(t, "../../test/torture.sh"),
		"test/torture.md": "| part |\n|---|\n",
		long:              part(`t.Log("3 of 4 | kept") `),
		program:           "exit 1\n",
	}
	for _, name := range []string{"main.go", "report.go", "unrun.go"} {
		files["test/suite/"+name] = readFile(t, name)
	}
	root := repository(t, files)
	must.Do(t, os.Chmod(filepath.Join(root, program), 0o755))
	commit(t, root)
	for i, c := range []struct {
		file, text string // what is changed before, and committed unless the case says otherwise
		open       bool
		part, env  string
		rows       int
		last       string // the end of the last row
		says       string // a part of what the script prints, if it fails
	}{
		{part: "limits", env: "RELAY_SEED=5", rows: 1, last: " | MinuteOfTraffic: 3 of 4 / kept | passed |"},
		{part: "limits", rows: 1},
		{file: "README.md", text: "x\n", part: "limits", rows: 1},
		{part: "limits", env: "AGAIN=1", rows: 2},
		{file: "go.sum", text: "\n", part: "limits", rows: 3},
		{part: "unknown", rows: 3, says: "no part unknown"},
		{file: long, text: part(`t.Error("lost") `), part: "limits", rows: 4, says: "lost",
			last: " | failed: TestMinuteOfTraffic |"},
		{part: "limits", rows: 5, says: "lost"},
		{file: long, text: part(`t.Skip("no engine") `), part: "limits", rows: 6, says: "limits",
			last: " | failed: no test ran |"},
		{part: "release", rows: 7, says: "release", last: " | failed:  |"}, // a program has no records of tests
		{file: long, text: part(""), open: true, part: "limits", rows: 8, last: " | passed |"},
		{open: true, part: "limits", rows: 9, last: " | passed |"},
	} {
		if c.file != "" {
			must.Do(t, os.WriteFile(filepath.Join(root, c.file), []byte(c.text), 0o644))
		}
		if !c.open {
			commit(t, root)
		}
		cmd := exec.Command("bash", "test/torture.sh", c.part)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "A=1", c.env)
		out, err := cmd.CombinedOutput()
		rows := strings.Split(strings.TrimSpace(readFile(t, filepath.Join(root, "test/torture.md"))), "\n")[2:]
		if (err != nil) != (c.says != "") || !strings.Contains(string(out), c.says) || len(rows) != c.rows ||
			!strings.HasSuffix(rows[len(rows)-1], c.last) || c.open != strings.Contains(rows[len(rows)-1], "-dirty | ") {
			t.Fatalf("run %d: %v, rows %q\n%s", i, err, rows, out)
		}
		if !strings.HasPrefix(rows[0], "| limits | ") || !strings.Contains(rows[0], " | 5 | ") {
			t.Fatalf("the first row is %s", rows[0])
		}
	}
}
