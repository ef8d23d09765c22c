// Package column converts Go rows into columns of ClickHouse. A Column fills one column of a batch for all rows at
// once, which costs a fraction of appending row by row. The columns of attempts are here too, because the same list is
// used to write and to read them.
package column

import (
	"net/netip"
	"time"

	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/eventrelay/relay/store/ch"
)

// Block is one column of a batch in clickhouse-go.
type Block = chcolumn.Interface

// Column fills a block with one value of every row. reserve preallocates that many bytes of text.
type Column[R any] struct {
	Name ch.SQL // of type SQL, so that it is constant
	Type string
	Fill func(to Block, rows []R, reserve func(size int) error) error
}

// Typed is a column of the given ClickHouse type, whose clickhouse-go column accepts a []T.
func Typed[R, T any](name ch.SQL, columnType string, value func(R) T) Column[R] {
	return Column[R]{name, columnType, func(to Block, rows []R, _ func(int) error) error {
		out := make([]T, len(rows))
		for i, r := range rows {
			out[i] = value(r)
		}
		_, err := to.Append(out)
		return err
	}}
}

// Text is a String column of Go strings.
func Text[R any](name ch.SQL, value func(R) string) Column[R] {
	return Column[R]{name, "String", func(to Block, rows []R, reserve func(int) error) error {
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

// RawBytes is a String column of byte slices. It is appended row by row: clickhouse-go would copy each element of a
// slice.
func RawBytes[R any](name ch.SQL, value func(R) []byte) Column[R] {
	return Column[R]{name, "String", func(to Block, rows []R, reserve func(int) error) error {
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

// LowCardinality is a column of strings with few distinct values. clickhouse-go takes each as an interface; equal
// neighbours share one, which saves allocations.
func LowCardinality[R any](name ch.SQL, value func(R) string) Column[R] {
	return Column[R]{name, "LowCardinality(String)", func(to Block, rows []R, _ func(int) error) error {
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

// Timestamp is a time in milliseconds.
func Timestamp[R any](name ch.SQL, value func(R) time.Time) Column[R] {
	return Typed(name, "DateTime64(3, 'UTC')", func(r R) int64 { return TimeToMillis(value(r)) })
}

// ID is a column of 16 bytes.
func ID[R any](name ch.SQL, value func(R) []byte) Column[R] {
	return Typed(name, "FixedString(16)", value)
}

// TimeToMillis is t for a DateTime64(3) column; the zero time is 1970.
func TimeToMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// IPToBytes is an address for an IPv6 column: IPv4 is mapped, the zero address is ::.
func IPToBytes(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

// Bool is b for a UInt8 column.
func Bool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// TimeFromColumn is the inverse of TimeToMillis, in UTC.
func TimeFromColumn(t time.Time) time.Time {
	if t.UnixMilli() == 0 {
		return time.Time{}
	}
	return t.UTC()
}

// IPFromBytes is the inverse of IPToBytes.
func IPFromBytes(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b).Unmap()
}
