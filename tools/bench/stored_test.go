package bench

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// TestMergesPerInsertedRow: the rows that ClickHouse merged and inserted during a run come from its own counters.
func TestMergesPerInsertedRow(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "clickhouse.sock")
	l := must.Get(net.Listen("unix", socket))(t)
	merged := 5
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if q := r.URL.Query().Get("query"); !strings.Contains(q, "'InsertedRows', 'Merge', 'MergedRows'") {
				t.Errorf("the statement is %s", q)
			}
			fmt.Fprintf(w, "InsertQuery\t2\nInsertedRows\t%d\nMergedRows\t%d\n", merged*2, merged*merged)
			merged += 5
		})}}
	s.Start()
	defer s.Close()
	r := &relay{tables: socket}
	before := must.Get(r.readCost(t.Context()))(t)
	after := must.Get(r.readCost(t.Context()))(t)
	got := batches(after.since(before).metrics, 1)
	if len(got) != 1 || got[0] != (Batch{"rows merged per row inserted", 7.5}) {
		t.Errorf("the batches are %v", got)
	}
	gone := &relay{tables: socket + ".gone"}
	if c, err := gone.readCost(t.Context()); err != nil || len(c.metrics) > 0 {
		t.Errorf("without an engine: %v, %v", c.metrics, err)
	}
}
