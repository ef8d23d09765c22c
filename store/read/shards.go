package read

import (
	"context"
	"slices"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"golang.org/x/sync/errgroup"
)

// maxParallelShards bounds the shards that one read asks at the same time.
const maxParallelShards = 16

// shards are those that a statement has to ask: all of them unless it is about certain events.
func (r *Reader) shards(q *ch.Query) []int {
	asked := make(map[int]bool)
	for p := range q.Partitions {
		asked[ch.ShardOfPartition(p, r.pool.Count())] = true
	}
	var out []int
	for s := range r.pool.Count() {
		if q.Partitions == nil || asked[s] {
			out = append(out, s)
		}
	}
	return out
}

// each runs a statement on the shards that it is about and calls scan for every row, in no order between shards. A
// statement that counts gives a count for every shard.
func (r *Reader) each(ctx context.Context, q *ch.Query, scan func(driver.Rows) error) error {
	shards := r.shards(q)
	if len(shards) == 1 {
		return r.pool.ForEachRow(ctx, shards[0], q, scan)
	}
	var mu sync.Mutex // one row after the other
	return r.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return r.pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(rows)
		})
	})
}

// byKey runs a statement and returns what scan reads of its rows, by their keys.
func byKey[K comparable, V any](
	ctx context.Context, r *Reader, q *ch.Query, scan func(driver.Rows, *K, *V) error,
) (map[K]V, error) {
	out := make(map[K]V)
	err := r.each(ctx, q, func(rows driver.Rows) error {
		var key K
		var value V
		err := scan(rows, &key, &value)
		out[key] = value
		return err
	})
	return out, err
}

// parallel calls f for every shard. When one of them fails there is no answer: a list that lacks a part of its rows
// and does not say so would be worse than none.
func (r *Reader) parallel(ctx context.Context, shards []int, f func(ctx context.Context, shard int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxParallelShards)
	for _, shard := range shards {
		g.Go(func() error {
			if err := f(gctx, shard); err != nil {
				return r.pool.ShardError(shard, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// newest runs a statement whose rows are to come newest first and returns at most limit of them, 0 for all, just as
// one server with all rows would: the first of the union are among the first of every part. key is the id that they
// are ordered by, and scan reads a row.
func newest[T any](
	ctx context.Context, r *Reader, q *ch.Query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error),
) ([]T, error) {
	q.Add(" ORDER BY id DESC")
	if limit > 0 {
		q.Add(" LIMIT ", limit)
	}
	return merged(ctx, r, q, limit, key, scan)
}

// merged is newest for a statement that says its order and limit itself.
func merged[T any](
	ctx context.Context, r *Reader, q *ch.Query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error),
) ([]T, error) {
	shards := r.shards(q)
	parts := make([][]T, r.pool.Count())
	err := r.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return r.pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
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
	slices.SortStableFunc(all, func(a, b T) int {
		x, y := key(&a), key(&b)
		return slices.Compare(y[:], x[:])
	})
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all, nil
}

// itself is the key of ids.
func identity(d *id.ID) id.ID { return *d }

func scanID(rows driver.Rows) (d id.ID, err error) {
	err = rows.Scan(&d)
	return d, err
}
