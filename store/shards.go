package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
)

// All rows about an event are on one shard: that of the partition which its id names, modulo the number of shards. The
// partition of the record that a row came from would not do: an endpoint that was moved has its old events replayed
// from its new partition, and FINAL merges rows of one server only. So a statement about one event asks one shard, the
// rows of an endpoint that was never moved are on one shard, and every condition on what else is known of an event is
// judged where the event is.

// shardOf is the shard of an event, of so many.
func shardOf(d id.ID, shards int) int { return shardOfPartition(d.Partition(), shards) }

func shardOfPartition(p int32, shards int) int { return int(p) % shards }

// atOnce bounds the shards that one read asks at the same time.
const atOnce = 16

// splitURLs separates the shards of a list. What follows a comma without a scheme of its own belongs to the address
// before it: another replica of the same shard, or a password with a comma.
func splitURLs(raw string) []string {
	var urls []string
	for part := range strings.SplitSeq(raw, ",") {
		if trimmed := strings.TrimSpace(part); len(urls) == 0 || strings.Contains(trimmed, "://") {
			urls = append(urls, trimmed)
		} else {
			urls[len(urls)-1] += "," + part
		}
	}
	return urls
}

// parseURLs reads the addresses of all shards, in their order.
func parseURLs(raw string) ([]*clickhouse.Options, error) {
	var all []*clickhouse.Options
	seen := make(map[string]int)
	urls := splitURLs(raw)
	for i, one := range urls {
		opts, err := parseURL(one)
		if err != nil && len(urls) > 1 {
			err = fmt.Errorf("shard %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		for _, addr := range opts.Addr {
			place := addr + "/" + opts.Auth.Database
			if strings.HasPrefix(one, "unix:") {
				place = one // all sockets have one host
			}
			if first, twice := seen[place]; twice {
				return nil, fmt.Errorf("clickhouse URL: %s is named for shard %d and for shard %d", place, first+1, i+1)
			}
			seen[place] = i
		}
		all = append(all, opts)
	}
	return all, nil
}

// openShards makes a pool of connections to every shard; nothing is dialled yet.
func openShards(raw string, change func(*clickhouse.Options)) (conns []driver.Conn, err error) {
	all, err := parseURLs(raw)
	if err != nil {
		return nil, err
	}
	for _, opts := range all {
		change(opts)
		conn, err := clickhouse.Open(opts)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open clickhouse: %w", err), closeShards(conns))
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeShards(conns []driver.Conn) (err error) {
	for _, conn := range conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// shards are those that a statement has to ask: all of them unless it is about certain events.
func (r *Reader) shards(q *query) []int {
	asked := make(map[int]bool)
	for p := range q.of {
		asked[shardOfPartition(p, len(r.conns))] = true
	}
	var out []int
	for s := range r.conns {
		if q.of == nil || asked[s] {
			out = append(out, s)
		}
	}
	return out
}

// each runs a statement on the shards that it is about and calls scan for every row, in no order between shards. A
// statement that counts gives a count for every shard.
func (r *Reader) each(ctx context.Context, q *query, scan func(driver.Rows) error) error {
	shards := r.shards(q)
	if len(shards) == 1 {
		return r.eachOn(ctx, shards[0], q, scan)
	}
	var mu sync.Mutex // one row after the other
	return r.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return r.eachOn(ctx, shard, q, func(rows driver.Rows) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(rows)
		})
	})
}

// parallel calls f for every shard. When one of them fails there is no answer: a list that lacks a part of its rows
// and does not say so would be worse than none.
func (r *Reader) parallel(ctx context.Context, shards []int, f func(ctx context.Context, shard int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, shard := range shards {
		g.Go(func() error {
			if err := f(gctx, shard); err != nil {
				return r.onShard(shard, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// onShard says where an error comes from, when there is more than one place.
func (r *Reader) onShard(shard int, err error) error {
	if len(r.conns) == 1 {
		return err
	}
	return fmt.Errorf("shard %d: %w", shard+1, err)
}

// newest runs a statement whose rows are to come newest first and returns at most limit of them, 0 for all, just as
// one server with all rows would: the first of the union are among the first of every part. key is the id that they
// are ordered by, and scan reads a row.
func newest[T any](ctx context.Context, r *Reader, q *query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error)) ([]T, error) {
	q.add(" ORDER BY id DESC")
	if limit > 0 {
		q.add(" LIMIT ", limit)
	}
	return merged(ctx, r, q, limit, key, scan)
}

// merged is newest for a statement that says its order and limit itself.
func merged[T any](ctx context.Context, r *Reader, q *query, limit int, key func(*T) id.ID, scan func(driver.Rows) (T, error)) ([]T, error) {
	shards := r.shards(q)
	parts := make([][]T, len(r.conns))
	err := r.parallel(ctx, shards, func(ctx context.Context, shard int) error {
		return r.eachOn(ctx, shard, q, func(rows driver.Rows) error {
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
func itself(d *id.ID) id.ID { return *d }

func scanID(rows driver.Rows) (d id.ID, err error) {
	err = rows.Scan((*[16]byte)(&d))
	return d, err
}
