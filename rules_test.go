package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/verify"
)

const module = "github.com/eventrelay/relay"

// stages are the folders that never import each other and that pkg never imports.
var stages = []string{"ingest", "leaks", "dispatcher", "store", "ledger", "api", "dashboard", "usage", "doctor"}

// forBenchmark is why the relay must not even hold a library by way of another.
const forBenchmark = "only the benchmark needs it"

// homes names, for each library that belongs into one room, where it may be imported, and why.
var homes = map[string]struct {
	rooms []string
	why   string
}{
	"github.com/twmb/franz-go": {
		[]string{"pkg/stream", "pkg/embedded", "test/kit", "test/streamtest"},
		"everything else sees pkg/stream, so that rules about acknowledgement and offsets hold everywhere"},
	"github.com/redis/go-redis":           {[]string{"pkg/limit"}, "Redis may only hold what may be lost"},
	"github.com/ClickHouse/clickhouse-go": {[]string{"store", "pkg/embedded", "test/storetest"}, "one place writes SQL"},
	"github.com/testcontainers":           {[]string{"test/kit"}, "it starts engines for tests"},
	"github.com/moby/moby":                {[]string{"test/kit"}, "it starts engines for tests"},
	"go.opentelemetry.io": {[]string{"pkg/spans", "deploy/collector", "test/spanstest"},
		"everything else sees pkg/spans, where a nil recorder costs nothing"},
	"github.com/google/pprof":    {[]string{"bench"}, forBenchmark},
	"github.com/HdrHistogram":    {[]string{"bench"}, forBenchmark},
	"github.com/bits-and-blooms": {[]string{"bench"}, forBenchmark},
	"github.com/gorilla/mux":     {[]string{"ingest", "api", "dashboard"}, "routes stand in one place for each surface"},
}

// source is one parsed Go file of the module.
type source struct {
	dir, path string
	test      bool
	file      *ast.File
	fset      *token.FileSet
}

// sources are all Go files of the module, parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: the rules look in the wrong place", len(out))
	}
	return out
}

var parsed = sync.OnceValues(func() (out []source, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules" ||
			d.Name() == "testdata" || d.Name() == "bin") {
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
	return out, err
})

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
		case slices.Contains([]string{"test/kit", "test/storetest", "test/websites", "test/spanstest", "test/streamtest"},
			inner) && (s.test || within(s.dir, "test")):
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
		case (inner == "command" || within(inner, "node")) && s.dir != "." && !within(s.dir, "command") &&
			!within(s.dir, "node") &&
			!within(s.dir, "test/e2e"):
			return "main, command and node stand above everything else"
		case inner == "dashboard" && s.dir == "api" && s.test: // the pages of the whole API
			return ""
		case inner == "api/wire": // the JSON of the API, for those who write and read it
			return ""
		case within(s.dir, "dashboard") && !within(inner, "dashboard") && !within(inner, "pkg"):
			return "pages call the API through an interface, as a person"
		case within(s.dir, "api/mcp") && s.dir != inner && inner != "api/confirm" && !within(inner, "pkg"):
			return "tools call the API through an interface, as an API key"
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
			case !within(s.dir, "command") && !within(s.dir, "node") && !within(s.dir, "test/e2e") && !within(s.dir, stage) &&
				!within(s.dir, "deploy") && s.dir != "test/storetest":
				return "a stage never imports a stage; declare an interface and let node meet it"
			}
		}
		return ""
	}
	if s.test {
		return "" // tests may speak to the engines directly
	}
	for library, home := range homes {
		if (path == library || strings.HasPrefix(path, library+"/")) &&
			!slices.ContainsFunc(home.rooms, func(r string) bool { return within(s.dir, r) }) {
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

// A test that fails by chance stops changes that have nothing to do with it, and nobody can repeat it. Random numbers
// of tests come from a generator with a seed, see kit.Seed.
func TestRandomTestsHaveSeeds(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, imp := range s.file.Imports {
			if path := imp.Path.Value; path == `"math/rand"` {
				t.Errorf("%s imports math/rand, want math/rand/v2", s.path)
			} else if path != `"math/rand/v2"` {
				continue
			}
			name := "rand"
			if imp.Name != nil {
				name = imp.Name.Name
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && !strings.HasPrefix(f.Sel.Name, "New") {
					if x, ok := f.X.(*ast.Ident); ok && x.Name == name && x.Obj == nil {
						t.Errorf("%s: %s.%s has no seed", s.fset.Position(f.Pos()), name, f.Sel.Name)
					}
				}
				return true
			})
		}
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
				t.Errorf("%s: %s has %d lines, at most %d; a longer one says in its doc why (\"One function because …\")",
					s.fset.Position(f.Pos()), f.Name.Name, lines, maxFunc)
			}
		}
	}
}

