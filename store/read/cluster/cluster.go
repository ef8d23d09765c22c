// Package cluster reads the shards of ClickHouse as one server with all rows would answer. It has what every read
// needs: the connections (cluster.go), the fence, the slots of an API key (slots.go), statements over several shards
// (shards.go), and the rows of events and deliveries, which several readers take (rows.go).
//
// A read that fails on one shard fails as a whole. Begin bounds a read that answers one request. Values reach
// ClickHouse as query parameters only.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/fence"
	"github.com/eventrelay/relay/store/schema"
)

// Deps are the dependencies of a Cluster.
type Deps struct {
	Stream stream.Config
	Writer store.FlushRequester // nil on a node without a writer
	// AskOthers asks the writers of other nodes to flush as soon as they have read every record below the offsets. Some
	// may miss it. Nil: there are no other nodes.
	AskOthers func(context.Context, map[stream.Partition]int64) error
	// Erased reports whether the payload of an event was erased. An erased payload is neither shown nor searched. Nil:
	// nothing was erased.
	Erased func(id.ID) bool
}

// Cluster is ClickHouse, all shards read as one server, beside the log that it is written from. It starts no goroutines
// of its own; Close ends its connections.
type Cluster struct {
	Config    Config         // with its defaults
	ReadPool  *ch.Pool       // of the user that may only read, with connections for searches
	Topic     *stream.Reader // reads the log
	Fence     *fence.Fence
	Now       func() time.Time
	Erased    func(id.ID) bool // see Deps.Erased
	writePool *ch.Pool         // of the user that may write
	pingConns []driver.Conn    // one connection to each shard, so that a ping never competes with reads
	reads     *Slots           // of each API key
}

// New checks the configuration. The connections are made by the first read.
func New(cfg Config, deps Deps) (*Cluster, error) {
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
	return &Cluster{
		Config: cfg, ReadPool: pool, writePool: writePool, pingConns: pingConns, Topic: topic,
		Fence: fence.New(topic, deps.Writer, deps.AskOthers, cfg.FenceWait),
		reads: NewSlots(MaxReads, readWait, "reads"), Now: time.Now, Erased: deps.Erased,
	}, nil
}

// newWritePool returns the connections with the user that may write; pool, if that is the user that reads.
func newWritePool(cfg Config, pool *ch.Pool, options func(*clickhouse.Options)) (*ch.Pool, error) {
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
func (c *Cluster) Close() error {
	c.Topic.Close()
	err := errors.Join(c.ReadPool.Close(), ch.CloseAll(c.pingConns))
	if c.writePool != c.ReadPool {
		err = errors.Join(err, c.writePool.Close())
	}
	return err
}

// Pool has connections with the user that may write.
func (c *Cluster) Pool() *ch.Pool { return c.writePool }

// Ping returns nil when every shard of ClickHouse answers and has the identity of its place in the configuration.
func (c *Cluster) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ch.DialTimeout)
	defer cancel()
	return c.parallel(ctx, c.shards(new(ch.Query)), func(ctx context.Context, shard int) error {
		if err := c.pingConns[shard].Ping(ctx); err != nil {
			return ch.ClassifyError(ctx, fmt.Errorf("ping clickhouse: %w", err))
		}
		if err := c.ReadPool.VerifyShard(ctx, shard, c.pingConns[shard]); err != nil {
			return ch.ClassifyError(ctx, err)
		}
		return nil
	})
}

// Check is Ping, and returns an error when the tables of a shard are older than this version needs, or drop events
// before the configured retention ends. Newer tables are accepted: they have all columns that this version reads.
func (c *Cluster) Check(ctx context.Context) error {
	if err := c.Ping(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ch.DialTimeout)
	defer cancel()
	needed, err := schema.RequiredVersion()
	if err != nil {
		return err
	}
	return c.parallel(ctx, c.shards(new(ch.Query)), func(ctx context.Context, shard int) error {
		var has uint32
		q := new(ch.Query).Add("SELECT max(version) FROM schema_version")
		if err := c.ReadPool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&has) }); err != nil {
			return err
		}
		if has < needed {
			return fmt.Errorf("the tables are at migration %04d, this version needs %04d: run relay migrate", has, needed)
		}
		var engine string
		q = new(ch.Query).Add("SELECT any(engine_full) FROM system.tables WHERE database = currentDatabase() AND name = " +
			"'events'")
		err := c.ReadPool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error { return rows.Scan(&engine) })
		if err != nil {
			return err
		}
		if days := schema.TableRetentionDays(engine); days < c.Config.RetentionDays {
			return fmt.Errorf("the tables drop events after %d days, RELAY_RETENTION_DAYS is %d: run relay migrate", days,
				c.Config.RetentionDays)
		}
		return nil
	})
}

