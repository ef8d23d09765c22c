package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/schema"
)

// ownerCheckInterval is how often a node checks whether it is the one that does a chore.
const ownerCheckInterval = 5 * time.Second

// Tables gives chores access to the tables. read.Reader implements it.
type Tables interface {
	Pool() *ch.Pool
	// Oldest is the beginning of the retention: reads show nothing older.
	Oldest() time.Time
	// CaughtUp returns nil if the store holds everything about events that was acknowledged before the call.
	CaughtUp(context.Context) error
}

// ChoreDeps are the dependencies of chores: work on the tables that only one node of a cluster does.
type ChoreDeps struct {
	Log     *slog.Logger
	Store   Tables
	IsOwner func() bool // whether this node does the chores
	Metrics prometheus.Registerer
}

// chore is periodic work on the tables that only one node of a cluster does.
type chore struct {
	ChoreDeps
	failure  string        // log message when work fails
	interval time.Duration // from the end of one call of work to the next
	work     func(context.Context) error
	onIdle   func() // called on the nodes that do not do the chore; may be nil
	failures prometheus.Counter
}

// run calls work within ownerCheckInterval after this node has become the owner, and then every chore.interval, until
// ctx ends. An error is logged and counted; the next call comes after the usual interval.
func (c chore) run(ctx context.Context) error {
	pollInterval := min(c.interval, ownerCheckInterval)
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait := pollInterval
		if c.IsOwner() {
			if err := c.work(ctx); err != nil && ctx.Err() == nil {
				c.failures.Inc()
				c.Log.LogAttrs(ctx, slog.LevelWarn, c.failure, slog.Any("error", err))
			}
			wait = c.interval
		} else if c.onIdle != nil {
			c.onIdle()
		}
		timer.Reset(wait)
	}
}

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
	return &Expirer{
		interval: cmp.Or(interval, time.Hour), deps: deps,
		dropped: metric.Counters(deps.Metrics, "relay_store_dropped_partitions_total",
			"Partitions (a day, or a month) that were dropped because all their rows were older than the retention.",
			"table", schema.RetainedTables()...),
		failures: metric.Counter(deps.Metrics, "relay_store_expire_failures_total",
			"Failed runs of the expirer; the next run retries them."),
	}
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

// A payload is what was received and what was exchanged for it: body, headers and query of the event, headers and
// bodies of its attempts. Whether it was erased is recorded in the configuration log, which every node applies at once,
// and not in ClickHouse. Reads leave an erased payload out, the writer inserts rows without it (also when it inserts
// them again), and the Eraser empties the rows that are stored already.

// stripErased returns the rows of events and deliveries without erased payloads. It changes none of the batch: readers
// and a scan may have its rows.
func (b *batch) stripErased(erased func(id.ID) bool) (events []*eventRow, deliveries []*deliveryRow) {
	events, deliveries = sinkOf[*eventRow](b).rows, sinkOf[*deliveryRow](b).rows
	if erased == nil {
		return events, deliveries
	}
	events = replaced(events, erased, func(r *eventRow) *eventRow {
		return &eventRow{Event: store.WithoutPayload(r.Event), source: r.source, duplicate: r.duplicate, size: r.size}
	})
	deliveries = replaced(deliveries, erased, func(r *deliveryRow) *deliveryRow {
		if !r.hasAttempt() {
			return r
		}
		attempt, outcome := *r.Attempt, *r.Outcome
		attempt.RequestHeader, attempt.ResponseHeader, attempt.ResponseBody = "", "", nil
		outcome.Attempt = &attempt
		return &deliveryRow{Outcome: &outcome, source: r.source, version: r.version}
	})
	return events, deliveries
}

// replaced returns rows, or a copy in which the rows of erased events are replaced.
func replaced[R row](rows []R, erased func(id.ID) bool, replace func(R) R) []R {
	isErased := func(r R) bool { return erased(r.shardID()) }
	if !slices.ContainsFunc(rows, isErased) {
		return rows
	}
	rows = slices.Clone(rows)
	for i, r := range rows {
		if isErased(r) {
			rows[i] = replace(r)
		}
	}
	return rows
}

const (
	// eraseBatch is the number of events in one statement.
	eraseBatch = 200
	// eraseTimeout bounds one run of the Eraser, with the rewriting of parts.
	eraseTimeout = 10 * time.Minute
)

// Erasures is the list of erased payloads in the configuration.
type Erasures interface {
	// Unfinished returns the events whose payload the store may still have, with the time of each erasure.
	Unfinished() (account string, erased map[id.ID]time.Time)
	// Finish records that the store does not have the payload any more.
	Finish(ctx context.Context, event id.ID) error
}

// EraserConfig says when an Eraser works.
type EraserConfig struct {
	// Every is the pause between two runs; a run with nothing to erase asks ClickHouse nothing. 0 = 5 s.
	Every time.Duration
	// Settle is how long after an erasure it can be finished: by then the rows that were in memory at that time are
	// stored, and a run has found none with a payload. 0 = 15 min.
	Settle time.Duration
}

// EraserDeps are the dependencies of an Eraser.
type EraserDeps struct {
	ChoreDeps
	Erasures Erasures
	Now      func() time.Time
}

// Eraser empties erased payloads in the rows of ClickHouse. It may be killed at any moment: an erasure that is not
// recorded as finished is looked for again.
type Eraser struct {
	cfg      EraserConfig
	deps     EraserDeps
	waiting  prometheus.Gauge
	failures prometheus.Counter
}

