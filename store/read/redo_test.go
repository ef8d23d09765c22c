package read_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestRedoChangesNothing rewinds the writer to random offsets, as crashes between insert and commit do, and compares
// everything that can be read.
func TestRedoChangesNothing(t *testing.T) {
	b := newBench(t)
	h := newHistory(b, 7)
	n := storetest.Rounds(10, 10, 60)
	h.addEvents(n)
	all := event.Query{Account: storetest.Account, Limit: 100}
	read := func() []*event.Detail {
		w, stop := b.Writer(write.WriterConfig{FlushRows: 50})
		defer stop()
		r := b.Reader(w)
		var details []*event.Detail
		for _, row := range storetest.ListEvents(t, r, all, 10) {
			d := must.Get(r.Event(t.Context(), storetest.Account, row.ID))(t)
			// Only the single read counts the attempts of each delivery.
			if diff := gocmp.Diff(row, d.Summary, cmpopts.IgnoreFields(event.Delivery{}, "Attempts")); diff != "" {
				t.Fatal("list and single read disagree", diff)
			}
			details = append(details, d)
		}
		return details
	}
	first := read()
	must.Equal(t, len(first), n, "of %d events", n)
	random := kit.Rand(t)
	for range storetest.Rounds(2, 2, 5) {
		b.RewindOffsets(func(_ stream.Partition, committed int64) int64 { return random.Int64N(max(committed, 0) + 1) })
		must.Equal(t, gocmp.Diff(first, read(), storetest.CompareIPs, cmpopts.EquateEmpty()), "")
	}
}
