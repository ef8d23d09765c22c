// Package ch reaches the ClickHouse servers of a store: their addresses, connections to every shard, and statements
// that hold no value as text.
package ch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Pool has connections to every shard of a store.
type Pool struct {
	conns         []driver.Conn
	settingsConns []driver.Conn // the same, for statements with settings of their own: they may be another user's
	verified      []atomic.Bool // by shard: it is the one that its address is meant to be
}

// NewPool makes connections for statements, and others for those with settings of their own.
func NewPool(conns, searches []driver.Conn) *Pool {
	return &Pool{conns: conns, settingsConns: searches, verified: make([]atomic.Bool, len(conns))}
}

// Count is the number of shards.
func (p *Pool) Count() int { return len(p.conns) }

// Close ends the connections.
func (p *Pool) Close() error { return errors.Join(CloseAll(p.conns), CloseAll(p.settingsConns)) }

// VerifyShard sees once, by a connection to it, that a shard is the one that it is taken for.
func (p *Pool) VerifyShard(ctx context.Context, shard int, conn driver.Conn) error {
	if p.verified[shard].Load() {
		return nil
	}
	if err := CheckShard(ctx, conn, "shard", shard+1, len(p.conns)); err != nil {
		return err
	}
	p.verified[shard].Store(true)
	return nil
}

// Conn is the connection to a shard, which is the one that it is taken for.
func (p *Pool) Conn(ctx context.Context, shard int) (driver.Conn, error) {
	return p.conns[shard], p.VerifyShard(ctx, shard, p.conns[shard])
}

// Exec runs a statement without an answer on one shard.
func (p *Pool) Exec(ctx context.Context, shard int, q *Query) error {
	conn, err := p.Conn(ctx, shard)
	if err != nil {
		return err
	}
	return conn.Exec(ctx, q.Text(), q.Args()...)
}

// Each runs a statement on one shard and calls scan for every row.
func (p *Pool) ForEachRow(ctx context.Context, shard int, q *Query, scan func(driver.Rows) error) (err error) {
	conn, err := p.Conn(ctx, shard)
	if err != nil {
		return ClassifyError(ctx, err)
	}
	if q.Settings != nil {
		conn, ctx = p.settingsConns[shard], clickhouse.Context(ctx, clickhouse.WithSettings(q.Settings))
	}
	rows, err := conn.Query(ctx, q.Text(), q.Args()...)
	if err != nil {
		return ClassifyError(ctx, fmt.Errorf("query clickhouse: %w", err))
	}
	defer func() {
		if closeErr := rows.Close(); closeErr != nil && err == nil {
			err = ClassifyError(ctx, fmt.Errorf("read rows: %w", closeErr))
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("scan row: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return ClassifyError(ctx, fmt.Errorf("read rows: %w", err))
	}
	return nil
}

// Apart calls f for every shard at once, whatever becomes of the others: what can be done on one does not wait for one
// that is away.
func (p *Pool) ForEachShard(f func(shard int) error) error {
	failed := make([]error, len(p.conns))
	var wg sync.WaitGroup
	for shard := range p.conns {
		wg.Go(func() {
			if err := f(shard); err != nil {
				failed[shard] = p.ShardError(shard, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// ShardError says where an error comes from, when there is more than one place.
func (p *Pool) ShardError(shard int, err error) error {
	if len(p.conns) == 1 {
		return err
	}
	return fmt.Errorf("shard %d: %w", shard+1, err)
}
