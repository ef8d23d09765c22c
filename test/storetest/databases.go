package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/schema"
)

// retentionDays is the retention of the tables of a bench.
const retentionDays = 30

// databaseKind says which tables a database has.
type databaseKind struct{ twoShards, searchIndex bool }

// database is a database with empty tables, or two of them, one for each shard.
type database struct {
	databaseKind
	name       string
	definition uint64 // of its first state, see readDefinition
}

// idleDatabases are those that tests have given back. To empty the tables that a test used takes a fraction of what it
// takes to create all of them.
var idleDatabases struct {
	mu  sync.Mutex // guards all
	all []*database
}

// takeDatabase returns an idle database, or a new one.
func takeDatabase(t testing.TB, kind databaseKind) *database {
	t.Helper()
	idleDatabases.mu.Lock()
	at := slices.IndexFunc(idleDatabases.all, func(d *database) bool { return d.databaseKind == kind })
	if at >= 0 {
		d := idleDatabases.all[at]
		idleDatabases.all = slices.Delete(idleDatabases.all, at, at+1)
		idleDatabases.mu.Unlock()
		return d
	}
	idleDatabases.mu.Unlock()
	d := &database{databaseKind: kind, name: "t" + strings.ToLower(id.Random("")[:16])}
	if kind.searchIndex {
		d.createSmallGranules(t)
	}
	cfg := schema.Config{URL: d.url(), RetentionDays: retentionDays, SearchIndex: kind.searchIndex}
	if _, err := schema.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := d.connect(func(conn driver.Conn) (err error) {
		d.definition, err = d.readDefinition(conn)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// url returns the URL of the database, or of its shards.
func (d *database) url() string {
	url := "http://" + Engines.ClickHouse + "/" + d.name
	if d.twoShards {
		return url + "," + url + "_2"
	}
	return url
}

// createSmallGranules creates the table of events with two events in a granule, so that a wrong answer of the text
// index hides an event from a search.
func (d *database) createSmallGranules(t testing.TB) {
	t.Helper()
	for url := range strings.SplitSeq(d.url(), ",") {
		statements, err := schema.DDL(schema.Config{URL: url, RetentionDays: retentionDays, SearchIndex: true})
		if err != nil {
			t.Fatal(err)
		}
		db := url[strings.LastIndexByte(url, '/')+1:]
		if err := d.connect(func(conn driver.Conn) error {
			for _, s := range statements {
				if !strings.HasPrefix(s, "CREATE DATABASE") && !strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS "+db+".events (") {
					continue
				}
				s = strings.Replace(s, "index_granularity = 1024", "index_granularity = 2", 1)
				if err := conn.Exec(t.Context(), s); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// connect calls f with a connection to the engine.
func (*database) connect(f func(driver.Conn) error) error {
	opts, err := clickhouse.ParseDSN("http://" + Engines.ClickHouse + "/default")
	if err != nil {
		return err
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close())
}

// where is the condition of a system table's rows about the database, or its shards.
func (d *database) where() string {
	return " WHERE database IN ('" + d.name + "', '" + d.name + "_2')"
}

// bookkeeping are the tables that are not empty in a new database.
const bookkeeping = "('schema_version', 'shard')"

// readDefinition returns a hash of the tables, and of the rows that a migration leaves in them.
func (d *database) readDefinition(conn driver.Conn) (hash uint64, err error) {
	err = conn.QueryRow(context.Background(), "SELECT sum(cityHash64(create_table_query, if(name IN "+bookkeeping+
		", total_rows, 0))) FROM system.tables"+d.where()).Scan(&hash)
	return hash, err
}

// giveBack empties the database for the next test, or drops it if it may differ from a new one. reusable is false if
// the test has done what cannot be seen, such as stopping merges, or if statements of it may still arrive.
func (d *database) giveBack(reusable bool) error {
	return d.connect(func(conn driver.Conn) error {
		if reusable {
			clean, err := d.clean(conn)
			if err != nil {
				return err
			}
			if clean {
				idleDatabases.mu.Lock()
				idleDatabases.all = append(idleDatabases.all, d)
				idleDatabases.mu.Unlock()
				return nil
			}
		}
		return d.drop(conn)
	})
}

// clean empties the tables, and reports whether the database is as a new one.
func (d *database) clean(conn driver.Conn) (bool, error) {
	ctx := context.Background()
	definition, err := d.readDefinition(conn)
	if err != nil || definition != d.definition {
		return false, err
	}
	var running, databases uint64
	var used []string
	if err := conn.QueryRow(ctx, "SELECT (SELECT count() FROM system.processes WHERE startsWith(current_database, '"+
		d.name+"')), (SELECT count() FROM system.databases WHERE startsWith(name, '"+d.name+"')), "+
		"groupUniqArray(concat(database, '.', table)) FROM system.parts"+d.where()+
		" AND active AND table NOT IN "+bookkeeping).Scan(&running, &databases, &used); err != nil {
		return false, err
	}
	if running > 0 || databases != uint64(strings.Count(d.url(), ",")+1) {
		return false, nil
	}
	for _, table := range used {
		if err := conn.Exec(ctx, "TRUNCATE TABLE "+table); err != nil {
			return false, err
		}
	}
	var left, mutations uint64
	if err := conn.QueryRow(ctx, "SELECT (SELECT count() FROM system.parts"+d.where()+" AND active AND table NOT IN "+
		bookkeeping+"), (SELECT count() FROM system.mutations"+d.where()+")").Scan(&left, &mutations); err != nil {
		return false, err
	}
	return left == 0 && mutations == 0, nil
}

// drop drops the database with its shards and what a test made beside it: a hundred idle ones take a fifth of a core,
// and make each new one slower to create.
func (d *database) drop(conn driver.Conn) error {
	var names []string
	err := conn.QueryRow(context.Background(),
		"SELECT groupArray(name) FROM system.databases WHERE startsWith(name, '"+d.name+"')").Scan(&names)
	for _, name := range names {
		err = errors.Join(err, conn.Exec(context.Background(), fmt.Sprintf("DROP DATABASE IF EXISTS %s", name)))
	}
	return err
}
