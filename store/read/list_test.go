package read_test

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestListsAgreeWithModel compares lists with the model, over random histories and filters.
// TestEveryPlanAppliesEveryFilter covers the filters; this test adds pages and combinations of many filters.
func TestListsAgreeWithModel(t *testing.T) {
	seed := storetest.Seed(t)
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	h := newHistory(b, seed)
	queries := storetest.Rounds(12, 12, 25)
	if storetest.TwoShards(t) {
		h.clock = time.Now().Add(-10 * time.Hour) // few windows, so that a list takes few statements
		queries = storetest.Rounds(5, 5, 25)
	}
	for range storetest.Rounds(1, 1, 3) {
		h.addEvents(100)
		for i := range queries {
			q := h.randomQuery()
			q.Limit = pick(h, 1, 3, 10, 100)
			got, want := storetest.ListEvents(t, r, q, 5), h.want(q)
			want = want[:min(len(want), 5*q.Limit)]
			if diff := gocmp.Diff(want, untimed(got), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("query %d %+v (-want +got):\n%s", i, q, diff)
			}
		}
	}
}
