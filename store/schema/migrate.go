package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

// Config says where the tables are and how long rows stay.
type Config struct {
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
	// Sync makes what a step has done durable, before the step is noted. Nil: what is answered is.
	Sync func() error
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Validate reports all faults at once.
func (c Config) Validate() error {
	all, err := ch.ParseURLs(c.URL)
	if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
		err = errors.Join(err, fmt.Errorf("clickhouse cluster: %q is not a plain name", c.Cluster))
	}
	for i, opts := range all {
		if c.Cluster != "" && opts.Auth.Database != all[0].Auth.Database {
			err = errors.Join(err, fmt.Errorf("clickhouse URL: shard %d has database %s and shard 1 %s; "+
				"in a cluster they are the same",
				i+1, opts.Auth.Database, all[0].Auth.Database))
		}
	}
	return errors.Join(err, ch.RequirePositive("retention days", c.RetentionDays))
}

// Migrated is what a migration came to.
type Migrated struct {
	Schema uint32   // number of the last step
	Ran    []string // the steps that ran now, in their order; on several shards those of any
}

// Migrate brings the databases up to the schema of this program: it creates them, runs the steps that have not run yet,
// in order, sets the retention of every table that follows it, adds the text index or takes it away, and notes which
// shard each is. It is safe to run again, after it was interrupted at any place, and beside another one. It refuses a
// database of a newer program, one whose steps were others, and one that is another shard.
func Migrate(ctx context.Context, cfg Config) (Migrated, error) {
	return migrateFrom(ctx, cfg, files)
}

