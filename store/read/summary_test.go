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

func TestSummariesAreTheRowsOfTheList(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	var ids []id.ID
	for i := range 40 {
		e := b.Event(i)
		b.ProduceEvents(e)
		if i%3 == 0 {
			b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered))
		}
		ids = append(ids, e.ID)
	}
	foreign := b.Event(1, func(e *event.Event) { e.Account = "acc_2" })
	b.ProduceEvents(foreign)
	missing, err := b.IDs.New(1)
	must.Do(t, err)
	got, err := r.Summaries(t.Context(), storetest.Account, append(ids, foreign.ID, missing, ids[3]))
	must.Do(t, err)
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 100})
	must.Do(t, err)
	want := map[id.ID]event.Summary{}
	for _, s := range page.Rows {
		want[s.ID] = s
	}
	if diff := gocmp.Diff(want, got); diff != "" || len(got) != 40 {
		t.Errorf("%d rows:\n%s", len(got), diff)
	}
	if none, err := r.Summaries(t.Context(), storetest.Account, nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