// Oldest returns the time before which events cannot be read any more.
func (c *Cluster) Oldest() time.Time { return c.Now().AddDate(0, 0, -c.Config.RetentionDays) }

// CaughtUp returns nil when the store holds everything about events that the log held at the call, and
// event.ErrUnavailable when it does not within Config.FenceWait. It does not wait for the audit log.
func (c *Cluster) CaughtUp(ctx context.Context) error { return fence.CaughtUp(c.Fence.WaitAll(ctx)) }

// Config configures a Cluster. A zero value of a limit stands for the default that its comment names.
type Config struct {
	// URL of ClickHouse, in the form that the writer takes. Its user may write: Pool has its connections.
	URL string
	// ReadURL replaces URL for everything that reads: the same databases with a user that may only read. Empty = URL.
	ReadURL string
	// RetentionDays is how long events can be read. Older rows are hidden even while they exist.
	RetentionDays int
	// Connections is the number of statements that the cluster runs at once on each shard; 0 = 8. Searches have as
	// many connections of their own.
	Connections int
	// FenceWait is how long a read waits for the writer to catch up; 0 = 1.5 s.
	FenceWait time.Duration
	// Timeout bounds one read as a whole, the fence included; 0 = 30 s.
	Timeout time.Duration
	// SearchRows is how many rows the first statement of a search reads; later ones adapt to its duration. 0 = 10,000.
	SearchRows int
	// SearchBytes bounds the bodies and headers that the first statement of a search reads; 0 = 32 MiB.
	SearchBytes int
	// SearchFoundBudget is the time after which a search with hits returns what it has, SearchBudget the time for one
	// without; 0 = 300 ms and 2 s.
	SearchFoundBudget, SearchBudget time.Duration
	// SearchThreads is how many threads one search may use on a ClickHouse server; 0 = half of this machine's CPUs.
	SearchThreads int
	// SearchIndex lets searches use the text index. It is harmless when the table has none.
	SearchIndex bool
	// SearchURL replaces ReadURL for searches: the same databases with another user, whose quotas protect the writer.
	// Empty = ReadURL.
	SearchURL string
	// SelectPage is how many candidates one statement checks during the selection of a recovery job; 0 = 50,000.
	SelectPage int
}

// SearchChunkTime is the time that a search sizes its chunks to take; see Config.SearchFoundBudget.
const SearchChunkTime = 300 * time.Millisecond

func (c Config) withDefaults() Config {
	c.Connections = cmp.Or(c.Connections, 8)
	c.FenceWait = cmp.Or(c.FenceWait, 1500*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.SearchRows = cmp.Or(c.SearchRows, 10_000)
	c.SearchFoundBudget = cmp.Or(c.SearchFoundBudget, SearchChunkTime)
	c.SearchBudget = cmp.Or(c.SearchBudget, 2*time.Second)
	c.SearchBytes = cmp.Or(c.SearchBytes, 32<<20)
	c.SearchThreads = cmp.Or(c.SearchThreads, max(1, runtime.NumCPU()/2))
	c.ReadURL = cmp.Or(c.ReadURL, c.URL)
	c.SearchURL = cmp.Or(c.SearchURL, c.ReadURL)
	c.SelectPage = cmp.Or(c.SelectPage, 50_000)
	return c
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	shards, err := ch.ParseURLs(c.URL)
	for _, other := range []struct{ url, what string }{{c.ReadURL, "for reading"}, {c.SearchURL, "for searches"}} {
		found, otherErr := ch.ParseURLs(other.url)
		switch {
		case otherErr != nil:
			otherErr = fmt.Errorf("%s: %w", other.what, otherErr)
		case len(shards) > 0 && len(found) != len(shards):
			otherErr = fmt.Errorf("store: the URL %s names %d shards, the other URL %d: name the same shards in both",
				other.what, len(found), len(shards))
		}
		err = errors.Join(err, otherErr)
	}
	return errors.Join(err, ch.RequirePositive("search threads", c.SearchThreads),
		ch.RequirePositive("retention days", c.RetentionDays), ch.RequirePositive("connections", c.Connections),
		ch.RequirePositive("fence wait", c.FenceWait), ch.RequirePositive("timeout", c.Timeout),
		ch.RequirePositive("select page", c.SelectPage))
}
