package write

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
)

// table says how rows of one kind are written: column by column, which costs the client a fraction of
// what row by row does. One batch at a time is written.
type table[R any] struct {
	name    string
	columns []column[R]
	types   []clickhouse.ColumnNameAndType
	insert  string
	zeros   []byte // see reserve
}

// block is one column of a batch as clickhouse-go holds it.
type block = chcolumn.Interface

// column takes one value of every row into a block. reserve makes room for that many bytes of text.
type column[R any] struct {
	name, kind string
	fill       func(to block, rows []R, reserve func(size int) error) error
}

// col makes a column of Go values that clickhouse-go's column for kind takes as a slice.
func col[R, T any](name, kind string, value func(R) T) column[R] {
	return column[R]{name, kind, func(to block, rows []R, _ func(int) error) error {
		out := make([]T, len(rows))
		for i, r := range rows {
			out[i] = value(r)
		}
		_, err := to.Append(out)
		return err
	}}
}

func text[R any](name string, value func(R) string) column[R] {
	return column[R]{name, "String", func(to block, rows []R, reserve func(int) error) error {
		out, size := make([]string, len(rows)), 0
		for i, r := range rows {
			out[i] = value(r)
			size += len(out[i])
		}
		if err := reserve(size); err != nil {
			return err
		}
		_, err := to.Append(out)
		return err
	}}
}

// blob is text that is no string: it is appended row by row, because the library copies each of a slice.
func blob[R any](name string, value func(R) []byte) column[R] {
	return column[R]{name, "String", func(to block, rows []R, reserve func(int) error) error {
		size := 0
		for _, r := range rows {
			size += len(value(r))
		}
		if err := reserve(size); err != nil {
			return err
		}
		var one []byte
		for _, r := range rows {
			one = value(r)
			if err := to.AppendRow(&one); err != nil {
				return err
			}
		}
		return nil
	}}
}

// word is text of which there are few. The library takes each as an interface: the same one, while the word is
// the same.
func word[R any](name string, value func(R) string) column[R] {
	return column[R]{name, "LowCardinality(String)", func(to block, rows []R, _ func(int) error) error {
		var last string
		var boxed any
		for _, r := range rows {
			if v := value(r); boxed == nil || v != last {
				last, boxed = v, v
			}
			if err := to.AppendRow(boxed); err != nil {
				return err
			}
		}
		return nil
	}}
}

func when[R any](name string, value func(R) time.Time) column[R] {
	return col(name, "DateTime64(3, 'UTC')", func(r R) int64 { return millis(value(r)) })
}

func bytes16[R any](name string, value func(R) []byte) column[R] {
	return col(name, "FixedString(16)", value)
}

func newTable[R any](name string, columns ...column[R]) *table[R] {
	t := &table[R]{name: name, columns: columns}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
		t.types = append(t.types, clickhouse.ColumnNameAndType{Name: c.name, Type: c.kind})
	}
	t.insert = "INSERT INTO " + name + " (" + strings.Join(names, ", ") + ")"
	return t
}

// write inserts the rows in one statement. The types are given along because the HTTP protocol would
// ask the server for them every time.
func (t *table[R]) write(ctx context.Context, conn driver.Conn, rows []R) error {
	batch, err := conn.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithColumnNamesAndTypes(t.types)), t.insert)
	if err != nil {
		return fmt.Errorf("prepare insert into %s: %w", t.name, err)
	}
	if err := t.fill(batch.Columns(), rows); err != nil {
		_ = batch.Abort() // only gives the connection back
		return err
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", len(rows), t.name, err)
	}
	return nil
}

func (t *table[R]) fill(blocks []block, rows []R) error {
	for i, c := range t.columns {
		reserve := func(size int) error { return t.reserve(blocks[i], size) }
		if err := c.fill(blocks[i], rows, reserve); err != nil {
			return fmt.Errorf("fill column %s of %s: %w: %w", c.name, t.name, errRefused, err)
		}
	}
	return nil
}

// reserve gives a block of text room for size bytes. Grown as it is filled, it would take five times that. The
// library keeps the room of a row that is taken back; there is no other way to ask for it.
func (t *table[R]) reserve(to block, size int) error {
	if size > len(t.zeros) {
		t.zeros = make([]byte, size)
	}
	room := t.zeros[:size]
	if err := to.AppendRow(&room); err != nil {
		return err
	}
	to.Reset()
	return nil
}

// probe writes one row of the table again, which changes nothing: every table collapses by its key. An
// error says that the table takes no rows at all. An empty one is given a row that says nothing, of nobody and of a day that
// its retention drops at once: to copy no row would show nothing.
func (t *table[R]) probe(ctx context.Context, conn driver.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var filled uint8
	if err := conn.QueryRow(ctx, "SELECT exists(SELECT 1 FROM "+t.name+")").Scan(&filled); err != nil {
		return fmt.Errorf("look for a row of %s: %w", t.name, err)
	}
	insert := "INSERT INTO " + t.name + " SELECT * FROM " + t.name + " LIMIT 1"
	if filled == 0 {
		insert = "INSERT INTO " + t.name + " (account) SELECT ''"
	}
	if err := conn.Exec(ctx, insert); err != nil {
		return fmt.Errorf("write a row into %s that changes nothing: %w", t.name, err)
	}
	return nil
}

