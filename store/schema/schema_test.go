package schema_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
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
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/store/write"
)

var update = flag.Bool("update", false, "write the DDL of a cluster to testdata")

const goldenDDL = "testdata/cluster.sql"

func clusterConfig() schema.MigrateConfig {
	return schema.MigrateConfig{URL: "http://ch1:8123,http://ch2:8123", RetentionDays: 30, Cluster: "relay", SearchIndex: true}
}

// The tables of a cluster are what they were when somebody last looked at them.
func TestClusterDDL(t *testing.T) {
	statements, err := schema.DDL(clusterConfig())
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(statements, ";\n\n") + ";\n"
	if *update {
		if err := os.WriteFile(goldenDDL, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDDL)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("look at it, then go test ./store -run ClusterDDL -update (-want +got):\n%s", diff)
	}
}

// Every statement runs on the whole cluster, every table is replicated and has its twin, with the same columns, and no
// table of one server is left out.
func TestClusterDDLRules(t *testing.T) {
	b := newBench(t)
	cfg := clusterConfig()
	cfg.URL = "http://ch1:8123/" + b.Database() + ",http://ch2:8123/" + b.Database()
	statements, err := schema.DDL(cfg)
	if err != nil {
		t.Fatal(err)
	}
	local, twins := map[string]string{}, map[string]bool{}
	for _, s := range statements {
		first, _, _ := strings.Cut(s, "\n")
		if strings.HasPrefix(s, "INSERT INTO "+b.Database()+".") {
			b.Exec(s) // of rows: on each shard, where it may run again
			continue
		}
		if strings.Count(s, "ON CLUSTER 'relay'") != 1 {
			t.Errorf("not on the cluster, once: %s", first)
		}
		if strings.Contains(s, "{db}") || strings.Contains(s, "{days}") {
			t.Errorf("not filled in: %s", first)
		}
		// The embedded engine refuses replicated and distributed tables. Its parser takes the text.
		b.SQL(func(conn driver.Conn) error {
			var formatted string
			if err := conn.QueryRow(t.Context(), "SELECT formatQuery({ddl:String})", clickhouse.Named("ddl", s)).Scan(&formatted); err != nil {
				t.Errorf("%s: %v", first, err)
			}
			return nil
		})
		name := strings.TrimPrefix(strings.TrimPrefix(first, "CREATE TABLE IF NOT EXISTS "+b.Database()+"."), "ALTER TABLE "+b.Database()+".")
		name, _, _ = strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(first, "CREATE TABLE") && strings.HasSuffix(name, schema.TwinSuffix):
			base := strings.TrimSuffix(name, schema.TwinSuffix)
			twins[base] = true
			want := fmt.Sprintf("AS %s.%s ENGINE = Distributed('relay', '%s', '%s'", b.Database(), base, b.Database(), base)
			if local[base] == "" || !strings.Contains(s, want) {
				t.Errorf("a twin of nothing, or before it: %s", first)
			}
			if keyed := strings.Contains(s, "substring(id, 7, 2)"); keyed != strings.Contains(local[base], "id FixedString(16)") {
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
	b.SQL(func(conn driver.Conn) error {
		rows, err := conn.Query(t.Context(), "SELECT name, engine, engine_full FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'")
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
			if !strings.Contains(s, "ENGINE = Replicated"+engine) {
				t.Errorf("table %s of one server is not one of a cluster with engine Replicated%s", name, engine)
			}
			if name != "schema_version" && name != "shard" && !twins[name] {
				t.Errorf("table %s has no twin", name)
			}
		}
		return rows.Err()
	})
	for _, s := range statements {
		if rest, ok := strings.CutPrefix(s, "ALTER TABLE "+b.Database()+"."); ok && strings.Contains(s, " COLUMN ") {
			name, change, _ := strings.Cut(rest, " ")
			if !strings.HasSuffix(name, schema.TwinSuffix) && name != "schema_version" && !slices.Contains(statements, "ALTER TABLE "+b.Database()+"."+name+schema.TwinSuffix+" "+change) {
				t.Errorf("the twin of %s does not follow it", name)
			}
		}
	}
}

// The sharding key of the twins is the partition that the id names, by which the relay chooses a shard.
func TestShardingKeyIsThePartition(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	for endpoint := range 9 {
		b.Accept(b.Event(endpoint))
	}
	if _, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	statements, err := schema.DDL(clusterConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, key, ok := strings.Cut(s, "'relay', 'events', "); ok {
			key = strings.TrimSuffix(key, ")")
			if n := b.Query("SELECT count() FROM events WHERE " + key + " = kp"); n != 9 {
				t.Errorf("%d of 9 events are where %s says", n, key)
			}
			if n := b.Query("SELECT uniqExact(" + key + ") FROM events"); n != storetest.Partitions {
				t.Errorf("%d partitions", n)
			}
			return
		}
	}
	t.Error("events have no twin with a sharding key")
}

// A migration that is broken off at any statement, before it or behind it, is completed by the next: file by file, each run
// coming one statement further than the one before; as an empty database begins; and when files of it had begun.
func TestMigrateIsBrokenOff(t *testing.T) {
	b := newBench(t)
	whole := b.Tables()
	g := storetest.NewGate(b.Bench)
	broken := func(f storetest.Fault, at int, migrate func(context.Context, string) error) bool {
		g.Set(func(nth int, _ string) storetest.Fault {
			if nth == at {
				return f
			}
			return storetest.Sound
		})
		defer g.Set(nil)
		return migrate(t.Context(), g.URL) != nil
	}
	check := func(f storetest.Fault, where string) {
		t.Helper()
		if diff := gocmp.Diff(whole, b.Tables()); diff != "" {
			t.Errorf("statements that are %v %s leave (-want +got):\n%s", f, where, diff)
		}
		if n := b.Query("SELECT uniqExact(version) FROM schema_version WHERE checksum != ''"); n != b.Query("SELECT toUInt64(max(version)) FROM schema_version") {
			t.Errorf("statements that are %v %s: %d migrations are noted", f, where, n)
		}
	}
	atOnce := func(ctx context.Context, url string) error { return schema.Migrate(ctx, url, 30) }
	for _, f := range []storetest.Fault{storetest.Cut, storetest.Lost} {
		b.Anew()
		n := 0
		for broken(f, n, schema.MigrateByFiles) {
			n++
		}
		if n < 20 {
			t.Errorf("only %d runs were broken off", n)
		}
		check(f, "one after the other")
		stride := storetest.Rounds(20, 20, 1)
		at := []int{8} // when the first file has made two tables, and is not noted
		for n = rand.IntN(stride); n < 40; n += stride {
			at = append(at, n)
		}
		for name, begun := range map[string]func(context.Context, string) error{"at once": atOnce, "by files": schema.MigrateByFiles} {
			for _, n := range at {
				b.Anew()
				if !broken(f, n, begun) {
					break
				}
				if err := atOnce(t.Context(), g.URL); err != nil {
					t.Fatal(err)
				}
				check(f, fmt.Sprint(name, " at ", n))
			}
		}
	}
}

// Migrations that run at once leave what one leaves.
func TestMigrateAtOnce(t *testing.T) {
	b := newBench(t)
	whole := b.Tables()
	url := b.Anew()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := schema.Migrate(t.Context(), url, 30); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := gocmp.Diff(whole, b.Tables()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A migration that another one overtakes, both as relay migrate runs them, leaves what one leaves: what the other has taken away
// at the end it may have made again.
func TestMigrateIsOvertaken(t *testing.T) {
	b := newBench(t)
	whole := b.Tables()
	migrate := func(url string) (ran []string, err error) {
		for _, upgrading := range []bool{true, false} {
			done, err := schema.MigrateTables(t.Context(), schema.MigrateConfig{URL: url, RetentionDays: 30, Upgrading: upgrading})
			if ran = append(ran, done.Ran...); err != nil {
				return ran, err
			}
		}
		return ran, nil
	}
	g := storetest.NewGate(b.Bench)
	for at, last := range map[string]string{
		".mv_delivery_trouble TO": "0002_deliveries", ".mv_troubled TO": "0007_lists", "INSERT INTO " + b.Database() + ".attempts_hour": "0013_attempts_by_hour",
	} {
		b.Anew()
		reached, overtaken := make(chan struct{}), make(chan struct{})
		once := sync.OnceFunc(func() { close(reached); <-overtaken })
		g.Set(func(_ int, statement string) storetest.Fault {
			if strings.Contains(statement, at) {
				once()
			}
			return storetest.Sound
		})
		var ran []string
		var slow error
		var wg sync.WaitGroup
		wg.Go(func() { ran, slow = migrate(g.URL) })
		<-reached
		_, err := migrate(b.URL)
		close(overtaken)
		wg.Wait()
		if err := errors.Join(err, slow); err != nil {
			t.Errorf("overtaken at %s: %v", at, err)
		}
		if slices.Max(ran) != last {
			t.Errorf("overtaken at %s it ran %v, and what another had run behind that", at, ran)
		}
		if diff := gocmp.Diff(whole, b.Tables()); diff != "" {
			t.Errorf("overtaken at %s (-want +got):\n%s", at, diff)
		}
	}
}

// What ran is noted, with who ran it; what this version does not know is refused.
func TestMigrateKnowsWhatRan(t *testing.T) {
	b := newBench(t)
	cfg := schema.MigrateConfig{URL: b.Anew(), RetentionDays: 30, Program: "v9"}
	first, err := schema.MigrateTables(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Ran) == 0 || uint64(first.Schema) != b.Query("SELECT countIf(program = 'v9' AND at > now() - 600) FROM schema_version") {
		t.Errorf("a first run did %+v", first)
	}
	if again, err := schema.MigrateTables(t.Context(), cfg); err != nil || len(again.Ran) != 0 || again.Schema != first.Schema {
		t.Errorf("a second run did %+v, %v", again, err)
	}
	// One of a version that noted no checksums.
	b.Exec("ALTER TABLE schema_version UPDATE checksum = '', program = '' WHERE version = 2 SETTINGS mutations_sync = 1")
	if again, err := schema.MigrateTables(t.Context(), cfg); err != nil || len(again.Ran) != 0 {
		t.Errorf("a run after one without checksums did %+v, %v", again, err)
	}
	refused := func(change, want string) {
		t.Helper()
		b.Exec("INSERT INTO schema_version SELECT " + change)
		_, err := schema.MigrateTables(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", change, err, want)
		}
		b.Exec("ALTER TABLE schema_version DELETE WHERE program = 'v10' SETTINGS mutations_sync = 1")
	}
	refused("77, '0077_more', now() + 5, 'v10', 'x'", "migration 0077_more was run by version v10: this version knows")
	refused("2, '0002_deliveries', now() + 5, 'v10', 'another'", "migration 0002_deliveries, run by version v10, is not the one of this version")
}

// Addresses in another order than the rows were spread by are refused, by the migration, by readers and by writers.
func TestShardsKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	cfg := schema.MigrateConfig{URL: b.URL + "_1," + b.URL + "_2", RetentionDays: 30}
	if _, err := schema.MigrateTables(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	b.Accept(b.Event(0))
	for url, want := range map[string]string{
		b.URL + "_2," + b.URL + "_1": "of 2 was set up as number",
		b.URL + "_1":                 "number 1 of 1 was set up as number 1 of 2",
		b.URL + "," + b.URL + "_2":   "number 1 of 2 was set up as number 1 of 1",
	} {
		check := func(who string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %q in it", who, url, err, want)
			}
		}
		check("migration", schema.Migrate(t.Context(), url, 30))
		r := b.ReaderOf(read.ReaderConfig{URL: url, RetentionDays: 30, FenceWait: 1}, nil)
		_, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1})
		check("reader", err)
		check("ping", r.Ping(t.Context()))
		w, err := write.NewWriter(write.WriterConfig{URL: url}, write.WriterDeps{Log: b.Logger, Stream: b.Stream, Producer: b.Producer})
		if err != nil {
			t.Fatal(err)
		}
		check("writer", w.Run(t.Context()))
	}
	b.URL = cfg.URL
	if n := b.Query("SELECT count() FROM events"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// A node of the version before writes and reads on while the tables get new columns, and after.
func TestMigrateBesideTheVersionBefore(t *testing.T) {
	b := newBench(t)
	if err := schema.MigrateUpTo(t.Context(), b.Anew(), 5); err != nil {
		t.Fatal(err)
	}
	b.Exec("ALTER TABLE schema_version DROP COLUMN program, DROP COLUMN checksum") // as it was
	events := make([]*event.Event, 300)
	for i := range events {
		events[i] = b.Event(1)
	}
	r := b.Reader(nil)
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "run relay migrate") {
		t.Errorf("the tables of the version before are judged %v", err)
	}
	// As 0002_deliveries has them.
	const insert = "INSERT INTO deliveries (account, id, ts, dest, endpoint, type, status, reason, code, next_at, last_at, run, ver) " +
		"SELECT 'acc_1', unhex('%x'), fromUnixTimestamp64Milli(%d, 'UTC'), 'dst_a', 'ep_1', 'order.created', 'failed', '', 500, 0, 0, '', 1"
	written := 0
	old := func() {
		e := events[written]
		b.Exec(fmt.Sprintf(insert, e.ID[:], e.ID.UnixMilli()))
		written++
		if n := b.Query("SELECT count() FROM (SELECT account, id, ts, dest, endpoint, type, status, reason, code, next_at, last_at, run, ver FROM deliveries FINAL)"); n != uint64(written) {
			t.Errorf("the version before reads %d of %d rows", n, written)
		}
	}
	old()
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := schema.MigrateTables(t.Context(), schema.MigrateConfig{URL: b.URL, RetentionDays: 30, Upgrading: true})
		done <- err
	})
	for len(done) == 0 && written < len(events)-1 {
		old()
	}
	wg.Wait()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	old()
	b.Accept(events[:written]...)
	w, _ := b.Writer(write.WriterConfig{})
	check := func(what string) {
		t.Helper()
		if err := r.Check(t.Context()); err != nil {
			t.Errorf("the tables %s are judged %v", what, err)
		}
		if rows := storetest.Pages(t, b.Reader(w), event.Query{Account: storetest.Account, Statuses: []event.Status{event.Failed}, Limit: 400}, 1); len(rows) != written {
			t.Errorf("%s %d of %d deliveries are read", what, len(rows), written)
		}
	}
	check("after the migration")
	if again, err := schema.MigrateTables(t.Context(), schema.MigrateConfig{URL: b.URL, RetentionDays: 30, Upgrading: true}); err != nil || len(again.Ran) != 0 {
		t.Errorf("a second migration, while the version before runs, did %+v, %v", again, err)
	}
	// What a node of the version before counts until the end is counted.
	b.Exec("INSERT INTO attempts (account, id, att, ts, dest, endpoint, at, ok) SELECT 'acc_1', unhex(repeat('01', 16)), unhex(repeat('02', 16)), now(), 'dst_a', 'ep_1', now() - INTERVAL 2 DAY, 1")
	// The version before is gone.
	if last, err := schema.MigrateTables(t.Context(), schema.MigrateConfig{URL: b.URL, RetentionDays: 30}); err != nil || !slices.Equal(last.Ran, []string{"0014_fewer_views.final"}) {
		t.Errorf("the end of the upgrade did %+v, %v", last, err)
	}
	if n := b.Query("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'mv_troubled'"); n != 0 {
		t.Error("a view is there that nobody needs")
	}
	if n := b.Query("SELECT min(n) FROM (SELECT sum(attempts) AS n FROM attempts_hour FINAL UNION ALL SELECT sum(attempts) FROM attempts_day FINAL)"); n != 1 {
		t.Errorf("%d requests are counted that were made during the upgrade, want 1", n)
	}
	last := b.Event(1)
	b.Accept(last)
	b.Record(b.Outcome(last, "dst_a", event.Failed))
	written++
	check("after the end of the upgrade")
}

