package schema_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// fakeMigrations are invented for these tests and follow the program's own: the first two expand, the third removes
// what only the previous version needs, and the last does not wait for it.
var fakeMigrations = map[string]string{
	"0102_colours": "ALTER TABLE {db}.events ADD COLUMN IF NOT EXISTS colour String DEFAULT 'grey';\n",
	"0103_by_colour": "CREATE TABLE IF NOT EXISTS {db}.by_colour (account String, colour String) ENGINE = " +
		"ReplacingMergeTree ORDER BY (account, colour);\n\nCREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_old TO " +
		"{db}.by_colour AS SELECT account, 'old' AS colour FROM {db}.events;\n\nCREATE MATERIALIZED VIEW IF NOT EXISTS " +
		"{db}.mv_by_colour TO {db}.by_colour AS SELECT account, colour FROM {db}.events;\n",
	"0104_old_ends.final":  "DROP VIEW IF EXISTS {db}.mv_old;\n",
	"0105_weight_of_event": "ALTER TABLE {db}.events ADD COLUMN IF NOT EXISTS weight UInt64;\n",
}

// filesWithMigrations returns the program's own tables and migrations and the first n of fakeMigrations.
func filesWithMigrations(t *testing.T, n int) fs.FS {
	all := fstest.MapFS{}
	tables, err := fs.Glob(schema.Files, "baseline/*.sql")
	own, errOwn := fs.Glob(schema.Files, "migrations/*.sql")
	must.Do(t, errors.Join(err, errOwn))
	for _, name := range slices.Concat(tables, own) {
		text := must.Get(fs.ReadFile(schema.Files, name))(t)
		all[name] = &fstest.MapFile{Data: text}
	}
	for i, name := range slices.Sorted(maps.Keys(fakeMigrations)) {
		if i < n {
			all["migrations/"+name+".sql"] = &fstest.MapFile{Data: []byte(fakeMigrations[name])}
		}
	}
	return all
}

// steps returns how many steps bring an empty database to the schema of the files.
func steps(t *testing.T, files fs.FS) uint64 {
	names := must.Get(fs.Glob(files, "migrations/*.sql"))(t)
	return uint64(1 + len(names)) // the baseline is one step
}

func migrate(t *testing.T, url string, files fs.FS, upgrading bool) ([]string, error) {
	done, err := schema.MigrateFrom(t.Context(), schema.Config{URL: url, RetentionDays: 30, Upgrading: upgrading}, files)
	return done.Ran, err
}

// TestExpandThenFinalize: a node of the previous version goes on writing and reading while tables are added; what only
// it needs is removed once no such node runs.
func TestExpandThenFinalize(t *testing.T) {
	b := newBench(t)
	all := filesWithMigrations(t, len(fakeMigrations))
	insert := func() { b.Exec("INSERT INTO events (account, id, ts) SELECT 'acc_1', unhex(repeat('01', 16)), now()") }
	insert()
	ran, err := migrate(t, b.URL, all, true)
	if want := []string{"0102_colours", "0103_by_colour", "0105_weight_of_event"}; err != nil || !slices.Equal(ran, want) {
		t.Errorf("ran %v, %v, want %v", ran, err, want)
	}
	insert()
	is.Equal(t, b.QuerySum("SELECT count() FROM by_colour WHERE colour IN ('old', 'grey')"), 2,
		"rows of the previous version and of this one")
	if ran, err := migrate(t, b.URL, all, true); err != nil || len(ran) != 0 {
		t.Errorf("a second migration before finalizing ran %v, %v; want none", ran, err)
	}
	held, err := schema.MigrateFrom(t.Context(), schema.Config{URL: b.URL, RetentionDays: 30, Upgrading: true}, all)
	if err != nil || !slices.Equal(held.Waiting, []string{"0104_old_ends.final"}) {
		t.Errorf("%v wait, %v", held.Waiting, err)
	}
	is.List(t, must.Get(migrate(t, b.URL, all, false))(t), []string{"0104_old_ends.final"}, "finalizing ran")
	if n := b.QuerySum("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = " +
		"'mv_old'"); n != 0 {
		t.Error("the view of the previous version is still there")
	}
	if _, err := migrate(t, b.URL, filesWithMigrations(t, 2), false); err == nil ||
		!strings.Contains(err.Error(), "this version knows migrations up to 0103, use the newer version") {
		t.Errorf("migration by the previous version: %v", err)
	}
	changed := filesWithMigrations(t, 1).(fstest.MapFS)
	changed["migrations/0102_colours.sql"] = &fstest.MapFile{
		Data: []byte("ALTER TABLE {db}.events ADD COLUMN IF NOT EXISTS colour UInt8;\n")}
	b.Exec("ALTER TABLE schema_version DELETE WHERE version > 102 SETTINGS mutations_sync = 1")
	if _, err := migrate(t, b.URL, changed, false); err == nil ||
		!strings.Contains(err.Error(), "is not the one of this version") {
		t.Errorf("migration with a changed step: %v", err)
	}
}