func eventsTable() *table[*eventRow] {
	type r = *eventRow
	return newTable("events",
		text("account", func(x r) string { return x.Account }),
		bytes16("id", func(x r) []byte { return x.ID[:] }),
		when("ts", func(x r) time.Time { return x.ReceivedAt() }),
		text("endpoint", func(x r) string { return x.Endpoint }),
		word("type", func(x r) string { return x.Type }),
		word("source", func(x r) string { return string(x.Source) }),
		word("verdict", func(x r) string { return string(x.Verdict) }),
		word("reason", func(x r) string { return string(x.Reason) }),
		bytes16("duplicate_of", func(x r) []byte { return x.duplicate[:] }),
		col("dests", "Array(String)", func(x r) []string { return x.Dests }),
		word("method", func(x r) string { return x.Method }),
		text("query", func(x r) string { return x.Query }),
		word("content_type", r.mediaType),
		col("remote_ip", "IPv6", func(x r) [16]byte { return ip16(x.RemoteIP) }),
		text("idempotency_key", func(x r) string { return x.IdempotencyKey }),
		col("size", "UInt32", func(x r) uint32 { return x.size }),
		text("headers", func(x r) string { return string(event.LinesOf(x.Header)) }),
		blob("body", func(x r) []byte { return x.Body }),
		col("billed", "UInt8", r.billed),
		col("kafka_partition", "UInt16", func(x r) uint16 { return uint16(x.record.Partition) }),
		col("kafka_offset", "UInt64", func(x r) uint64 { return uint64(x.record.Offset) }),
	)
}

func deliveriesTable() *table[*deliveryRow] {
	type r = *deliveryRow
	return newTable("deliveries",
		text("account", func(x r) string { return x.Account }),
		bytes16("id", func(x r) []byte { return x.Event[:] }),
		when("ts", func(x r) time.Time { return x.Event.Time() }),
		text("dest", func(x r) string { return x.Dest }),
		text("endpoint", func(x r) string { return x.Endpoint }),
		word("type", func(x r) string { return x.Type }),
		word("status", func(x r) string { return string(x.Status) }),
		word("reason", func(x r) string { return string(x.Reason) }),
		word("skipped", func(x r) string { return string(x.Skipped) }),
		col("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }),
		when("next_at", func(x r) time.Time { return x.NextAt }),
		when("last_at", func(x r) time.Time { return x.At }),
		text("run", func(x r) string { return x.Run }),
		col("ver", "UInt128", func(x r) *big.Int { return x.version.Big() }),
	)
}

// attemptsTable takes deliveries that have an attempt.
func attemptsTable() *table[*deliveryRow] {
	type r = *deliveryRow
	att := func(value func(*event.Attempt) string) func(r) string {
		return func(x r) string { return value(x.Attempt) }
	}
	return newTable("attempts",
		text("account", func(x r) string { return x.Account }),
		bytes16("id", func(x r) []byte { return x.Event[:] }),
		when("ts", func(x r) time.Time { return x.Event.Time() }),
		text("dest", func(x r) string { return x.Dest }),
		bytes16("attempt", func(x r) []byte { return x.Attempt.ID[:] }),
		text("endpoint", func(x r) string { return x.Endpoint }),
		when("at", func(x r) time.Time { return x.Attempt.StartedAt }),
		word("trigger", att(func(a *event.Attempt) string { return string(a.Trigger) })),
		text("run", func(x r) string { return x.Run }),
		col("ok", "UInt8", func(x r) uint8 { return flag(x.Attempt.OK) }),
		col("code", "UInt16", func(x r) uint16 { return uint16(x.Attempt.Code) }),
		word("error_code", att(func(a *event.Attempt) string { return string(a.ErrorCode) })),
		text("error_message", att(func(a *event.Attempt) string { return a.ErrorMessage })),
		col("duration_ms", "UInt32", func(x r) uint32 { return uint32(x.Attempt.Duration.Milliseconds()) }),
		col("ttfb_ms", "UInt32", func(x r) uint32 { return uint32(x.Attempt.TTFB.Milliseconds()) }),
		when("next_at", func(x r) time.Time { return x.NextAt }),
		col("retry_after_s", "UInt32", func(x r) uint32 { return uint32(x.Attempt.RetryAfter / time.Second) }),
		col("remote_ip", "IPv6", func(x r) [16]byte { return ip16(x.Attempt.RemoteIP) }),
		word("url", att(func(a *event.Attempt) string { return a.URL })),
		word("method", att(func(a *event.Attempt) string { return a.Method })),
		text("req_headers", att(func(a *event.Attempt) string { return string(a.RequestHeader) })),
		text("resp_headers", att(func(a *event.Attempt) string { return string(a.ResponseHeader) })),
		blob("resp_body", func(x r) []byte { return x.Attempt.ResponseBody }),
		col("resp_truncated", "UInt8", func(x r) uint8 { return flag(x.Attempt.Truncated) }),
	)
}

func receiptsTable() *table[*receiptRow] {
	type r = *receiptRow
	return newTable("receipts",
		text("account", func(x r) string { return x.Account }),
		bytes16("id", func(x r) []byte { return x.Event[:] }),
		when("ts", func(x r) time.Time { return x.Event.Time() }),
		word("state", func(x r) string { return string(x.State) }),
		text("reference", func(x r) string { return x.Reference }),
		text("details", func(x r) string { return x.Details }),
		when("at", func(x r) time.Time { return x.At }),
		col("ver", "UInt64", func(x r) uint64 { return x.Version(x.record.Offset) }),
	)
}
