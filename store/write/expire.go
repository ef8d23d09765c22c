package write

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// expireTimeout bounds one look.
const expireTimeout = 30 * time.Second

// Expirer drops what is older than the retention, a whole day at a time (a month, of tables that are partitioned by
// it). The TTL of the tables would do it too, but when it likes: merges for it come some hours apart, and parts that
// were written under a longer retention keep the day that was computed then. Reads do not wait for either.
type Expirer struct {
	every    time.Duration
	deps     ChoreDeps
	dropped  *prometheus.CounterVec // by table
	failures prometheus.Counter
}

// NewExpirer prepares; it connects to nothing. It looks at this interval; 0 = 1 h, for days go as a whole.
func NewExpirer(every time.Duration, deps ChoreDeps) *Expirer {
	e := &Expirer{
		every: cmp.Or(every, time.Hour), deps: deps,
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_dropped_partitions_total",
			Help: "Days, or months, that were dropped because the retention of all in them has ended, by table.",
		}, []string{"table"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_expire_failures_total",
			Help: "Looks for days whose retention has ended that ended in an error; they are repeated."}),
	}
	deps.Metrics.MustRegister(e.dropped, e.failures)
	for _, table := range schema.RetainedTables() {
		e.dropped.WithLabelValues(table) // shown from the start
	}
	return e
}

// Run looks at the interval until ctx ends.
func (e *Expirer) Run(ctx context.Context) error {
	return chore{
		ChoreDeps: e.deps, name: "drop what the retention has ended for", every: e.every, look: e.look, failures: e.failures,
	}.run(ctx)
}

// look drops once, on every shard that can be reached.
func (e *Expirer) look(ctx context.Context) error {
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
