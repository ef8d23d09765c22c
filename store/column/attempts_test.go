package column

import (
	"os"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// TestAttemptColumnsMatchSchema: the table attempts has exactly the columns that are written and read, with these
// types.
func TestAttemptColumnsMatchSchema(t *testing.T) {
	schema := must.Get(os.ReadFile("../schema/testdata/cluster.sql"))(t)
	table := regexp.MustCompile(`(?s)CREATE TABLE IF NOT EXISTS relay\.attempts ON CLUSTER 'relay' \((.*?)\) ENGINE`).
		FindSubmatch(schema)
	if table == nil {
		t.Fatal("the schema has no table attempts")
	}
	text := regexp.MustCompile(`(?s)CODEC\((?:[^()]|\([^()]*\))*\)|INDEX .*`).ReplaceAllString(string(table[1]), "")
	for _, m := range regexp.MustCompile(`ALTER TABLE relay\.attempts ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS `+
		`([^;]*?)(?: AFTER \w+)?;`).
		FindAllSubmatch(schema, -1) {
		text += ", " + string(m[1])
	}
	depth := 0
	text = strings.Map(func(r rune) rune { // commas inside a type do not separate columns
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return '\n'
			}
		case '\n':
			return ' '
		}
		return r
	}, text)
	want := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, kind, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			want[name] = strings.TrimSpace(kind)
		}
	}
	got := map[string]string{}
	for _, c := range AttemptColumns(func(o *event.Outcome) *event.Outcome { return o }) {
		got[string(c.Name)] = strings.ReplaceAll(c.Type, ", ", ",")
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-), AttemptColumns (+):\n%s", diff)
	}
}
