package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// expireTimeout bounds one look.
const expireTimeout = 30 * time.Second

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
	Store   Tables
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
	for _, table := range schema.Retained() {
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
	ctx, cancel := context.WithTimeout(ctx, expireTimeout)
	defer cancel()
	pool := e.deps.Store.Pool()
	return pool.Apart(func(shard int) error {
		conn, err := pool.Conn(ctx, shard)
		if err != nil {
			return ch.ReadError(ctx, err)
		}
		for _, table := range schema.Retained() {
			n, err := schema.DropEnded(ctx, conn, "", table, e.deps.Store.Oldest())
			e.dropped.WithLabelValues(table).Add(float64(n))
			if err != nil {
				return ch.ReadError(ctx, err)
			}
		}
		return nil
	})
}
