package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/id"
)

// sql is text of a statement. Constants are; the compiler refuses a string that was made while the program
// runs, and a test the places that turn one into sql, but for those it names.
type sql string

// query puts a statement together out of constant text and values. Values never become part of the
// text: they travel apart from it, as ClickHouse's query parameters.
type query struct {
	text strings.Builder
	args []any
	// of, when set, are the partitions of the events that all its rows are about: no other shard need be asked.
	of       map[int32]bool
	settings clickhouse.Settings // of this statement, which is one of a search
}

// about notes that every row which a statement reads is about one of these events.
func (q *query) about(ids ...id.ID) *query {
	q.of = make(map[int32]bool)
	for _, d := range ids {
		q.of[d.Partition()] = true
	}
	return q
}

// within notes that every row which a statement reads is about an event of this partition.
func (q *query) within(partition int32) *query {
	q.of = map[int32]bool{partition: true}
	return q
}

// add appends text, which must be constant, and after it a placeholder for every value but the last
// piece: add("a = ", v) appends "a = {p1:String}".
func (q *query) add(text sql, values ...any) *query {
	q.text.WriteString(string(text))
	for i, v := range values {
		if i > 0 {
			q.text.WriteString(", ")
		}
		q.value(v)
	}
	return q
}

func (q *query) value(v any) {
	name := "p" + strconv.Itoa(len(q.args)+1)
	open, kind, end := "", "String", ""
	switch x := v.(type) {
	case string:
	case []string:
		kind = "Array(String)"
	case id.ID:
		kind, v = "FixedString(16)", string(x[:])
	case []id.ID:
		raw := make([]string, len(x))
		for i, d := range x {
			raw[i] = string(d[:])
		}
		kind, v = "Array(FixedString(16))", raw
	case time.Time:
		open, kind, end, v = "fromUnixTimestamp64Milli(", "Int64", ", 'UTC')", x.UnixMilli()
	case int:
		kind, v = "UInt64", uint64(x)
	default:
		panic("BUG: no parameter type for a value of a query")
	}
	q.args = append(q.args, clickhouse.Named(name, v))
	q.text.WriteString(open + "{" + name + ":" + kind + "}" + end)
}
