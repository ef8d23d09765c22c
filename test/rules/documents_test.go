package rules

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/eventrelay/relay/test/must"
)

// document is one Markdown file of the project.
type document struct {
	name, text string
	blocks     []string // lines of fenced code blocks
	spans      []string // code in backticks, outside of the blocks
	prose      string   // the text without the blocks
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```[ \\t]*$")
	codeSpan = regexp.MustCompile("``([^`].*?)``|`([^`]+)`")
)

// documents are all Markdown files of the project, with what a check needs of each.
func documents(t *testing.T) (all []document) {
	t.Helper()
	must.Do(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"node_modules", "testdata", "bin", "dist"}, d.Name())) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			all = append(all, newDocument(filepath.ToSlash(name), text(t, name)))
		}
		return nil
	}))
	for _, name := range []string{"README.md", "DESIGN.md", "CHANGELOG.md", "docs/design/log.md", "sdk/README.md"} {
		if !slices.ContainsFunc(all, func(d document) bool { return d.name == name }) {
			t.Fatalf("%s is missing: this test looks in the wrong place", name)
		}
	}
	return all
}

func newDocument(name, text string) document {
	d := document{name: name, text: text, prose: fence.ReplaceAllString(text, "")}
	for _, block := range fence.FindAllString(text, -1) {
		lines := strings.Split(block, "\n")
		d.blocks = append(d.blocks, lines[1:len(lines)-1]...)
	}
	for _, m := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
		d.spans = append(d.spans, strings.Join(strings.Fields(m[1]+m[2]), " "))
	}
	return d
}

// isHistory reports whether a document tells of what is no more: its names may be old, its links may not.
func (d document) isHistory() bool {
	return d.name == "CHANGELOG.md" || strings.HasPrefix(d.name, "docs/releases/")
}

// code is what the documents may name.
type code struct {
	files        map[string]bool            // by path, and by base name
	declared     map[string]map[string]bool // names by file
	packages     map[string][]string        // directories by the name of their package
	tests        map[string][]string        // tests, benchmarks and fuzz targets by directory
	tortureOnly  map[string]bool            // tests that are skipped unless RELAY_TORTURE is set
	literals     map[string]map[string]bool // texts of production code by directory
	flags        map[string]bool
	environment  map[string]bool
	makeTargets  map[string]bool
	relayCommand map[string]string // directories by subcommand
}

var (
	testName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)[A-Z0-9]`)
	// definesFlag are the methods of a flag set.
	definesFlag = regexp.MustCompile(`^(?:String|Bool|Int|Int64|Uint|Float64|Duration|Text|Func|BoolFunc|Var)(?:Var)?$`)
	// toolFlag is an option in the text of a JavaScript program.
	toolFlag     = regexp.MustCompile(`'--([a-z]+(?:-[a-z]+)*)'`)
	variableName = regexp.MustCompile(`\bRELAY_[A-Z0-9]+(?:_[A-Z0-9]+)*\b`)
)

