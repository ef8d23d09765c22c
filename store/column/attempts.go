package column

import (
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/ch"
)

// AttemptColumn is a column of the table attempts: how it is written and how it is read.
type AttemptColumn[R any] struct {
	Column[R]
	// newTarget returns a scan target for a value of the column, and a function that sets the value in the row. Nil:
	// reads do not select the column.
	newTarget func() (target any, set func(*event.AttemptRow))
	// selectExpr adds the expression that is selected instead of the column; nil: the column itself. maxBody is the
	// number of bytes of the response's body to return.
	selectExpr func(q *ch.Query, maxBody int)
}

// AttemptColumns returns the columns of the table attempts; its rows are outcomes with an attempt. A new column is a
// line here and a column in store/schema; TestAttemptColumnsMatchSchema compares the two.
func AttemptColumns[R any](of func(R) *event.Outcome) []AttemptColumn[R] {
	type row = *event.AttemptRow
	attemptText := func(value func(*event.Attempt) string) func(R) string {
		return func(x R) string { return value(of(x).Attempt) }
	}
	return []AttemptColumn[R]{
		{Column: Text("account", func(x R) string { return of(x).Account })},
		{Column: ID("id", func(x R) []byte { return of(x).Event[:] })},
		{Column: Timestamp("ts", func(x R) time.Time { return of(x).Event.Time() })},
		{Column: Text("dest", func(x R) string { return of(x).Dest }),
			newTarget: scanInto(func(a row, v string) { a.Destination = v })},
		{Column: ID("attempt", func(x R) []byte { return of(x).Attempt.ID[:] }),
			newTarget: scanInto(func(a row, v [16]byte) { a.ID = v })},
		{Column: Text("endpoint", func(x R) string { return of(x).Endpoint }),
			newTarget: scanInto(func(a row, v string) { a.Endpoint = v })},
		{Column: Timestamp("at", func(x R) time.Time { return of(x).Attempt.StartedAt }),
			newTarget: scanInto(func(a row, v time.Time) { a.StartedAt = TimeFromColumn(v) })},
		{Column: LowCardinality("trigger", attemptText(func(a *event.Attempt) string { return string(a.Trigger) })),
			newTarget: scanInto(func(a row, v string) { a.Trigger = event.Trigger(v) })},
		{Column: Text("run", func(x R) string { return of(x).Run }),
			newTarget: scanInto(func(a row, v string) { a.Run = v })},
		{Column: Typed("ok", "UInt8", func(x R) uint8 { return Bool(of(x).Attempt.OK) }),
			newTarget: scanInto(func(a row, v uint8) { a.OK = v != 0 })},
		{Column: Typed("code", "UInt16", func(x R) uint16 { return uint16(of(x).Attempt.Code) }),
			newTarget: scanInto(func(a row, v uint16) { a.Code = int(v) })},
		{Column: LowCardinality("error_code", attemptText(func(a *event.Attempt) string { return string(a.ErrorCode) })),
			newTarget: scanInto(func(a row, v string) { a.ErrorCode = event.ErrorCode(v) })},
		{Column: Text("error_message", attemptText(func(a *event.Attempt) string { return a.ErrorMessage })),
			newTarget: scanInto(func(a row, v string) { a.ErrorMessage = v })},
		{Column: Typed("duration_ms", "UInt32", func(x R) uint32 { return uint32(of(x).Attempt.Duration.Milliseconds()) }),
			newTarget: scanInto(func(a row, v uint32) { a.Duration = time.Duration(v) * time.Millisecond })},
		{Column: Typed("ttfb_ms", "UInt32", func(x R) uint32 { return uint32(of(x).Attempt.TTFB.Milliseconds()) }),
			newTarget: scanInto(func(a row, v uint32) { a.TTFB = time.Duration(v) * time.Millisecond })},
		{Column: Timestamp("next_at", func(x R) time.Time { return of(x).NextAt }),
			newTarget: scanInto(func(a row, v time.Time) { a.NextAt = TimeFromColumn(v) })},
		{Column: Typed("retry_after_s", "UInt32", func(x R) uint32 { return uint32(of(x).Attempt.RetryAfter / time.Second) }),
			newTarget: scanInto(func(a row, v uint32) { a.RetryAfter = time.Duration(v) * time.Second })},
		{Column: Typed("remote_ip", "IPv6", func(x R) [16]byte { return IPToBytes(of(x).Attempt.RemoteIP) }),
			newTarget: scanInto(func(a row, v [16]byte) { a.RemoteIP = IPFromBytes(v) })},
		{Column: LowCardinality("url", attemptText(func(a *event.Attempt) string { return a.URL })),
			newTarget: scanInto(func(a row, v string) { a.URL = v })},
		{Column: LowCardinality("method", attemptText(func(a *event.Attempt) string { return a.Method })),
			newTarget: scanInto(func(a row, v string) { a.Method = v })},
		{Column: Text("req_headers", attemptText(func(a *event.Attempt) string { return string(a.RequestHeader) })),
			newTarget: scanInto(func(a row, v string) { a.RequestHeader = event.Lines(v) })},
		{Column: Text("resp_headers", attemptText(func(a *event.Attempt) string { return string(a.ResponseHeader) })),
			newTarget: scanInto(func(a row, v string) { a.ResponseHeader = event.Lines(v) })},
		{Column: RawBytes("resp_body", func(x R) []byte { return of(x).Attempt.ResponseBody }),
			newTarget:  scanInto(func(a row, v []byte) { a.ResponseBody = v }),
			selectExpr: func(q *ch.Query, maxBody int) { q.Add("substring(resp_body, 1, ", maxBody).Add(")") }},
		{Column: Typed("resp_truncated", "UInt8", func(x R) uint8 { return Bool(of(x).Attempt.Truncated) }),
			newTarget:  scanInto(func(a row, v uint8) { a.Truncated = v != 0 }),
			selectExpr: func(q *ch.Query, maxBody int) { q.Add("resp_truncated OR length(resp_body) > ", maxBody) }},
		{Column: Typed("transformation_version", "UInt32",
			func(x R) uint32 { return uint32(of(x).Attempt.TransformationVersion) }),
			newTarget: scanInto(func(a row, v uint32) { a.TransformationVersion = int(v) })},
		{Column: Text("trace", attemptText(func(a *event.Attempt) string { return a.Trace })),
			newTarget: scanInto(func(a row, v string) { a.Trace = v })},
	}
}