// A line is read on half a screen. A struct tag cannot be broken; it is the only exception.
func TestLineLength(t *testing.T) {
	const longest = 120
	for _, s := range sources(t) {
		tags := map[int]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				tags[s.fset.Position(f.Tag.Pos()).Line] = true
			}
			return true
		})
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line); n > longest && !tags[i+1] {
				t.Errorf("%s:%d: %d characters, at most %d", s.path, i+1, n, longest)
			}
		}
	}
}

// A type that does everything is split by what its methods work with.
func TestReceiverSizes(t *testing.T) {
	const maxMethods = 40
	methods := map[string]int{} // by package and type
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && !s.test {
				methods[s.dir+"."+receiver(f)]++
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, at most %d", name, n, maxMethods)
		}
	}
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	name := strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*")
	name, _, _ = strings.Cut(name, "[")
	return name
}

// What is so of a topic stands in the table of pkg/stream alone: elsewhere no list names three topics or more.
func TestNoSecondListOfTopics(t *testing.T) {
	constants := map[string]bool{"Events": true, "Commands": true, "Outcomes": true, "Receipts": true, "Dead": true,
		"Control": true, "ControlSnapshots": true, "Nodes": true, "AuditLog": true, "Findings": true}
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

// Tests that make test and make torture call by name are there: of a name that nothing has any more, nobody would hear.
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
	parts := regexp.MustCompile(`(?m)^\t"\S+ \./(\S+) (\S+)"$`).FindAllStringSubmatch(read("deploy/torture.sh"), -1)
	if len(parts) < 10 {
		t.Fatalf("deploy/torture.sh has %d parts: this test looks for the wrong text", len(parts))
	}
	for _, part := range parts {
		for word := range strings.SplitSeq(part[2], "|") {
			if !slices.ContainsFunc(tests[part[1]], regexp.MustCompile(word).MatchString) {
				t.Errorf("make torture runs %s in %s, which has no such test", word, part[1])
			}
		}
	}
	lists := regexp.MustCompile(`(?m)^(?:contained|whole|twice)='\^Test\(?(.*?)\)?\$'$`).FindAllStringSubmatch(
		read("deploy/test.sh"), -1)
	if len(lists) != 3 {
		t.Fatalf("deploy/test.sh has %d lines that name tests: this test looks for the wrong text", len(lists))
	}
	var words []string
	for _, list := range lists {
		words = append(words, strings.Split(list[1], "|")...)
	}
	for line := range strings.Lines(read("deploy/norace.txt")) {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.TrimSpace(line))
		}
	}
	all := slices.Concat(slices.Collect(maps.Values(tests))...)
	for _, word := range words {
		if word == "" || !slices.ContainsFunc(all, regexp.MustCompile("^Test("+word+")$").MatchString) {
			t.Errorf("deploy/test.sh or deploy/norace.txt names %q, and no test is called so", word)
		}
	}
}

