package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

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
	all, err := ch.ParseURLs(c.URL)
	if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
		err = errors.Join(err, fmt.Errorf("clickhouse cluster: %q is not a plain name", c.Cluster))
	}
	for i, opts := range all {
		if c.Cluster != "" && opts.Auth.Database != all[0].Auth.Database {
			err = errors.Join(err, fmt.Errorf("clickhouse URL: shard %d has database %s and shard 1 %s; in a cluster they are the same", i+1, opts.Auth.Database, all[0].Auth.Database))
		}
	}
	return errors.Join(err, ch.Positive("retention days", c.RetentionDays))
}

// alone says that nobody else may be using a database in which nothing has run: no version before, to which the files would seem
// to have run that it waits for, and no other server of a cluster, which may have tables, and tells late what has run on it.
func (c MigrateConfig) alone() bool { return c.Cluster == "" && !c.Upgrading }

// Migrated is what a migration came to.
type Migrated struct {
	Schema uint32   // number of the last file
	Ran    []string // the files that ran now, or whose baseline did, in their order; on several shards those of any
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
	base, err := readBaseline()
	if err != nil {
		return Migrated{}, err
	}
	return migrateTo(ctx, cfg, steps, &base)
}

// migrateTo runs the files, and in place of some a baseline where there is one and it may.
func migrateTo(ctx context.Context, cfg MigrateConfig, steps []step, base *baseline) (done Migrated, err error) {
	if err := cfg.Validate(); err != nil {
		return done, err
	}
	var databases []string
	// The databases may not exist yet, so the connections start in the one that always does.
	conns, err := ch.Open(cfg.URL, func(o *clickhouse.Options) {
		databases = append(databases, o.Auth.Database)
		o.Auth.Database = "default"
	})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, ch.CloseAll(conns)) }()
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
		ran, err := m.run(ctx, steps, base)
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

func (m migration) run(ctx context.Context, steps []step, base *baseline) (ran []string, err error) {
	var engine string
	q := new(ch.Query).Add("SELECT any(engine) FROM system.tables WHERE name = 'schema_version' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&engine); err != nil {
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
	if len(done) == 0 && base != nil && m.cfg.alone() {
		if ran, err = m.begin(ctx, steps, base); err != nil {
			return nil, err
		}
	}
	for _, s := range steps {
		if s.final && m.cfg.Upgrading {
			continue
		}
		if _, ok := done[s.number]; !ok { // another migration may have come further than this one
			if done, err = m.applied(ctx); err != nil {
				return ran, err
			}
		}
		was, ok := done[s.number]
		if ok && was.checksum != "" {
			continue
		}
		if !ok {
			if err := m.apply(ctx, s); err != nil {
				return ran, err
			}
			ran = append(ran, s.name)
		}
		if err := m.note(ctx, s); err != nil {
			return ran, err
		}
	}
	if err := errors.Join(m.endAgain(ctx, steps, ran), m.setRetention(ctx), m.setSearchIndex(ctx)); err != nil {
		return ran, err
	}
	return ran, m.claim(ctx)
}

// endAgain runs the final files that have run already once more, behind files that ran now and come before them: those may have
// made again what another migration, that came further, had taken away meanwhile.
func (m migration) endAgain(ctx context.Context, steps []step, ran []string) error {
	if len(ran) == 0 {
		return nil
	}
	done, err := m.applied(ctx)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(steps, func(s step) bool { return s.name == ran[0] })
	for _, s := range steps[first:] {
		if _, ok := done[s.number]; !ok || !s.final || slices.Contains(ran, s.name) {
			continue
		}
		if err := m.apply(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the tables of an empty database from the baseline, and notes the files that it stands for: it returns their
// names. In a database that is not empty it does nothing: a run that was broken off, of this version or of one before, is
// completed by the files, each of which may run on what is there. The baseline's statements are refused where there is such
// a table: whoever has run all of them has made all tables, and whatever others say of these has changed nothing.
func (m migration) begin(ctx context.Context, steps []step, base *baseline) (ran []string, err error) {
	var tables uint64
	q := new(ch.Query).Add("SELECT count() FROM system.tables WHERE name NOT IN ('schema_version', 'shard') AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&tables); err != nil {
		return nil, fmt.Errorf("read whether there are tables: %w", err)
	}
	if tables > 0 {
		return nil, nil
	}
	if err := m.apply(ctx, base.step); alreadyThere(err) {
		return nil, nil // another migration makes tables at the same time, maybe as they were before
	} else if err != nil {
		return nil, err
	}
	var files, finals []step
	for _, s := range steps {
		switch {
		case !base.covers(s):
			continue
		case s.final:
			finals = append(finals, s)
		default:
			files = append(files, s)
		}
		ran = append(ran, s.name)
	}
	// A file that runs again makes views that a final one takes away: that one is not noted before all others are.
	if err := m.note(ctx, files...); err != nil {
		return nil, err
	}
	return ran, m.note(ctx, finals...)
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

// apply runs a file and makes what it did durable.
func (m migration) apply(ctx context.Context, s step) error {
	if err := errors.Join(m.execAll(ctx, s), m.sync()); err != nil {
		return fmt.Errorf("apply %s: %w", s.name, err)
	}
	return nil
}

func (m migration) execAll(ctx context.Context, s step) error {
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

// note writes that files have run. One of a program that noted no checksums gets its own.
func (m migration) note(ctx context.Context, files ...step) error {
	q := new(ch.Query).Add(ch.SQL(m.fill("INSERT INTO {db}.schema_version (version, name, at, program, checksum)")))
	for i, s := range files {
		if i > 0 {
			q.Add(" UNION ALL")
		}
		q.Add(" SELECT ", int(s.number), s.name).Add(", now(), ", m.cfg.Program, s.checksum)
	}
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("note that %s has run: %w", files[len(files)-1].name, err)
	}
	return nil
}

// setRetention changes the TTL of the tables that have another one. Old parts keep the date they were written with until
// they are merged; reads filter by the retention as well. Before it is made longer, days that had ended are dropped: some
// of their parts may have gone already, and half a day must not come back.
func (m migration) setRetention(ctx context.Context) error {
	var names, engines []string
	q := new(ch.Query).Add("SELECT groupArray(name), groupArray(engine_full) FROM system.tables WHERE database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&names, &engines); err != nil {
		return fmt.Errorf("read how long tables keep their rows: %w", err)
	}
	for i, table := range names {
		days, whole := KeptDays(engines[i])
		if !slices.Contains(Retained(), table) || whole && days == m.days {
			continue
		}
		if 0 < days && days < m.days {
			for _, conn := range m.data {
				if _, err := DropEnded(ctx, conn, m.db, table, time.Now().AddDate(0, 0, -days)); err != nil {
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
	if err := ch.CheckShard(ctx, m.conn, m.fill("{db}.shard"), m.shard, m.shards); !errors.Is(err, ch.ErrNoShard) {
		return err
	}
	q := new(ch.Query).Add(ch.SQL(m.fill("INSERT INTO {db}.shard (number, of, at) SELECT ")), m.shard, m.shards).Add(", now()")
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
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
