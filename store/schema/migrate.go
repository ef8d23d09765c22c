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

	"github.com/eventrelay/relay/store/ch"
)

// Config says where the tables are and how long their rows live.
type Config struct {
	// URL is the address of ClickHouse, or the comma-separated addresses of its shards in their order, as for the
	// writer.
	URL string
	// RetentionDays is how many days the rows of an event live.
	RetentionDays int
	// SearchIndex says whether events have a text index for searches.
	SearchIndex bool
	// Cluster is the name of the ClickHouse cluster of the shards; empty: the servers are no cluster.
	Cluster string
	// Upgrading says that nodes of the previous version may be running: what only they need is not removed.
	Upgrading bool
	// Check returns what would run, and changes nothing.
	Check bool
	// Program is the version of this program; it is recorded with each step.
	Program string
	// Sync makes what a step has done durable before the step is recorded. Nil: ClickHouse does that before it answers.
	Sync func() error
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Validate returns all faults of the configuration, joined.
func (c Config) Validate() error {
	all, err := ch.ParseURLs(c.URL)
	if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
		err = errors.Join(err, fmt.Errorf(
			"clickhouse cluster: %q is not a plain name: use letters, digits, _ . and -", c.Cluster))
	}
	for i, opts := range all {
		if c.Cluster != "" && opts.Auth.Database != all[0].Auth.Database {
			err = errors.Join(err, fmt.Errorf("clickhouse URL: shard %d has database %s and shard 1 %s; "+
				"use the same database on every shard of a cluster",
				i+1, opts.Auth.Database, all[0].Auth.Database))
		}
	}
	return errors.Join(err, ch.RequirePositive("retention days", c.RetentionDays))
}

// Migrated is the result of a migration.
type Migrated struct {
	Schema uint32   // number of the last step that is applied
	Ran    []string // steps that this migration ran on at least one shard, in order
	// Waiting are the final steps that have not run on at least one shard, because Config.Upgrading keeps them back.
	Waiting []string
}

// Migrate brings the databases to the schema of this program. It creates them, runs the steps that have not run yet in
// order, sets the retention of the tables, adds or removes the text index, and records which shard each database is. It
// may run again after an interruption at any point, and beside another migration. It refuses a database of a newer
// program, one that ran other steps, and one that is another shard.
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
			m.retentionConns = conns // statements run ON CLUSTER, so the first connection migrates all servers
		}
		ran, waiting, err := m.run(ctx, steps)
		done.Ran, done.Waiting = append(done.Ran, ran...), append(done.Waiting, waiting...)
		if err != nil {
			return done, fmt.Errorf("migrate database %s of shard %d: %w", databases[i], i+1, err)
		}
	}
	slices.Sort(done.Ran)
	done.Ran = slices.Compact(done.Ran)
	slices.Sort(done.Waiting)
	done.Waiting = slices.Compact(done.Waiting)
	for _, s := range steps {
		if !s.final || !cfg.Upgrading {
			done.Schema = s.number
		}
	}
	return done, nil
}

// migration migrates one shard, or a whole cluster.
type migration struct {
	target
	conn           driver.Conn
	retentionConns []driver.Conn // to every shard whose old partitions this migration drops
	cfg            Config
	shard, shards  int
}

// appliedStep is a step that has run, as recorded.
type appliedStep struct {
	name, program, checksum string
}

