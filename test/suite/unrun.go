package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// testID names a test by the directory of its package, from the top of the module, and its function.
type testID struct{ dir, name string }

// faultsShown bounds how many faults are printed.
const faultsShown = 50

// checkAllRan fails if a test function of the module below root is not in the records, or if no test of an invariant
// passed. A test of an invariant may be skipped, unless strict is set, but not left out.
func checkAllRan(root, records string, strict bool, out io.Writer) error {
	ran, err := readRecords(root, records)
	if err != nil {
		return err
	}
	tests, err := declaredTests(root)
	if err != nil {
		return err
	}
	var faults []string
	for _, test := range tests {
		if ran[test] == "" {
			faults = append(faults, fmt.Sprintf("no step ran %s in %s", test.name, test.dir))
		}
	}
	invariants, err := invariantTests(root)
	if err != nil {
		return err
	}
	for _, inv := range invariants {
		switch result := inv.result(ran); {
		case result == "pass":
		case result == "skip" && !strict:
			fmt.Fprintf(out, "skipped: %s, which %s names for an invariant\n", inv.name, inv.document)
		default:
			faults = append(faults, fmt.Sprintf("%s names %s for an invariant, and it did not pass", inv.document, inv.name))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	fmt.Fprintln(out, strings.Join(faults[:min(len(faults), faultsShown)], "\n"))
	return fmt.Errorf("%d tests did not run", len(faults))
}

// readRecords returns the result of each test: pass if it passed in any step.
func readRecords(root, records string) (map[testID]string, error) {
	module, err := modulePath(root)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(records)
	if err != nil {
		return nil, err
	}
	ran := map[testID]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%s: a line has %d fields: %q", records, len(fields), line)
		}
		dir := strings.TrimPrefix(strings.TrimPrefix(fields[2], module), "/")
		test := testID{path.Clean(dir), fields[3]} // the module's own package is "."
		if ran[test] != "pass" {
			ran[test] = fields[1]
		}
	}
	return ran, nil
}

// modulePath reads the module's path from its go.mod.
func modulePath(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s/go.mod names no module", root)
	}
	return string(found[1]), nil
}

// declaredTests are the tests and fuzz targets of all packages that build on this machine.
func declaredTests(root string) (tests []testID, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") ||
			slices.Contains([]string{"node_modules", "testdata", "bin"}, d.Name())) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		if match, err := build.Default.MatchFile(filepath.Dir(name), d.Name()); err != nil || !match {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		names, err := testFunctions(name)
		for _, function := range names {
			tests = append(tests, testID{filepath.ToSlash(dir), function})
		}
		return err
	})
	return tests, err
}

var testFunction = regexp.MustCompile(`^(?:Test|Fuzz)(?:[^a-z].*)?$`)

func testFunctions(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name != "TestMain" &&
			testFunction.MatchString(f.Name.Name) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// invariant is a test that a table of invariants names.
type invariant struct {
	document string
	pkg      string // the last element of the package's path; "" if the table does not name it
	name     string
	prefix   bool // the name stands for all tests that begin so
}

var (
	invariantTable = regexp.MustCompile(`(?m)^\| invariant \| test \|\n(?:\|.*\n)+`)
	namedTest      = regexp.MustCompile(`(?:\b([a-z]+)\.)?\b((?:Test|Fuzz)[A-Z0-9]\w*)(…)?`)
)

// invariantTests are the tests that test/invariants.md, DESIGN.md and docs/design name for invariants.
func invariantTests(root string) (all []invariant, err error) {
	chapters, err := filepath.Glob(filepath.Join(root, "docs/design/*.md"))
	if err != nil {
		return nil, err
	}
	for _, chapter := range append(chapters, filepath.Join(root, "DESIGN.md"), filepath.Join(root, "test/invariants.md")) {
		text, err := os.ReadFile(chapter)
		if err != nil {
			return nil, err
		}
		for _, table := range invariantTable.FindAllString(string(text), -1) {
			for _, m := range namedTest.FindAllStringSubmatch(table, -1) {
				all = append(all, invariant{filepath.Base(chapter), m[1], m[2], m[3] != ""})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no document below %s has a table of invariants", root)
	}
	return all, nil
}

// result is the best result of the tests that the invariant names: pass, skip, fail, or "" if none ran.
func (i invariant) result(ran map[testID]string) string {
	results := map[string]bool{}
	for test := range maps.Keys(ran) {
		if (test.name == i.name || i.prefix && strings.HasPrefix(test.name, i.name)) &&
			(i.pkg == "" || path.Base(test.dir) == i.pkg) {
			results[ran[test]] = true
		}
	}
	for _, result := range []string{"pass", "skip", "fail"} {
		if results[result] {
			return result
		}
	}
	return ""
}