// NewEraser registers the metrics; it does not connect.
func NewEraser(cfg EraserConfig, deps EraserDeps) *Eraser {
	cfg.Every, cfg.Settle = cmp.Or(cfg.Every, 5*time.Second), cmp.Or(cfg.Settle, 15*time.Minute)
	return &Eraser{
		cfg: cfg, deps: deps,
		waiting: metric.Gauge(deps.Metrics, "relay_store_erasures_unfinished",
			"Events whose erased payload may still be in rows or files of ClickHouse."),
		failures: metric.Counter(deps.Metrics, "relay_store_erase_failures_total",
			"Failed runs of the eraser; the next run retries them."),
	}
}

// Run erases every EraserConfig.Every on the node that does the chores, until ctx ends.
func (e *Eraser) Run(ctx context.Context) error {
	return chore{
		ChoreDeps: e.deps.ChoreDeps, failure: "cannot erase payloads in clickhouse", interval: e.cfg.Every, work: e.eraseOnce,
		onIdle: func() { e.waiting.Set(0) }, failures: e.failures,
	}.run(ctx)
}

// eraseOnce empties the payloads that it finds and finishes the erasures of which it found none after
// EraserConfig.Settle. An unavailable shard does not keep it from erasing on the others.
func (e *Eraser) eraseOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	account, erased := e.deps.Erasures.Unfinished()
	e.waiting.Set(float64(len(erased)))
	if len(erased) == 0 {
		return nil
	}
	// An erasure is finished only if the store holds everything that was acknowledged before this run.
	lagging := e.deps.Store.CaughtUp(ctx)
	newestFirst := slices.SortedFunc(maps.Keys(erased), id.NewestFirst)
	pool := e.deps.Store.Pool()
	return errors.Join(lagging, pool.ForEachShard(func(shard int) error {
		onOtherShard := func(event id.ID) bool { return ch.ShardOf(event, pool.Count()) != shard }
		onThisShard := slices.DeleteFunc(slices.Clone(newestFirst), onOtherShard)
		for ids := range slices.Chunk(onThisShard, eraseBatch) {
			found, err := erasePayloads(ctx, pool, shard, account, ids)
			if err != nil {
				return err
			}
			if lagging != nil {
				continue
			}
			if err := e.finishErased(ctx, ids, found, erased); err != nil {
				return err
			}
		}
		return nil
	}))
}

// finishErased finishes the erasures of those events in which this run found no payload and which were erased at least
// EraserConfig.Settle ago.
func (e *Eraser) finishErased(
	ctx context.Context, ids []id.ID, found map[id.ID]bool, erased map[id.ID]time.Time) error {
	for _, event := range ids {
		if found[event] || e.deps.Now().Sub(erased[event]) < e.cfg.Settle {
			continue
		}
		if err := e.deps.Erasures.Finish(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// payloadTable names a table with payloads and the statements that find and empty them.
type payloadTable struct {
	name        string
	find, erase ch.SQL
}

var payloadTables = []payloadTable{
	{
		"events",
		"SELECT DISTINCT id FROM events WHERE (body != '' OR headers != '' OR query != '' OR mismatch != '') AND account = ",
		"ALTER TABLE events UPDATE body = '', headers = '', query = '', mismatch = '' WHERE account = ",
	},
	{
		"attempts",
		"SELECT DISTINCT id FROM attempts WHERE (req_headers != '' OR resp_headers != '' OR resp_body != '') AND account = ",
		"ALTER TABLE attempts UPDATE req_headers = '', resp_headers = '', resp_body = '' WHERE account = ",
	},
}

// erasePayloads empties the payloads of events, given newest first, on one shard and returns the events that had some.
// ClickHouse writes the parts anew and removes the old files some minutes later.
func erasePayloads(ctx context.Context, pool *ch.Pool, shard int, account string, ids []id.ID) (
	found map[id.ID]bool, err error,
) {
	found = make(map[id.ID]bool)
	for _, t := range payloadTables {
		var withPayload []id.ID
		q := new(ch.Query).Add(t.find, account)
		ch.WhereIDs(q, ids)
		err := pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			var event id.ID
			err := rows.Scan((*[16]byte)(&event))
			withPayload, found[event] = append(withPayload, event), true
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(withPayload) == 0 {
			continue
		}
		running, err := updateRunning(ctx, pool, shard, t.name)
		if err != nil {
			return nil, err
		}
		if running {
			continue
		}
		slices.SortFunc(withPayload, id.NewestFirst)
		q = new(ch.Query).Add(t.erase, account)
		ch.WhereIDs(q, withPayload)
		q.Add(" SETTINGS mutations_sync = 2")
		if err := pool.Exec(ctx, shard, q); err != nil {
			return nil, ch.ClassifyError(ctx, fmt.Errorf("empty payloads: %w", err))
		}
	}
	return found, nil
}

// updateRunning reports whether an earlier UPDATE of a table is still running. ClickHouse goes on with it after its
// client has gone; while it waits, for example because merges are stopped, another one would only add to the queue.
func updateRunning(ctx context.Context, pool *ch.Pool, shard int, table string) (running bool, err error) {
	q := new(ch.Query).Add("SELECT count() > 0 FROM system.mutations WHERE database = currentDatabase() "+
		"AND NOT is_done AND command LIKE '%UPDATE %' AND table = ", table)
	err = pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&running) })
	return running, err
}
