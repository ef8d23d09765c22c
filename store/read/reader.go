// Package read answers reads from ClickHouse: lists, searches, single events, the audit log, usage, and the items of
// recovery jobs. Events of the last minutes that ClickHouse does not have yet come from the log.
//
// Promises: the first page of a list and the read of one event see everything that was acknowledged before the call
// (read-your-writes, see fence.go), or say with AsOf that they may not. A read that fails on one shard fails as a
// whole. Reads are bounded by the retention; those that answer one request also by ReaderConfig.Timeout and by the
// number of reads that one API key runs at once (slots.go). The long ones, for replays and recovery jobs, bound each
// statement. Values reach ClickHouse as query parameters only.
//
// Begin with reader.go. A list: list.go walks back in time, plan.go chooses the table to read, find.go has the
// statements, filters.go the conditions, candidate.go adds statuses. detail.go reads one event, shards.go asks several
// servers and merges their answers.
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

// ReaderDeps are the dependencies of a Reader.
type ReaderDeps struct {
	Log    *slog.Logger
	Stream stream.Config
	Writer store.FlushRequester // nil on a node without a writer
	// AskOthers asks the writers of other nodes to flush as soon as they have read every record below the offsets. Some
	// may miss it. Nil: there are no other nodes.
	AskOthers func(context.Context, map[stream.Partition]int64) error
	// Erased reports whether the payload of an event was erased. An erased payload is neither shown nor searched. Nil:
	// nothing was erased.
	Erased func(id.ID) bool
}

// Reader answers reads. It starts no goroutines of its own; Close ends its connections.
type Reader struct {
	cfg            ReaderConfig
	log            *slog.Logger
	pool           *ch.Pool
	writePool      *ch.Pool      // of the user that may write
	pingConns      []driver.Conn // one connection to each shard, so that a ping never competes with reads
	searchSettings clickhouse.Settings
	topic          *stream.Reader
	fence          *fence
	unreported     *unreported
	scans          *scanner
	searches       *slotPools // a pool for each account
	searchesOfKey  *slotPools // a pool for each API key
	reads          *slotPools // a pool for each API key
	// receiptLoads shares one load of an event's receipts between callers while the writer is behind.
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
	conns, err := ch.Open(cfg.ReadURL, options)
	if err != nil {
		return nil, err
	}
	searchConns, err := ch.Open(cfg.SearchURL, options)
	if err != nil {
		return nil, errors.Join(err, ch.CloseAll(conns))
	}
	pingConns, err := ch.Open(cfg.ReadURL, func(o *clickhouse.Options) { o.MaxOpenConns, o.MaxIdleConns = 1, 1 })
	if err != nil {
		return nil, errors.Join(err, ch.CloseAll(conns), ch.CloseAll(searchConns))
	}
	pool := ch.NewPool(conns, searchConns)
	writePool, err := newWritePool(cfg, pool, options)
	if err != nil {
		return nil, errors.Join(err, pool.Close(), ch.CloseAll(pingConns))
	}
	topic, err := stream.NewReader(deps.Stream, "store-reader")
	if err != nil {
		return nil, errors.Join(err, pool.Close(), writePool.Close(), ch.CloseAll(pingConns))
	}
	if deps.Erased == nil {
		deps.Erased = func(id.ID) bool { return false }
	}
	return &Reader{
		erased: deps.Erased, cfg: cfg, log: deps.Log, pool: pool, writePool: writePool, topic: topic,
		fence:     newFence(topic, deps.Writer, deps.AskOthers, cfg.FenceWait),
		pingConns: pingConns, searchSettings: searchSettings(cfg), scans: newScanner(topic), now: time.Now,
		searches:      newSlotPools(maxSearches, searchWait, "searches of the account"),
		searchesOfKey: newSlotPools(1, searchWait, "search of the API key"), reads: newSlotPools(maxReads, readWait, "reads"),
		unreported: newUnreported(topic, cfg.FenceWait),
	}, nil
}

// newWritePool returns the connections with the user that may write; pool, if that is the user that reads.
func newWritePool(cfg ReaderConfig, pool *ch.Pool, options func(*clickhouse.Options)) (*ch.Pool, error) {
	if cfg.ReadURL == cfg.URL {
		return pool, nil
	}
	conns, err := ch.Open(cfg.URL, options)
	if err != nil {
		return nil, err
	}
	return ch.NewPool(conns, nil), nil
}

// Close ends the connections.
func (r *Reader) Close() error {
	r.topic.Close()
	err := errors.Join(r.pool.Close(), ch.CloseAll(r.pingConns))
	if r.writePool != r.pool {
		err = errors.Join(err, r.writePool.Close())
	}
	return err
}

// Pool has connections with the user that may write.
func (r *Reader) Pool() *ch.Pool { return r.writePool }

// Ping returns nil when every shard of ClickHouse answers and has the identity of its place in the configuration.
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

// Check is Ping, and returns an error when the tables of a shard are older than this version needs, or drop events
// before the configured retention ends. Newer tables are accepted: they have all columns that this version reads.
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

// Oldest returns the time before which events cannot be read any more.
func (r *Reader) Oldest() time.Time { return r.now().AddDate(0, 0, -r.cfg.RetentionDays) }