// What was being inserted when a view was created is in the table that it fills.
func TestMigrationWaitsForInserts(t *testing.T) {
	b := newBench(t)
	if err := schema.MigrateUpTo(t.Context(), b.Anew(), 6); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	insert := url.QueryEscape("INSERT INTO " + database + ".deliveries (account, ts, status) FORMAT TabSeparated")
	rows, send := io.Pipe()
	inserted := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post("http://"+u.Host+"/?query="+insert, "text/plain", rows)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		inserted <- err
	})
	if _, err := fmt.Fprintf(send, "acc_1\t%s\tfailed\n", time.Now().UTC().Format(time.DateTime)); err != nil {
		t.Fatal(err)
	}
	for b.Query("SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO %.deliveries (account, ts, status)%'") == 0 {
		time.Sleep(time.Millisecond)
	}
	migrated := make(chan error, 1)
	wg.Go(func() { migrated <- schema.Migrate(t.Context(), b.URL, 30) })
	for b.Query("SELECT count() FROM system.tables WHERE name = 'mv_troubled' AND database = '"+database+"'") == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := errors.Join(<-inserted, <-migrated); err != nil {
		t.Fatal(err)
	}
	if n := b.Query("SELECT count() FROM troubled"); n != 1 {
		t.Errorf("%d rows of 1 are in the new table", n)
	}
}

