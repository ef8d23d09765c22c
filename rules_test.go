package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/stream"
)

const module = "github.com/eventrelay/relay"

// stages are the folders that never import each other and that pkg never imports.
var stages = []string{"ingest", "dispatcher", "store", "ledger", "api", "usage", "leaks", "doctor"}

// forBenchmark is why the relay must not even hold a library by way of another.
const forBenchmark = "only the benchmark needs it"

// homes names, for each library that belongs into one room, where it may be imported, and why.
var homes = map[string]struct {
	rooms []string
	why   string
}{
	"github.com/twmb/franz-go":            {[]string{"pkg/stream", "pkg/embedded", "test/kit"}, "everything else sees pkg/stream, so that rules about acknowledgement and offsets hold everywhere"},
	"github.com/redis/go-redis":           {[]string{"pkg/limit"}, "Redis may only hold what may be lost"},
	"github.com/ClickHouse/clickhouse-go": {[]string{"store", "pkg/embedded"}, "one place writes SQL"},
	"github.com/testcontainers":           {[]string{"test/kit"}, "it starts engines for tests"},
	"github.com/moby/moby":                {[]string{"test/kit"}, "it starts engines for tests"},
	"github.com/google/pprof":             {[]string{"bench"}, forBenchmark},
	"github.com/HdrHistogram":             {[]string{"bench"}, forBenchmark},
	"github.com/bits-and-blooms":          {[]string{"bench"}, forBenchmark},
	"github.com/gorilla/mux":              {[]string{"ingest", "api"}, "routes stand in one place for each surface"},
}

// source is one parsed Go file of the module.
type source struct {
	dir, path string
	test      bool
	file      *ast.File
	fset      *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.ToSlash(filepath.Dir(path)), path, strings.HasSuffix(path, "_test.go"), f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: the rules look in the wrong place", len(out))
	}
	return out
}

func within(dir, room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") }

func TestImportRules(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if fault := importFault(s, path); fault != "" {
				t.Errorf("%s imports %s: %s", s.path, path, fault)
			}
		}
	}
}

func importFault(s source, path string) string {
	if inner, ok := strings.CutPrefix(path, module+"/"); ok {
		switch {
		case inner == "store/internal/storetest" && !s.test:
			return "it is for tests, no part of the binary"
		case inner == "test/kit" && (s.test || within(s.dir, "test") || within(s.dir, "store/internal/storetest")):
			return ""
		case within(inner, "test") && !within(s.dir, "test"):
			return "it and its libraries are for tests, no part of the binary"
		case s.dir == "bench/relay-bench" && inner != "bench":
			return "main is a doormat"
		case inner == "bench/fill" && s.test && within(s.dir, "store"):
			return ""
		case within(inner, "bench") && !within(s.dir, "bench"):
			return "the benchmark is a binary of its own, no part of the relay"
		case within(inner, "store") && within(s.dir, "bench/fill"), inner == "store/write" && s.dir == "bench":
			return "" // it writes the tables
		case s.dir == "." && inner != "command" && !s.test:
			return "main is a doormat"
		case inner == "command" && within(s.dir, "node"):
			return "command stands above node"
		case (inner == "command" || within(inner, "node")) && s.dir != "." && !within(s.dir, "command") && !within(s.dir, "node") &&
			!within(s.dir, "test/e2e"):
			return "main, command and node stand above everything else"
		case within(s.dir, "pkg") && !within(inner, "pkg"):
			return "pkg imports pkg only"
		case within(s.dir, "pkg/secrets") && within(inner, "pkg/config"):
			return "it recognises texts; it needs no configuration and no Kafka"
		case s.dir == "dispatcher/lane" && !within(inner, "pkg"):
			return "a lane knows no stage, the dispatcher neither: it decides, and the dispatcher carries out"
		case inner == "dispatcher/lane" && s.dir != "dispatcher" && s.dir != "dispatcher/lane":
			return "lanes are the dispatcher's alone"
		case (within(s.dir, "test/kit") || within(s.dir, "test/conformance")) && !within(inner, "pkg"):
			return "it knows the relay from outside"
		}
		for _, stage := range stages {
			switch {
			case !within(inner, stage):
			case !within(s.dir, "command") && !within(s.dir, "node") && !within(s.dir, "test/e2e") && !within(s.dir, stage) && !within(s.dir, "deploy"):
				return "a stage never imports a stage; declare an interface and let node meet it"
			}
		}
		return ""
	}
	if s.test {
		return "" // tests may speak to the engines directly
	}
	for library, home := range homes {
		if (path == library || strings.HasPrefix(path, library+"/")) && !slices.ContainsFunc(home.rooms, func(r string) bool { return within(s.dir, r) }) {
			return "belongs to " + strings.Join(home.rooms, ", ") + ": " + home.why
		}
	}
	return ""
}

// The relay holds nothing that only the benchmark needs, by whatever way it would come in.
func TestRelayHoldsNoBenchmark(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		foreign := within(pkg, module+"/bench")
		for library, home := range homes {
			foreign = foreign || home.why == forBenchmark && within(pkg, library)
		}
		if foreign {
			t.Errorf("the relay holds %s; it belongs to bin/relay-bench", pkg)
		}
	}
}

func TestOnePackageDocPerDirectory(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if docs[s.dir] == nil {
			docs[s.dir] = []string{}
		}
		if s.file.Doc != nil {
			docs[s.dir] = append(docs[s.dir], s.path)
		}
	}
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments %v, want one", dir, len(files), files)
		}
	}
}

