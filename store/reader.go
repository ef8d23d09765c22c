package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// ReaderDeps are what a Reader uses of its surroundings.
type ReaderDeps struct {
	Log    *slog.Logger
	Stream stream.Config
	Writer Kicker // nil on a node without a writer
	// Erased says whether the payload of an event was erased: it is then never shown, nor found. Nil: none was.
	Erased func(id.ID) bool
}

// Reader answers reads. It starts no goroutines of its own; Close ends its connections.
type Reader struct {
	cfg            ReaderConfig
	log            *slog.Logger
	conns          []driver.Conn // one per shard
	searchConns    []driver.Conn // the same, for searches: they may be another user's
	pingConns      []driver.Conn // the same, one connection each: a ping never waits for reads, nor takes a place from them
	searchSettings clickhouse.Settings
	verified       []atomic.Bool // by shard: it is the one that its address is meant to be
	topic          *stream.Reader
	fence          *fence
	scans          *scanner
	searches       *turns // of accounts
	reads          *turns // of API keys
	// reported is shared by those who ask what became of receipts of one event while the writer is behind.
	reported singleflight.Group
	now      func() time.Time
	erased   func(id.ID) bool
}

// NewReader checks the configuration. The connections are made by the first read.
func NewReader(cfg ReaderConfig, deps ReaderDeps) (*Reader, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.Validate(), deps.Stream.Validate()); err != nil {
		return nil, err
	}
	options := func(o *clickhouse.Options) {
		o.MaxOpenConns, o.MaxIdleConns = cfg.Connections, cfg.Connections
		// All rows of an event share its day, so FINAL has nothing to merge across partitions.
		o.Settings["do_not_merge_across_partitions_select_final"] = 1
	}
	conns, err := openShards(cfg.URL, options)
	if err != nil {
		return nil, err
	}
	searchConns, err := openShards(cfg.SearchURL, options)
	if err != nil {
		return nil, errors.Join(err, closeShards(conns))
	}
	pingConns, err := openShards(cfg.URL, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = 1, 1 })
	if err != nil {
		return nil, errors.Join(err, closeShards(conns), closeShards(searchConns))
	}
	topic, err := stream.NewReader(deps.Stream, "store-reader")
	if err != nil {
		return nil, errors.Join(err, closeShards(conns), closeShards(searchConns), closeShards(pingConns))
	}
	if deps.Erased == nil {
		deps.Erased = func(id.ID) bool { return false }
	}
	return &Reader{
		erased: deps.Erased, cfg: cfg, log: deps.Log, conns: conns, verified: make([]atomic.Bool, len(conns)), topic: topic, fence: newFence(topic, deps.Writer, cfg.FenceWait),
		pingConns: pingConns, searchConns: searchConns, searchSettings: searchSettings(cfg), scans: newScanner(topic), now: time.Now,
		searches: newTurns(maxSearches, searchWait, "searches"), reads: newTurns(maxReads, readWait, "reads"),
	}, nil
}

// Close ends the connections.
func (r *Reader) Close() error {
	r.topic.Close()
	return errors.Join(closeShards(r.conns), closeShards(r.searchConns), closeShards(r.pingConns))
}

// Ping reports whether ClickHouse answers, every shard of it, and whether they are those that they are taken for.
func (r *Reader) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return r.parallel(ctx, r.shards(new(query)), func(ctx context.Context, shard int) error {
		if err := r.pingConns[shard].Ping(ctx); err != nil {
			return readError(ctx, fmt.Errorf("ping clickhouse: %w", err))
		}
		if err := r.verify(ctx, shard, r.pingConns[shard]); err != nil {
			return readError(ctx, err)
		}
		return nil
	})
}

// Check is Ping, and sees that the tables of every shard are at least those of this version, and keep rows for as long as
// they can be read. Newer ones are right: they have what this version knows.
func (r *Reader) Check(ctx context.Context) error {
	if err := r.Ping(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	steps, err := schemaSteps()
	if err != nil {
		return err
	}
	needed := uint32(0)
	for _, s := range steps {
		if !s.final {
			needed = s.number
		}
	}
	return r.parallel(ctx, r.shards(new(query)), func(ctx context.Context, shard int) error {
		var has uint32
		q := new(query).add("SELECT max(version) FROM schema_version")
		if err := r.eachOn(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&has) }); err != nil {
			return err
		}
		if has < needed {
			return fmt.Errorf("the tables are at migration %04d, this version needs %04d: run relay migrate", has, needed)
		}
		var engine string
		q = new(query).add("SELECT any(engine_full) FROM system.tables WHERE database = currentDatabase() AND name = 'events'")
		if err := r.eachOn(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&engine) }); err != nil {
			return err
		}
		if days, _ := keptDays(engine); days < r.cfg.RetentionDays {
			return fmt.Errorf("the tables drop events after %d days, RELAY_RETENTION_DAYS is %d: run relay migrate", days, r.cfg.RetentionDays)
		}
		return nil
	})
}

// oldest is the beginning of what can be read.
func (r *Reader) oldest() time.Time { return r.now().AddDate(0, 0, -r.cfg.RetentionDays) }

// verify sees once that a shard is the one that it is taken for.
func (r *Reader) verify(ctx context.Context, shard int, conn driver.Conn) error {
	if r.verified[shard].Load() {
		return nil
	}
	if err := checkShard(ctx, conn, "shard", shard+1, len(r.conns)); err != nil {
		return err
	}
	r.verified[shard].Store(true)
	return nil
}

// eachOn runs a statement on one shard and calls scan for every row.
func (r *Reader) eachOn(ctx context.Context, shard int, q *query, scan func(driver.Rows) error) (err error) {
	conn := r.conns[shard]
	if err := r.verify(ctx, shard, conn); err != nil {
		return readError(ctx, err)
	}
	if q.settings != nil {
		conn, ctx = r.searchConns[shard], clickhouse.Context(ctx, clickhouse.WithSettings(q.settings))
	}
	rows, err := conn.Query(ctx, q.text.String(), q.args...)
	if err != nil {
		return readError(ctx, fmt.Errorf("query clickhouse: %w", err))
	}
	defer func() {
		if closeErr := rows.Close(); closeErr != nil && err == nil {
			err = readError(ctx, fmt.Errorf("read rows: %w", closeErr))
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("scan row: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return readError(ctx, fmt.Errorf("read rows: %w", err))
	}
	return nil
}

// readError marks err as ErrUnavailable unless ClickHouse itself says that the statement is wrong, or
// the caller has gone.
func readError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.Join(context.Canceled, err)
	}
	var ex *clickhouse.Exception
	if errors.As(err, &ex) && !aboutServer(ex.Code) {
		return err
	}
	return fmt.Errorf("%w: %w", event.ErrUnavailable, err)
}
