// Package read answers lists, searches and single reads from ClickHouse, and from the log what is not there yet.
package read

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// ReaderDeps are what a Reader uses of its surroundings.
type ReaderDeps struct {
	Log    *slog.Logger
	Stream stream.Config
	Writer store.FlushRequester // nil on a node without a writer
	// Erased says whether the payload of an event was erased: it is then never shown, nor found. Nil: none was.
	Erased func(id.ID) bool
}

// Reader answers reads. It starts no goroutines of its own; Close ends its connections.
type Reader struct {
	cfg            ReaderConfig
	log            *slog.Logger
	pool           *ch.Pool
	pingConns      []driver.Conn // one connection to each shard: a ping never waits for reads, nor takes a place from them
	searchSettings clickhouse.Settings
	topic          *stream.Reader
	fence          *fence
	scans          *scanner
	searches       *slotPools // of accounts
	reads          *slotPools // of API keys
	// reported is shared by those who ask what became of receipts of one event while the writer is behind.
	receiptLoads singleflight.Group
	now          func() time.Time
	erased       func(id.ID) bool
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
	conns, err := ch.Open(cfg.URL, options)
	if err != nil {
		return nil, err
	}
	searchConns, err := ch.Open(cfg.SearchURL, options)
	if err != nil {
		return nil, errors.Join(err, ch.CloseAll(conns))
	}
	pingConns, err := ch.Open(cfg.URL, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = 1, 1 })
	if err != nil {
		return nil, errors.Join(err, ch.CloseAll(conns), ch.CloseAll(searchConns))
	}
	topic, err := stream.NewReader(deps.Stream, "store-reader")
	if err != nil {
		return nil, errors.Join(err, ch.CloseAll(conns), ch.CloseAll(searchConns), ch.CloseAll(pingConns))
	}
	if deps.Erased == nil {
		deps.Erased = func(id.ID) bool { return false }
	}
	return &Reader{
		erased: deps.Erased, cfg: cfg, log: deps.Log, pool: ch.NewPool(conns, searchConns), topic: topic,
		fence:     newFence(topic, deps.Writer, cfg.FenceWait),
		pingConns: pingConns, searchSettings: searchSettings(cfg), scans: newScanner(topic), now: time.Now,
		searches: newSlotPools(maxSearches, searchWait, "searches"), reads: newSlotPools(maxReads, readWait, "reads"),
	}, nil
}

// Close ends the connections.
func (r *Reader) Close() error {
	r.topic.Close()
	return errors.Join(r.pool.Close(), ch.CloseAll(r.pingConns))
}

// Pool has the connections of the reader.
func (r *Reader) Pool() *ch.Pool { return r.pool }

// Ping reports whether ClickHouse answers, every shard of it, and whether they are those that they are taken for.
func (r *Reader) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ch.DialTimeout)
	defer cancel()
	return r.parallel(ctx, r.shards(new(ch.Query)), func(ctx context.Context, shard int) error {
		if err := r.pingConns[shard].Ping(ctx); err != nil {
			return ch.ClassifyError(ctx, fmt.Errorf("ping clickhouse: %w", err))
		}
		if err := r.pool.VerifyShard(ctx, shard, r.pingConns[shard]); err != nil {
			return ch.ClassifyError(ctx, err)
		}
		return nil
	})
}

// Check is Ping, and sees that the tables of every shard are at least those of this version, and keep rows for as long
// as they can be read. Newer ones are right: they have what this version knows.
func (r *Reader) Check(ctx context.Context) error {
	if err := r.Ping(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ch.DialTimeout)
	defer cancel()
	needed, err := schema.RequiredVersion()
	if err != nil {
		return err
	}
	return r.parallel(ctx, r.shards(new(ch.Query)), func(ctx context.Context, shard int) error {
		var has uint32
		q := new(ch.Query).Add("SELECT max(version) FROM schema_version")
		if err := r.pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&has) }); err != nil {
			return err
		}
		if has < needed {
			return fmt.Errorf("the tables are at migration %04d, this version needs %04d: run relay migrate", has, needed)
		}
		var engine string
		q = new(ch.Query).Add("SELECT any(engine_full) FROM system.tables WHERE database = currentDatabase() AND name = " +
			"'events'")
		if err := r.pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&engine) }); err != nil {
			return err
		}
		if days := schema.TableRetentionDays(engine); days < r.cfg.RetentionDays {
			return fmt.Errorf("the tables drop events after %d days, RELAY_RETENTION_DAYS is %d: run relay migrate", days,
				r.cfg.RetentionDays)
		}
		return nil
	})
}

// Oldest is the beginning of what can be read.
func (r *Reader) Oldest() time.Time { return r.now().AddDate(0, 0, -r.cfg.RetentionDays) }