func migrateFrom(ctx context.Context, cfg Config, files fs.FS) (done Migrated, err error) {
	steps, err := readSteps(files)
	if err != nil {
		return done, err
	}
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
		m := migration{
			target: target{databases[i], cfg.RetentionDays, cfg.Cluster},
			conn:   conn, retentionConns: conns[i : i+1], cfg: cfg, shard: i + 1, shards: len(conns),
		}
		if cfg.Cluster != "" {
			m.retentionConns = conns // the first shard's migration is that of all servers
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

// migration is that of one shard.
type migration struct {
	target
	conn           driver.Conn
	retentionConns []driver.Conn // to every shard whose rows this migration is about
	cfg            Config
	shard, shards  int
}

// applied is a step that has run.
type appliedStep struct {
	name, program, checksum string
}

func (m migration) run(ctx context.Context, steps []step) (ran []string, err error) {
	var engine string
	q := new(ch.Query).Add("SELECT any(engine) FROM system.tables WHERE name = 'schema_version' AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&engine); err != nil {
		return nil, fmt.Errorf("read what the tables are: %w", err)
	}
	if err := validateEngine(engine, m.cluster); err != nil {
		return nil, err
	}
	for _, statement := range m.bookkeepingTables() {
		if err := m.exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	done, err := m.appliedSteps(ctx)
	if err != nil {
		return nil, err
	}
	if err := validateHistory(done, steps); err != nil {
		return nil, err
	}
	for _, s := range steps {
		if _, ok := done[s.number]; !ok { // another migration may have come further than this one
			if done, err = m.appliedSteps(ctx); err != nil {
				return ran, err
			}
		}
		_, ok := done[s.number]
		switch {
		case !ok && s.final && m.cfg.Upgrading:
			continue
		case ok && (!s.final || len(ran) == 0):
			// Done; but a step that ran just now may have made again what a final one, run by another migration that came
			// further, had taken away meanwhile.
			continue
		}
		if err := m.apply(ctx, s); err != nil {
			return ran, err
		}
		if ok {
			continue
		}
		if err := m.recordStep(ctx, s); err != nil {
			return ran, err
		}
		ran = append(ran, s.name)
	}
	if err := errors.Join(m.setRetention(ctx), m.setSearchIndex(ctx)); err != nil {
		return ran, err
	}
	return ran, m.recordShard(ctx)
}

// applied are the steps that have run, by their numbers.
func (m migration) appliedSteps(ctx context.Context) (out map[uint32]appliedStep, err error) {
	rows, err := m.conn.Query(ctx, m.fill("SELECT version, argMax(name, at), argMax(program, at), argMax(checksum, at) "+
		"FROM {db}.schema_version GROUP BY version"))
	if err != nil {
		return nil, fmt.Errorf("read which migrations ran: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = make(map[uint32]appliedStep)
	for rows.Next() {
		var version uint32
		var a appliedStep
		if err := rows.Scan(&version, &a.name, &a.program, &a.checksum); err != nil {
			return nil, fmt.Errorf("read which migrations ran: %w", err)
		}
		out[version] = a
	}
	return out, rows.Err()
}

// fits refuses a database that this program does not know.
func validateHistory(done map[uint32]appliedStep, steps []step) error {
	known := make(map[uint32]step, len(steps))
	for _, s := range steps {
		known[s.number] = s
	}
	newest := steps[len(steps)-1].number
	numbers := slices.Sorted(maps.Keys(done)) // what the baseline was says most
	for _, number := range numbers {
		was, s := done[number], known[number]
		program := cmp.Or(was.program, "unknown")
		switch {
		case number == baselineNumber && was.checksum != s.checksum:
			return fmt.Errorf("the tables were made by version %s, from before the first release, "+
				"and this version cannot change them into its own: "+
				"start with an empty data directory, or name a database that does not exist yet in RELAY_CLICKHOUSE_URL", program)
		case number > newest:
			return fmt.Errorf("migration %s was run by version %s: this version knows %04d at most, use the newer one",
				was.name, program, newest)
		case was.checksum != s.checksum:
			return fmt.Errorf("migration %s, run by version %s, is not the one of this version: "+
				"a migration must not change once it has run", was.name, program)
		}
	}
	return nil
}

// apply runs a step and makes what it did durable.
func (m migration) apply(ctx context.Context, s step) error {
	statements, err := s.render(m.target)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := m.exec(ctx, statement); err != nil {
			return fmt.Errorf("apply %s: %w", s.name, err)
		}
	}
	if m.cfg.Sync == nil {
		return nil
	}
	if err := m.cfg.Sync(); err != nil {
		return fmt.Errorf("make the tables of %s durable: %w", s.name, err)
	}
	return nil
}

// note writes that a step has run.
func (m migration) recordStep(ctx context.Context, s step) error {
	insert := "INSERT INTO {db}.schema_version (version, name, at, program, checksum) SELECT "
	q := new(ch.Query).Add(ch.SQL(m.fill(insert)), int(s.number), s.name)
	q.Add(", now(), ", m.cfg.Program, s.checksum)
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("note that %s has run: %w", s.name, err)
	}
	return nil
}

// setRetention changes the TTL of the tables that have another one. Old parts keep the date they were written with
// until they are merged; reads filter by the retention as well. Before it is made longer, days that had ended are
// dropped: some of their parts may have gone already, and half a day must not come back.
func (m migration) setRetention(ctx context.Context) error {
	var names, engines []string
	q := new(ch.Query).Add("SELECT groupArray(name), groupArray(engine_full) FROM system.tables WHERE database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&names, &engines); err != nil {
		return fmt.Errorf("read how long tables keep their rows: %w", err)
	}
	for i, table := range names {
		days := TableRetentionDays(engines[i])
		if !slices.Contains(RetainedTables(), table) || days == m.days {
			continue
		}
		if 0 < days && days < m.days {
			for _, conn := range m.retentionConns {
				if _, err := DropExpired(ctx, conn, m.db, table, time.Now().AddDate(0, 0, -days)); err != nil {
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
func (m migration) recordShard(ctx context.Context) error {
	if err := ch.CheckShard(ctx, m.conn, m.fill("{db}.shard"), m.shard, m.shards); !errors.Is(err, ch.ErrNoShard) {
		return err
	}
	q := new(ch.Query).Add(ch.SQL(m.fill("INSERT INTO {db}.shard (number, of, at) SELECT ")), m.shard, m.shards)
	q.Add(", now()")
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("note the number of the shard: %w", err)
	}
	return nil
}

func (m migration) exec(ctx context.Context, statement string) error {
	if err := m.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("run %q: %w", firstLine(statement), err)
	}
	return nil
}
