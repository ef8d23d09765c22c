package schema

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestValidateCluster(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	f(validateClusterPosition("c", 2, 3, 3, 2), "")
	f(validateClusterPosition("c", 1, 1, 0, 0), "address 1 knows no cluster c")
	f(validateClusterPosition("c", 1, 1, 3, 1), "has 3 shards and RELAY_CLICKHOUSE_URL names 1")
	f(validateClusterPosition("c", 1, 3, 3, 2), "address 1 of RELAY_CLICKHOUSE_URL is shard 2")
	f(validateClusterPosition("c", 1, 3, 3, 0), "address 1 of RELAY_CLICKHOUSE_URL is shard 0")
	f(validateEngine("", ""), "")
	f(validateEngine("", "c"), "")
	f(validateEngine("ReplacingMergeTree", ""), "")
	f(validateEngine("ReplicatedReplacingMergeTree", "c"), "")
	f(validateEngine("ReplicatedReplacingMergeTree", ""), "name the cluster with --cluster")
	f(validateEngine("ReplacingMergeTree", "c"), "not replicated")
}

// TestMigrationsDoNotChange: a released migration must not change. Databases that ran it refuse the changed one and
// lack the change. testdata/released lists the steps of releases with their checksums; lines are only ever added.
func TestMigrationsDoNotChange(t *testing.T) {
	steps, err := readSteps(files)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/released")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if int(s.number) != i+1 {
			t.Errorf("%s is step %d", s.name, i+1)
		}
	}
	for i, line := range strings.Fields(string(text)) {
		if i >= len(steps) || line != steps[i].name+":"+steps[i].checksum {
			t.Errorf("%s differs from its release: restore it, and put the change into a new file", line)
		}
	}
}

// TestChecksumIsOfStatements: comments are not part of a step's checksum, so they may change.
func TestChecksumIsOfStatements(t *testing.T) {
	sum := func(text string) string {
		steps, err := readSteps(fstest.MapFS{"tables/a.sql": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		return steps[0].checksum
	}
	const table = "CREATE TABLE IF NOT EXISTS {db}.a (a String) ENGINE = MergeTree ORDER BY a;\n"
	if sum("-- One.\n"+table) != sum("-- Another;\n-- one.\n"+table) ||
		sum(table) == sum(strings.ReplaceAll(table, "String", "UInt8")) {
		t.Error("the checksum depends on comments, or not on statements")
	}
}

// TestRenderRefuses: a statement that cannot be rendered for a cluster is an error, not left out.
func TestRenderRefuses(t *testing.T) {
	for _, s := range []string{
		"OPTIMIZE TABLE {db}.events", "INSERT INTO {db}.a SELECT 1", "CREATE TABLE {db}.x (a String) ENGINE = MergeTree",
		"CREATE TABLE IF NOT EXISTS {db}.x (a String) ENGINE = Memory"} {
		if out, err := (target{"d", 30, "c"}).render(s); err == nil {
			t.Errorf("%s: rendered as %q, want an error", s, out)
		}
	}
}