// readCode collects the names of the module's Go files, Makefile and scripts.
func readCode(t *testing.T) *code {
	t.Helper()
	c := &code{
		files: map[string]bool{}, declared: declarations(t), packages: map[string][]string{}, tests: map[string][]string{},
		tortureOnly: map[string]bool{},
		literals:    map[string]map[string]bool{}, flags: map[string]bool{"help": true}, environment: map[string]bool{},
		makeTargets: map[string]bool{}, relayCommand: map[string]string{"help": "command"},
	}
	for _, s := range sources(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if !slices.Contains(c.packages[name], s.dir) {
			c.packages[name] = append(c.packages[name], s.dir)
		}
		c.readFile(s)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][\w-]*):`).FindAllStringSubmatch(text(t, "Makefile"), -1) {
		c.makeTargets[m[1]] = true
	}
	commands := regexp.MustCompile("(?m)^\t\t\\{Name: \"([a-z]+)\", |^\tName: \"([a-z]+)\", After: ")
	for _, file := range append(must.Get(filepath.Glob("features/*/command.go"))(t), "command/run.go") {
		for _, m := range commands.FindAllStringSubmatch(text(t, file), -1) {
			c.relayCommand[m[1]+m[2]] = filepath.Dir(file)
		}
	}
	if len(c.makeTargets) < 5 || len(c.relayCommand) < 5 || len(c.flags) < 30 {
		t.Fatalf("%d targets, %d subcommands, %d flags: this test looks for the wrong text",
			len(c.makeTargets), len(c.relayCommand), len(c.flags))
	}
	must.Do(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "node_modules", "bin", "dist"}, d.Name()) {
			return fs.SkipDir
		}
		c.files[filepath.ToSlash(name)], c.files[d.Name()] = true, true
		if slices.Contains([]string{".sh", ".mjs"}, filepath.Ext(name)) || d.Name() == "Makefile" {
			for _, variable := range variableName.FindAllString(text(t, name), -1) {
				c.environment[variable] = true
			}
			for _, flag := range toolFlag.FindAllStringSubmatch(text(t, name), -1) {
				c.flags[flag[1]] = true
			}
		}
		return nil
	}))
	return c
}

// readFile adds the tests, texts, flags and variables of one Go file.
func (c *code) readFile(s source) {
	if c.literals[s.dir] == nil {
		c.literals[s.dir] = map[string]bool{}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if s.test && n.Recv == nil && testName.MatchString(n.Name.Name) {
				c.tests[s.dir] = append(c.tests[s.dir], n.Name.Name)
				c.tortureOnly[n.Name.Name] = c.tortureOnly[n.Name.Name] || waitsForTorture(n)
			}
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && definesFlag.MatchString(method.Sel.Name) {
				c.addFlag(n.Args)
			}
		case *ast.CompositeLit:
			if typeName, ok := n.Type.(*ast.SelectorExpr); ok && typeName.Sel.Name == "Toggle" {
				c.addFlag([]ast.Expr{n.Elts[0].(*ast.KeyValueExpr).Value}) // the name comes first
			}
		case *ast.ValueSpec:
			if strings.HasSuffix(n.Names[0].Name, "Flag") {
				c.addFlag(n.Values)
			}
		case *ast.Field:
			c.readTag(n)
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				if !s.test {
					c.literals[s.dir][value] = true
				}
				for _, variable := range variableName.FindAllString(value, -1) {
					c.environment[variable] = c.environment[variable] || value == variable || value == variable+"="
				}
			}
		}
		return true
	})
}

// waitsForTorture reports whether a test skips itself, not only a subtest, and says that RELAY_TORTURE runs it.
func waitsForTorture(f *ast.FuncDecl) (waits bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if _, inside := n.(*ast.FuncLit); inside {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			text, isText := call.Args[0].(*ast.BasicLit)
			waits = waits || isMethod && isText && strings.HasPrefix(method.Sel.Name, "Skip") &&
				strings.Contains(text.Value, "RELAY_TORTURE")
		}
		return true
	})
	return waits
}

// addFlag adds the first text among the arguments of a flag's definition: its name.
func (c *code) addFlag(args []ast.Expr) {
	for _, arg := range args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, err := strconv.Unquote(lit.Value)
			c.flags[name] = c.flags[name] || err == nil
			return
		}
	}
}

// readTag takes the flag of a setting, and the environment variables that stand for it.
func (c *code) readTag(field *ast.Field) {
	if field.Tag == nil {
		return
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if name := reflect.StructTag(tag).Get("flag"); err == nil && name != "" {
		variable := "RELAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		c.flags[name], c.environment[variable], c.environment[variable+"_FILE"] = true, true, true
	}
}

// declarations are the names of functions, types, constants and variables by file.
func declarations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	declared := map[string]map[string]bool{}
	for _, s := range sources(t) {
		names := map[string]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
		declared[filepath.ToSlash(s.path)] = names
	}
	return declared
}

// Whatever a document names exists: a link's file and heading, a path, a test, a declaration, a command, a flag, a
// variable and a metric.
func TestDocumentsNameWhatExists(t *testing.T) {
	c := readCode(t)
	all := documents(t)
	anchors := map[string]map[string]bool{}
	for _, d := range all {
		anchors[d.name] = headings(d.prose)
	}
	for _, d := range all {
		d.checkLinks(t, anchors)
		if d.isHistory() {
			continue
		}
		d.checkPaths(t, c)
		d.checkTests(t, c)
		d.checkDeclarations(t, c)
		d.checkCommands(t, c)
		d.checkVariables(t, c)
	}
	rules := document{name: "deploy/prometheus/alerts.yml", text: text(t, "deploy/prometheus/alerts.yml")}
	for _, d := range append(all, rules) {
		d.checkMetrics(t, c)
	}
}

// headings are the anchors of a document, as GitHub makes them from its headings.
func headings(prose string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(m[1]))
		unique := anchor
		for n := 1; anchors[unique]; n++ {
			unique = anchor + "-" + strconv.Itoa(n)
		}
		anchors[unique] = true
	}
	return anchors
}

var link = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|(?m)^\[[^\]]+\]: +(\S+)|(?:href|src|srcset)="([^"]+)"`)

