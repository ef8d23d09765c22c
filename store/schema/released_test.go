package schema

import (
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestReleasedStepsDoNotChange: a released step must not change. Databases that ran it refuse the changed one and lack
// the change.
func TestReleasedStepsDoNotChange(t *testing.T) {
	steps := must.Get(readSteps(files))(t)
	var now strings.Builder
	for i, s := range steps {
		if int(s.number) != i+1 {
			t.Errorf("%s is step %d", s.name, i+1)
		}
		now.WriteString(s.name + ":" + s.checksum + "\n")
	}
	kit.Freeze(t, "steps.txt", func() []byte { return []byte(now.String()) })
	for version, text := range kit.Released(t, "steps.txt") {
		if !strings.HasPrefix(now.String(), string(text)) {
			t.Errorf("the steps\n%sdiffer from those of %s:\n%srestore them, and put the change into a new file of migrations",
				now.String(), version, text)
		}
	}
}

// TestReleasedTablesAreMade: an empty server still gets each statement that a release has run.
func TestReleasedTablesAreMade(t *testing.T) {
	statements := must.Get(DDL(Config{URL: "http://localhost:8123/relay", RetentionDays: 30, SearchIndex: true}))(t)
	now := map[string]bool{}
	for _, s := range statements {
		now[s] = true
	}
	const end = ";\n\n"
	kit.Freeze(t, "schema.sql", func() []byte { return []byte(strings.Join(statements, end) + end) })
	for version, text := range kit.Released(t, "schema.sql") {
		for s := range strings.SplitSeq(strings.TrimSuffix(string(text), end), end) {
			if !now[s] {
				t.Errorf("%s has run this statement, and this version would not:\n%s", version, s)
			}
		}
	}
}

// destructive matches statements that take away what nodes of the previous version read or write.
var destructive = regexp.MustCompile(`(?i)\b(DROP|RENAME|TRUNCATE|DELETE|CLEAR|EXCHANGE)\b`)

// TestMigrationsOnlyAdd: nodes of the previous version go on while a migration has run. What only they need is removed
// in a file .final.sql.
func TestMigrationsOnlyAdd(t *testing.T) {
	steps := must.Get(readSteps(files))(t)
	for _, s := range steps {
		for _, statement := range s.statements {
			if s.number > baselineNumber && !s.final && destructive.MatchString(statement) {
				t.Errorf("%s takes something away: put it into a file .final.sql\n%s", s.name, statement)
			}
		}
	}
	added, removed := steps[1].statements[0], "ALTER TABLE {db}.events DROP COLUMN type"
	if !destructive.MatchString(removed) || destructive.MatchString(added) {
		t.Error("the pattern does not tell a removed column from an added one")
	}
}
