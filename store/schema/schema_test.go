package schema_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

var update = flag.Bool("update", false, "write the DDL of a cluster to testdata")

const goldenDDL = "testdata/cluster.sql"

func clusterConfig() schema.Config {
	return schema.Config{URL: "http://ch1:8123,http://ch2:8123", RetentionDays: 30, Cluster: "relay", SearchIndex: true}
}

// TestClusterDDL compares the DDL of a cluster with testdata/cluster.sql.
func TestClusterDDL(t *testing.T) {
	statements := must.Get(schema.DDL(clusterConfig()))(t)
	got := strings.Join(statements, ";\n\n") + ";\n"
	if *update {
		must.Do(t, os.WriteFile(goldenDDL, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(goldenDDL))(t)
	is.Equal(t, gocmp.Diff(string(want), got), "",
		"check the difference, then run go test ./store/schema -run ClusterDDL -update (-want +got)")
}

// TestClusterDDLRules: every statement runs on the whole cluster, every table is replicated and has a Distributed table
// with the same columns, and no table of a single server is missing.
func TestClusterDDLRules(t *testing.T) {
	b := newBench(t)
	cfg := clusterConfig()
	cfg.URL = "http://ch1:8123/" + b.Database() + ",http://ch2:8123/" + b.Database()
	statements := must.Get(schema.DDL(cfg))(t)
	local, distributed := map[string]string{}, map[string]bool{}
	for _, s := range statements {
		first, _, _ := strings.Cut(s, "\n")
		is.Equal(t, strings.Count(s, "ON CLUSTER 'relay'"), 1, "ON CLUSTER is not there exactly once: %s", first)
		if strings.Contains(s, "{db}") || strings.Contains(s, "{kept}") {
			t.Errorf("a placeholder is left: %s", first)
		}
		// The embedded engine refuses replicated and distributed tables, but it can parse the statement.
		b.ForEachShard(func(conn driver.Conn) error {
			var formatted string
			if err := conn.QueryRow(t.Context(), "SELECT formatQuery({ddl:String})", clickhouse.Named("ddl", s)).
				Scan(&formatted); err != nil {
				t.Errorf("%s: %v", first, err)
			}
			return nil
		})
		name := strings.TrimPrefix(
			strings.TrimPrefix(first, "CREATE TABLE IF NOT EXISTS "+b.Database()+"."), "ALTER TABLE "+b.Database()+".")
		name, _, _ = strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(first, "CREATE TABLE") && strings.HasSuffix(name, schema.DistributedSuffix):
			base := strings.TrimSuffix(name, schema.DistributedSuffix)
			distributed[base] = true
			want := fmt.Sprintf("AS %s.%s ENGINE = Distributed('relay', '%s', '%s'", b.Database(), base, b.Database(), base)
			if local[base] == "" || !strings.Contains(s, want) {
				t.Errorf("a Distributed table without its local table before it: %s", first)
			}
			if keyed := strings.Contains(s, "substring(id, 7, 2)"); keyed != strings.Contains(
				local[base], "id FixedString(16)") {
				t.Errorf("%s has a sharding key: %v", name, keyed)
			}
		case strings.HasPrefix(first, "CREATE TABLE"):
			path := "MergeTree('/clickhouse/tables/{shard}/" + b.Database() + "/" + name + "', '{replica}'"
			if name == "schema_version" {
				path = "MergeTree('/clickhouse/tables/all/" + b.Database() + "/" + name + "', '{shard}-{replica}'"
			}
			if !strings.Contains(s, "ENGINE = Replicated") || !strings.Contains(s, path) {
				t.Errorf("%s is not replicated", name)
			}
			local[name] = s
		}
	}
	b.ForEachShard(func(conn driver.Conn) error {
		rows, err := conn.Query(t.Context(), "SELECT name, engine, engine_full FROM system.tables WHERE database = "+
			"currentDatabase() AND engine LIKE '%MergeTree'")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, engine, full string
			if err := rows.Scan(&name, &engine, &full); err != nil {
				return err
			}
			s := local[name]
			if version, ok := strings.CutPrefix(full, engine+"("); ok { // as in ReplacingMergeTree(ver)
				version, _, _ = strings.Cut(version, ")")
				engine += "('/clickhouse/tables/{shard}/" + b.Database() + "/" + name + "', '{replica}', " + version + ")"
			}
			is.Has(t, s, "ENGINE = Replicated"+engine,
				"table %s of a single server has no cluster table with engine Replicated%s", name, engine)
			if name != "schema_version" && name != "shard" && !distributed[name] {
				t.Errorf("table %s has no Distributed table", name)
			}
		}
		return rows.Err()
	})
}

// TestShardingKeyIsThePartition: the sharding key of the Distributed tables is the partition that an id contains, by
// which the relay chooses a shard.
func TestShardingKeyIsThePartition(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	for endpoint := range 9 {
		b.ProduceEvents(b.Event(endpoint))
	}
	b.WaitCaughtUp(r)
	statements := must.Get(schema.DDL(clusterConfig()))(t)
	for _, s := range statements {
		if _, key, ok := strings.Cut(s, "'relay', 'events', "); ok {
			key = strings.TrimSuffix(key, ")")
			is.Equal(t, b.QuerySum("SELECT count() FROM events WHERE "+key+" = kafka_partition"), 9,
				"of 9 events are in the partition that %s computes", key)
			is.Equal(t, b.QuerySum("SELECT uniqExact("+key+") FROM events"), storetest.Partitions, "partitions")
			return
		}
	}
	t.Error("events have no Distributed table with a sharding key")
}

