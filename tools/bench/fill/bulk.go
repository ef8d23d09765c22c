package fill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/store/write"
)

// mergeTimeout bounds one OPTIMIZE statement.
const mergeTimeout = 30 * time.Minute

// Bulk inserts generated rows, merges their parts and reads the sizes of tables.
type Bulk struct {
	*write.Sinks
	conn driver.Conn
}

// OpenBulk parses the URL of one shard, in the form of write.WriterConfig.URL. It does not connect.
func OpenBulk(url string) (*Bulk, error) {
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
	return &Bulk{write.NewSinks(conns[0]), conns[0]}, nil
}

// Close closes the connections.
func (b *Bulk) Close() error { return b.conn.Close() }

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
