package read_test

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestListsAgreeWithModel compares lists with the model, over random histories and filters.
// TestEveryPlanAppliesEveryFilter covers the filters; this test adds pages and combinations of many filters.
func TestListsAgreeWithModel(t *testing.T) {
	seed := kit.Seed(t)
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
			must.Equal(t, gocmp.Diff(want, untimed(got), cmpopts.EquateEmpty()), "", "query %d %+v (-want +got)", i, q)
		}
	}
}

// TestWindowsMeetWithinAMillisecond: of two windows that meet at a time between milliseconds, exactly one has each
// event.
func TestWindowsMeetWithinAMillisecond(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	at := time.Now().Add(-5 * time.Second).Truncate(time.Millisecond)
	var all []*event.Event
	for i := range 3 {
		b.IDs = id.NewGenerator(func() time.Time { return at.Add(time.Duration(i-1) * time.Millisecond) })
		all = append(all, b.Event(0))
	}
	b.produceOld(all...)
	before := event.Query{Account: storetest.Account, Limit: 5, Until: at.Add(400 * time.Microsecond)}
	after := event.Query{Account: storetest.Account, Limit: 5, Since: before.Until}
	for name, ids := range map[string]func(event.Query) []id.ID{
		"list": func(q event.Query) (ids []id.ID) {
			for _, e := range storetest.ListEvents(t, r, q, 1) {
				ids = append(ids, e.ID)
			}
			return ids
		},
		"selection": func(q event.Query) (ids []id.ID) {
			for _, e := range storetest.SelectEvents(t, r, q) {
				ids = append(ids, e.ID)
			}
			return ids
		},
	} {
		if diff := gocmp.Diff([]id.ID{all[1].ID, all[0].ID}, ids(before)); diff != "" {
			t.Errorf("%s until %s (-want +got):\n%s", name, before.Until, diff)
		}
		is.Equal(t, gocmp.Diff([]id.ID{all[2].ID}, ids(after)), "", "%s since %s (-want +got)", name, after.Since)
	}
}