// Packages that make test never runs under the race detector start no goroutine, and neither do their tests.
func TestPackagesWithoutRaceDetectorStartNoGoroutine(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^pure\+?='(.*)'$`).FindAllStringSubmatch(text(t, "deploy/test.sh"), -1)
	var expression strings.Builder
	for _, line := range lines {
		expression.WriteString(line[1])
	}
	pure := regexp.MustCompile(expression.String())
	// These start goroutines that share nothing, or wait for programs and engines.
	known := []string{"bench", "pkg/sign", "pkg/web", "store/schema", "test/suite"}
	starters := []string{"Go", "AfterFunc", "Parallel", "NewServer", "NewTLSServer", "NewUnstartedServer"}
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if !pure.MatchString("./"+s.dir) || slices.Contains(known, s.dir) {
			continue
		}
		seen[s.dir] = true
		ast.Inspect(s.file, func(n ast.Node) bool {
			f, selects := n.(*ast.SelectorExpr)
			_, starts := n.(*ast.GoStmt)
			if starts || selects && slices.Contains(starters, f.Sel.Name) {
				t.Errorf("%s: starts a goroutine, in a package that deploy/test.sh tests without the race detector",
					s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if len(seen) < 15 {
		t.Errorf("deploy/test.sh names %d packages: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

// A pause that ctx ends, and pauses that grow from try to try, are those of pkg/wait.
func TestPausesAreThoseOfWait(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.dir == "pkg/wait" || within(s.dir, "examples") { // examples stand alone
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

// change is a table of docs/design/changing.md.
type change struct {
	words []string
	own   []string // patterns of the files that may hold the words
	// distinct words mean nothing else, so that no other file may hold one. Of the others no list and no switch of another
	// file may hold four.
	distinct bool
}

// changes are all of them, by heading.
func changes(t *testing.T) map[string]change {
	t.Helper()
	retry := config.RetryStrategyNames()
	for _, s := range config.RetryStrategies() {
		for _, m := range s.Members {
			retry = append(retry, m.Name)
		}
	}
	channels := notify.KindNames()
	for _, k := range notify.Kinds() {
		channels = append(channels, k.Flat)
	}
	filters := make([]string, 0, len(event.Filters))
	for _, f := range event.Filters {
		filters = append(filters, f.Name)
	}
	own := func(words []string, files ...string) change { return change{words, files, true} }
	return map[string]change{
		// Deliveries are signed by one of the schemes.
		"A verification scheme":                       own(verify.Providers(), "pkg/verify/*.go", "pkg/sign/sign.go"),
		"A kind of alert channel that posts to a URL": own(channels, "pkg/notify/*.go"),
		"A retry strategy":                            own(retry, "pkg/config/retry.go"),
		"A filter of GET /v1/events":                  {filters, []string{"pkg/event/filter.go"}, false},
		"A field of an attempt":                       own(attemptColumns(t), "store/internal/column/attempts.go"),
		"A deprecation":                               {},
		"A setting":                                   {},
		"A subcommand":                                {},
		"A table":                                     {},
		"A page of the dashboard":                     {},
	}
}

// attemptColumns are the columns of attempts whose names have two words or more: the others mean something
// elsewhere too.
func attemptColumns(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`"([a-z]+(?:_[a-z]+)+)", `).FindAllStringSubmatch(
		text(t, "store/internal/column/attempts.go"), -1) {
		names = append(names, m[1])
	}
	if len(names) < 8 {
		t.Fatalf("found the columns %v of attempts: this test looks for the wrong text", names)
	}
	return names
}

// docs/design/changing.md has at most four steps for each change, its documents and its tests; each file exists and
// declares what the document says.
func TestHowToChangeIt(t *testing.T) {
	chapter := text(t, "docs/design/changing.md")
	declared := declarations(t)
	step := regexp.MustCompile("(?m)^\\d+\\. `([^`]+)`, `([^`]+)`: ")
	file := regexp.MustCompile("`([\\w./-]+/[\\w.-]+|README\\.md)`")
	// a place within a sentence: `name` in `file`
	place := regexp.MustCompile("`(\\w+)`\\s+in\\s+`([\\w./-]+\\.go)`")
	said := 0
	for heading := range changes(t) {
		_, part, ok := strings.Cut(chapter, "\n## "+heading+"\n")
		part, _, _ = strings.Cut(part, "\n## ")
		steps := step.FindAllStringSubmatch(part, -1)
		if !ok || len(steps) == 0 || len(steps) > 4 {
			t.Errorf("the chapter names %d files for %q, want 1 to 4", len(steps), heading)
		}
		said += len(steps)
		for _, m := range steps {
			if !declared[m[1]][m[2]] {
				t.Errorf("%s: %s declares no %s", heading, m[1], m[2])
			}
		}
		for _, m := range place.FindAllStringSubmatch(part, -1) {
			if !declared[m[2]][m[1]] {
				t.Errorf("%s: %s declares no %s", heading, m[2], m[1])
			}
		}
		for _, kind := range []string{"Documents", "Tests"} {
			if !regexp.MustCompile("(?m)^" + kind + ": `").MatchString(part) {
				t.Errorf("the chapter names no %s for %q", strings.ToLower(kind), heading)
			}
		}
		for _, m := range file.FindAllStringSubmatch(part, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %v", heading, err)
			}
		}
	}
	if all := len(step.FindAllString(chapter, -1)); all != said {
		t.Errorf("the chapter has %d steps, and %d of them belong to a known change", all, said)
	}
}

