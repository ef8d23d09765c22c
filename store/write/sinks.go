package write

import (
	"context"
	"errors"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/schema"
)

// Sinks inserts generated rows without Kafka, into the tables and columns of Writer: tools/bench fills a store with it.
// Nothing is acknowledged, and no relay may run on the store meanwhile. It is not safe for concurrent use.
type Sinks struct {
	conn  driver.Conn
	sinks []anySink
}

// NewSinks returns sinks for the tables of one shard.
func NewSinks(conn driver.Conn) *Sinks { return &Sinks{conn, newSinks()} }

// Insert inserts the rows, one block per table, the tables concurrently. Each outcome with an attempt also makes a row
// of attempts. offset is that of the first row of each slice, as in its topic; the version of a delivery grows with it.
// After an error some tables may have the rows; calling Insert again with the same rows changes nothing there, but
// usage_minute counts their requests again.
func (s *Sinks) Insert(
	ctx context.Context, events []event.Event, outcomes []event.Outcome, receipts []event.Receipt, offset int64,
) error {
	records := make([]stream.Record, max(len(events), len(outcomes), len(receipts)))
	for i := range records {
		records[i].Offset = offset + int64(i)
	}
	b := newBatch(s.sinks)
	newReceiptRow := func(x *event.Receipt, s source) (*receiptRow, error) {
		return &receiptRow{Receipt: x, source: s}, nil
	}
	err := errors.Join(addRows(b, events, records, newEventRow), addRows(b, outcomes, records, newDeliveryRow),
		addRows(b, receipts, records, newReceiptRow))
	if err != nil {
		return err
	}
	_, err = concurrently(ctx, b.sinks, func(ctx context.Context, k anySink) ([]deadLetter, error) {
		return nil, k.insertOnce(ctx, s.conn)
	})
	return err
}

// addRows adds a row for each of all to the batch; the nth has the nth record.
func addRows[T any, R row](b *batch, all []T, records []stream.Record, newRow func(*T, source) (R, error)) error {
	k := sinkOf[R](b)
	for i := range all {
		r, err := newRow(&all[i], source{record: &records[i]})
		if err != nil {
			return err
		}
		k.rows = append(k.rows, r)
	}
	return nil
}

// CountHours counts the usage of every hour of [from, to), as Writer does for the hours of its rows.
func (s *Sinks) CountHours(ctx context.Context, from, to time.Time) error {
	for from = schema.HourOf(from); from.Before(to); from = from.Add(spansPerStatement * time.Hour) {
		if err := countRange(ctx, s.conn, from, from.Add(spansPerStatement*time.Hour)); err != nil {
			return err
		}
	}
	return nil
}
