package write

import (
	"context"
	"errors"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// newSinks returns a sink for each kind of rows; sinks are inserted concurrently. Deliveries are inserted after
// attempts and candidates: a reader who sees a delivery must also see its attempt, and find the delivery in the list of
// its status.
func newSinks() []anySink {
	const byDay = true
	return []anySink{
		newSink(byDay, decoders[*eventRow]{stream.Events: decodeEvent}, eventsTable(), eventLookups()),
		newSink(byDay, decoders[*deliveryRow]{stream.Commands: decodeCommand, stream.Outcomes: decodeOutcome},
			deliveriesTable(), []*table[*deliveryRow]{attemptsTable()}, candidateTables()),
		newSink(byDay, decoders[*receiptRow]{stream.Receipts: decodeReceipt}, receiptsTable()),
		newSink(!byDay, decoders[*auditRow]{stream.AuditLog: decodeAudit}, auditTable()),
		newSink(!byDay, decoders[*hitRow]{stream.Findings: decodeHit}, hitsTable()),
		newSink(!byDay, decoders[*senderRow]{stream.Findings: decodeSender}, sendersTable()),
	}
}

// sink holds the rows of one kind in a batch, with their decoders and tables. Readers may hold the slice of rows, so
// its elements never change: rows are appended, or the slice is replaced.
type sink[R row] struct {
	byDay    bool // the tables are partitioned by the day of the event whose id is row.shardID
	decoders decoders[R]
	tables   [][]*table[R] // groups are inserted one after the other, the tables of a group concurrently
	rows     []R
}

// decoders decode rows from records, by topic. A nil row means that the record makes none, finding.ErrNotHit that it
// belongs to another sink.
type decoders[R row] map[string]func(source) (R, error)

func newSink[R row](byDay bool, d decoders[R], last *table[R], before ...[]*table[R]) anySink {
	return &sink[R]{byDay: byDay, decoders: d, tables: append(before, []*table[R]{last})}
}

// anySink is a sink of any kind of rows.
type anySink interface {
	// decode adds the row of a record to the batch. mine is false if the record belongs to another sink.
	decode(*batch, source) (mine bool, err error)
	// with returns a sink of the same kind with the rows for which keep returns true.
	with(keep func(row) bool) anySink
	insert(context.Context, *lane, *shard) ([]deadLetter, error)
	insertOnce(context.Context, driver.Conn) error
}

// sinkOf returns the batch's sink for rows of type R.
func sinkOf[R row](b *batch) *sink[R] {
	for _, k := range b.sinks {
		if k, ok := k.(*sink[R]); ok {
			return k
		}
	}
	panic("BUG: these rows have no sink")
}

func (k *sink[R]) decode(b *batch, s source) (mine bool, err error) {
	decode := k.decoders[s.assignment.Topic]
	if decode == nil {
		return false, nil
	}
	r, err := decode(s)
	var none R
	switch {
	case errors.Is(err, finding.ErrNotHit):
		return false, nil
	case err != nil || any(r) == any(none):
		return true, err
	}
	k.rows = append(k.rows, r)
	b.rows += r.tableRows()
	if k.byDay {
		b.addDay(r.shardID())
	}
	return true, nil
}

func (k *sink[R]) with(keep func(row) bool) anySink {
	kept := *k
	kept.rows = nil
	for _, r := range k.rows {
		if keep(r) {
			kept.rows = append(kept.rows, r)
		}
	}
	return &kept
}

// insert inserts the rows into the tables of a shard and returns those that cannot be stored.
func (k *sink[R]) insert(ctx context.Context, l *lane, s *shard) (dead []deadLetter, err error) {
	for _, tables := range k.tables {
		rejected, err := concurrently(ctx, tables, func(ctx context.Context, t *table[R]) ([]deadLetter, error) {
			return writeRows(ctx, l, s, t, t.rowsOf(k.rows))
		})
		if err != nil {
			return nil, err
		}
		dead = append(dead, rejected...)
	}
	return dead, nil
}

// insertOnce inserts the rows into all tables concurrently, without retries.
func (k *sink[R]) insertOnce(ctx context.Context, conn driver.Conn) error {
	_, err := concurrently(ctx, slices.Concat(k.tables...), func(ctx context.Context, t *table[R]) ([]deadLetter, error) {
		if rows := t.rowsOf(k.rows); len(rows) > 0 {
			return nil, t.write(ctx, conn, rows)
		}
		return nil, nil
	})
	return err
}

// concurrently calls insert for all targets and returns the dead letters in the order of the targets.
func concurrently[T any](ctx context.Context, targets []T, insert func(context.Context, T) ([]deadLetter, error)) (
	[]deadLetter, error,
) {
	dead := make([][]deadLetter, len(targets))
	g, gctx := errgroup.WithContext(ctx)
	for i, target := range targets {
		g.Go(func() (err error) { dead[i], err = insert(gctx, target); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(dead...), nil
}
