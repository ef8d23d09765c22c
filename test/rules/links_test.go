package rules

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

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

// README.md is read in some minutes and shows what it is about; CONTRIBUTING.md fits some screens.
func TestFirstDocumentsAreShort(t *testing.T) {
	readme, contributing := text(t, "README.md"), text(t, "docs/CONTRIBUTING.md")
	if n, pictures := len(readme), strings.Count(readme, "<picture>"); n > 9000 || pictures < 2 {
		t.Errorf("README.md has %d bytes, at most 9000, and %d pictures, at least 2", n, pictures)
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
