package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
)

// maxParallelShards bounds the shards that one read queries at once.
const maxParallelShards = 16

// shards returns the shards that a statement has to query: all of them unless it names its events or partitions.
func (c *Cluster) shards(q *ch.Query) []int {
	needed := make(map[int]bool)
	for p := range q.Partitions {
		needed[ch.ShardOfPartition(p, c.ReadPool.Count())] = true
	}
	var out []int
	for s := range c.ReadPool.Count() {
		if q.Partitions == nil || needed[s] {
			out = append(out, s)
		}
	}
	return out
}

// Each runs a statement on the shards that it needs and calls scan for every row, one at a time, in no order between
// shards. A statement that counts yields one count for every shard.
func (c *Cluster) Each(ctx context.Context, q *ch.Query, scan func(driver.Rows) error) error {
	shards := c.shards(q)
	if len(shards) == 1 {
		return c.ReadPool.ForEachRow(ctx, shards[0], q, scan)
	}
	var mu sync.Mutex // one row after the other
	return c.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return c.ReadPool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(rows)
		})
	})
}

// ByKey runs a statement and returns the values that scan reads from its rows, by key.
func ByKey[K comparable, V any](
	ctx context.Context, c *Cluster, q *ch.Query, scan func(driver.Rows, *K, *V) error,
) (map[K]V, error) {
	out := make(map[K]V)
	err := c.Each(ctx, q, func(rows driver.Rows) error {
		var key K
		var value V
		err := scan(rows, &key, &value)
		out[key] = value
		return err
	})
	return out, err
}

// Count adds up the first column of a statement that yields one row for every shard.
func (c *Cluster) Count(ctx context.Context, q *ch.Query) (sum int, err error) {
	err = c.Each(ctx, q, func(rows driver.Rows) error {
		var n uint64
		err := rows.Scan(&n)
		sum += int(n)
		return err
	})
	return sum, err
}

// parallel calls f for every shard and returns the first error. A read fails when one shard does: a list that silently
// lacks rows would be worse than none.
func (c *Cluster) parallel(ctx context.Context, shards []int, f func(ctx context.Context, shard int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxParallelShards)
	for _, shard := range shards {
		g.Go(func() error {
			if err := f(gctx, shard); err != nil {
				return c.ReadPool.ShardError(shard, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Newest runs a statement and returns its first limit rows (0 = all), newest first, as one server with all rows would.
// It asks each shard for its first limit rows and merges them. key returns the id that orders the rows, scan reads a
// row.
func Newest[T any](
	ctx context.Context, c *Cluster, q *ch.Query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error),
) ([]T, error) {
	q.Add(" ORDER BY id DESC")
	if limit > 0 {
		q.Add(" LIMIT ", limit)
	}
	return Merged(ctx, c, q, limit, key, scan)
}

// Merged is Newest for a statement that orders its rows newest first and limits them itself.
func Merged[T any](
	ctx context.Context, c *Cluster, q *ch.Query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error),
) ([]T, error) {
	shards := c.shards(q)
	parts := make([][]T, c.ReadPool.Count())
	err := c.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return c.ReadPool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			row, err := scan(rows)
			parts[shard] = append(parts[shard], row)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(shards) == 1 {
		return parts[shards[0]], nil
	}
	all := slices.Concat(parts...)
	slices.SortStableFunc(all, func(a, b T) int { return id.NewestFirst(key(&a), key(&b)) })
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all, nil
}

// Identity is the key function for rows that are ids.
func Identity(d *id.ID) id.ID { return *d }

// ScanID scans a row that is an id.
func ScanID(rows driver.Rows) (d id.ID, err error) {
	err = rows.Scan(&d)
	return d, err
}

// CeilMilli rounds a time up to a millisecond: ids and columns have no finer time.
func CeilMilli(t time.Time) time.Time { return time.UnixMilli(t.Add(time.Millisecond - 1).UnixMilli()) }
