package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
)

// A payload is what was received and what was exchanged for it: body, headers and query of the event, headers and
// bodies of its attempts. Whether it was erased is not asked of ClickHouse but of the configuration, which every node
// knows at once: reads leave it out, the writer writes rows without it, also those that it writes again, and the
// Eraser takes it out of the rows that stand there already.

// erase takes the payloads out of a batch that were erased since its records were read, or long before.
func (b *batch) erase(erased func(id.ID) bool) {
	if erased == nil {
		return
	}
	for _, r := range b.events {
		if erased(r.ID) {
			r.Event = store.WithoutPayload(r.Event)
		}
	}
	for _, r := range b.attempts {
		if erased(r.Event) {
			bare := *r.Attempt
			bare.RequestHeader, bare.ResponseHeader, bare.ResponseBody = "", "", nil
			r.Attempt = &bare
		}
	}
}

const (
	// eraseBatch is how many events one statement looks for.
	eraseBatch = 200
	// eraseTimeout bounds one look at the store, the rewriting of parts included.
	eraseTimeout = 10 * time.Minute
)

// Erasures is the list of what was erased.
type Erasures interface {
	// Unfinished returns the events of which the store may still have the payload, and when it was erased.
	Unfinished() (account string, erased map[id.ID]time.Time)
	// Finish notes that the store does not have it any more.
	Finish(ctx context.Context, event id.ID) error
}

// EraserConfig says how an Eraser works.
type EraserConfig struct {
	// Every is the time from one look at the list to the next, which costs nothing while nothing was erased; 0 = 5 s.
	Every time.Duration
	// Settle is after how long without payload an event counts as erased for good: rows that somebody had in hand when
	// it was erased are written by then. 0 = 15 min.
	Settle time.Duration
}

// EraserDeps are what an Eraser needs.
type EraserDeps struct {
	ChoreDeps
	Erasures Erasures
	Now      func() time.Time
}

// Eraser takes erased payloads out of the rows of ClickHouse. It may be killed at any moment: what is not noted as
// finished is looked at again.
type Eraser struct {
	cfg      EraserConfig
	deps     EraserDeps
	waiting  prometheus.Gauge
	failures prometheus.Counter
}

// NewEraser prepares; it connects to nothing.
func NewEraser(cfg EraserConfig, deps EraserDeps) *Eraser {
	cfg.Every, cfg.Settle = cmp.Or(cfg.Every, 5*time.Second), cmp.Or(cfg.Settle, 15*time.Minute)
	e := &Eraser{
		cfg: cfg, deps: deps,
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_erasures_unfinished",
			Help: "Events whose payload was erased and may still be in rows or files of ClickHouse."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_erase_failures_total",
			Help: "Looks for erased payloads that ended in an error; they are repeated."}),
	}
	deps.Metrics.MustRegister(e.waiting, e.failures)
	return e
}

// Run looks every EraserConfig.Every until ctx ends.
func (e *Eraser) Run(ctx context.Context) error {
	return chore{
		ChoreDeps: e.deps.ChoreDeps, name: "take erased payloads out of the store", every: e.cfg.Every, look: e.look,
		idle: func() { e.waiting.Set(0) }, failures: e.failures,
	}.run(ctx)
}

// look takes out what it finds, and notes what was not there for long enough. Where a shard is away the others'
// payloads go all the same.
func (e *Eraser) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	account, erased := e.deps.Erasures.Unfinished()
	e.waiting.Set(float64(len(erased)))
	if len(erased) == 0 {
		return nil
	}
	// What was acknowledged before now is in the store before it counts that it holds no payload.
	behind := e.deps.Store.CaughtUp(ctx)
	newestFirst := slices.SortedFunc(maps.Keys(erased), func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
	pool := e.deps.Store.Pool()
	return errors.Join(behind, pool.ForEachShard(func(shard int) error {
		elsewhere := func(d id.ID) bool { return ch.ShardOf(d, pool.Count()) != shard }
		here := slices.DeleteFunc(slices.Clone(newestFirst), elsewhere)
		for ids := range slices.Chunk(here, eraseBatch) {
			found, err := erasePayloads(ctx, pool, shard, account, ids)
			if err != nil {
				return err
			}
			if behind != nil {
				continue
			}
			if err := e.finish(ctx, ids, found, erased); err != nil {
				return err
			}
		}
		return nil
	}))
}

// finish notes of which events the payload has gone for good.
func (e *Eraser) finish(ctx context.Context, ids []id.ID, found map[id.ID]bool, erased map[id.ID]time.Time) error {
	for _, d := range ids {
		if found[d] || e.deps.Now().Sub(erased[d]) < e.cfg.Settle {
			continue
		}
		if err := e.deps.Erasures.Finish(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// payloadTable says which columns of a table hold payloads.
type payloadTable struct {
	name        string
	find, erase ch.SQL
}

var payloadTables = []payloadTable{
	{
		"events",
		"SELECT DISTINCT id FROM events WHERE (body != '' OR headers != '' OR query != '') AND account = ",
		"ALTER TABLE events UPDATE body = '', headers = '', query = '' WHERE account = ",
	},
	{
		"attempts",
		"SELECT DISTINCT id FROM attempts WHERE (req_headers != '' OR resp_headers != '' OR resp_body != '') AND account = ",
		"ALTER TABLE attempts UPDATE req_headers = '', resp_headers = '', resp_body = '' WHERE account = ",
	},
}

// erasePayloads empties what the rows of a shard hold of the payloads of events, given newest first, and returns those
// of which they held some. The parts that hold them are written anew, and the old ones leave the disk some minutes
// later.
func erasePayloads(ctx context.Context, pool *ch.Pool, shard int, account string, ids []id.ID) (
	found map[id.ID]bool, err error,
) {
	found = make(map[id.ID]bool)
	for _, t := range payloadTables {
		var held []id.ID
		q := new(ch.Query).Add(t.find, account)
		ch.WhereIDs(q, ids)
		err := pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			var d id.ID
			err := rows.Scan((*[16]byte)(&d))
			held, found[d] = append(held, d), true
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(held) == 0 {
			continue
		}
		if busy, err := rewriting(ctx, pool, shard, t.name); err != nil || busy {
			return found, err
		}
		slices.SortFunc(held, func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
		q = new(ch.Query).Add(t.erase, account)
		ch.WhereIDs(q, held)
		q.Add(" SETTINGS mutations_sync = 2")
		if err := pool.Exec(ctx, shard, q); err != nil {
			return nil, ch.ClassifyError(ctx, fmt.Errorf("empty payloads: %w", err))
		}
	}
	return found, nil
}

// rewriting reports whether an erasure from a table is still under way. One that was asked for goes on when nobody
// waits for it any more; while ClickHouse does not get to it, merges may be stopped, asking again would add another.
func rewriting(ctx context.Context, pool *ch.Pool, shard int, table string) (busy bool, err error) {
	q := new(ch.Query).Add("SELECT count() > 0 FROM system.mutations WHERE database = currentDatabase() "+
		"AND NOT is_done AND command LIKE '%UPDATE %' AND table = ", table)
	err = pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&busy) })
	return busy, err
}