// Whoever starts a goroutine waits for it: through wg.Go or a group's Go, never a bare go statement.
func TestNoBareGoStatementAndNoSleep(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: bare go statement", s.fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name == "Sleep" {
					t.Errorf("%s: time.Sleep; use a timer and a context", s.fset.Position(n.Pos()))
				}
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: init function", s.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

func TestFileAndFunctionSizes(t *testing.T) {
	const maxFile, maxFunc = 500, 70
	for _, s := range sources(t) {
		if lines := s.fset.Position(s.file.End()).Line; lines > maxFile && !s.test {
			t.Errorf("%s has %d lines, at most %d", s.path, lines, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test {
				continue
			}
			lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if lines > maxFunc && (f.Doc == nil || !strings.Contains(f.Doc.Text(), "One function because")) {
				t.Errorf("%s: %s has %d lines, at most %d; a longer one says in its doc why (\"One function because …\")", s.fset.Position(f.Pos()), f.Name.Name, lines, maxFunc)
			}
		}
	}
}

// What is so of a topic stands in the table of pkg/stream alone: elsewhere no list names three topics or more.
func TestNoSecondListOfTopics(t *testing.T) {
	constants := map[string]bool{"Events": true, "Commands": true, "Outcomes": true, "Receipts": true, "Dead": true,
		"Control": true, "ControlSnapshots": true, "Nodes": true, "AuditLog": true}
	var names []string
	for _, topic := range stream.Topics() {
		names = append(names, strconv.Quote(topic.Name))
	}
	isTopic := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			x, ok := e.X.(*ast.Ident)
			return ok && x.Name == "stream" && constants[e.Sel.Name]
		case *ast.BasicLit:
			return slices.Contains(names, e.Value)
		case *ast.KeyValueExpr:
			x, ok := e.Key.(*ast.SelectorExpr)
			return ok && x.Sel != nil && constants[x.Sel.Name]
		}
		return false
	}
	for _, s := range sources(t) {
		if s.test || s.dir == "pkg/stream" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			list, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			topics := 0
			for _, e := range list.Elts {
				if isTopic(e) {
					topics++
				}
			}
			if topics >= 3 {
				t.Errorf("%s: a list of topics; take it from stream.Topics", s.fset.Position(list.Pos()))
			}
			return true
		})
	}
}

// Tests that the Makefile and deploy/test.sh call by name are there: of a name that nothing has any more, nobody would hear.
func TestTestsThatAreNamedExist(t *testing.T) {
	tests := map[string][]string{} // by directory
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Test") {
				tests[s.dir] = append(tests[s.dir], f.Name.Name)
			}
		}
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	named := func(dir, word string) bool {
		return slices.ContainsFunc(tests[dir], func(name string) bool { return strings.Contains(name, word) })
	}
	for _, m := range regexp.MustCompile(`-run '(\w[^']*)' -v \./(\S+)`).FindAllStringSubmatch(read("Makefile"), -1) {
		for word := range strings.SplitSeq(m[1], "|") {
			if !named(m[2], word) {
				t.Errorf("make torture runs %s in %s, which has no such test", word, m[2])
			}
		}
	}
	lists := regexp.MustCompile(`(?m)^(?:contained|repeats|whole)\+?='(.*)'$`).FindAllStringSubmatch(read("deploy/test.sh"), -1)
	if len(lists) < 3 {
		t.Fatalf("deploy/test.sh has %d lines that name tests: this test looks for the wrong text", len(lists))
	}
	for _, list := range lists {
		for _, word := range regexp.MustCompile(`[A-Z]\w+`).FindAllString(list[1], -1) {
			there := false
			for dir := range tests {
				there = there || named(dir, word)
			}
			if !there {
				t.Errorf("deploy/test.sh names %s, and no test is called so", word)
			}
		}
	}
}

// A pause that ctx ends, and pauses that grow from try to try, are those of pkg/wait.
func TestPausesAreThoseOfWait(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.dir == "pkg/wait" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isPause(f) {
				t.Errorf("%s: %s waits for a timer or ctx; use wait.For", s.fset.Position(f.Pos()), f.Name.Name)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if doubles(n) {
				t.Errorf("%s: a pause that doubles; use wait.Backoff", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// isPause recognises time.NewTimer or time.After in a select beside ctx.Done alone. A timer that is used again, because
// it waits often, is no pause.
func isPause(f *ast.FuncDecl) bool {
	var timer, reset, pauses bool
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			timer = timer || n.Sel.Name == "NewTimer" || n.Sel.Name == "After" && isName(n.X, "time")
			reset = reset || n.Sel.Name == "Reset"
		case *ast.SelectStmt:
			var text []string
			for _, c := range n.Body.List {
				if e, ok := c.(*ast.CommClause).Comm.(*ast.ExprStmt); ok {
					text = append(text, types.ExprString(e.X))
				}
			}
			slices.Sort(text)
			pauses = pauses || len(n.Body.List) == 2 && len(text) == 2 && text[0] == "<-ctx.Done()" &&
				(strings.HasSuffix(text[1], ".C") || strings.HasPrefix(text[1], "<-time.After("))
		}
		return true
	})
	return timer && !reset && pauses
}

// doubles recognises pause = min(2*pause, …). A breaker keeps its time in a field: it does not pause.
func doubles(n ast.Node) bool {
	assign, ok := n.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return false
	}
	pause, ok := assign.Lhs[0].(*ast.Ident)
	return ok && strings.HasPrefix(types.ExprString(assign.Rhs[0]), "min(2 * "+pause.Name+", ")
}

func isName(e ast.Expr, name string) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Name == name
}
