// Package ch connects to the ClickHouse servers of a store and runs statements on them. Addresses are parsed in
// address.go, shards.go says which shard has which rows, Pool runs statements, and Query builds them with all values as
// parameters, so that no value becomes part of the text.
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

// Pool has connections to every shard of a store. Every shard's identity is checked before its first use.
type Pool struct {
	conns         []driver.Conn
	settingsConns []driver.Conn // for statements with Query.Settings; may be connections of another user
	verified      []atomic.Bool // by shard: its identity was checked
}

// NewPool returns a pool of the given connections, one per shard. settingsConns run the statements with Query.Settings.
func NewPool(conns, settingsConns []driver.Conn) *Pool {
	return &Pool{conns: conns, settingsConns: settingsConns, verified: make([]atomic.Bool, len(conns))}
}

// Count returns the number of shards.
func (p *Pool) Count() int { return len(p.conns) }

// Close closes all connections.
func (p *Pool) Close() error { return errors.Join(CloseAll(p.conns), CloseAll(p.settingsConns)) }

// VerifyShard checks a shard's identity once, over the given connection; see CheckShard.
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

// Conn returns the connection to a shard whose identity was checked.
func (p *Pool) Conn(ctx context.Context, shard int) (driver.Conn, error) {
	return p.conns[shard], p.VerifyShard(ctx, shard, p.conns[shard])
}

// Exec runs a statement without a result on one shard.
func (p *Pool) Exec(ctx context.Context, shard int, q *Query) error {
	conn, err := p.Conn(ctx, shard)
	if err != nil {
		return err
	}
	return conn.Exec(ctx, q.Text(), q.Args()...)
}

// ForEachRow runs a query on one shard and calls scan for every row.
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

// ForEachShard calls f for every shard concurrently and waits for all. An error of one shard does not stop the others.
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

// ShardError adds the number of the shard to err if there are several shards.
func (p *Pool) ShardError(shard int, err error) error {
	if len(p.conns) == 1 {
		return err
	}
	return fmt.Errorf("shard %d: %w", shard+1, err)
}