// A word of a table stands in its files alone; who needs it elsewhere takes the table's constant or asks the table. So
// a new entry is not forgotten anywhere.
func TestWordsStandInTheirTable(t *testing.T) {
	const several = 4
	ambiguous := []string{config.RetryNone, config.RetrySchedule, string(notify.Email), string(notify.Webhook),
		"remote_ip", "next_at", "transformation_version"} // columns of other tables too, or a member of endpoints
	all := changes(t)
	for _, s := range sources(t) {
		if s.test || within(s.dir, "test") || within(s.dir, "bench") {
			continue
		}
		literals := wordsIn(s.file)
		mine := map[string]bool{} // words of tables that this file belongs to
		for _, c := range all {
			for _, word := range c.words {
				mine[word] = mine[word] || owned(s.path, c.own)
			}
		}
		for heading, c := range all {
			for _, word := range c.words {
				if at, ok := literals[word]; ok && c.distinct && !mine[word] && !slices.Contains(ambiguous, word) {
					t.Errorf("%s: %q is a word of the table %q; take it from there", s.fset.Position(at), word, heading)
				}
			}
			for at, list := range listsIn(s.file) {
				held := 0
				for _, word := range c.words {
					if _, ok := list[word]; ok && !mine[word] {
						held++
					}
				}
				if held >= several {
					t.Errorf("%s: %d words of the table %q", s.fset.Position(at), held, heading)
				}
			}
		}
	}
}

// wordsIn are the texts that a piece of source holds.
func wordsIn(piece ast.Node) map[string]token.Pos {
	words := map[string]token.Pos{}
	ast.Inspect(piece, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if word, err := strconv.Unquote(lit.Value); err == nil {
				words[word] = lit.Pos()
			}
		}
		return true
	})
	return words
}

// listsIn are the words of each outermost composite literal and switch of a file: what could be a second table.
func listsIn(file *ast.File) map[token.Pos]map[string]token.Pos {
	lists := map[token.Pos]map[string]token.Pos{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.CompositeLit, *ast.SwitchStmt:
			lists[n.Pos()] = wordsIn(n)
			return false
		}
		return true
	})
	return lists
}

func owned(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := filepath.Match(p, filepath.ToSlash(path))
		return ok
	})
}

// The OpenAPI document takes the words of tables from them ("@schemes"), and has all settings of channels; the table of
// schemes in docs/start/providers.md is complete too.
func TestDocumentsHaveTheTables(t *testing.T) {
	parts, err := filepath.Glob("api/openapi/*.yaml")
	if err != nil || len(parts) == 0 {
		t.Fatalf("no parts of the OpenAPI document: %v", err)
	}
	var doc strings.Builder
	for _, name := range parts {
		doc.WriteString(text(t, name))
	}
	literal := regexp.MustCompile(`enum: \[[^\]]*\b(stripe|webhook|exponential)\b`)
	if m := literal.FindString(doc.String()); m != "" {
		t.Errorf("the OpenAPI document repeats a table: %s", m)
	}
	var members []string
	for _, k := range notify.Kinds() {
		members = append(members, string(k.Kind), k.Flat)
	}
	for _, name := range members {
		if !regexp.MustCompile(`(?m)^\s+` + name + `:`).MatchString(doc.String()) {
			t.Errorf("the OpenAPI document has no member %s", name)
		}
	}
	_, table, _ := strings.Cut(text(t, "docs/start/providers.md"),
		"How providers sign, by the `type` of `verification`:\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \|`).FindAllStringSubmatch(table, -1) {
		if m[1] != "type" {
			rows = append(rows, m[1])
		}
	}
	if !slices.Equal(rows, verify.Types()) {
		t.Errorf("the table of schemes in docs/start/providers.md has %v, want %v", rows, verify.Types())
	}
}

// text is a file of the project.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
