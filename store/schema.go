package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// The schema is a row of numbered files. A file that has run anywhere never changes: what comes later is another file,
// and adds columns with defaults, or tables, so that a node of the version before goes on writing and reading. There
// are no transactions: a file counts as run when its row is in schema_version, and every statement may run twice.
//
// A file whose name ends in .final takes away what only versions before need. It runs when none of them does any more, and
// those after it do not wait for it.

//go:embed schema/*.sql
var schemaFiles embed.FS

// MigrateConfig says where the tables are and how long rows stay.
type MigrateConfig struct {
	// URL of ClickHouse, or of its shards in their order, as for the writer.
	URL string
	// RetentionDays is how long rows live that belong to an event.
	RetentionDays int
	// SearchIndex is whether there is a text index for searches.
	SearchIndex bool
	// Cluster is the name of the cluster that the shards are; empty = servers that know nothing of each other.
	Cluster string
	// Upgrading says that nodes of a version before may be running: what they need is left.
	Upgrading bool
	// Program is the version of this program, to be noted.
	Program string
	// Sync makes what a file has written durable, before the file is noted. Nil: what is answered is.
	Sync func() error
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Validate reports all faults at once.
func (c MigrateConfig) Validate() error {
	all, err := parseURLs(c.URL)
	if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
		err = errors.Join(err, fmt.Errorf("clickhouse cluster: %q is not a plain name", c.Cluster))
	}
	for i, opts := range all {
		if c.Cluster != "" && opts.Auth.Database != all[0].Auth.Database {
			err = errors.Join(err, fmt.Errorf("clickhouse URL: shard %d has database %s and shard 1 %s; in a cluster they are the same", i+1, opts.Auth.Database, all[0].Auth.Database))
		}
	}
	return errors.Join(err, positive("retention days", c.RetentionDays))
}

// Migrated is what a migration came to.
type Migrated struct {
	Schema uint32   // number of the last file
	Ran    []string // the files that ran now, in their order; on several shards those that ran on any
}

// Migrate is MigrateTables for servers that are no cluster.
func Migrate(ctx context.Context, rawURL string, days int) error {
	_, err := MigrateTables(ctx, MigrateConfig{URL: rawURL, RetentionDays: days})
	return err
}

// MigrateTables brings the databases up to the schema of this program: it creates them, runs the files that have not
// run yet, in order, sets the retention of every table that follows it, adds the text index or takes it away, and notes which
// shard each is. It is safe to
// run again, after it was interrupted at any place, and beside another one. It refuses a database of a newer program,
// one whose files were others, and one that is another shard.
func MigrateTables(ctx context.Context, cfg MigrateConfig) (Migrated, error) {
	steps, err := schemaSteps()
	if err != nil {
		return Migrated{}, err
	}
	return migrateTo(ctx, cfg, steps)
}

func migrateTo(ctx context.Context, cfg MigrateConfig, steps []step) (done Migrated, err error) {
	if err := cfg.Validate(); err != nil {
		return done, err
	}
	var databases []string
	// The databases may not exist yet, so the connections start in the one that always does.
	conns, err := openShards(cfg.URL, func(o *clickhouse.Options) {
		databases = append(databases, o.Auth.Database)
		o.Auth.Database = "default"
	})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, closeShards(conns)) }()
	if cfg.Cluster != "" {
		if err := checkCluster(ctx, cfg.Cluster, conns); err != nil {
			return done, err
		}
	}
	for i, conn := range conns {
		m := migration{conn: conn, data: conns[i : i+1], cfg: cfg, dialect: dialect{databases[i], cfg.RetentionDays, cfg.Cluster}, shard: i + 1, shards: len(conns)}
		if cfg.Cluster != "" {
			m.data = conns // the first shard's migration is that of all servers
		}
		ran, err := m.run(ctx, steps)
		done.Ran = append(done.Ran, ran...)
		if err != nil {
			return done, fmt.Errorf("migrate database %s of shard %d: %w", databases[i], i+1, err)
		}
	}
	slices.Sort(done.Ran)
	done.Ran = slices.Compact(done.Ran)
	for _, s := range steps {
		if !s.final || !cfg.Upgrading {
			done.Schema = s.number
		}
	}
	return done, nil
}

