package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
)

// ExpirerConfig says how an Expirer works.
type ExpirerConfig struct {
	// Every is the time from one look to the next.
	Every time.Duration
}

// DefaultExpirerConfig looks each hour for what goes by whole days.
func DefaultExpirerConfig() ExpirerConfig { return ExpirerConfig{Every: time.Hour} }

// ExpirerDeps are what an Expirer needs.
type ExpirerDeps struct {
	Log     *slog.Logger
	Store   *Reader
	Owner   func() bool // whether this node is the one to do it
	Metrics prometheus.Registerer
}

// Expirer drops what is older than the retention, a whole day at a time (a month, of tables that are partitioned by
// it). The TTL of the tables would do it too, but when it likes: merges for it come some hours apart, and parts that
// were written under a longer retention keep the day that was computed then. Reads do not wait for either.
type Expirer struct {
	cfg     ExpirerConfig
	deps    ExpirerDeps
	dropped *prometheus.CounterVec // by table

	failures prometheus.Counter
}

// NewExpirer prepares; it connects to nothing.
func NewExpirer(cfg ExpirerConfig, deps ExpirerDeps) (*Expirer, error) {
	if cfg.Every <= 0 || deps.Log == nil || deps.Store == nil || deps.Owner == nil || deps.Metrics == nil {
		return nil, errors.New("expirer: Every and all dependencies are needed")
	}
	e := &Expirer{
		cfg: cfg, deps: deps,
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_dropped_partitions_total", Help: "Days, or months, that were dropped because the retention of all in them has ended, by table."}, []string{"table"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_expire_failures_total", Help: "Looks for days whose retention has ended that ended in an error; they are repeated."}),
	}
	for _, c := range []prometheus.Collector{e.dropped, e.failures} {
		if err := deps.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the expirer: %w", err)
		}
	}
	for _, table := range retained() {
		e.dropped.WithLabelValues(table) // shown from the start
	}
	return e, nil
}

// Run looks every ExpirerConfig.Every until ctx ends.
func (e *Expirer) Run(ctx context.Context) error {
	return chore{
		name: "drop what the retention has ended for", every: e.cfg.Every, owner: e.deps.Owner, look: e.look,
		failures: e.failures, log: e.deps.Log,
	}.run(ctx)
}

// look drops once, on every shard that can be reached.
func (e *Expirer) look(ctx context.Context) error {
	r := e.deps.Store
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return r.apart(func(shard int) error {
		if err := r.verify(ctx, shard, r.conns[shard]); err != nil {
			return readError(ctx, err)
		}
		for _, table := range retained() {
			n, err := dropEnded(ctx, r.conns[shard], "", table, r.oldest())
			e.dropped.WithLabelValues(table).Add(float64(n))
			if err != nil {
				return readError(ctx, err)
			}
		}
		return nil
	})
}

// dropEnded drops the partitions of a table that hold nothing from oldest on, and returns how many. An empty database is
// that of the connection.
func dropEnded(ctx context.Context, conn driver.Conn, database, table string, oldest time.Time) (dropped int, err error) {
	oldest = oldest.UTC()
	// Ids of partitions are YYYYMMDD or YYYYMM: what is below that of the oldest moment has ended.
	q := new(query).add("SELECT groupUniqArray(partition_id) FROM system.parts WHERE active AND table = ", table)
	q.add(" AND database = if(", database).add(" = '', currentDatabase(), ", database).add(")")
	q.add(" AND partition_id < if(length(partition_id) = 6, ", oldest.Format("200601")).add(", ", oldest.Format("20060102")).add(")")
	var ended []string
	if err := conn.QueryRow(ctx, q.text.String(), q.args...).Scan(&ended); err != nil {
		return 0, fmt.Errorf("look for partitions of %s that have ended: %w", table, err)
	}
	where := table
	if database != "" {
		where = database + "." + table
	}
	slices.Sort(ended)
	for _, partition := range ended {
		q := new(query).add("ALTER TABLE ").add(sql(where)).add(" DROP PARTITION ID ", partition)
		if err := conn.Exec(ctx, q.text.String(), q.args...); err != nil {
			return dropped, fmt.Errorf("drop partition %s of %s: %w", partition, table, err)
		}
		dropped++
	}
	return dropped, nil
}
