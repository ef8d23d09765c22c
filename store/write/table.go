package write

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/column"
)

// table inserts rows of one kind column by column, which costs the client a fraction of inserting row by row. It is
// safe for concurrent use.
type table[R any] struct {
	name    string
	derive  func([]R) []R // makes the rows of the table from those of the sink; nil: they are the same
	columns []column.Column[R]
	types   []clickhouse.ColumnNameAndType
	insert  string
	zeros   atomic.Pointer[[]byte] // see reserve
}

// maxZeros bounds the zeros that a table keeps between inserts, in bytes: enough for a column at a few thousand events
// a second.
const maxZeros = 1 << 20

func newTable[R any](name string, columns ...column.Column[R]) *table[R] {
	t := &table[R]{name: name, columns: columns}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = string(c.Name)
		t.types = append(t.types, clickhouse.ColumnNameAndType{Name: string(c.Name), Type: c.Type})
	}
	t.insert = "INSERT INTO " + name + " (" + strings.Join(names, ", ") + ")"
	return t
}

// of limits the table to the rows that accepts returns true for, and returns the table.
func (t *table[R]) of(accepts func(R) bool) *table[R] {
	return t.from(func(rows []R) (accepted []R) {
		for _, r := range rows {
			if accepts(r) {
				accepted = append(accepted, r)
			}
		}
		return accepted
	})
}

// from sets how the rows of the table are made from those of the sink, and returns the table.
func (t *table[R]) from(derive func([]R) []R) *table[R] {
	t.derive = derive
	return t
}

// write inserts the rows in one statement. It passes the column types along, because over HTTP clickhouse-go would
// otherwise ask the server for them before every insert.
func (t *table[R]) write(ctx context.Context, conn driver.Conn, rows []R) error {
	batch, err := conn.PrepareBatch(clickhouse.Context(ctx, clickhouse.WithColumnNamesAndTypes(t.types)), t.insert)
	if err != nil {
		return fmt.Errorf("prepare insert into %s: %w", t.name, err)
	}
	if err := t.fill(batch.Columns(), rows); err != nil {
		_ = batch.Abort() // returns the connection to the pool
		return err
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d rows into %s: %w", len(rows), t.name, err)
	}
	return nil
}

// rowsOf returns the rows of the table.
func (t *table[R]) rowsOf(rows []R) []R {
	if t.derive == nil {
		return rows
	}
	return t.derive(rows)
}

func (t *table[R]) fill(blocks []column.Block, rows []R) error {
	for i, c := range t.columns {
		reserve := func(size int) error { return t.reserve(blocks[i], size) }
		if err := c.Fill(blocks[i], rows, reserve); err != nil {
			return fmt.Errorf("fill column %s of %s: %w: %w", c.Name, t.name, errRowsRejected, err)
		}
	}
	return nil
}

// reserve preallocates size bytes in a text column; growing on demand would allocate five times as much. It appends a
// row of that size and removes it again: clickhouse-go keeps the buffer, and has no other way to preallocate. The next
// insert uses the same row, unless it is large: after large bodies the memory is free again.
func (t *table[R]) reserve(to column.Block, size int) error {
	zeros := t.zeros.Load()
	if zeros == nil || size > len(*zeros) {
		zeros = new(make([]byte, size))
		if size <= maxZeros {
			t.zeros.Store(zeros)
		}
	}
	row := (*zeros)[:size]
	if err := to.AppendRow(&row); err != nil {
		return err
	}
	to.Reset()
	return nil
}

// probe inserts one row of the table again, which changes nothing: every table merges rows with equal keys
// (usage_minute counts the request of a probed attempt again). An error means that the table takes no rows at all. An
// empty table gets a row without an account, dated 1970, which its retention drops at once: copying no row would prove
// nothing.
func (t *table[R]) probe(ctx context.Context, conn driver.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var hasRows uint8
	if err := conn.QueryRow(ctx, "SELECT exists(SELECT 1 FROM "+t.name+")").Scan(&hasRows); err != nil {
		return fmt.Errorf("check whether %s has rows: %w", t.name, err)
	}
	insert := "INSERT INTO " + t.name + " SELECT * FROM " + t.name + " LIMIT 1"
	if hasRows == 0 {
		insert = "INSERT INTO " + t.name + " (account) SELECT ''"
	}
	if err := conn.Exec(ctx, insert); err != nil {
		return fmt.Errorf("insert a probe row into %s: %w", t.name, err)
	}
	return nil
}