func (m migration) run(ctx context.Context, steps []step) (ran, waiting []string, err error) {
	var engine string
	var tables uint64
	q := new(ch.Query).Add("SELECT anyIf(engine, name = 'schema_version'), count() FROM system.tables "+
		"WHERE name IN ('schema_version', 'shard') AND database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&engine, &tables); err != nil {
		return nil, nil, fmt.Errorf("read the engine of the tables: %w", err)
	}
	if err := validateEngine(engine, m.cluster); err != nil {
		return nil, nil, err
	}
	for _, statement := range m.bookkeepingTables() {
		if m.cfg.Check || m.cluster == "" && tables == 2 {
			break // on a full disk a statement fails although it would change nothing
		}
		if err := m.exec(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	done, err := m.appliedSteps(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := validateHistory(done, steps); err != nil {
		return nil, nil, err
	}
	if m.cfg.Check {
		for _, s := range steps {
			if _, ok := done[s.number]; !ok {
				ran = append(ran, s.name)
			}
		}
		return ran, nil, nil
	}
	for _, s := range steps {
		if _, ok := done[s.number]; !ok { // a concurrent migration may have run this step meanwhile
			if done, err = m.appliedSteps(ctx); err != nil {
				return ran, waiting, err
			}
		}
		_, ok := done[s.number]
		switch {
		case !ok && s.final && m.cfg.Upgrading:
			waiting = append(waiting, s.name)
			continue
		case ok && (!s.final || len(ran) == 0):
			// The step has run. But a step that ran just now may have re-created what a final step, run by a concurrent
			// migration, had removed: then the final step runs again.
			continue
		}
		if err := m.apply(ctx, s); err != nil {
			return ran, waiting, err
		}
		if ok {
			continue
		}
		if err := m.recordStep(ctx, s); err != nil {
			return ran, waiting, err
		}
		ran = append(ran, s.name)
	}
	if err := errors.Join(m.setRetention(ctx), m.setSearchIndex(ctx)); err != nil {
		return ran, waiting, err
	}
	return ran, waiting, m.recordShard(ctx)
}

// appliedSteps returns the steps that have run, by number.
func (m migration) appliedSteps(ctx context.Context) (out map[uint32]appliedStep, err error) {
	rows, err := m.conn.Query(ctx, m.fill("SELECT version, argMax(name, at), argMax(program, at), argMax(checksum, at) "+
		"FROM {db}.schema_version GROUP BY version"))
	if err != nil {
		return nil, fmt.Errorf("read the applied migrations: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = make(map[uint32]appliedStep)
	for rows.Next() {
		var version uint32
		var a appliedStep
		if err := rows.Scan(&version, &a.name, &a.program, &a.checksum); err != nil {
			return nil, fmt.Errorf("read the applied migrations: %w", err)
		}
		out[version] = a
	}
	return out, rows.Err()
}

// validateHistory refuses a database whose applied steps are not those of this program.
func validateHistory(done map[uint32]appliedStep, steps []step) error {
	known := make(map[uint32]step, len(steps))
	for _, s := range steps {
		known[s.number] = s
	}
	newest := steps[len(steps)-1].number
	numbers := slices.Sorted(maps.Keys(done)) // the baseline first: its error is the most useful one
	for _, number := range numbers {
		ran, s := done[number], known[number]
		program := cmp.Or(ran.program, "unknown")
		switch {
		case number == baselineNumber && ran.checksum != s.checksum:
			return fmt.Errorf("the tables were made by version %s, from before the first release, "+
				"and this version cannot change them into its own: "+
				"start with an empty data directory, or name a database that does not exist yet in RELAY_CLICKHOUSE_URL", program)
		case number > newest:
			return fmt.Errorf("migration %s was run by version %s: this version knows migrations up to %04d, use the newer "+
				"version",
				ran.name, program, newest)
		case ran.checksum != s.checksum:
			return fmt.Errorf("migration %s, run by version %s, is not the one of this version: "+
				"a migration must not change once it has run", ran.name, program)
		}
	}
	return nil
}

// apply runs a step and makes its effect durable.
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

// recordStep records that a step has run.
func (m migration) recordStep(ctx context.Context, s step) error {
	insert := "INSERT INTO {db}.schema_version (version, name, at, program, checksum) SELECT "
	q := new(ch.Query).Add(ch.SQL(m.fill(insert)), int(s.number), s.name)
	q.Add(", now(), ", m.cfg.Program, s.checksum)
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("record that %s has run: %w", s.name, err)
	}
	return nil
}

// setRetention sets the TTL of the tables that have another one. Old parts keep their expiry date until they are
// merged; reads filter by the retention as well. Before a longer retention is set, expired days are dropped: some of
// their parts may be gone already, and half a day must not become visible again.
func (m migration) setRetention(ctx context.Context) error {
	var names, engines []string
	q := new(ch.Query).Add("SELECT groupArray(name), groupArray(engine_full) FROM system.tables WHERE database = ", m.db)
	if err := m.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&names, &engines); err != nil {
		return fmt.Errorf("read the retention of the tables: %w", err)
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

// recordShard records which shard this database is. If that is recorded already, it must be the same.
func (m migration) recordShard(ctx context.Context) error {
	if err := ch.CheckShard(ctx, m.conn, m.fill("{db}.shard"), m.shard, m.shards); !errors.Is(err, ch.ErrNoShard) {
		return err
	}
	q := new(ch.Query).Add(ch.SQL(m.fill("INSERT INTO {db}.shard (number, of, at) SELECT ")), m.shard, m.shards)
	q.Add(", now()")
	if err := m.conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("record the number of the shard: %w", err)
	}
	return nil
}

func (m migration) exec(ctx context.Context, statement string) error {
	if err := m.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("run %q: %w", firstLine(statement), err)
	}
	return nil
}
