package ch

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/id"
)

// SQL is text of a statement. Constants are; the compiler refuses a string that was made while the program
// runs, and a test the places that turn one into sql, but for those it names.
type SQL string

// Query puts a statement together out of constant text and values. Values never become part of the
// text: they travel apart from it, as ClickHouse's query parameters.
type Query struct {
	text strings.Builder
	args []any
	// Of, when set, are the partitions of the events that all its rows are about: no other shard need be asked.
	Partitions map[int32]bool
	Settings   clickhouse.Settings // of this statement, which is one of a search
}

// About notes that every row which a statement reads is about one of these events.
func (q *Query) ForEvents(ids ...id.ID) *Query {
	q.Partitions = make(map[int32]bool)
	for _, d := range ids {
		q.Partitions[d.Partition()] = true
	}
	return q
}

// Within notes that every row which a statement reads is about an event of this partition.
func (q *Query) ForPartition(partition int32) *Query {
	q.Partitions = map[int32]bool{partition: true}
	return q
}

// Text is the statement.
func (q *Query) Text() string { return q.text.String() }

// Args are its values.
func (q *Query) Args() []any { return q.args }

// Add appends text, which must be constant, and after it a placeholder for every value but the last
// piece: add("a = ", v) appends "a = {p1:String}".
func (q *Query) Add(text SQL, values ...any) *Query {
	q.text.WriteString(string(text))
	for i, v := range values {
		if i > 0 {
			q.text.WriteString(", ")
		}
		q.addValue(v)
	}
	return q
}

func (q *Query) addValue(v any) {
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

// Literal passes a text of any bytes: those of a parameter would be unescaped on the way, and there is more room for a
// statement than for parameters.
func (q *Query) Literal(s string) *Query {
	// Of hexadecimal digits alone: nothing in it can be text of the statement.
	return q.Add("unhex('").Add(SQL(hex.EncodeToString([]byte(s)))).Add("')")
}

// Literals are several, with commas between.
func (q *Query) Literals(all []string) *Query {
	for i, s := range all {
		if i > 0 {
			q.Add(", ")
		}
		q.Literal(s)
	}
	return q
}

// WhereIDs limits a statement to ids, given newest first, and to their time.
func WhereIDs(q *Query, ids []id.ID) *Query {
	return q.ForEvents(ids...).Add(" AND ts >= ", ids[len(ids)-1].Time()).Add(" AND ts <= ", ids[0].Time()).
		Add(" AND id IN ", ids)
}