// DDL returns the statements that MigrateTables runs on an empty server, or on a cluster, in their order. Of a cluster's
// those without ON CLUSTER run on one server of every shard.
func DDL(cfg MigrateConfig) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	all, err := parseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	steps, err := schemaSteps()
	if err != nil {
		return nil, err
	}
	d := dialect{all[0].Auth.Database, cfg.RetentionDays, cfg.Cluster}
	statements := d.own()
	for _, s := range steps {
		rendered, err := s.render(d)
		if err != nil {
			return nil, err
		}
		statements = append(statements, rendered...)
	}
	if cfg.SearchIndex {
		statements = append(statements, d.searchIndex()...)
	}
	return statements, nil
}

// step is one file of the schema.
type step struct {
	number     uint32
	name       string // without .sql
	final      bool   // it takes away what versions before need
	checksum   string // of its text
	statements []string
}

// schemaSteps are the files in the order of their numbers.
func schemaSteps() ([]step, error) {
	files, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list schema files: %w", err)
	}
	var steps []step
	for _, file := range files {
		text, err := schemaFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		s := step{name: strings.TrimSuffix(strings.TrimPrefix(file, "schema/"), ".sql")}
		digits, _, _ := strings.Cut(s.name, "_")
		number, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read the number of %s: %w", file, err)
		}
		sum := sha256.Sum256(text)
		s.number, s.checksum = uint32(number), hex.EncodeToString(sum[:8])
		s.final = strings.HasSuffix(s.name, ".final")
		for statement := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(uncommented(statement)) != "" {
				s.statements = append(s.statements, statement)
			}
		}
		steps = append(steps, s)
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.number, b.number) })
	return steps, nil
}

func (s step) render(d dialect) (out []string, err error) {
	for _, statement := range s.statements {
		rendered, err := d.render(statement)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", s.name, err)
		}
		out = append(out, rendered...)
	}
	return out, nil
}

// migration is that of one shard.
type migration struct {
	dialect
	conn          driver.Conn
	data          []driver.Conn // to every shard that statements on rows have to run on
	cfg           MigrateConfig
	shard, shards int
}

// applied is a file that has run.
type applied struct {
	name, program, checksum string
}

