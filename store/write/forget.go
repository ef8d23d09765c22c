package write

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

// A finding is forgotten 400 days after its last hit. Its hits leave the store by their age; the row of the table
// findings, whose first hit must never change, is deleted by name.

// FindingTable knows when findings were hit last, and deletes their rows.
type FindingTable struct {
	store    Shards
	caughtUp func(context.Context) error // waits until the store has all hits that were acknowledged before the call
}

// Shards are the connections to the store.
type Shards interface{ Pool() *ch.Pool }

// NewFindingTable returns the findings of a store. caughtUp waits until the store has all hits that were acknowledged
// before its call.
func NewFindingTable(store Shards, caughtUp func(context.Context) error) *FindingTable {
	return &FindingTable{store, caughtUp}
}

// LastHits returns when each of these findings was hit last, with the hits that were acknowledged before the call. A
// finding without hits is missing.
func (f *FindingTable) LastHits(ctx context.Context, account string, ids []string) (map[string]time.Time, error) {
	if err := f.caughtUp(ctx); err != nil {
		return nil, err
	}
	last, pool := make(map[string]time.Time, len(ids)), f.store.Pool()
	for shard := range pool.Count() {
		q := new(ch.Query).Add("SELECT finding, max(last_at) FROM findings WHERE account = ", account).
			Add(" AND finding IN ", ids).Add(" GROUP BY finding")
		err := pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			var id string
			var at time.Time
			err := rows.Scan(&id, &at)
			if last[id].Before(at) {
				last[id] = at
			}
			return err
		})
		if err != nil {
			return nil, ch.ClassifyError(ctx, fmt.Errorf("read the last hits of findings: %w", err))
		}
	}
	return last, nil
}

// DeleteFindings deletes the rows of these findings.
func (f *FindingTable) DeleteFindings(ctx context.Context, account string, ids []string) error {
	pool := f.store.Pool()
	return pool.ForEachShard(func(shard int) error {
		q := new(ch.Query).Add("ALTER TABLE findings DELETE WHERE account = ", account).Add(" AND finding IN ", ids).
			Add(" SETTINGS mutations_sync = 2")
		if err := pool.Exec(ctx, shard, q); err != nil {
			return ch.ClassifyError(ctx, fmt.Errorf("delete findings: %w", err))
		}
		return nil
	})
}
