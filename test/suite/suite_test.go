package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tree writes files below a new directory. A name ends with .go, .md or .mod; a directory is made for each.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
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
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
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
	})
	shown, records, figures := report(t, root)
	for _, want := range []string{"ok   example.test/m/passes", ", 2 tests\n",
		"skipped TestSkipped: needs a printer\n", "FAIL example.test/m/fails", "why", "panic: at once", "before",
		"undefined: undefined", "FAIL example.test/m/broken"} {
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
		"go.mod":          goMod,
		"DESIGN.md":       "",
		"a/a_test.go":     testFile("a", "TestRan:", "TestSkipped:", "Testimony:", "TestMain:"),
		"a/faults.go":     "package a\n",
		"a/f_test.go":     "//go:build faults\n\n" + testFile("a", "TestWithFaults:"),
		"a/other_test.go": "//go:build plan9\n\n" + testFile("a", "TestElsewhere:"),
	}
	const header, record = "| invariant | test |\n|---|---|\n", "0.10\tpass\texample.test/m/a\tTestRan\ts\n" +
		"0.10\tskip\texample.test/m/a\tTestSkipped\ts\n" + "0.10\tpass\texample.test/m/a\tTestWithFaults\ts\n"
	for _, c := range []struct {
		name, table, records string
		strict               bool
		want                 string // "": no fault
	}{
		{"all ran", "| what holds | `a.TestRan`, `TestWith…` |\n", record, true, ""},
		{"a test is in no step", "| what holds | `TestRan` |\n",
			strings.ReplaceAll(record, "TestWithFaults", "TestRan"), false, "no step ran TestWithFaults in a\n"},
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

func TestSelectedPackagesAreThoseThatAChangeConcerns(t *testing.T) {
	t.Parallel()
	pkg := func(dir string, imports, testImports []string) *goPackage {
		return &goPackage{ImportPath: "m/" + dir, Imports: imports, TestImports: testImports, dir: dir}
	}
	packages := []*goPackage{
		pkg(".", []string{"m/app"}, nil), pkg("app", []string{"m/store"}, nil), pkg("store", []string{"m/id"}, nil),
		pkg("id", nil, nil), pkg("kit", nil, nil), pkg("web", nil, []string{"m/kit"}), pkg("api", []string{"m/web"}, nil),
	}
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{"id/id.go", "id/id_test.go"}, ".0 id0 store1 app2"},
		{[]string{"app/testdata/deep/x.json"}, ".0 app0"},
		{[]string{"kit/kit.go"}, ".0 kit0 web1"}, // web's tests alone: they concern api no more
		{[]string{"README.md"}, ".0"},
		{[]string{"go.mod"}, ".0 app0 store0 id0 kit0 web0 api0"},
		{nil, ""},
	} {
		var got []string
		for _, s := range selectPackages(packages, c.files) {
			got = append(got, s.dir+string(rune('0'+s.distance)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v concern %v, want %s", c.files, got, c.want)
		}
	}
}

// repository commits files on main and then writes changes into the working tree.
func repository(t *testing.T, files, changes map[string]string) (root string) {
	t.Helper()
	root = tree(t, files)
	if _, err := output(t.Context(), root, "git", "init", "-q", "-b", "main"); err != nil {
		t.Fatal(err)
	}
	commit(t, root)
	if _, err := output(t.Context(), root, "git", "checkout", "-qb", "branch"); err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// commit commits all files.
func commit(t *testing.T, root string) {
	t.Helper()
	for _, args := range [][]string{
		{"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "files"},
	} {
		if _, err := output(t.Context(), root, "git", args...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckRunsWhatAChangeConcerns(t *testing.T) {
	t.Parallel()
	const length, sameLength = "package id\n\nconst Length = 8\n", "package id\n\nconst Length = 8 // bytes\n"
	const manyMinutes = time.Hour
	files := map[string]string{
		"go.mod":        goMod,
		"id/id.go":      length,
		"api/api.go":    "package api\n\nimport \"example.test/m/id\"\n\nconst Length = id.Length\n",
		"api/a_test.go": testFile("api", "TestLength:\n\tif Length != 8 {\n\t\tt.Error(Length)\n\t}\n"),
		"web/w_test.go": testFile("web", "TestAlwaysFails:\n\tt.Error()\n"),
	}
	for _, c := range []struct {
		name, file, text string
		lint             string
		limit            time.Duration
		fails            bool
		has, lacks       string
	}{
		{"a comment", "id/id.go", sameLength, "true", manyMinutes, false, "ok   example.test/m/api", "web"},
		{"an importer fails", "id/id.go", strings.ReplaceAll(length, "8", "9"), "true", manyMinutes, true,
			"FAIL example.test/m/api", "web"},
		{"a linter fails", "id/id.go", sameLength, "false", manyMinutes, true, "ok   example.test/m/api", "left to"},
		{"the format", "id/id.go", strings.ReplaceAll(length, "const ", "const  "), "true", manyMinutes, true, "", "api"},
		{"no time", "id/id.go", sameLength, "true", time.Nanosecond, true, "", "passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := repository(t, files, map[string]string{c.file: c.text})
			var out bytes.Buffer
			err := check{root, []string{c.lint}, &out}.run(t.Context(), c.limit, false)
			if (err != nil) != c.fails || !strings.Contains(out.String(), c.has) || strings.Contains(out.String(), c.lacks) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

// A package that does not end in time is left to make test, and named.
func TestCheckEndsInTime(t *testing.T) {
	t.Parallel()
	root := repository(t, map[string]string{"go.mod": goMod, "hang/hang.go": "package hang\n"}, map[string]string{
		"hang/h_test.go": "package hang\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestHang(t *testing.T) {\n\t_ = os.WriteFile(\"begun\", nil, 0o644)\n\t<-t.Context().Done()\n}\n",
	})
	ctx, timeIsOver := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	linted := func() bool { // the linter has ended, and its parent knows it
		text, _ := os.ReadFile(filepath.Join(root, "linted"))
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	wg.Go(func() {
		defer timeIsOver()
		for !(linted() && isFile(filepath.Join(root, "hang/begun"))) && t.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
	})
	var out bytes.Buffer
	err := check{root, []string{"sh", "-c", "echo $$ >linted"}, &out}.run(ctx, time.Hour, false)
	if wg.Wait(); err != nil || !strings.Contains(out.String(), "left to make test: hang, the race detector") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestLongPackagesExist(t *testing.T) {
	t.Parallel()
	for _, dir := range slices.Concat(bootPackages, engineWaiters) {
		if _, err := os.Stat(filepath.Join("../..", dir)); err != nil {
			t.Error(err)
		}
	}
}