func scanInto[T any](set func(*event.AttemptRow, T)) func() (any, func(*event.AttemptRow)) {
	return func() (any, func(*event.AttemptRow)) {
		v := new(T)
		return v, func(a *event.AttemptRow) { set(a, *v) }
	}
}

// AttemptReader scans the rows of one statement that reads attempts.
type AttemptReader struct {
	targets []any
	setters []func(*event.AttemptRow)
}

// SelectAttempts adds the list of selected columns to a statement and returns the reader of its rows. Of each
// response's body at most maxBody bytes are selected.
func SelectAttempts(q *ch.Query, maxBody int) *AttemptReader {
	r := &AttemptReader{}
	for _, c := range AttemptColumns(func(o *event.Outcome) *event.Outcome { return o }) {
		if c.newTarget == nil {
			continue
		}
		if len(r.targets) > 0 {
			q.Add(", ")
		}
		if c.selectExpr != nil {
			c.selectExpr(q, maxBody)
		} else {
			q.Add(c.Name)
		}
		target, set := c.newTarget()
		r.targets, r.setters = append(r.targets, target), append(r.setters, set)
	}
	return r
}

// Scan reads one row.
func (r *AttemptReader) Scan(rows driver.Rows) (event.AttemptRow, error) {
	var a event.AttemptRow
	if err := rows.Scan(r.targets...); err != nil {
		return a, fmt.Errorf("scan attempt: %w", err)
	}
	for _, set := range r.setters {
		set(&a)
	}
	return a, nil
}
