package rules

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const module = "github.com/eventrelay/relay"

// The tests read the project from its root directory.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// stages are the folders that never import each other, but api/wire, and that pkg never imports.
var stages = []string{"ingest", "dispatcher", "store", "api", "dashboard", "usage"}

// forBenchmark is why the relay must not even hold a library by way of another.
const forBenchmark = "only the benchmark needs it"

// homes names, for each library that belongs into one room, where it may be imported, and why.
var homes = map[string]struct {
	rooms []string
	why   string
}{
	"github.com/twmb/franz-go": {
		[]string{"pkg/stream", "pkg/brokers", "dispatcher/destination/kafka", "ingest/source", "test/kit", "test/kafka",
			"test/streamtest", "test/sim"},
		"everything else but what connects to customers' brokers sees pkg/stream, so that rules about acknowledgement and " +
			"offsets hold everywhere"},
	"github.com/twmb/franz-go/pkg/kfake": {[]string{"test"}, "nothing that a user runs starts it"},
	"github.com/redis/go-redis":          {[]string{"pkg/limit"}, "Redis may only hold what may be lost"},
	"github.com/ClickHouse/clickhouse-go": {
		[]string{"store", "features/leaks/findings", "pkg/embedded", "test/storetest", "tools/bench/fill"},
		"one place writes SQL, each feature for its own tables, and the benchmark that fills and merges tables"},
	"github.com/minio/minio-go": {[]string{"features/backup", "dispatcher/destination"},
		"only backups and deliveries leave for a bucket or a queue"},
	"github.com/johannesboyne/gofakes3": {[]string{"test/kit"}, "it is an S3 server for tests"},
	"github.com/testcontainers":         {[]string{"test/kit"}, "it starts engines for tests"},
	"github.com/moby/moby":              {[]string{"test/kit"}, "it starts engines for tests"},
	"go.opentelemetry.io": {[]string{"pkg/otlp", "pkg/spans", "test/collector", "test/spanstest"},
		"everything else sees pkg/spans, where a nil recorder costs nothing, and pkg/otlp"},
	"github.com/coreos/go-oidc":  {[]string{"pkg/oidc"}, "one place verifies what an issuer says"},
	"github.com/zitadel/oidc":    {[]string{"test/oidctest"}, "it is an issuer for tests"},
	"github.com/google/pprof":    {[]string{"tools/bench"}, forBenchmark},
	"github.com/HdrHistogram":    {[]string{"tools/bench"}, forBenchmark},
	"github.com/bits-and-blooms": {[]string{"tools/bench"}, forBenchmark},
	"github.com/santhosh-tekuri/jsonschema": {[]string{"pkg/schema", "api", "test/helm"},
		"pkg/schema bounds what a check costs; api and test/helm compare documents with answers in their tests"},
	"github.com/yuin/goldmark": {[]string{"features/reference"}, "one place draws Markdown"},
	"github.com/charmbracelet": {[]string{"command", "features/listen"}, "nothing but a command draws on a terminal"},
	"github.com/gorilla/mux":   {[]string{"ingest", "api", "dashboard"}, "routes stand in one place for each surface"},
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
	out := must.Get(parsed())(t)
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
			path := must.Get(strconv.Unquote(imp.Path.Value))(t)
			is.Equal(t, importFault(s, path), "", "%s imports %s", s.path, path)
		}
	}
}

