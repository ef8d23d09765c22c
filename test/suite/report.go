package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// testEvent is a line of go test -json: see `go doc test2json` and `go help buildjson`.
type testEvent struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds
}

// reporter prints the output of failed tests, the reasons of skipped ones, and one line for each package.
type reporter struct {
	step    string
	out     io.Writer
	records io.Writer
	figures io.Writer                  // gets the last thing that each passing test logged: its figures; nil = none
	running map[string]*runningPackage // by import path
}

// runningPackage is what a package has printed and not yet got a result for.
type runningPackage struct {
	tests   map[string]*runningTest // by name; "" has what the package prints outside of tests
	order   []string                // names in the order in which they began
	passed  int
	skipped []string // with the reasons
}

type runningTest struct {
	result string // "" while it runs
	output strings.Builder
}

// reportRun copies a run from in to out, readably, and appends its tests to the file of records. figures is a file for
// what passing tests log at their end; "" = none.
func reportRun(step, records, figures string, in io.Reader, out io.Writer) error {
	file, err := os.OpenFile(records, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // each line was written at once
	r := &reporter{step: step, out: out, records: file, running: map[string]*runningPackage{}}
	if figures != "" {
		file, err := os.Create(figures)
		if err != nil {
			return err
		}
		defer file.Close()
		r.figures = file
	}
	return r.copy(in)
}

func (r *reporter) copy(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e testEvent
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			fmt.Fprint(r.out, line) // go test prints some errors as text
		case e.Action == "build-output":
			fmt.Fprint(r.out, e.Output)
		case e.Package != "":
			if err := r.apply(e); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// apply adds one event to what is known of its package.
func (r *reporter) apply(e testEvent) error {
	p := r.running[e.Package]
	if p == nil {
		p = &runningPackage{tests: map[string]*runningTest{}}
		r.running[e.Package] = p
	}
	if strings.Contains(e.Output, "ThreadSanitizer: CHECK failed") {
		e.Test = "" // go test ascribes it to the last test, which may have passed: its output is not printed
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &runningTest{}
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "output":
		if !isProgress(e.Output) {
			t.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		t.result = e.Action
		if e.Test == "" {
			return r.endPackage(e, p)
		}
		return r.endTest(e, p, t)
	}
	return nil
}

// isProgress reports whether a line says only that a test begins or ends, or how a package ended.
func isProgress(line string) bool {
	line = strings.TrimLeft(line, " ")
	for _, prefix := range []string{
		"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "PASS\n", "FAIL\n", "FAIL\t", "ok  \t",
	} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

func (r *reporter) endTest(e testEvent, p *runningPackage, t *runningTest) error {
	if text := lastLog(t.output.String()); e.Action == "pass" && r.figures != nil && text != "" {
		if _, err := fmt.Fprintf(r.figures, "%s: %s\n", strings.TrimPrefix(e.Test, "Test"), text); err != nil {
			return err
		}
	}
	if e.Action == "skip" {
		p.skipped = append(p.skipped, e.Test+": "+lastLog(t.output.String()))
	}
	if e.Action != "fail" {
		t.output.Reset()
	}
	if strings.Contains(e.Test, "/") {
		return nil
	}
	if e.Action == "pass" {
		p.passed++
	}
	if e.Action == "fail" {
		p.printFailed(r.out, func(name string) bool { return name == e.Test || strings.HasPrefix(name, e.Test+"/") })
	}
	_, err := fmt.Fprintf(r.records, "%.2f\t%s\t%s\t%s\t%s\n", e.Elapsed, e.Action, e.Package, e.Test, r.step)
	return err
}

var (
	logLine  = regexp.MustCompile(`^ +[\w.-]+\.go:\d+: (.*)`)
	seedLine = regexp.MustCompile(`^RELAY_SEED=\d+(?:: |$)`)
)

// lastLog is the last line that a test gave to Log or Skip, without its place and its seed.
func lastLog(output string) (text string) {
	for line := range strings.Lines(output) {
		if m := logLine.FindStringSubmatch(line); m != nil {
			text = seedLine.ReplaceAllString(m[1], "")
		}
	}
	return text
}

// printFailed prints what the selected tests have printed, if they failed or did not end.
func (p *runningPackage) printFailed(out io.Writer, selected func(test string) bool) {
	for _, name := range p.order {
		if t := p.tests[name]; selected(name) && (t.result == "fail" || t.result == "") {
			fmt.Fprint(out, t.output.String())
			t.output.Reset()
		}
	}
}

func (r *reporter) endPackage(e testEvent, p *runningPackage) error {
	delete(r.running, e.Package)
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	switch {
	case e.Action == "fail":
		p.printFailed(r.out, func(string) bool { return true }) // also the tests that a panic or the timeout ended
		fmt.Fprintf(r.out, "FAIL %s %v\n", e.Package, took)
	case p.passed+len(p.skipped) > 0:
		fmt.Fprintf(r.out, "ok   %s %v, %d tests\n", e.Package, took, p.passed)
		for _, skipped := range p.skipped {
			fmt.Fprintf(r.out, "     skipped %s\n", skipped)
		}
	}
	return nil
}
