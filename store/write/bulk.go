package write

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/schema"
)

// mergeTimeout bounds one OPTIMIZE statement.
const mergeTimeout = 30 * time.Minute

// Bulk inserts generated rows without Kafka, into the tables and columns of Writer, to fill a store for benchmarks.
// Nothing is acknowledged, and no relay may run on the store meanwhile. Bulk is not safe for concurrent use.
type Bulk struct {
	conn  driver.Conn
	sinks []anySink
}

// NewBulk parses the URL, which has the form of WriterConfig.URL and must name one shard. It does not connect.
func NewBulk(url string) (*Bulk, error) {
	conns, err := ch.Open(url, func(o *clickhouse.Options) {
		o.MaxOpenConns, o.MaxIdleConns = 8, 8 // one per table
		o.Settings["async_insert"] = 0
		// Inserts leave rows with equal keys to the background merges, which read every row anyway.
		o.Settings["optimize_on_insert"] = 0
		o.ReadTimeout = mergeTimeout
	})
	if err != nil {
		return nil, err
	}
	if len(conns) > 1 {
		return nil, errors.Join(errors.New("bulk: only one shard can be filled"), ch.CloseAll(conns))
	}
	return &Bulk{conn: conns[0], sinks: newSinks()}, nil
}

// Close closes the connections.
func (b *Bulk) Close() error { return b.conn.Close() }

// BulkRows are the rows of one insert. Each outcome with an attempt also makes a row of attempts.
type BulkRows struct {
	Events   []event.Event
	Outcomes []event.Outcome
	Receipts []event.Receipt
	// Offset is the offset of the first row of each slice, as in its topic. The version of a delivery grows with it.
	Offset int64
}

// Insert inserts the rows, one block per table, the tables concurrently. After an error some tables may have the rows;
// calling Insert again with the same rows changes nothing there, but usage_minute counts their requests again.
func (b *Bulk) Insert(ctx context.Context, rows BulkRows) error {
	records := recordsFrom(rows.Offset, max(len(rows.Events), len(rows.Outcomes), len(rows.Receipts)))
	batch := newBatch(b.sinks)
	for i := range rows.Events {
		row, err := newEventRow(&rows.Events[i], source{record: &records[i]})
		if err != nil {
			return err
		}
		addRow(batch, row)
	}
	for i := range rows.Outcomes {
		row, err := newDeliveryRow(&rows.Outcomes[i], source{record: &records[i]})
		if err != nil {
			return err
		}
		addRow(batch, row)
	}
	for i := range rows.Receipts {
		addRow(batch, &receiptRow{Receipt: &rows.Receipts[i], source: source{record: &records[i]}})
	}
	_, err := concurrently(ctx, batch.sinks, func(ctx context.Context, k anySink) ([]deadLetter, error) {
		return nil, k.insertOnce(ctx, b.conn)
	})
	return err
}

func addRow[R row](b *batch, r R) {
	k := sinkOf[R](b)
	k.rows = append(k.rows, r)
}

func recordsFrom(first int64, n int) []stream.Record {
	records := make([]stream.Record, n)
	for i := range records {
		records[i].Offset = first + int64(i)
	}
	return records
}

// CountHours counts the usage of every hour of [from, to), as Writer does for the hours of its rows.
func (b *Bulk) CountHours(ctx context.Context, from, to time.Time) error {
	for from = schema.HourOf(from); from.Before(to); from = from.Add(spansPerStatement * time.Hour) {
		if err := countRange(ctx, b.conn, from, from.Add(spansPerStatement*time.Hour)); err != nil {
			return err
		}
	}
	return nil
}

// Merge merges the parts of each partition (a day or a month) of every table into one part.
func (b *Bulk) Merge(ctx context.Context) error {
	counts := []string{"usage_minute", "attempts_hour", "attempts_day", "usage_hour", "usage_day", "run_deliveries"}
	for _, table := range append(schema.RetainedTables(), counts...) {
		limited, cancel := context.WithTimeout(ctx, mergeTimeout)
		err := b.conn.Exec(limited, "OPTIMIZE TABLE "+table+" FINAL SETTINGS optimize_skip_merged_partitions = 1")
		cancel()
		if err != nil {
			return fmt.Errorf("merge %s: %w", table, err)
		}
	}
	return nil
}

// TableSize is the size of one table.
type TableSize struct {
	Table                     string
	Rows, Bytes, Uncompressed uint64 // Bytes on disk; Uncompressed is the size before compression, in bytes
	Parts, Partitions         uint64
}

// Sizes returns the size of every table, the largest first. A row that was inserted twice counts twice until it is
// merged.
func (b *Bulk) Sizes(ctx context.Context) (sizes []TableSize, err error) {
	rows, err := b.conn.Query(ctx, "SELECT table, sum(rows), sum(bytes_on_disk), sum(data_uncompressed_bytes), "+
		"count(), uniqExact(partition) FROM system.parts "+
		"WHERE active AND database = currentDatabase() GROUP BY table ORDER BY sum(bytes_on_disk) DESC")
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s TableSize
		if err := rows.Scan(&s.Table, &s.Rows, &s.Bytes, &s.Uncompressed, &s.Parts, &s.Partitions); err != nil {
			return nil, fmt.Errorf("read the sizes of tables: %w", err)
		}
		sizes = append(sizes, s)
	}
	return sizes, rows.Err()
}