func eventsTable() *table[*eventRow] {
	type r = *eventRow
	return newTable("events",
		column.Text("account", func(x r) string { return x.Account }),
		column.ID("id", func(x r) []byte { return x.ID[:] }),
		column.Timestamp("ts", func(x r) time.Time { return x.ReceivedAt() }),
		column.Text("endpoint", func(x r) string { return x.Endpoint }),
		column.LowCardinality("type", func(x r) string { return x.Type }),
		column.LowCardinality("source", func(x r) string { return string(x.Source) }),
		column.LowCardinality("verdict", func(x r) string { return string(x.Verdict) }),
		column.LowCardinality("reason", func(x r) string { return string(x.Reason) }),
		column.ID("duplicate_of", func(x r) []byte { return x.duplicate[:] }),
		column.Typed("dests", "Array(String)", func(x r) []string { return x.Dests }),
		column.LowCardinality("method", func(x r) string { return x.Method }),
		column.Text("query", func(x r) string { return x.Query }),
		column.LowCardinality("content_type", r.mediaType),
		column.Typed("remote_ip", "IPv6", func(x r) [16]byte { return column.IPToBytes(x.RemoteIP) }),
		column.Text("idempotency_key", func(x r) string { return x.IdempotencyKey }),
		column.Text("trace", func(x r) string { return x.Trace }),
		column.Text("mismatch", func(x r) string { return x.Mismatch }),
		column.Typed("size", "UInt32", func(x r) uint32 { return x.size }),
		column.Text("headers", func(x r) string { return string(event.LinesOf(x.Header)) }),
		column.RawBytes("body", func(x r) []byte { return x.Body }),
		column.Typed("billed", "UInt8", r.billed),
		column.Typed("kafka_partition", "UInt16", func(x r) uint16 { return uint16(x.record.Partition) }),
		column.Typed("kafka_offset", "UInt64", func(x r) uint64 { return uint64(x.record.Offset) }),
	)
}

// eventLookups returns the tables in which lists find events by a key or by their endpoint. The writer inserts them:
// as materialised views they took a tenth more of ClickHouse's time.
func eventLookups() []*table[*eventRow] {
	type r = *eventRow
	shown := strings.Fields("account endpoint id ts type source verdict reason duplicate_of dests size")
	byEndpoint := slices.DeleteFunc(eventsTable().columns, func(c column.Column[r]) bool {
		return !slices.Contains(shown, string(c.Name))
	})
	return []*table[r]{newTable("events_by_endpoint", byEndpoint...), newTable("event_keys",
		column.Text("account", func(x r) string { return x.Account }),
		column.Text("key", func(x r) string { return x.key }),
		column.ID("id", func(x r) []byte { return x.ID[:] }),
		column.Timestamp("ts", func(x r) time.Time { return x.ReceivedAt() }),
	).from(keyRows)}
}

// keyRows returns a row for each key of the events: the type, each destination, and dest: alone for events without
// destinations that are not rejected.
func keyRows(rows []*eventRow) []*eventRow {
	all := make([]eventRow, 0, 2*len(rows))
	for _, r := range rows {
		add := func(key string) {
			all = append(all, eventRow{Event: r.Event, source: r.source, key: key}) // the scan writes to others of its fields
		}
		add("type:" + r.Type)
		for _, dest := range r.Dests {
			add("dest:" + dest)
		}
		if len(r.Dests) == 0 && r.Verdict != event.VerdictRejected {
			add("dest:")
		}
	}
	keyed := make([]*eventRow, len(all))
	for i := range all {
		keyed[i] = &all[i]
	}
	return keyed
}

func deliveriesTable() *table[*deliveryRow] {
	type r = *deliveryRow
	return newTable("deliveries",
		column.Text("account", func(x r) string { return x.Account }),
		column.ID("id", func(x r) []byte { return x.Event[:] }),
		column.Timestamp("ts", func(x r) time.Time { return x.Event.Time() }),
		column.Text("dest", func(x r) string { return x.Dest }),
		column.Text("endpoint", func(x r) string { return x.Endpoint }),
		column.LowCardinality("type", func(x r) string { return x.Type }),
		column.LowCardinality("status", func(x r) string { return string(x.Status) }),
		column.LowCardinality("reason", func(x r) string { return string(x.Reason) }),
		column.LowCardinality("skipped", func(x r) string { return string(x.SkipReason) }),
		column.Typed("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }),
		column.Text("behind", func(x r) string { return x.Behind }),
		column.Timestamp("next_at", func(x r) time.Time { return x.NextAt }),
		column.Timestamp("last_at", func(x r) time.Time { return x.At }),
		column.Text("run", func(x r) string { return x.Run }),
		column.Typed("ver", "UInt128", func(x r) *big.Int { return x.version.Big() }),
	)
}

func attemptsTable() *table[*deliveryRow] {
	type r = *deliveryRow
	var columns []column.Column[*deliveryRow]
	for _, a := range column.AttemptColumns(func(x *deliveryRow) *event.Outcome { return x.Outcome }) {
		columns = append(columns, a.Column)
	}
	return newTable("attempts", columns...).of(r.hasAttempt)
}

func receiptsTable() *table[*receiptRow] {
	type r = *receiptRow
	return newTable("receipts",
		column.Text("account", func(x r) string { return x.Account }),
		column.ID("id", func(x r) []byte { return x.Event[:] }),
		column.Timestamp("ts", func(x r) time.Time { return x.Event.Time() }),
		column.LowCardinality("state", func(x r) string { return string(x.State) }),
		column.Text("reference", func(x r) string { return x.Reference }),
		column.Text("details", func(x r) string { return x.Details }),
		column.Timestamp("at", func(x r) time.Time { return x.At }),
		column.Typed("ver", "UInt64", func(x r) uint64 { return x.Version(x.record.Offset) }),
	)
}

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
	insert(context.Context, *loader, *shard) ([]deadLetter, error)
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
func (k *sink[R]) insert(ctx context.Context, l *loader, s *shard) (dead []deadLetter, err error) {
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
