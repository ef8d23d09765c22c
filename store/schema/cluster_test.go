package schema

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/eventrelay/relay/test/must"
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

// TestChecksumIsOfStatements: comments are not part of a step's checksum, so they may change.
func TestChecksumIsOfStatements(t *testing.T) {
	sum := func(text string) string {
		steps := must.Get(readSteps(fstest.MapFS{"baseline/a.sql": {Data: []byte(text)}}))(t)
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