// checkLinks follows each link that is not to another site.
func (d document) checkLinks(t *testing.T, anchors map[string]map[string]bool) {
	prose := codeSpan.ReplaceAllString(d.prose, "code")
	for _, m := range link.FindAllStringSubmatch(prose, -1) {
		target := m[1] + m[2] + m[3]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, hasAnchor := strings.Cut(target, "#")
		name := d.name
		if file != "" {
			name = path.Join(path.Dir(d.name), file)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s links to %s: %v", d.name, target, err)
		} else if known, ok := anchors[name]; hasAnchor && ok && !known[anchor] {
			t.Errorf("%s links to %s, and %s has no such heading", d.name, target, name)
		}
	}
}

var (
	// A path begins with a folder of the project, or is the name of a file.
	pathName = regexp.MustCompile(`^[A-Za-z][\w@*-]*(?:[/.][\w@*-]+)+/?$`)
	fileName = regexp.MustCompile(`^[\w*-]+(?:\.[\w-]+)*\.(?:go|sh|mjs|sql|md)$`)
)

// checkPaths looks for each path in backticks: from the top, or beside the document.
func (d document) checkPaths(t *testing.T, c *code) {
	for _, span := range d.spans {
		first, _, inFolder := strings.Cut(span, "/")
		switch {
		case !pathName.MatchString(span), first == "bin":
			continue
		case inFolder && !c.files[first], !inFolder && !fileName.MatchString(span):
			continue
		}
		found := c.files[strings.TrimSuffix(span, "/")] || c.files[path.Join(path.Dir(d.name), span)]
		if strings.Contains(span, "*") {
			found = slices.ContainsFunc(slices.Collect(maps.Keys(c.files)), func(name string) bool {
				ok, err := path.Match(span, name)
				return ok && err == nil
			})
		}
		if info, err := os.Stat(first); inFolder && (err != nil || !info.IsDir()) {
			continue // not a folder at the top
		}
		if !found {
			t.Errorf("%s names %s, which does not exist", d.name, span)
		}
	}
}

// checkTests looks for each test, with its package if that is named. A name that ends with … stands for all that
// begin so.
func (d document) checkTests(t *testing.T, c *code) {
	named := regexp.MustCompile(`(?:\b([a-z]+)\.)?\b((?:Test|Fuzz|Benchmark)[A-Z0-9]\w*)(…)?`)
	for _, m := range named.FindAllStringSubmatch(strings.Join(append(d.spans, d.blocks...), "\n"), -1) {
		dirs := slices.Collect(maps.Keys(c.tests))
		if m[1] != "" {
			dirs = c.packages[m[1]]
		}
		if !slices.ContainsFunc(dirs, func(dir string) bool {
			return slices.ContainsFunc(c.tests[dir], func(name string) bool {
				return name == m[2] || m[3] != "" && strings.HasPrefix(name, m[2])
			})
		}) {
			t.Errorf("%s names the test %s, which does not exist", d.name, m[0])
		}
	}
}

// docs/operate/security.md says of each fuzz target what it reads.
func TestFuzzTargetsAreDocumented(t *testing.T) {
	c := readCode(t)
	_, table, _ := strings.Cut(text(t, "docs/operate/security.md"), "\n## What strangers can make it read\n")
	table, _, ended := strings.Cut(table, "\n## ")
	if !ended {
		t.Fatal("docs/operate/security.md has no table of parsers: this test looks for the wrong text")
	}
	for name, dirs := range c.packages {
		for _, dir := range dirs {
			for _, target := range c.tests[dir] {
				if strings.HasPrefix(target, "Fuzz") && !strings.Contains(table, "`"+name+"."+target+"`") {
					t.Errorf("docs/operate/security.md does not say what %s.%s in %s reads", name, target, dir)
				}
			}
		}
	}
}