// TestConcurrentMigrations: concurrent migrations leave the same tables as one.
func TestConcurrentMigrations(t *testing.T) {
	b := newBench(t)
	want := b.TableDefinitions()
	url := b.DropDatabase()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			is.OK(t, storetest.Migrate(t.Context(), url, 30))
		})
	}
	wg.Wait()
	is.Same(t, b.TableDefinitions(), want)
}

// TestMigrateChecksHistory: each step is recorded with the version that ran it, and a database with unknown steps is
// refused.
func TestMigrateChecksHistory(t *testing.T) {
	b := newBench(t)
	cfg := schema.Config{URL: b.DropDatabase(), RetentionDays: 30, Program: "v9"}
	first := must.Get(schema.Migrate(t.Context(), cfg))(t)
	if len(first.Ran) == 0 ||
		uint64(first.Schema) != b.QuerySum("SELECT countIf(program = 'v9' AND at > now() - 600) FROM schema_version") {
		t.Errorf("the first migration returned %+v", first)
	}
	if again, err := schema.Migrate(t.Context(), cfg); err != nil || len(again.Ran) != 0 || again.Schema != first.Schema {
		t.Errorf("a second migration returned %+v, %v", again, err)
	}
	last := cfg
	last.Check = true
	b.Exec("ALTER TABLE schema_version DELETE WHERE name = '" + first.Ran[len(first.Ran)-1] +
		"' SETTINGS mutations_sync = 1")
	for range 2 { // the first changes nothing
		if next := must.Get(schema.Migrate(t.Context(), last))(t); !slices.Equal(next.Ran, first.Ran[len(first.Ran)-1:]) {
			t.Errorf("a check returned %+v", next)
		}
	}
	must.Get(schema.Migrate(t.Context(), cfg))(t)
	refused := func(change, want string) {
		t.Helper()
		b.Exec("INSERT INTO schema_version SELECT " + change)
		_, err := schema.Migrate(t.Context(), cfg)
		is.Failed(t, err, want, change)
		b.Exec("ALTER TABLE schema_version DELETE WHERE program = 'v10' SETTINGS mutations_sync = 1")
	}
	refused("77, '0077_more', now() + 5, 'v10', 'x'", "migration 0077_more was run by version v10: this version knows")
	refused("1, '0001_events', now() + 5, 'v10', 'another'", "made by version v10, from before the first release, and "+
		"this version cannot change them into its own: start with an empty data directory")
}

// TestWrongShardOrderIsRefused: addresses in another order than the rows were distributed in are refused by the
// migration, readers and writers.
func TestWrongShardOrderIsRefused(t *testing.T) {
	b := newBench(t)
	cfg := schema.Config{URL: b.URL + "_1," + b.URL + "_2", RetentionDays: 30}
	must.Get(schema.Migrate(t.Context(), cfg))(t)
	b.ProduceEvents(b.Event(0))
	for url, want := range map[string]string{
		b.URL + "_2," + b.URL + "_1": "of 2 was set up as number",
		b.URL + "_1":                 "number 1 of 1 was set up as number 1 of 2",
		b.URL + "," + b.URL + "_2":   "number 1 of 2 was set up as number 1 of 1",
	} {
		check := func(who string, err error) {
			t.Helper()
			is.Failed(t, err, want, "%s of %s", who, url)
		}
		check("migration", storetest.Migrate(t.Context(), url, 30))
		r := b.ReaderWith(cluster.Config{URL: url, RetentionDays: 30, FenceWait: 1}, nil)
		_, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1})
		check("reader", err)
		check("ping", r.Ping(t.Context()))
		w := must.Get(write.NewWriter(
			write.WriterConfig{URL: url, FlushEvery: time.Second},
			write.WriterDeps{Log: b.Logger, Stream: b.Stream, Producer: b.Producer}))(t)
		check("writer", w.Run(t.Context()))
	}
	b.URL = cfg.URL
	if n := b.QuerySum("SELECT count() FROM events"); n != 0 {
		t.Errorf("%d rows were inserted, want none", n)
	}
}

func TestMigrateConfig(t *testing.T) {
	for _, c := range []struct{ url, cluster, want string }{
		{"http://a/x,http://b/y", "relay", "shard 2 has database y and shard 1 x"},
		{"http://a/x", "relay'", "is not a plain name"},
		{"ftp://a/x", "", "scheme"},
	} {
		cfg := schema.Config{URL: c.url, RetentionDays: 30, Cluster: c.cluster}
		_, err := schema.DDL(cfg)
		_, runErr := schema.Migrate(t.Context(), cfg)
		if err == nil || runErr == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, %v", c, err, runErr)
		}
	}
	b := newBench(t)
	cfg := schema.Config{URL: b.URL, RetentionDays: 30, Cluster: "nowhere"}
	if _, err := schema.Migrate(t.Context(), cfg); err == nil ||
		!strings.Contains(err.Error(), "knows no cluster nowhere") {
		t.Errorf("migration of an unknown cluster: %v", err)
	}
}