func importFault(s source, path string) string {
	if inner, ok := strings.CutPrefix(path, module+"/"); ok {
		switch {
		case within(inner, "features") && within(s.dir, "features"):
			if theirs, mine := featureOf(inner), featureOf(s.dir); theirs != "" && theirs != mine {
				return "a feature knows the core and no other feature"
			}
			return ""
		case within(inner, "features") && (s.test || within(s.dir, "test") || within(s.dir, "tools")):
			return ""
		case within(inner, "features") && s.path != "node/features.go" && (inner != "features" || !within(s.dir, "node")):
			return "the core knows no feature: a line in node/features.go registers one"
		case slices.Contains([]string{"test/is", "test/kafka", "test/kit", "test/leaktest", "test/must", "test/storetest",
			"test/websites", "test/desttest", "test/oidctest", "test/spanstest", "test/streamtest"}, inner) && (s.test ||
			within(s.dir, "test") || inner == "test/kafka" && within(s.dir, "tools/bench")):
			return ""
		case within(inner, "test") && !within(s.dir, "test"):
			return "it and its libraries are for tests, no part of the binary"
		case s.dir == "tools/bench/relay-bench" && inner != "tools/bench":
			return "main is a doormat"
		case within(inner, "tools/bench") && !within(s.dir, "tools/bench"):
			return "the benchmark is a binary of its own, no part of the relay"
		case within(inner, "store") && within(s.dir, "tools/bench"):
			return "" // it writes the tables, and reads them to bound the work
		case s.dir == "." && inner != "command" && !s.test:
			return "main is a doormat"
		case inner == "command" && within(s.dir, "node"):
			return "command stands above node"
		case (inner == "command" || within(inner, "node")) && s.dir != "." && !within(s.dir, "command") &&
			!within(s.dir, "node") &&
			!within(s.dir, "test/e2e"):
			return "main, command and node stand above everything else"
		case inner == "api/wire": // the JSON of the API, for those who write and read it
			return ""
		case inner == "command/cli" && !within(s.dir, "command") && !within(s.dir, "features") && !within(s.dir, "test"):
			return "subcommands are of package command and of features"
		case within(s.dir, "features") && !s.test && layerFault(s.dir, inner) != "":
			return layerFault(s.dir, inner)
		case inner == "dashboard" && s.dir == "api" && s.test: // the pages of the whole API
			return ""
		case within(s.dir, "dashboard/ui") && within(inner, "dashboard") && !s.test,
			within(s.dir, "dashboard") && s.dir != "dashboard" && within(inner, "dashboard") &&
				inner != "dashboard/ui" && inner != "dashboard/model":
			return "areas of pages know package ui and not each other"
		case s.dir == "api/frame" && within(inner, "api") && inner != s.dir,
			within(s.dir, "api") && s.dir != "api" && within(inner, "api") && inner != s.dir &&
				inner != "api/frame" && inner != "api/feed":
			return "areas of the API know the frame and not each other"
		case within(s.dir, "dashboard") && !within(inner, "dashboard") && !within(inner, "pkg"):
			return "pages call the API through an interface, as a person"
		case within(s.dir, "pkg") && !within(inner, "pkg"):
			return "pkg imports pkg only"
		case within(s.dir, "pkg/secrets") && within(inner, "pkg/config"):
			return "it recognises texts; it needs no configuration and no Kafka"
		case s.dir == "dispatcher/lane" && !within(inner, "pkg"):
			return "a lane knows no stage, the dispatcher neither: it decides, and the dispatcher carries out"
		case inner == "dispatcher/lane" && !within(s.dir, "dispatcher"):
			return "lanes are the dispatcher's alone"
		case (within(s.dir, "test/kit") || within(s.dir, "test/conformance")) && !within(inner, "pkg"):
			return "it knows the relay from outside"
		}
		for _, stage := range stages {
			switch {
			case !within(inner, stage):
			case !within(s.dir, "command") && !within(s.dir, "node") && !within(s.dir, "features") &&
				!within(s.dir, "test/e2e") && !within(s.dir, stage) &&
				!within(s.dir, "tools") && !within(s.dir, "test") && s.dir != "test/storetest":
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

// layerFault returns why a package of a feature may not import one of the core. Packages of a feature are layers as
// those of the core are: its root joins them and may import anything.
func layerFault(dir, inner string) string {
	_, layer, sub := strings.Cut(strings.TrimPrefix(dir, "features/"), "/")
	var mayImport []string
	switch {
	case !sub || within(inner, "pkg"):
		return ""
	case layer == "pages":
		mayImport = []string{"dashboard/ui", "dashboard/model"}
	case layer == "routes":
		mayImport = []string{"api/frame"}
	case layer == "findings":
		mayImport = []string{"store"}
	}
	if !slices.ContainsFunc(mayImport, func(room string) bool { return within(inner, room) }) {
		return "a layer of a feature knows pkg and what its layer stands on; its root connects it with others"
	}
	return ""
}

// featureOf returns the feature that a folder belongs to; "" for the folder of all.
func featureOf(dir string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, "features"), "/"), "/")
	return name
}

// The relay holds nothing that only the benchmark needs, by whatever way it would come in.
func TestRelayHoldsNoBenchmark(t *testing.T) {
	out := must.Get(exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output())(t)
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		foreign := within(pkg, module+"/tools/bench")
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
		if s.test || s.dir == "test/sim" { // which sleeps on fake time
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
		text := must.Get(os.ReadFile(name))(t)
		return string(text)
	}
	parts := regexp.MustCompile(`(?m)^\t"\S+ \./(\S+) (\S+)"$`).FindAllStringSubmatch(read("test/torture.sh"), -1)
	if len(parts) < 10 {
		t.Fatalf("test/torture.sh has %d parts: this test looks for the wrong text", len(parts))
	}
	for _, part := range parts {
		for word := range strings.SplitSeq(part[2], "|") {
			if !slices.ContainsFunc(tests[part[1]], regexp.MustCompile(word).MatchString) {
				t.Errorf("make torture runs %s in %s, which has no such test", word, part[1])
			}
		}
	}
	lists := regexp.MustCompile(`(?m)^(?:contained|whole)='\^Test\(?(.*?)\)?\$'$`).FindAllStringSubmatch(
		read("test/run.sh"), -1)
	must.Equal(t, len(lists), 2, "test/run.sh has … lines that name tests: this test looks for the wrong text")
	var words []string
	for _, list := range lists {
		words = append(words, strings.Split(list[1], "|")...)
	}
	for line := range strings.Lines(read("test/norace.txt")) {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.TrimSpace(line))
		}
	}
	all := slices.Concat(slices.Collect(maps.Values(tests))...)
	for _, word := range words {
		if word == "" || !slices.ContainsFunc(all, regexp.MustCompile("^Test("+word+")$").MatchString) {
			t.Errorf("test/run.sh or test/norace.txt names %q, and no test is called so", word)
		}
	}
}

