package write

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// expireTimeout bounds one run of the Expirer.
const expireTimeout = 30 * time.Second

// Expirer drops partitions (a day, or a month) whose rows are all older than the retention. The TTL of the tables would
// do it too, but hours later, and parts that were written under a longer retention keep the date computed then. Reads
// filter by the retention and wait for neither.
type Expirer struct {
	interval time.Duration
	deps     ChoreDeps
	dropped  *prometheus.CounterVec // label: table
	failures prometheus.Counter
}

// NewExpirer registers the metrics; it does not connect. It drops once every interval; 0 = 1 h, which is often
// enough because only whole days are dropped.
func NewExpirer(interval time.Duration, deps ChoreDeps) *Expirer {
	e := &Expirer{
		interval: cmp.Or(interval, time.Hour), deps: deps,
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_dropped_partitions_total",
			Help: "Partitions (a day, or a month) that were dropped because all their rows were older than the retention.",
		}, []string{"table"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_expire_failures_total",
			Help: "Failed runs of the expirer; the next run retries them."}),
	}
	deps.Metrics.MustRegister(e.dropped, e.failures)
	for _, table := range schema.RetainedTables() {
		e.dropped.WithLabelValues(table) // exported with 0 from the start
	}
	return e
}

// Run drops expired partitions every interval on the node that does the chores, until ctx ends.
func (e *Expirer) Run(ctx context.Context) error {
	return chore{
		ChoreDeps: e.deps, failure: "cannot drop expired partitions in clickhouse", interval: e.interval, work: e.dropOnce,
		failures: e.failures,
	}.run(ctx)
}

// dropOnce drops the expired partitions of every shard that is available.
func (e *Expirer) dropOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	pool := e.deps.Store.Pool()
	return pool.ForEachShard(func(shard int) error {
		conn, err := pool.Conn(ctx, shard)
		if err != nil {
			return ch.ClassifyError(ctx, err)
		}
		for _, table := range schema.RetainedTables() {
			n, err := schema.DropExpired(ctx, conn, "", table, e.deps.Store.Oldest())
			e.dropped.WithLabelValues(table).Add(float64(n))
			if err != nil {
				return ch.ClassifyError(ctx, err)
			}
		}
		return nil
	})
}
