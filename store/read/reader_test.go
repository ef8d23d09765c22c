package read_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestValuesAreNeverSQL stores events with values that could end a string, a parameter or a statement, and filters by
// them: each filter finds the events with its values only.
func TestValuesAreNeverSQL(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	weird := []string{
		"'", "''", `\`, `\'`, `\\'`, "' OR 1=1 --", "'); DROP TABLE events; --", "{p1:String}", "?", "$1", "@p1",
		"%s", "\x00",
		"a\tb\nc\r", "\xff\xfe",
		"NULL", `\N`, "]", "','", "['a']", "/*", "--", "`", `"`, "order.*'", "ünï 🎉",
	}
	var events []*event.Event
	for _, s := range weird {
		e := b.Event(1, func(e *event.Event) {
			e.Endpoint, e.Type, e.Source, e.Query, e.IdempotencyKey = s, s, event.Source(s), s, s
			e.Dests = []string{"dst_" + s}
			if s == "','" {
				e.Dests = []string{"dst_'\x01'"} // a comma separates destinations in the record
			}
		})
		events = append(events, e)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, e.Dests[0], event.Failed, func(o *event.Outcome) { o.Reason = event.Reason(s) }))
	}
	check := func(name string, q event.Query, want ...*event.Event) {
		t.Helper()
		q.Account, q.Limit = cmp.Or(q.Account, storetest.Account), 100
		rows := storetest.ListEvents(t, r, q, 1)
		is.Equal(t, len(rows), len(want), "%s: events", name)
		for _, row := range rows {
			if !slices.ContainsFunc(want, func(e *event.Event) bool {
				return e.ID == row.ID && e.Type == row.Type && string(row.Reason) == e.Query
			}) {
				t.Errorf("%s: lists %+v", name, row)
			}
		}
	}
	// A list of values finds the events that have them: the even ones, then the odd ones.
	filters := []struct {
		name string
		by   func(q *event.Query, e *event.Event)
	}{
		{"endpoint", func(q *event.Query, e *event.Event) { q.Endpoints = append(q.Endpoints, e.Endpoint) }},
		{"type", func(q *event.Query, e *event.Event) { q.Types = append(q.Types, e.Type) }},
		{"type or prefix", func(q *event.Query, e *event.Event) { q.Types = append(q.Types, e.Type, e.Type+"x.*") }},
		{"source", func(q *event.Query, e *event.Event) { q.Sources = append(q.Sources, e.Source) }},
		{"destination", func(q *event.Query, e *event.Event) { q.Destinations = append(q.Destinations, e.Dests[0]) }},
		{"status and endpoint", func(q *event.Query, e *event.Event) {
			q.Statuses, q.Endpoints = []event.Status{event.Failed}, append(q.Endpoints, e.Endpoint)
		}},
		{"two statuses and type", func(q *event.Query, e *event.Event) {
			q.Statuses, q.Types = []event.Status{event.Failed, event.Pending}, append(q.Types, e.Type)
		}},
	}
	for _, f := range filters {
		for first := range 2 {
			var q event.Query
			var want []*event.Event
			for i := first; i < len(events); i += 2 {
				f.by(&q, events[i])
				want = append(want, events[i])
			}
			check(f.name, q, want...)
		}
	}
	var none event.Query
	for i, e := range events {
		var q event.Query // one value by itself, by one filter after the other
		f := filters[i%len(filters)]
		f.by(&q, e)
		check(fmt.Sprintf("%s %q", f.name, weird[i]), q, e)
		none.Runs = append(none.Runs, weird[i])
		none.Statuses = append(none.Statuses, event.Status(weird[i]))
		var err error
		if i%2 == 0 {
			check(fmt.Sprintf("account %q", weird[i]), event.Query{Account: weird[i]})
			_, err = r.Event(t.Context(), weird[i], e.ID)
		} else {
			_, err = r.Attempts(t.Context(), weird[i], e.ID, id.ID{}, 10)
		}
		if !errors.Is(err, event.ErrNotFound) {
			t.Errorf("read with %q as account: %v", weird[i], err)
		}
	}
	check("all values as runs", event.Query{Runs: none.Runs})
	check("all values as statuses", event.Query{Statuses: none.Statuses})
}

func TestAttemptsArePaged(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	e := b.Event(1, func(e *event.Event) { e.Dests = []string{"dst_a", "dst_b"} })
	b.ProduceEvents(e)
	const n = 230
	var want []id.ID
	for i := range n {
		o := b.Outcome(e, []string{"dst_a", "dst_b"}[i%2], event.Retrying, func(o *event.Outcome) {
			o.Attempt.ResponseBody = make([]byte, 16<<10)
		})
		want = append(want, o.Attempt.ID)
		b.ProduceOutcomes(o)
	}
	var got []event.AttemptRow
	var before id.ID
	for {
		page := must.Get(r.Attempts(t.Context(), storetest.Account, e.ID, before, 100))(t)
		got = append(got, page.Rows...)
		if !page.More {
			break
		}
		before = page.Rows[len(page.Rows)-1].ID
	}
	must.Equal(t, len(got), n, "of %d attempts", n)
	for i, a := range got {
		k := n - 1 - i
		if a.ID != want[k] || a.Number != k/2+1 || len(a.ResponseBody) != 16<<10 || a.Truncated {
			t.Fatalf("attempt %d: number %d, %d bytes", k, a.Number, len(a.ResponseBody))
		}
	}
	d := must.Get(r.Event(t.Context(), storetest.Account, e.ID))(t)
	if len(d.Attempts) != 200 || !d.AttemptsTruncated || d.Summary.Attempts != n || d.Deliveries[0].Attempts != n/2 {
		t.Fatalf("%d attempts in the single read of %d", len(d.Attempts), d.Summary.Attempts)
	}
	if first := d.Attempts[0]; first.ID != want[n-200] || first.Number != (n-200)/2+1 ||
		len(first.ResponseBody) != 1<<10 ||
		!first.Truncated {
		t.Fatalf("first of the newest 200: number %d, %d bytes", first.Number, len(first.ResponseBody))
	}
	if _, err := r.Attempts(t.Context(), storetest.Account, b.Event(1).ID, id.ID{}, 10); !errors.Is(
		err, event.ErrNotFound) {
		t.Fatalf("attempts of no event: %v", err)
	}
	none := b.Event(2)
	b.ProduceEvents(none)
	if page, err := r.Attempts(t.Context(), storetest.Account, none.ID, id.ID{}, 10); err != nil || len(page.Rows) != 0 ||
		page.More {
		t.Fatalf("attempts of an event without any: %+v, %v", page, err)
	}
}

// A duplicate is skipped in lists, filters and the single read until it is replayed. The log finds it whether it is
// stored or not.
func TestDuplicateIsSkippedUntilReplayed(t *testing.T) {
	b := newBench(t)
	first := b.Event(0)
	repeats := func(e *event.Event) {
		e.Reason, e.DuplicateOf, e.Dests = event.Duplicate, first.ID.Text(id.Event), nil
	}
	second := b.Event(0, repeats)
	observed := b.Event(0, func(e *event.Event) { e.Verdict = event.VerdictObserved }, repeats)
	b.ProduceEvents(first, second, observed)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	for _, statuses := range [][]event.Status{nil, {event.Skipped}} {
		page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Statuses: statuses, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		rows := slices.DeleteFunc(page.Rows, func(s event.Summary) bool { return s.ID == first.ID })
		must.Equal(t, len(rows), 2, "duplicates among those that are %v", statuses)
		for _, s := range rows {
			if s.Status != event.Skipped || s.Reason != event.Duplicate || s.DuplicateOf != first.ID.Text(id.Event) ||
				s.Counts.Total != 0 {
				t.Errorf("%+v", s)
			}
		}
	}
	d, err := r.Event(t.Context(), storetest.Account, second.ID)
	if err != nil || d.Event.DuplicateOf != first.ID.Text(id.Event) || d.DuplicateOf != d.Event.DuplicateOf ||
		d.Status != event.Skipped {
		t.Errorf("%+v %v", d, err)
	}
	b.WaitCaughtUp(r)
	is.Equal(t, b.QuerySum("SELECT sum(billed) FROM events FINAL"), 1, "events are billed")
	b.ProduceOutcomes(b.Outcome(second, "dst_a", event.Delivered))
	if d, err = r.Event(t.Context(), storetest.Account, second.ID); err != nil || d.Status != event.Delivered ||
		d.Reason != "" {
		t.Errorf("after a replay %+v %v", d, err)
	}
	absent := b.Event(0)
	for e, want := range map[*event.Event]bool{first: true, second: true, absent: false} {
		is.Equal(t, must.Get(r.HasEvent(t.Context(), storetest.Account, e.ID))(t), want, "the log holds it")
	}
	if got, err := r.HasEvent(t.Context(), "acc_2", first.ID); err != nil || got {
		t.Errorf("another account's event is found: %v %v", got, err)
	}
}

// A ping is answered while reads hold every connection of the reader.
func TestPingNeedsNoFreeConnection(t *testing.T) {
	b := newBench(t)
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, Connections: 2}, nil)
	release := must.Get(r.HoldConnections(t.Context()))(t)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	is.OK(t, r.Ping(ctx), "ping")
}

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
	missing := must.Get(b.IDs.New(1))(t)
	got := must.Get(r.Summaries(t.Context(), storetest.Account, append(ids, foreign.ID, missing, ids[3])))(t)
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
		is.Equal(t, gocmp.Diff([]id.ID{all[1].ID, all[0].ID}, ids(before)), "",
			"%s until %s (-want +got)", name, before.Until)
		is.Equal(t, gocmp.Diff([]id.ID{all[2].ID}, ids(after)), "", "%s since %s (-want +got)", name, after.Since)
	}
}

func TestMain(m *testing.M) { storetest.Main(m) }

// bench extends storetest.Bench with the helpers of this package's tests.
type bench struct{ *storetest.Bench }

func newBench(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBench(t)}
}

func newIndexed(t testing.TB) *bench {
	t.Helper()
	return &bench{storetest.NewBenchWithSearchIndex(t)}
}