// The test of an invariant is not among those that wait for make torture.
func TestInvariantsAreTestedInEveryRun(t *testing.T) {
	c := readCode(t)
	if !c.tortureOnly["TestMinuteOfTraffic"] {
		t.Fatal("TestMinuteOfTraffic does not wait for make torture: this test looks for the wrong text")
	}
	rows := regexp.MustCompile(`(?m)^\| invariant \| test \|\n((?:\|.*\n)+)`)
	tables := 0
	for _, d := range documents(t) {
		for _, table := range rows.FindAllStringSubmatch(d.text, -1) {
			tables++
			for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z0-9]\w*`).FindAllString(table[1], -1) {
				if c.tortureOnly[name] {
					t.Errorf("%s names %s for an invariant, which only make torture runs", d.name, name)
				}
			}
		}
	}
	if tables < 10 {
		t.Errorf("%d tables of invariants: this test looks for the wrong text", tables)
	}
}

// placesInFile are names and the file that has them: `a`, `b` and `c` in `file.go`.
var placesInFile = regexp.MustCompile("((?:`\\w+`(?:,|,?\\s+and)\\s+)*`\\w+`)\\s+in\\s+`([\\w./-]+\\.go)`")

// errorName is a span that names an error of some package.
var errorName = regexp.MustCompile(`^Err[A-Z]\w*$`)

// checkDeclarations looks for `package.Name`, for an error, and for `name` in `file.go`.
func (d document) checkDeclarations(t *testing.T, c *code) {
	for _, m := range placesInFile.FindAllStringSubmatch(d.prose, -1) {
		for _, name := range codeSpan.FindAllStringSubmatch(m[1], -1) {
			if !c.declared[m[2]][name[2]] {
				t.Errorf("%s: %s declares no %s", d.name, m[2], name[2])
			}
		}
	}
	qualified := regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)`)
	for _, span := range d.spans {
		if errorName.MatchString(span) && !c.declares(span) {
			t.Errorf("%s names %s, which does not exist", d.name, span)
		}
		m := qualified.FindStringSubmatch(span)
		if m == nil || len(c.packages[m[1]]) == 0 || testName.MatchString(m[2]) {
			continue
		}
		found := false
		for file, names := range c.declared {
			found = found || slices.Contains(c.packages[m[1]], path.Dir(file)) && names[m[2]]
		}
		if !found {
			t.Errorf("%s names %s, which does not exist", d.name, span)
		}
	}
}

// declares reports whether any file declares the name.
func (c *code) declares(name string) bool {
	for _, names := range c.declared {
		if names[name] {
			return true
		}
	}
	return false
}

var (
	makeCommand  = regexp.MustCompile(`(?:^|[;&|(] *|\bsudo )make ((?:[a-z][a-z-]* ?)+)`)
	relayCommand = regexp.MustCompile(
		`(?:^|[;&|($] *|/|\bexec (?:relay )?|[A-Z]=\S* )relay ([a-z][a-z-]*(?:\|[a-z]+)*)(?: ([a-z][a-z|]+)\b)?`)
	flagOf     = regexp.MustCompile(`(?:^|[\s\[(|])--([a-z][a-z0-9-]*)`)
	takesFlags = regexp.MustCompile(`^--|\b(?:relay|relay-bench)\s`)
)

// checkCommands looks for the targets of make, the subcommands of relay and their flags.
func (d document) checkCommands(t *testing.T, c *code) {
	for _, line := range append(slices.Clone(d.spans), d.blocks...) {
		line = strings.TrimSpace(line)
		for _, m := range makeCommand.FindAllStringSubmatch(line, -1) {
			for _, target := range strings.Fields(m[1]) {
				if !c.makeTargets[target] {
					t.Errorf("%s: %q: the Makefile has no %s", d.name, line, target)
				}
			}
		}
		for _, m := range relayCommand.FindAllStringSubmatch(line, -1) {
			for name := range strings.SplitSeq(m[1], "|") {
				if c.relayCommand[name] == "" {
					t.Errorf("%s: %q: relay has no subcommand %s", d.name, line, name)
				}
			}
			for verb := range strings.SplitSeq(m[2], "|") {
				if verb != "" && !c.literals["command"][verb] && !c.literals[c.relayCommand[m[1]]][verb] {
					t.Errorf("%s: %q: no command has the verb %s", d.name, line, verb)
				}
			}
		}
		if !takesFlags.MatchString(line) {
			continue
		}
		for _, m := range flagOf.FindAllStringSubmatch(line, -1) {
			if !c.flags[m[1]] {
				t.Errorf("%s: %q: no command has the flag --%s", d.name, line, m[1])
			}
		}
	}
}

// checkVariables looks for each RELAY_… variable: one of the settings, or one that code, Makefile or scripts read.
func (d document) checkVariables(t *testing.T, c *code) {
	for _, variable := range variableName.FindAllString(d.text, -1) {
		if !c.environment[variable] {
			t.Errorf("%s names %s, which nothing reads", d.name, variable)
		}
	}
}

