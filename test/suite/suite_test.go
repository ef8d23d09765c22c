package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// tree writes files below a new directory. A name ends with .go, .md or .mod; a directory is made for each.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

const goMod = "module example.test/m\n\ngo 1.26\n"

// testFile is a package of tests with one for each name; a body follows a colon.
func testFile(pkg string, tests ...string) string {
	text := "package " + pkg + "\n\nimport \"testing\"\n"
	for _, test := range tests {
		name, body, _ := strings.Cut(test, ":")
		text += "\nfunc " + name + "(t *testing.T) {" + body + "}\n"
	}
	return text
}

// report runs the module's tests and returns what the reader sees, the records and the figures.
func report(t *testing.T, root string) (shown, records, figures string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-json", "-timeout", "20s", "./...")
	cmd.Dir = root
	events, _ := cmd.Output() // the error says that tests failed
	dir := t.TempDir()
	var out bytes.Buffer
	err := reportRun("a step", filepath.Join(dir, "records"), filepath.Join(dir, "figures"), bytes.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), readFile(t, filepath.Join(dir, "records")), readFile(t, filepath.Join(dir, "figures"))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

func TestReportShowsWhatFailed(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"go.mod": goMod,
		"passes/p_test.go": testFile("p", `TestQuiet: t.Log("not for the reader") `,
			`TestFigure: t.Log("RELAY_SEED=7"); t.Log("RELAY_SEED=7: 3 duplicates") `,
			`TestSkipped: t.Skip("needs a printer") `),
		"fails/f_test.go": testFile("f",
			`TestParent:
				t.Run("good", func(t *testing.T) { t.Log("good") })
				t.Run("bad", func(t *testing.T) { t.Error("why") })
			`,
			`TestBeside: t.Log("beside") `),
		"panics/p_test.go": testFile("p", `TestPanics: t.Log("before"); panic("at once") `),
		"broken/b_test.go": testFile("b", `TestBroken: undefined() `),
		"crashes/c_test.go": `package c

import ("fmt"; "os"; "testing")

func TestPasses(t *testing.T) {
	t.Cleanup(func() { fmt.Println("ThreadSanitizer: CHECK failed: some.cpp:346"); go os.Exit(66); select {} })
}`,
		"ends/c_test.go": `package c

import ("fmt"; "os"; "testing")

func TestMain(m *testing.M) { m.Run(); fmt.Println("ThreadSanitizer: CHECK failed: at the end"); os.Exit(66) }

func TestEnds(t *testing.T) {}`,
	})
	shown, records, figures := report(t, root)
	for _, want := range []string{"ok   example.test/m/passes", ", 2 tests\n",
		"skipped TestSkipped: needs a printer\n", "FAIL example.test/m/fails", "why", "panic: at once", "before",
		"undefined: undefined", "FAIL example.test/m/broken", "CHECK failed: some.cpp:346", "CHECK failed: at the end"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, unwanted := range []string{"not for the reader", "good", "beside", "=== RUN"} {
		if strings.Contains(shown, unwanted) {
			t.Errorf("the report has %q", unwanted)
		}
	}
	for _, want := range []string{"\tpass\texample.test/m/passes\tTestQuiet\ta step\n",
		"\tskip\texample.test/m/passes\tTestSkipped\t", "\tfail\texample.test/m/fails\tTestParent\t"} {
		if !strings.Contains(records, want) {
			t.Errorf("the records lack %q", want)
		}
	}
	if want := "Figure: 3 duplicates\n"; !strings.Contains(figures, want) || strings.Contains(figures, "why") {
		t.Errorf("the figures are %q, want %q among them", figures, want)
	}
	if strings.Contains(records, "TestParent/") {
		t.Error("the records have a subtest")
	}
	if t.Failed() {
		t.Logf("%s\n%s", shown, records)
	}
}

func TestTestsThatNoStepRanAreFound(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod":             goMod,
		"DESIGN.md":          "",
		"test/invariants.md": "",
		"a/a_test.go":        testFile("a", "TestRan:", "TestSkipped:", "Testimony:", "TestMain:"),
		"a/f_test.go":        testFile("a", "TestAlso:"),
		"a/other_test.go":    "//go:build plan9\n\n" + testFile("a", "TestElsewhere:"),
	}
	const header, record = "| invariant | test |\n|---|---|\n", "0.10\tpass\texample.test/m/a\tTestRan\ts\n" +
		"0.10\tskip\texample.test/m/a\tTestSkipped\ts\n" + "0.10\tpass\texample.test/m/a\tTestAlso\ts\n"
	for _, c := range []struct {
		name, table, records string
		strict               bool
		want                 string // "": no fault
	}{
		{"all ran", "| what holds | `a.TestRan`, `TestAl…` |\n", record, true, ""},
		{"a test is in no step", "| what holds | `TestRan` |\n",
			strings.ReplaceAll(record, "TestAlso", "TestRan"), false, "no step ran TestAlso in a\n"},
		{"an invariant's test is skipped", "| what holds | `TestSkipped` |\n", record, false, ""},
		{"and may not be", "| what holds | `TestSkipped` |\n", record, true, "names TestSkipped for an invariant"},
		{"the test is in another package", "| what holds | `b.TestRan` |\n", record, false, "names TestRan for an invariant"},
		{"the test passed in another step", "| what holds | `TestSkipped` |\n",
			record + "0.10\tpass\texample.test/m/a\tTestSkipped\tother\n", true, ""},
	} {
		files["docs/design/chapter.md"] = header + c.table + "\n"
		files["records"] = c.records
		root := tree(t, files)
		var out bytes.Buffer
		err := checkAllRan(root, filepath.Join(root, "records"), c.strict, &out)
		if (err == nil) != (c.want == "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v, %q, want %q", c.name, err, out.String(), c.want)
		}
	}
}

// repository commits files.
func repository(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = tree(t, files)
	git(t, root, "init", "-q", "-b", "main")
	commit(t, root)
	return root
}

// commit commits all files.
func commit(t *testing.T, root string) {
	t.Helper()
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "files", "--allow-empty")
}

// git runs a command in root and returns what it prints.
func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
