package read_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// A batch that is stored again, as after a crash, must not end a list of events without a destination early.
func TestDuplicateRowsDoNotEndListOfSkipped(t *testing.T) {
	b := newBench(t)
	b.Exec("SYSTEM STOP MERGES event_keys")
	const n = 200
	want := make([]id.ID, n)
	for i := range want {
		e := b.Event(1, func(e *event.Event) { e.Dests, e.Reason = nil, event.NoDestination })
		want[n-1-i] = e.ID
		b.ProduceEvents(e)
	}
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	b.WaitCaughtUp(r)
	for range 3 {
		b.Exec("INSERT INTO event_keys SELECT * FROM event_keys WHERE key = 'dest:'")
		var got []id.ID
		for _, row := range storetest.ListEvents(
			t, r, event.Query{Account: storetest.Account, Statuses: []event.Status{event.Skipped}, Limit: 50}, 5) {
			got = append(got, row.ID)
		}
		must.Equal(t, gocmp.Diff(want, got), "", "%d of %d events are listed (-want +got)", len(got), n)
	}
}