// TestInterruptedMigrationIsCompleted: a migration that is interrupted before or after any statement is completed by
// the next one. Each run gets one statement further than the run before. The interruptions before and after a statement
// take turns, each in every run with RELAY_TORTURE.
func TestInterruptedMigrationIsCompleted(t *testing.T) {
	b := newBench(t)
	all := filesWithMigrations(t, len(fakeMigrations))
	must.Get(migrate(t, b.URL, all, false))(t)
	want := b.TableDefinitions()
	g := storetest.NewFaultProxy(b.Bench)
	faults := [][2]storetest.Fault{{storetest.Cut, storetest.Lost}, {storetest.Lost, storetest.Cut}}
	first := kit.Seed(t) % 2
	for _, f := range append(slices.Clone(faults[first:]), faults[:first]...)[:storetest.Rounds(1, 1, 2)] {
		b.DropDatabase()
		n := 0
		for ; ; n++ {
			g.SetRule(func(nth int, _ string) storetest.Fault {
				if nth == n {
					return f[n%2]
				}
				return storetest.NoFault
			})
			if _, err := migrate(t, g.URL, all, false); err == nil {
				break
			}
		}
		g.SetRule(nil)
		if n < 20 {
			t.Errorf("only %d runs were interrupted, want 20 at least", n)
		}
		is.Equal(t, gocmp.Diff(want, b.TableDefinitions()), "", "tables after faults %v (-want +got)", f)
		is.Equal(t, b.QuerySum("SELECT uniqExact(version) FROM schema_version"), steps(t, all),
			"after faults %v … steps are recorded", f)
	}
}

// TestOvertakenMigration: a migration that a concurrent one overtakes, both as relay migrate runs them, leaves the same
// tables as one alone, although it may re-create what the other one has removed at the end.
func TestOvertakenMigration(t *testing.T) {
	b := newBench(t)
	all := filesWithMigrations(t, len(fakeMigrations))
	must.Get(migrate(t, b.URL, all, false))(t)
	want := b.TableDefinitions()
	migrateAndFinalize := func(url string) error {
		_, err := migrate(t, url, all, true)
		if err == nil {
			_, err = migrate(t, url, all, false)
		}
		return err
	}
	g := storetest.NewFaultProxy(b.Bench)
	for _, at := range []string{".mv_event_keys TO", ".mv_old TO"} {
		b.DropDatabase()
		reached, overtaken := make(chan struct{}), make(chan struct{})
		once := sync.OnceFunc(func() { close(reached); <-overtaken })
		g.SetRule(func(_ int, statement string) storetest.Fault {
			if strings.Contains(statement, at) {
				once()
			}
			return storetest.NoFault
		})
		var slow error
		var wg sync.WaitGroup
		wg.Go(func() { slow = migrateAndFinalize(g.URL) })
		<-reached
		err := migrateAndFinalize(b.URL)
		close(overtaken)
		wg.Wait()
		is.OK(t, errors.Join(err, slow), "overtaken at %s", at)
		is.Equal(t, gocmp.Diff(want, b.TableDefinitions()), "", "overtaken at %s (-want +got)", at)
	}
}