// Packages that make test never runs under the race detector start no goroutine, and neither do their tests.
func TestPackagesWithoutRaceDetectorStartNoGoroutine(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^pure\+?='(.*)'$`).FindAllStringSubmatch(text(t, "test/run.sh"), -1)
	var expression strings.Builder
	for _, line := range lines {
		expression.WriteString(line[1])
	}
	pure := regexp.MustCompile(expression.String())
	// These start goroutines that share nothing, or wait for programs and engines.
	known := []string{"pkg/sign", "pkg/web", "store/schema", "test/rules", "test/suite"}
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
				t.Errorf("%s: starts a goroutine, in a package that test/run.sh tests without the race detector",
					s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if len(seen) < 15 {
		t.Errorf("test/run.sh names %d packages: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

var update = flag.Bool("update", false, "write the table of providers in docs/start/providers.md")

// The tables of schemes in docs/start/providers.md are complete. The one of further providers is made from their rows.
func TestDocumentsHaveTheTables(t *testing.T) {
	const page, head = "docs/start/providers.md", "| type | provider | signature | what is signed |\n|---|---|---|---|\n"
	document := text(t, page)
	_, table, _ := strings.Cut(document, "How providers sign, by the `type` of `verification`:\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \|`).FindAllStringSubmatch(table, -1) {
		if m[1] != "type" {
			rows = append(rows, m[1])
		}
	}
	if !slices.Equal(rows, verify.Types()) && !*update {
		t.Errorf("the tables of schemes in %s have %v, want %v", page, rows, verify.Types())
	}
	types, want := verify.Types(), ""
	for _, name := range types[slices.Index(types, verify.HMAC)+1:] {
		want += providerRow(verify.ByName(name))
	}
	before, rest, _ := strings.Cut(document, head)
	got, after, _ := strings.Cut(rest, "\n\n")
	switch {
	case got+"\n" == want:
	case *update:
		must.Do(t, os.WriteFile(page, []byte(before+head+want+"\n"+after), 0o644))
	default:
		t.Errorf("the table of further providers in %s is old: go test ./test/rules -run Tables -update", page)
	}
}

// providerRow is the row of a provider in the documents.
func providerRow(s *verify.Scheme) string {
	x := s.Signature
	if x.Like != "" {
		x = verify.ByName(x.Like).Signature
	}
	signature := map[string]string{"": "HMAC-SHA256", "sha1": "HMAC-SHA1", "token": "the secret itself",
		"basic":   "user and password",
		"ed25519": "Ed25519", "ecdsa": "ECDSA"}[x.Algorithm]
	if x.Certificate != "" {
		signature = "RSA, by certificate"
	}
	signed := "`" + cmp.Or(x.Content, "{body}") + "`"
	switch {
	case s.Signature.Like == verify.StandardWebhooks:
		signed = "as `standard_webhooks`"
	case x.Algorithm == "token" || x.Algorithm == "basic":
		signed = "nothing"
	case strings.Contains(x.Content, "{line:"), len(x.Content) > 200:
		signed = "fields of the body"
	}
	if !x.Ageless && (x.TimestampAt != "" || strings.Contains(x.Content, "{timestamp")) {
		signed += "; age"
	}
	return fmt.Sprintf("| %s | [%s](%s) | `%s`: %s | %s |\n", s.Name, s.Title, s.Docs, x.At, signature,
		strings.ReplaceAll(signed, "|", "\\|"))
}

// text is a file of the project.
func text(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(name))(t)
	return string(b)
}