func (m migration) run(ctx context.Context, steps []step) (ran []string, err error) {
	var engine string
	q := new(query).add("SELECT any(engine) FROM system.tables WHERE name = 'schema_version' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.text.String(), q.args...).Scan(&engine); err != nil {
		return nil, fmt.Errorf("read what the tables are: %w", err)
	}
	if err := fitsEngine(engine, m.cluster); err != nil {
		return nil, err
	}
	for _, statement := range m.own() {
		if err := m.exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	done, err := m.applied(ctx)
	if err != nil {
		return nil, err
	}
	if err := fits(done, steps); err != nil {
		return nil, err
	}
	for _, s := range steps {
		was, ok := done[s.number]
		if ok && was.checksum != "" || s.final && m.cfg.Upgrading {
			continue
		}
		if !ok {
			if err := errors.Join(m.apply(ctx, s), m.sync()); err != nil {
				return ran, fmt.Errorf("apply %s: %w", s.name, err)
			}
			ran = append(ran, s.name)
		}
		if err := m.note(ctx, s); err != nil {
			return ran, err
		}
	}
	if err := errors.Join(m.setRetention(ctx), m.setSearchIndex(ctx)); err != nil {
		return ran, err
	}
	return ran, m.claim(ctx)
}

// applied are the files that have run, by their numbers.
func (m migration) applied(ctx context.Context) (out map[uint32]applied, err error) {
	rows, err := m.conn.Query(ctx, m.fill("SELECT version, argMax(name, at), argMax(program, at), argMax(checksum, at) FROM {db}.schema_version GROUP BY version"))
	if err != nil {
		return nil, fmt.Errorf("read which migrations ran: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = make(map[uint32]applied)
	for rows.Next() {
		var version uint32
		var a applied
		if err := rows.Scan(&version, &a.name, &a.program, &a.checksum); err != nil {
			return nil, fmt.Errorf("read which migrations ran: %w", err)
		}
		out[version] = a
	}
	return out, rows.Err()
}

// fits refuses a database that this program does not know.
func fits(done map[uint32]applied, steps []step) error {
	known := make(map[uint32]step, len(steps))
	newest := uint32(0)
	for _, s := range steps {
		known[s.number] = s
		newest = max(newest, s.number)
	}
	for number, was := range done {
		s, ok := known[number]
		switch {
		case number > newest:
			return fmt.Errorf("migration %s was run by version %s: this version knows %04d at most, use the newer one", was.name, cmp.Or(was.program, "unknown"), newest)
		case !ok || was.checksum != "" && was.checksum != s.checksum:
			return fmt.Errorf("migration %s, run by version %s, is not the one of this version: a migration must not change once it has run", was.name, cmp.Or(was.program, "unknown"))
		}
	}
	return nil
}

func (m migration) apply(ctx context.Context, s step) error {
	statements, err := s.render(m.dialect)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		conns, fills := []driver.Conn{m.conn}, strings.HasPrefix(statement, "INSERT ")
		if fills {
			conns = m.data
		}
		for _, conn := range conns {
			if fills {
				if err := settled(ctx, conn); err != nil {
					return err
				}
			}
			if err := execOn(ctx, conn, statement); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// settleTime is how long a migration waits for inserts: twice what the writer gives one.
	settleTime  = 2 * time.Minute
	settleEvery = 50 * time.Millisecond
)

// settled waits until the inserts that a server runs at the moment have ended. A view takes what is inserted after it was
// created, and the statement that fills its table what had been inserted before: what is under way would be in neither.
func settled(ctx context.Context, conn driver.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	var waited []string
	for first := true; ; first = false {
		var running []string
		if err := conn.QueryRow(ctx, "SELECT groupArray(query_id) FROM system.processes WHERE query_kind = 'Insert'").Scan(&running); err != nil {
			return fmt.Errorf("look for inserts that are under way: %w", err)
		}
		if first {
			waited = running
		}
		waited = slices.DeleteFunc(waited, func(id string) bool { return !slices.Contains(running, id) })
		if len(waited) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d inserts have not ended, run relay migrate again when they have: %w", len(waited), ctx.Err())
		}
	}
}

// sync makes what a file has written as durable as the note that it has run.
func (m migration) sync() error {
	if m.cfg.Sync == nil {
		return nil
	}
	if err := m.cfg.Sync(); err != nil {
		return fmt.Errorf("make its tables durable: %w", err)
	}
	return nil
}

// note writes that a file has run. One of a program that noted no checksums gets its own.
func (m migration) note(ctx context.Context, s step) error {
	q := new(query).add(sql(m.fill("INSERT INTO {db}.schema_version (version, name, at, program, checksum) SELECT ")), int(s.number), s.name)
	q.add(", now(), ", m.cfg.Program, s.checksum)
	if err := m.conn.Exec(ctx, q.text.String(), q.args...); err != nil {
		return fmt.Errorf("note that %s has run: %w", s.name, err)
	}
	return nil
}

// retained are the tables whose rows live as long as their event.
func retained() []string {
	return []string{"events", "events_by_endpoint", "event_keys", "deliveries", "delivery_trouble", "troubled", "attempts", "receipts", "receipt_firsts"}
}

// setRetention changes the TTL of the tables that have another one. Old parts keep the date they were written with until
// they are merged; reads filter by the retention as well. Before it is made longer, days that had ended are dropped: some
// of their parts may have gone already, and half a day must not come back.
func (m migration) setRetention(ctx context.Context) error {
	for _, table := range retained() {
		var engine string
		q := new(query).add("SELECT any(engine_full) FROM system.tables WHERE database = ", m.db).add(" AND name = ", table)
		if err := m.conn.QueryRow(ctx, q.text.String(), q.args...).Scan(&engine); err != nil {
			return fmt.Errorf("read the retention of %s: %w", table, err)
		}
		days, whole := keptDays(engine)
		if engine == "" || whole && days == m.days {
			continue // a version before has not all tables
		}
		if 0 < days && days < m.days {
			for _, conn := range m.data {
				if _, err := dropEnded(ctx, conn, m.db, table, time.Now().AddDate(0, 0, -days)); err != nil {
					return err
				}
			}
		}
		if err := m.exec(ctx, m.retention(table)); err != nil {
			return err
		}
	}
	return nil
}

// claim notes which shard this is, unless that is known; then it must be so.
func (m migration) claim(ctx context.Context) error {
	if err := checkShard(ctx, m.conn, m.fill("{db}.shard"), m.shard, m.shards); !errors.Is(err, errNoShard) {
		return err
	}
	q := new(query).add(sql(m.fill("INSERT INTO {db}.shard (number, of, at) SELECT ")), m.shard, m.shards).add(", now()")
	if err := m.conn.Exec(ctx, q.text.String(), q.args...); err != nil {
		return fmt.Errorf("note the number of the shard: %w", err)
	}
	return nil
}

func (m migration) exec(ctx context.Context, statement string) error {
	return execOn(ctx, m.conn, statement)
}

func execOn(ctx context.Context, conn driver.Conn, statement string) error {
	if err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("run %q: %w", firstLine(statement), err)
	}
	return nil
}