func TestMigrateConfig(t *testing.T) {
	for _, c := range []struct{ url, cluster, want string }{
		{"http://a/x,http://b/y", "relay", "shard 2 has database y and shard 1 x"},
		{"http://a/x", "relay'", "is not a plain name"},
		{"ftp://a/x", "", "scheme"},
	} {
		cfg := schema.MigrateConfig{URL: c.url, RetentionDays: 30, Cluster: c.cluster}
		_, err := schema.DDL(cfg)
		_, runErr := schema.MigrateTables(t.Context(), cfg)
		if err == nil || runErr == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, %v", c, err, runErr)
		}
	}
	b := newBench(t)
	cfg := schema.MigrateConfig{URL: b.URL, RetentionDays: 30, Cluster: "nowhere"}
	if _, err := schema.MigrateTables(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "knows no cluster nowhere") {
		t.Errorf("a cluster that is not there: %v", err)
	}
}

// What an empty database gets from the baseline, by less than half of the statements, is what the files leave, in every word.
func TestBaselineIsWhatTheFilesLeave(t *testing.T) {
	b := newBench(t)
	g := storetest.NewGate(b.Bench)
	b.Anew()
	g.Set(nil)
	if err := schema.Migrate(t.Context(), g.URL, 30); err != nil {
		t.Fatal(err)
	}
	few, _ := g.Set(nil)
	fresh := b.Tables()
	b.Anew()
	if err := schema.MigrateByFiles(t.Context(), g.URL); err != nil {
		t.Fatal(err)
	}
	many, _ := g.Set(nil)
	if diff := gocmp.Diff(b.Tables(), fresh); diff != "" {
		t.Errorf("an empty database differs from one of the files (-files +baseline):\n%s", diff)
	}
	if 2*few > many {
		t.Errorf("an empty database takes %d statements, one by files %d", few, many)
	}
}

