package store

import (
	"strings"
	"testing"
)

func TestFitsCluster(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	f(fitsCluster("c", 2, 3, 3, 2), "")
	f(fitsCluster("c", 1, 1, 0, 0), "address 1 knows no cluster c")
	f(fitsCluster("c", 1, 1, 3, 1), "has 3 shards and RELAY_CLICKHOUSE_URL names 1")
	f(fitsCluster("c", 1, 3, 3, 2), "address 1 of RELAY_CLICKHOUSE_URL is shard 2")
	f(fitsCluster("c", 1, 3, 3, 0), "address 1 of RELAY_CLICKHOUSE_URL is shard 0")
	f(fitsEngine("", ""), "")
	f(fitsEngine("", "c"), "")
	f(fitsEngine("ReplacingMergeTree", ""), "")
	f(fitsEngine("ReplicatedReplacingMergeTree", "c"), "")
	f(fitsEngine("ReplicatedReplacingMergeTree", ""), "name it with --cluster")
	f(fitsEngine("ReplacingMergeTree", "c"), "not replicated")
}

// A statement that a cluster could not be given is an error, not left out.
func TestRenderRefuses(t *testing.T) {
	for _, s := range []string{"INSERT INTO {db}.events SELECT 1", "CREATE TABLE {db}.x (a String) ENGINE = MergeTree", "CREATE TABLE IF NOT EXISTS {db}.x (a String) ENGINE = Memory"} {
		if out, err := (dialect{"d", 30, "c"}).render(s); err == nil {
			t.Errorf("%s: %q", s, out)
		}
	}
}
