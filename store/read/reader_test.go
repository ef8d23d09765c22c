package read_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
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
		if got, err := r.LogHasEvent(t.Context(), storetest.Account, e.ID); err != nil || got != want {
			t.Errorf("the log holds it: %v %v, want %v", got, err, want)
		}
	}
	if got, err := r.LogHasEvent(t.Context(), "acc_2", first.ID); err != nil || got {
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
