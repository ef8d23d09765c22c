package store_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store"
)

// What was stored before the tables that lists are read from is listed as what came after.
func TestMigrationFillsLists(t *testing.T) {
	b := newBench(t)
	if err := store.MigrateUpTo(t.Context(), b.anew(), 8); err != nil {
		t.Fatal(err)
	}
	b.before = true
	w, stop := b.writer(store.WriterConfig{})
	r := b.reader(w)
	run := id.NewGenerator(nil).Next(0).Text(id.Run)
	happen := func() {
		t.Helper()
		sent := b.event(1, func(e *event.Event) { e.Type, e.Dests = "a.sent", []string{"dst_a", "dst_b"} })
		nowhere := b.event(1, func(e *event.Event) { e.Type, e.Dests, e.Reason = "a.nowhere", nil, event.NoDestination })
		copied := b.event(1, func(e *event.Event) {
			e.Type, e.Dests, e.Reason, e.DuplicateOf = "a.copy", nil, event.Duplicate, sent.ID.Text(id.Event)
		})
		refused := b.event(1, func(e *event.Event) {
			e.Type, e.Dests, e.Verdict, e.Reason = "a.refused", nil, event.VerdictRejected, event.SignatureMismatch
		})
		b.accept(sent, nowhere, copied, refused)
		b.record(b.outcome(sent, "dst_a", event.Skipped, func(o *event.Outcome) { o.Attempt = nil }))
		b.record(b.outcome(sent, "dst_b", event.Skipped, func(o *event.Outcome) { o.Attempt = nil }))
		b.record(b.outcome(refused, "dst_z", event.Delivered, func(o *event.Outcome) { o.Run = run }))
		pages(t, r, event.Query{Account: account, Limit: 20}, 1) // it is stored then
	}
	happen()
	if err := store.Migrate(t.Context(), b.url, 30); err != nil {
		t.Fatal(err)
	}
	stop()
	b.before = false
	w, _ = b.writer(store.WriterConfig{})
	r = b.reader(w)
	check := func(times int) {
		t.Helper()
		all := pages(t, r, event.Query{Account: account, Limit: 20}, 1)
		f := func(name string, q event.Query, types ...string) {
			t.Helper()
			var want []event.Summary
			for _, row := range all {
				for _, kind := range types {
					if row.Type == kind {
						want = append(want, row)
					}
				}
			}
			q.Account, q.Limit = account, 20
			if diff := gocmp.Diff(want, pages(t, r, q, 1)); diff != "" || len(want) != times*len(types) {
				t.Errorf("%s, %d of %d (-want +got):\n%s", name, len(want), times*len(types), diff)
			}
		}
		f("endpoint", event.Query{Endpoints: []string{"ep_1"}}, "a.sent", "a.nowhere", "a.copy", "a.refused")
		f("type", event.Query{Types: []string{"a.sent"}}, "a.sent")
		f("two types", event.Query{Types: []string{"a.nowhere", "a.copy"}}, "a.nowhere", "a.copy")
		f("destination", event.Query{Destinations: []string{"dst_b"}}, "a.sent")
		f("both destinations", event.Query{Destinations: []string{"dst_a", "dst_b"}}, "a.sent")
		f("destination of a replay", event.Query{Destinations: []string{"dst_z"}}, "a.refused")
		f("skipped", event.Query{Statuses: []event.Status{event.Skipped}}, "a.sent", "a.nowhere", "a.copy")
		f("skipped and a type", event.Query{Statuses: []event.Status{event.Skipped}, Types: []string{"a.copy"}}, "a.copy")
		f("skipped of an endpoint", event.Query{Statuses: []event.Status{event.Skipped}, Endpoints: []string{"ep_1"}}, "a.sent", "a.nowhere", "a.copy")
	}
	check(1)
	happen()
	check(2)
}

// A batch that is stored again, as after a crash, must not end a list of what was to be sent nowhere.
func TestSkippedThatWereStoredAgain(t *testing.T) {
	b := newBench(t)
	b.exec("SYSTEM STOP MERGES event_keys")
	const n = 200
	want := make([]id.ID, n)
	for i := range want {
		e := b.event(1, func(e *event.Event) { e.Dests, e.Reason = nil, event.NoDestination })
		want[n-1-i] = e.ID
		b.accept(e)
	}
	w, _ := b.writer(store.WriterConfig{})
	r := b.reader(w)
	b.caughtUp(r)
	for range 3 {
		b.exec("INSERT INTO event_keys SELECT * FROM event_keys WHERE key = 'dest:'")
		var got []id.ID
		for _, row := range pages(t, r, event.Query{Account: account, Statuses: []event.Status{event.Skipped}, Limit: 50}, 5) {
			got = append(got, row.ID)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("%d of %d events are listed (-want +got):\n%s", len(got), n, diff)
		}
	}
}
