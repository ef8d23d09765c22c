package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MigrateUpTo is the migration of a version that knew fewer files, and no baseline.
func MigrateUpTo(ctx context.Context, url string, last uint32) error {
	steps, err := schemaSteps()
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.number > last })
	_, err = migrateTo(ctx, MigrateConfig{URL: url, RetentionDays: 30}, steps, nil)
	return err
}

// MigrateByFiles runs all files, also on an empty database.
func MigrateByFiles(ctx context.Context, url string) error {
	return MigrateUpTo(ctx, url, math.MaxUint32)
}

// LeaveToViews makes it the writer of a version before 0013.
func (w *Writer) LeaveToViews() {
	for _, s := range w.shards {
		s.tables.nominees = nil
	}
}

// Stop stops the reader's clock at a time.
func (r *Reader) Stop(at time.Time) { r.now = func() time.Time { return at } }

// HoldSearches takes all turns of an account until the returned function is called.
func (r *Reader) HoldSearches(ctx context.Context, account string) (release func()) {
	var leaves []func()
	for range maxSearches {
		leave, err := r.searches.enter(ctx, account)
		if err != nil {
			panic(err)
		}
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// HoldConnections takes all connections of the reader to the first shard until release is called.
func (r *Reader) HoldConnections(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var held []driver.Rows
	for range r.cfg.Connections {
		rows, err := r.conns[0].Query(ctx, "SELECT number FROM numbers(1000000000)")
		if err != nil {
			cancel()
			return nil, err
		}
		held = append(held, rows)
	}
	return func() {
		cancel()
		for _, rows := range held {
			for rows.Next() {
			}
			_ = rows.Close() // it was broken off
		}
	}, nil
}
