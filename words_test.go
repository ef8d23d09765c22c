package main

import (
	"bytes"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
)

// invented are words that only this project would understand, with the field's words for what they meant. They are
// written apart here so that this file does not hold them.
var invented = []struct{ word, instead string }{
	{`gra` + `ves?\b`, "dead letter, tombstone"},
	{`\bbur` + `(?:y|ied|ying)\b`, "move to the dead letter topic"},
	{`epi` + `taph`, "the error of a dead letter"},
	{`her` + `ald`, "notifier"},
	{`(?:\b|[a-z])De` + `eds?\b|\bde` + `eds?\b`, "transition, message, action"},
	{`nomin` + `(?:ee|at)`, "candidate"},
	{`cro` + `wd`, "backlog, overloaded, too many parts"},
	{`court` + `es`, "what is meant"},
	{`jud` + `g`, "validate, evaluate, classify, decide"},
}

// sentences are the files that people read: code, SQL, documents, scripts.
var sentences = []string{
	".go", ".sql", ".md", ".sh", ".yaml", ".yml", ".mjs", ".cjs", ".js", ".ts", ".py", ".html", ".css",
}

// The words of the project are those of its field: DESIGN.md's glossary has the few that are its own.
func TestNoInventedWords(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		kit.SkipMissing(t, "the list of files needs Git: %v", err)
	}
	patterns := make([]*regexp.Regexp, len(invented))
	for i, w := range invented {
		if patterns[i] = regexp.MustCompile(`(?i)` + w.word); strings.Contains(w.word, "[a-z]") {
			patterns[i] = regexp.MustCompile(w.word)
		}
	}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !slices.Contains(sentences, filepath.Ext(path)) && filepath.Base(path) != "Makefile" ||
			strings.HasPrefix(path, "released/") || (document{name: path}).isHistory() { // what is released, names of before
			continue
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // it is deleted, and that not committed yet
		} else if err != nil {
			t.Fatal(err)
		}
		for i, w := range invented {
			for _, at := range patterns[i].FindAllIndex(content, -1) {
				t.Errorf("%s:%d: %q; say %s", path, 1+bytes.Count(content[:at[0]], []byte("\n")), content[at[0]:at[1]], w.instead)
			}
		}
	}
}

// meaningless are names of functions that say nothing of what is done to what. A method may have one of the words in a
// longer name.
var meaningless = []string{"look", "note", "tell", "told", "rest"}

// A function's name says what it does, without the code around it.
func TestFunctionNamesSayWhatTheyDo(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && slices.Contains(meaningless, f.Name.Name) {
				t.Errorf("%s: func %s: name what it does to what", s.fset.Position(f.Pos()), f.Name.Name)
			}
		}
	}
}
