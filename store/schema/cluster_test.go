package schema

import (
	"os"
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

// A migration that has run somewhere must not change: stores that ran it refuse the new one, and do not have what it
// says. testdata/migrations names each with its checksum; only new lines belong there.
func TestMigrationsDoNotChange(t *testing.T) {
	steps, err := schemaSteps()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/migrations")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(text))
	for i, s := range steps {
		if int(s.number) != i+1 {
			t.Errorf("%s is file %d", s.name, i+1)
		}
		if at := 2 * i; at+1 >= len(known) {
			t.Errorf("%s is new: add the line %q", s.name, s.name+" "+s.checksum)
		} else if known[at] != s.name || known[at+1] != s.checksum {
			t.Errorf("%s has changed: put what it was back, and the change into a file of its own", s.name)
		}
	}
	if len(known) != 2*len(steps) {
		t.Errorf("%d files, %d are known", len(steps), len(known)/2)
	}
}

// A statement that a cluster could not be given is an error, not left out.
func TestRenderRefuses(t *testing.T) {
	for _, s := range []string{"OPTIMIZE TABLE {db}.events", "CREATE TABLE {db}.x (a String) ENGINE = MergeTree", "CREATE TABLE IF NOT EXISTS {db}.x (a String) ENGINE = Memory"} {
		if out, err := (dialect{"d", 30, "c"}).render(s); err == nil {
			t.Errorf("%s: %q", s, out)
		}
	}
}

// A baseline is for a database that nobody else uses: see TestNoBaselineBesideAVersionBefore.
func TestAlone(t *testing.T) {
	for cfg, want := range map[*MigrateConfig]bool{
		{}: true, {Upgrading: true}: false, {Cluster: "c"}: false, {Cluster: "c", Upgrading: true}: false,
	} {
		if got := cfg.alone(); got != want {
			t.Errorf("%+v is alone: %v", *cfg, got)
		}
	}
}
