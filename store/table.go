package store

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
)

// table says how rows of one kind are written: column by column, which costs the client a fraction of
// what row by row does.
type table[R any] struct {
	name    string
	columns []column[R]
	types   []clickhouse.ColumnNameAndType
	insert  string
}

// column takes one value of every row.
type column[R any] struct {
	name, kind string
	values     func([]R) any
}

// col makes a column of Go values that clickhouse-go's column for kind takes as a slice.
func col[R, T any](name, kind string, value func(R) T) column[R] {
	return column[R]{name, kind, func(rows []R) any {
		out := make([]T, len(rows))
		for i, r := range rows {
			out[i] = value(r)
		}
		return out
	}}
}

func text[R any](name string, value func(R) string) column[R] { return col(name, "String", value) }

func word[R any](name string, value func(R) string) column[R] {
	return col(name, "LowCardinality(String)", value)
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
	for i, c := range t.columns {
		if err := batch.Column(i).Append(c.values(rows)); err != nil {
			_ = batch.Abort() // only gives the connection back
			return fmt.Errorf("fill column %s of %s: %w: %w", c.name, t.name, errRefused, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", len(rows), t.name, err)
	}
	return nil
}

// probe writes one row of the table again, which changes nothing: every table collapses by its key. An
// error says that the table takes no rows at all. An empty table takes the probe.
func (t *table[R]) probe(ctx context.Context, conn driver.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	if err := conn.Exec(ctx, "INSERT INTO "+t.name+" SELECT * FROM "+t.name+" LIMIT 1"); err != nil {
		return fmt.Errorf("write a row of %s again: %w", t.name, err)
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
		col("size", "UInt32", func(x r) uint32 { return uint32(len(x.Body)) }),
		text("headers", func(x r) string { return string(event.LinesOf(x.Header)) }),
		col("body", "String", func(x r) []byte { return x.Body }),
		col("billed", "UInt8", r.billed),
		col("kp", "UInt16", func(x r) uint16 { return uint16(x.record.Partition) }),
		col("ko", "UInt64", func(x r) uint64 { return uint64(x.record.Offset) }),
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
		bytes16("att", func(x r) []byte { return x.Attempt.ID[:] }),
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
		col("resp_body", "String", func(x r) []byte { return x.Attempt.ResponseBody }),
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
		col("ver", "UInt64", r.version),
	)
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
