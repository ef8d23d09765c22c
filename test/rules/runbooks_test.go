package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The runbooks name checks of relay doctor and messages of the log as the code has them. TestDocumentsNameWhatExists
// looks for commands, flags, settings and metrics, and deploy/prometheus reads the queries.
func TestRunbooksQuoteTheCode(t *testing.T) {
	c := readCode(t)
	source := text(t, "features/doctor/doctor.go") + text(t, "features/ledger/feature.go")
	var checks []string
	name := regexp.MustCompile(`\{(?:Name: )?"([\w ]+)", (?:x\.|single\(|State: )`)
	for _, m := range name.FindAllStringSubmatch(source, -1) {
		checks = append(checks, m[1])
	}
	all := documents(t)
	runbooks := all[slices.IndexFunc(all, func(d document) bool { return d.name == "docs/operate/runbooks.md" })]
	named := 0
	for _, m := range regexp.MustCompile(`\*([a-z][a-z ]*)\*`).FindAllStringSubmatch(runbooks.prose, -1) {
		// Groups, and statuses of events, are in italics too.
		if slices.Contains(checks, m[1]) {
			named++
		} else if !slices.Contains([]string{"ticket", "page", "pending", "retrying", "dead"}, m[1]) {
			t.Errorf("docs/operate/runbooks.md names the check %q, relay doctor has %q", m[1], checks)
		}
	}
	message := regexp.MustCompile(`^[a-zA-Z]+(?:,? [a-zA-Z]+){2,}$`)
	quoted := 0
	for _, span := range runbooks.spans {
		if !message.MatchString(span) || strings.HasPrefix(span, "relay ") {
			continue
		}
		quoted++
		if !c.says(span) {
			t.Errorf("docs/operate/runbooks.md quotes %q, which no part of the program says", span)
		}
	}
	rules := must.Get(os.ReadFile("deploy/prometheus/alerts.yml"))(t)
	for _, d := range all {
		for _, alert := range regexp.MustCompile(`\bRelay[A-Z][A-Za-z]+\b`).FindAllString(d.prose, -1) {
			if !strings.Contains(string(rules), "alert: "+alert+"\n") && !d.isHistory() {
				t.Errorf("%s names the alert %s, which does not exist", d.name, alert)
			}
		}
	}
	if named < 15 || quoted < 10 {
		t.Fatalf("%d checks and %d messages: this test looks for the wrong text", named, quoted)
	}
}

// says reports whether a text of the program contains these words.
func (c *code) says(words string) bool {
	for _, literals := range c.literals {
		for text := range literals {
			if strings.Contains(text, words) {
				return true
			}
		}
	}
	return false
}
