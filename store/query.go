package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/id"
)

// query puts a statement together out of constant text and values. Values never become part of the
// text: they travel apart from it, as ClickHouse's query parameters.
type query struct {
	text strings.Builder
	args []any
}

// add appends text, which must be constant, and after it a placeholder for every value but the last
// piece: add("a = ", v) appends "a = {p1:String}".
func (q *query) add(text string, values ...any) *query {
	q.text.WriteString(text)
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
