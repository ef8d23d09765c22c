package write

import (
	"bytes"
	"testing"

	chcolumn "github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/test/must"
)

func eventRows(tb testing.TB, n int) []*eventRow {
	ids := id.NewGenerator(nil)
	rows := make([]*eventRow, n)
	for i := range rows {
		d := must.Get(ids.New(1))(tb)
		rows[i] = &eventRow{
			Event: &event.Event{
				ID: d, Account: "acc_01jd0000000000000000000000", Endpoint: "ep_01jd0000000000000000000000",
				Source:  event.SourceAPI,
				Verdict: event.VerdictUnverified, Type: "order.paid", Method: "POST",
				Dests:  []string{"dst_01jd0000000000000000000000"},
				Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
				Body:   bytes.Repeat([]byte{byte(i)}, 1000+i%10),
			},
			source: source{record: &stream.Record{}},
		}
	}
	return rows
}

// fillBlock returns the columns of a new batch with the rows in them.
func fillBlock[R any](tb testing.TB, t *table[R], rows []R) []column.Block {
	b := proto.NewBlock()
	for _, c := range t.types {
		must.Do(tb, b.AddColumn(c.Name, chcolumn.Type(c.Type)))
	}
	must.Do(tb, t.fill(b.Columns, rows))
	return b.Columns
}

// TestColumnsHoldTheRows: preallocating room for text leaves no bytes in the columns.
func TestColumnsHoldTheRows(t *testing.T) {
	table, rows := eventsTable(), eventRows(t, 50)
	for _, n := range []int{50, 1} {
		for _, c := range fillBlock(t, table, rows[:n]) {
			if c.Rows() != n {
				t.Fatalf("%s has %d of %d rows", c.Name(), c.Rows(), n)
			}
			for i, r := range rows[:n] {
				if c.Name() == "body" && c.Row(i, false) != string(r.Body) || c.Name() == "endpoint" &&
					c.Row(i, false) != r.Endpoint {
					t.Fatalf("%s of row %d is %q", c.Name(), i, c.Row(i, false))
				}
			}
		}
	}
}

// TestLargeInsertKeepsNoMemory: a table keeps at most maxZeros after an insert of large bodies.
func TestLargeInsertKeepsNoMemory(t *testing.T) {
	table, rows := eventsTable(), eventRows(t, 2)
	fillBlock(t, table, rows)
	if kept := len(*table.zeros.Load()); kept == 0 {
		t.Error("the row of zeros is allocated for every insert")
	}
	rows[0].Body = make([]byte, maxZeros)
	fillBlock(t, table, rows)
	if kept := len(*table.zeros.Load()); kept > maxZeros {
		t.Errorf("%d bytes are kept", kept)
	}
}

// BenchmarkFillColumns fills the columns of 1,000 events of 1 KB, without encoding and sending them.
func BenchmarkFillColumns(b *testing.B) {
	table, rows := eventsTable(), eventRows(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		fillBlock(b, table, rows)
	}
}
