package ch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// SQL is text of a statement. The compiler accepts only constants for it, unless a string is converted; a test lists
// the functions that may convert one.
type SQL string

// Query builds a statement from constant text and values. Values are sent apart from the text, as ClickHouse query
// parameters.
type Query struct {
	text strings.Builder
	args []any
	// Partitions are the Kafka partitions of the events whose rows the statement reads; only their shards are queried.
	// Nil: all shards.
	Partitions map[int32]bool
	Settings   clickhouse.Settings // settings of this statement; only searches have some
}

// ForEvents says that the statement reads only rows of these events.
func (q *Query) ForEvents(ids ...id.ID) *Query {
	q.Partitions = make(map[int32]bool)
	for _, event := range ids {
		q.Partitions[event.Partition()] = true
	}
	return q
}

// ForPartition says that the statement reads only rows of events of this partition.
func (q *Query) ForPartition(partition int32) *Query {
	q.Partitions = map[int32]bool{partition: true}
	return q
}

// Text returns the text of the statement, with placeholders.
func (q *Query) Text() string { return q.text.String() }

// Args returns the values of the placeholders.
func (q *Query) Args() []any { return q.args }

// Add appends constant text and then a placeholder for each value, separated by commas: Add("a = ", v) appends "a =
// {p1:String}".
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
	prefix, paramType, suffix := "", "String", ""
	switch x := v.(type) {
	case string:
	case []string:
		paramType = "Array(String)"
	case id.ID:
		paramType, v = "FixedString(16)", string(x[:])
	case []id.ID:
		raw := make([]string, len(x))
		for i, d := range x {
			raw[i] = string(d[:])
		}
		paramType, v = "Array(FixedString(16))", raw
	case time.Time:
		prefix, paramType, suffix, v = "fromUnixTimestamp64Milli(", "Int64", ", 'UTC')", x.UnixMilli()
	case int:
		paramType, v = "UInt64", uint64(x)
	default:
		panic("BUG: no parameter type for a value of a query")
	}
	q.args = append(q.args, clickhouse.Named(name, v))
	q.text.WriteString(prefix + "{" + name + ":" + paramType + "}" + suffix)
}

// Literal appends a string of any bytes as text of the statement. A parameter would be unescaped by ClickHouse, and a
// statement may be longer than its parameters.
func (q *Query) Literal(s string) *Query {
	// Hexadecimal digits only: they cannot become other text of the statement.
	return q.Add("unhex('").Add(SQL(hex.EncodeToString([]byte(s)))).Add("')")
}

// Literals appends several literals, separated by commas.
func (q *Query) Literals(all []string) *Query {
	for i, s := range all {
		if i > 0 {
			q.Add(", ")
		}
		q.Literal(s)
	}
	return q
}

// WhereIDs appends conditions for ids, given newest first, and for the time range that they span.
func WhereIDs(q *Query, ids []id.ID) *Query {
	return q.ForEvents(ids...).Add(" AND ts >= ", ids[len(ids)-1].Time()).Add(" AND ts <= ", ids[0].Time()).
		Add(" AND id IN ", ids)
}

// IsServerError reports whether an error code of ClickHouse (src/Common/ErrorCodes.cpp) is about the server and not
// about the inserted rows. A code that is missing here costs a bisection and sends rows to the dead letter topic, so
// the list is wide.
func IsServerError(code int32) bool {
	return slices.Contains([]int32{
		3, 32, 33, 95, 96, 99, 101, 102, 108, // broken connection, unreadable packets
		198, 209, 210, 279, 425, // DNS, network, system calls
		74, 75, 76, 77, 87, 88, 243, // files, not enough space
		// Table, column, function or setting missing: schema and program disagree.
		8, 10, 16, 20, 46, 47, 60, 62, 81, 115, 218, 733,
		// Time, memory, quota, load, too many parts, killed.
		159, 160, 173, 201, 202, 203, 241, 252, 394, 439, 473, 735, 745, 746,
		164, 242, 236, 341, 722, // read-only, shutting down, still loading
		225, 285, 286, 319, 999, // Keeper, quorum, unknown status of an insert
		192, 193, 194, 195, 452, 497, 516, // users, rights and their constraints
		36, 49, 50, 53, 246, 290, 307, 396, 499, 571, // types, settings and storage that do not fit the program
		1000, 1001, 1002, // internal errors of the server
	}, code)
}

// ClassifyError marks err as event.ErrUnavailable, unless ClickHouse says that the statement is wrong. If the caller
// has cancelled ctx, it joins context.Canceled instead.
func ClassifyError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.Join(context.Canceled, err)
	}
	var ex *clickhouse.Exception
	if errors.As(err, &ex) && !IsServerError(ex.Code) {
		return err
	}
	return fmt.Errorf("%w: %w", event.ErrUnavailable, err)
}

// RequirePositive returns an error unless v is positive.
func RequirePositive[T int | time.Duration](name string, v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("store: %s must be positive, not %v", name, v)
}
