package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
}

// NewExpirer prepares; it connects to nothing.
func NewExpirer(cfg ExpirerConfig, deps ExpirerDeps) (*Expirer, error) {
	if cfg.Every <= 0 || deps.Log == nil || deps.Store == nil || deps.Owner == nil || deps.Metrics == nil {
		return nil, errors.New("expirer: Every and all dependencies are needed")
	}
	e := &Expirer{cfg: cfg, deps: deps, dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relay_store_dropped_partitions_total", Help: "Days, or months, that were dropped because the retention of all in them has ended, by table."}, []string{"table"})}
	if err := deps.Metrics.Register(e.dropped); err != nil {
		return nil, fmt.Errorf("register metrics of the expirer: %w", err)
	}
	for _, table := range retained() {
		e.dropped.WithLabelValues(table) // shown from the start
	}
	return e, nil
}

// Run looks every ExpirerConfig.Every until ctx ends. What fails is tried again at the next look.
func (e *Expirer) Run(ctx context.Context) error {
	tick := time.NewTicker(e.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !e.deps.Owner() {
			continue
		}
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			e.deps.Log.LogAttrs(ctx, slog.LevelWarn, "drop what the retention has ended for", slog.Any("error", err))
		}
	}
}

// look drops once, on every shard.
func (e *Expirer) look(ctx context.Context) error {
	r := e.deps.Store
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	return r.parallel(ctx, r.shards(new(query)), func(ctx context.Context, shard int) error {
		for _, table := range retained() {
			n, err := r.dropExpired(ctx, shard, table)
			e.dropped.WithLabelValues(table).Add(float64(n))
			if err != nil {
				return fmt.Errorf("drop from %s: %w", table, err)
			}
		}
		return nil
	})
}

// dropExpired drops the partitions of a table that hold nothing which can still be read, and returns how many.
func (r *Reader) dropExpired(ctx context.Context, shard int, table string) (dropped int, err error) {
	oldest := r.oldest().UTC()
	// Ids of partitions are YYYYMMDD or YYYYMM: what is below that of the oldest readable moment has ended.
	q := new(query).add("SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = currentDatabase() AND table = ", table)
	q.add(" AND partition_id < if(length(partition_id) = 6, ", oldest.Format("200601")).add(", ", oldest.Format("20060102")).add(")")
	var ended []string
	err = r.eachOn(ctx, shard, q.add(" ORDER BY partition_id"), func(rows driver.Rows) error {
		var partition string
		err := rows.Scan(&partition)
		ended = append(ended, partition)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, partition := range ended {
		q := new(query).add("ALTER TABLE ").add(sql(table)).add(" DROP PARTITION ID ", partition)
		if err := r.conns[shard].Exec(ctx, q.text.String(), q.args...); err != nil {
			return dropped, readError(ctx, fmt.Errorf("drop partition %s: %w", partition, err))
		}
		dropped++
	}
	return dropped, nil
}
