// Package column says how rows become columns of ClickHouse: a column for each value, filled at once for all rows of a
// batch. The columns of attempts are here too, for they are written and read by one table.
package column

import (
	"net/netip"
	"time"

	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"

	"github.com/eventrelay/relay/store/internal/ch"
)

// Block is one column of a batch as clickhouse-go holds it.
type Block = chcolumn.Interface

// Column takes one value of every row into a block. reserve makes room for that many bytes of text.
type Column[R any] struct {
	Name ch.SQL // so that it is constant text
	Type string
	Fill func(to Block, rows []R, reserve func(size int) error) error
}

// Of makes a column of Go values that clickhouse-go's column for kind takes as a slice.
func Typed[R, T any](name ch.SQL, kind string, value func(R) T) Column[R] {
	return Column[R]{name, kind, func(to Block, rows []R, _ func(int) error) error {
		out := make([]T, len(rows))
		for i, r := range rows {
			out[i] = value(r)
		}
		_, err := to.Append(out)
		return err
	}}
}

// Text is any text.
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

// Blob is text that is no string: it is appended row by row, because the library copies each of a slice.
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

// Word is text of which there are few. The library takes each as an interface: the same one, while the word is
// the same.
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

// When is a time, to the millisecond.
func Timestamp[R any](name ch.SQL, value func(R) time.Time) Column[R] {
	return Typed(name, "DateTime64(3, 'UTC')", func(r R) int64 { return TimeToMillis(value(r)) })
}

// Bytes16 is an id.
func ID[R any](name ch.SQL, value func(R) []byte) Column[R] {
	return Typed(name, "FixedString(16)", value)
}

// Millis is t for a DateTime64(3) column; no time is 1970.
func TimeToMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// IPToBytes writes an address for an IPv6 column: IPv4 mapped, none as ::.
func IPToBytes(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

// Flag is a truth as ClickHouse keeps it.
func Bool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Instant is a time that When wrote.
func TimeFromColumn(t time.Time) time.Time {
	if t.UnixMilli() == 0 {
		return time.Time{}
	}
	return t.UTC()
}

// Address is the inverse of IPToBytes.
func IPFromBytes(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b).Unmap()
}
