package read_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestSelectionAgreesWithModel compares selections, and the stored events of them, with the model of the lists.
func TestSelectionAgreesWithModel(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	h := newHistory(b, kit.Seed(t))
	queries := storetest.Rounds(8, 8, 12)
	if storetest.TwoShards(t) {
		h.clock = time.Now().Add(-10 * time.Hour) // few windows, so that a list takes few statements
		queries = storetest.Rounds(4, 4, 12)
	}
	for range storetest.Rounds(1, 1, 2) {
		h.addEvents(100)
		for i := range queries {
			q := h.randomQuery()
			want := h.want(q)
			q.Limit = pick(h, 0, 10, 100)
			got := storetest.SelectEvents(t, r, q)
			must.Equal(t, len(got), len(want), "selection %d %+v … events", i, q)
			for k, e := range got {
				if e.ID != want[k].ID || e.Endpoint != want[k].Endpoint || e.Type != want[k].Type || e.Size != want[k].Size {
					t.Fatalf("selection %d %+v, event %d: %+v, want %+v", i, q, k, e, want[k])
				}
			}
			h.compareStored(r, got[:min(len(got), 20)])
		}
		for _, run := range h.runs {
			commanded := 0
			for _, e := range h.events {
				for _, states := range e.states {
					if slices.ContainsFunc(states, func(s state) bool { return s.run == run && s.rank[2] == 0 }) {
						commanded++
					}
				}
			}
			if n, err := r.CountCommands(t.Context(), run, time.Now().Add(-time.Hour), id.ID{}); err != nil || n != commanded {
				t.Fatalf("commanded by %s: %d, %v, want %d", run, n, err, commanded)
			}
		}
	}
}

// compareStored reads events in an order other than that of their ids, and one that does not exist.
func (h *history) compareStored(r *read.Reader, some []event.Match) {
	h.Helper()
	var ids []id.ID
	for i := range some {
		ids = append(ids, some[i].ID)
	}
	h.rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	stored, err := r.Stored(h.Context(), storetest.Account, append(slices.Clone(ids), id.Lowest(time.Now())))
	if err != nil || len(stored) != len(ids) {
		h.Fatalf("%d of %d stored, %v", len(stored), len(ids), err)
	}
	for i, got := range stored {
		at := slices.IndexFunc(h.events, func(e *modelEvent) bool { return e.ID == ids[i] })
		e := h.events[at]
		if diff := gocmp.Diff(e.Event, got.Event, storetest.CompareIPs, cmpopts.EquateEmpty()); diff != "" {
			h.Fatalf("stored (-want +got):\n%s", diff)
		}
		status, reason, counts := event.Summarize(e.Event, e.deliveries())
		gotStatus, gotReason, gotCounts := event.Summarize(e.Event, got.Deliveries)
		if status != gotStatus || reason != gotReason || counts != gotCounts {
			h.Fatalf("deliveries of %s: %v, want %v", e.ID, got.Deliveries, e.deliveries())
		}
	}
}

// TestSelectionIsCompleteOrFails: a selection fails while the store is behind or unavailable.
func TestSelectionIsCompleteOrFails(t *testing.T) {
	b := newBench(t)
	w, stop := b.Writer(write.WriterConfig{})
	b.ProduceEvents(b.Event(1))
	if got := storetest.SelectEvents(t, b.Reader(w), event.Query{Account: storetest.Account}); len(got) != 1 {
		t.Fatalf("%v", got)
	}
	mine := errors.New("enough")
	if err := b.Reader(w).Select(t.Context(), event.Query{Account: storetest.Account}, func([]event.Match) error {
		return mine
	}); !errors.Is(err, mine) {
		t.Fatalf("the callback's error: %v", err)
	}
	stop()
	b.ProduceEvents(b.Event(1))
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 100 * time.Millisecond}, nil)
	if err := r.Select(t.Context(), event.Query{Account: storetest.Account}, func([]event.Match) error {
		t.Error("a page was returned")
		return nil
	}); !errors.Is(err, event.ErrUnavailable) {
		t.Fatalf("a store that is behind: %v", err)
	}
}

// TestCountCommandsCountsDeliveriesOnce: only commands of the run count, since the given time and above the given id.
func TestCountCommandsCountsDeliveriesOnce(t *testing.T) {
	b := newBench(t)
	r := b.Reader(nil)
	run := func() string {
		d := must.Get(b.IDs.New(0))(t)
		return d.Text(id.Run)
	}
	mine, other := run(), run()
	var events []*event.Event
	for i := range 10 {
		e := b.Event(i)
		events = append(events, e)
		for _, dest := range []string{"dst_a", "dst_b"} {
			b.ProduceCommand(e, dest, mine)
			b.ProduceCommand(e, dest, other)
		}
		b.ProduceCommand(e, "dst_a", mine) // once more
	}
	slices.SortFunc(events, func(a, b *event.Event) int { return slices.Compare(a.ID[:], b.ID[:]) })
	f := func(name, run string, since time.Time, newer id.ID, want int) {
		t.Helper()
		if n, err := r.CountCommands(t.Context(), run, since, newer); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", name, n, err, want)
		}
	}
	hour := time.Now().Add(-time.Hour)
	f("all", mine, hour, id.ID{}, 20)
	f("newer", mine, hour, events[6].ID, 6)
	f("newest", mine, hour, events[9].ID, 0)
	f("no run", fmt.Sprint(mine, "x"), hour, id.ID{}, 0)
	f("later", mine, time.Now().Add(time.Hour), id.ID{}, 0)

	w, _ := b.Writer(write.WriterConfig{})
	b.WaitCaughtUp(b.Reader(w)) // a list would read them from the writer's memory
	log, err := stream.NewReader(b.Stream, "test")
	must.Do(t, err)
	defer log.Close()
	ends, err := log.Ends(t.Context(), stream.Commands)
	must.Do(t, err)
	for p, end := range ends {
		if end > 1 {
			must.Do(t, log.Trim(t.Context(), p, end-1))
		}
	}
	f("all, after the log was trimmed", mine, hour, id.ID{}, 20)
	f("newer, after the log was trimmed", mine, hour, events[6].ID, 6)
}
