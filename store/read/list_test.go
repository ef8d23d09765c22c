package read_test

import (
	"testing"

	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
	gocmp "github.com/google/go-cmp/cmp"
)

// TestListsAgreeWithModel compares lists with the model, over random histories and filters.
func TestListsAgreeWithModel(t *testing.T) {
	seed := storetest.Seed(t)
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	h := newHistory(b, seed)
	for range storetest.Rounds(1, 1, 3) {
		h.addEvents(150)
		for i := range 25 {
			q := h.randomQuery()
			q.Limit = pick(h, 1, 3, 10, 100)
			got, want := storetest.ListEvents(t, r, q, 5), h.want(q)
			want = want[:min(len(want), 5*q.Limit)]
			if diff := gocmp.Diff(want, untimed(got)); diff != "" {
				t.Fatalf("query %d %+v (-want +got):\n%s", i, q, diff)
			}
		}
	}
}