var (
	metricName   = regexp.MustCompile(`\brelay_[a-z0-9_]+`)
	seriesSuffix = regexp.MustCompile(`_(?:bucket|sum|count)$`) // of a histogram
	// In the table of renamed metrics the first column has the old names.
	renamedMetric = regexp.MustCompile("(?m)^\\| `(relay_[a-z0-9_]+)[^`]*` (\\|.*)$")
)

// checkMetrics looks for each metric. One that ends with _ stands for all that begin so.
func (d document) checkMetrics(t *testing.T, c *code) {
	content, old := d.text, map[string]bool{}
	if d.isHistory() {
		for _, m := range renamedMetric.FindAllStringSubmatch(content, -1) {
			old[m[1]] = true
		}
		content = renamedMetric.ReplaceAllString(content, "$2")
	}
	for _, name := range metricName.FindAllString(content, -1) {
		if !old[name] && !c.hasMetric(name) && !c.hasMetric(seriesSuffix.ReplaceAllString(name, "")) {
			t.Errorf("%s names the metric %s, which does not exist", d.name, name)
		}
	}
}

// hasMetric reports whether code has the name as one text, or as two of one package: relay_dispatch_ and sending.
func (c *code) hasMetric(name string) bool {
	for _, texts := range c.literals {
		for text := range texts {
			rest, ok := strings.CutPrefix(name, text)
			switch {
			case text == name, strings.HasSuffix(name, "_") && strings.HasPrefix(text, name):
				return true
			case ok && strings.HasPrefix(text, "relay_") && strings.HasSuffix(text, "_") && texts[rest]:
				return true
			}
		}
	}
	return false
}

// docs/operate/commands.md names each subcommand of the program in its table.
func TestCommandsNameEverySubcommand(t *testing.T) {
	section, _, ok := strings.Cut(text(t, "docs/operate/commands.md"), "\n```")
	if !ok {
		t.Fatal("docs/operate/commands.md has no commands: this test looks for the wrong text")
	}
	for name := range readCode(t).relayCommand {
		if name != "help" && !strings.Contains(section, "`relay "+name+"`") {
			t.Errorf("the table in docs/operate/commands.md has no `relay %s`", name)
		}
	}
}

// README.md and DESIGN.md are read in some minutes; README.md shows pictures; CONTRIBUTING.md fits some screens.
func TestFirstDocumentsAreShort(t *testing.T) {
	readme, contributing := text(t, "README.md"), text(t, "docs/CONTRIBUTING.md")
	if n, pictures := len(readme), strings.Count(readme, "<picture>"); n > 9000 || pictures < 2 {
		t.Errorf("README.md has %d bytes, at most 9000, and %d pictures, at least 2", n, pictures)
	}
	if n := len(text(t, "DESIGN.md")); n > 9000 {
		t.Errorf("DESIGN.md has %d bytes, at most 9000: move details to docs/design", n)
	}
	if n := strings.Count(contributing, "\n"); n > 100 {
		t.Errorf("docs/CONTRIBUTING.md has %d lines, at most 100", n)
	}
}

// README.md, or a document that it links, links each document below docs: nobody has to guess that one exists.
func TestEveryDocumentIsLinked(t *testing.T) {
	links := map[string][]string{}
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(d.prose, "code"), -1) {
			target, _, _ := strings.Cut(m[1]+m[2]+m[3], "#")
			links[d.name] = append(links[d.name], path.Join(path.Dir(d.name), target))
		}
	}
	linked := map[string]bool{}
	for _, near := range links["README.md"] {
		linked[near] = true
		for _, far := range links[near] {
			linked[far] = true
		}
	}
	for _, d := range documents(t) {
		if strings.HasPrefix(d.name, "docs/") && !linked[d.name] {
			t.Errorf("neither README.md nor a document that it links has a link to %s", d.name)
		}
	}
}

// Each feature that docs/guarantees.md lists has a test, which every run runs.
func TestFeaturesAreTested(t *testing.T) {
	c := readCode(t)
	_, section, _ := strings.Cut(text(t, "docs/guarantees.md"), "\n| feature | try it | shown by |\n|---|---|---|\n")
	table, _, _ := strings.Cut(section, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) < 10 {
		t.Fatalf("docs/guarantees.md lists %d features: this test looks for the wrong text", len(rows))
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*|[\\w/.-]+\\.test\\.mjs)`")
	for _, row := range rows {
		tests := named.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 {
			t.Errorf("docs/guarantees.md names no test of a feature: %s", row)
		}
		for _, m := range tests {
			if c.tortureOnly[m[1]] {
				t.Errorf("docs/guarantees.md shows a feature by %s, which only make torture runs", m[1])
			}
		}
	}
}