// Where a version before may be running there is no baseline: its files are noted at once, with those that take away what the
// version before needs.
func TestNoBaselineBesideAVersionBefore(t *testing.T) {
	b := newBench(t)
	done, err := schema.MigrateTables(t.Context(), schema.MigrateConfig{URL: b.Anew(), RetentionDays: 30, Upgrading: true})
	if err != nil || slices.ContainsFunc(done.Ran, func(name string) bool { return strings.HasSuffix(name, ".final") }) {
		t.Errorf("ran %v, %v", done.Ran, err)
	}
	if n := b.Query("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'mv_troubled'"); n != 1 {
		t.Error("the version before has no view that it needs")
	}
}

// One that begins with the baseline while a version before makes the tables that it knows leaves what the files leave.
func TestBaselineBesideAVersionBefore(t *testing.T) {
	b := newBench(t)
	whole := b.Tables()
	g := storetest.NewGate(b.Bench)
	b.Anew()
	reached, made := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached); <-made })
	g.Set(func(_ int, statement string) storetest.Fault {
		if strings.Contains(statement, b.Database()+".attempts (") {
			once()
		}
		return storetest.Sound
	})
	var slow error
	var wg sync.WaitGroup
	wg.Go(func() { slow = schema.Migrate(t.Context(), g.URL, 30) })
	<-reached
	err := schema.MigrateUpTo(t.Context(), b.URL, 5)
	close(made)
	wg.Wait()
	if err := errors.Join(err, slow); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(whole, b.Tables()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
