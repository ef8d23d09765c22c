package read_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/storetest"
)

// TestEveryReadUnderFaults injects every kind of fault into every statement of every kind of read: the answer is
// correct, or the error is ErrUnavailable. A list that was cut short is never returned as complete.
func TestEveryReadUnderFaults(t *testing.T) {
	b := newBench(t)
	h := newHistory(b, kit.Seed(t))
	h.clock = time.Now().Add(-3 * time.Hour) // few windows, so that a list takes few statements
	h.addEvents(60)
	for range 5 { // to recover
		e := b.Event(1)
		b.resend(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
	}
	found := newFindingsModel(b, h.rnd)
	found.add(60)
	g := storetest.NewFaultProxy(b.Bench)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWith(cluster.Config{URL: g.URL, RetentionDays: 30, SelectPage: 20}, w)
	ctx := t.Context()
	old, now := time.Now().AddDate(0, 0, -20), time.Now().Add(time.Minute)
	some := make([]id.ID, 20)
	for i := range some {
		some[i] = h.events[i].ID
	}
	failed := event.Selection{
		Account: storetest.Account, Endpoint: "ep_1", Since: old, Until: now,
		Groups: []event.SelectionGroup{{Dests: []string{"dst_a", "dst_b"}}}}
	job := event.RecoveryJob{Account: storetest.Account, ID: h.runs[0], Selection: "sel"}
	if sel, err := r.SelectRecovery(ctx, failed, job.Selection); err != nil {
		t.Fatal(err)
	} else if job.Total = sel.Total; job.Total == 0 {
		t.Fatal("no item is selected")
	}
	list := func(change func(*event.Query)) func() (any, error) {
		q := event.Query{Account: storetest.Account, Limit: 50}
		change(&q)
		return func() (any, error) { return r.Events(ctx, q) }
	}
	n := 0
	reads := map[string]func() (any, error){
		"list":             list(func(*event.Query) {}),
		"list of endpoint": list(func(q *event.Query) { q.Endpoints = []string{"ep_1"} }),
		"failed list":      list(func(q *event.Query) { q.Statuses = []event.Status{event.Failed} }),
		"delivered list":   list(func(q *event.Query) { q.Statuses = []event.Status{event.Delivered} }),
		"processing list":  list(func(q *event.Query) { q.Processing = []event.Processing{event.ProcessingDone} }),
		"list of run":      list(func(q *event.Query) { q.Runs = h.runs[:1] }),
		"failed in runs":   list(func(q *event.Query) { q.Runs, q.Statuses = h.runs, []event.Status{event.Failed} }),
		"search":           list(func(q *event.Query) { q.Search = &event.Search{Text: "n"} }),
		"attempts":         func() (any, error) { return r.Attempts(ctx, storetest.Account, some[0], id.ID{}, 10) },
		"audit":            func() (any, error) { return r.Audit(ctx, audit.Query{Account: storetest.Account, Limit: 10}) },
		"key uses":         func() (any, error) { return r.KeyUses(ctx, storetest.Account, nil) },
		"summaries":        func() (any, error) { return r.Summaries(ctx, storetest.Account, some) },
		"endpoint":         func() (any, error) { return r.EventEndpoint(ctx, storetest.Account, some[3]) },
		"recovery items":   func() (any, error) { return r.RecoveryItems(ctx, job, 0, 50, nil) },
		"recovery counts": func() (any, error) {
			counts, _, err := r.RecoveryCounts(ctx, storetest.Account, h.runs...)
			return counts, err
		},
		"recovery failures": func() (any, error) { return r.RecoveryFailures(ctx, storetest.Account, h.runs[0]) },
		"select recovery": func() (any, error) {
			n++
			return r.SelectRecovery(ctx, failed, fmt.Sprint("sel", n))
		},
		"placed": func() (any, error) {
			return r.EventsByOffset(ctx, event.OffsetQuery{
				Account: storetest.Account, Endpoint: "ep_1", Partition: 1, To: 1000, Limit: 30, Bytes: 1 << 20, MaxBody: 1 << 10,
				Since: old})
		},
		"stored": func() (any, error) { return r.Stored(ctx, storetest.Account, some) },
		"usage": func() (any, error) {
			f, err := r.Usage(ctx, event.UsageOf{Account: storetest.Account},
				event.UsageSpan{From: old.Truncate(time.Hour), To: now, Recent: old.Truncate(time.Hour)})
			f.AsOf, f.QueryTime = time.Time{}, 0
			return f, err
		},
		"recovery work": func() (any, error) {
			var all []event.OpenRecoveryItem
			err := r.OpenRecoveryItems(ctx, job, 0, job.Total, func(w *event.OpenRecoveryItem) error {
				all = append(all, *w)
				return nil
			})
			return all, err
		},
		"selection": func() (any, error) {
			var all []event.Match
			err := r.Select(ctx, event.Query{Account: storetest.Account, Limit: 50, Since: old, Until: now},
				func(m []event.Match) error { all = append(all, m...); return nil })
			return all, err
		},
	}
	maps.Copy(reads, found.reads(r))
	faults := 0
	for name, read := range reads {
		g.SetRule(nil)
		want, err := read()
		statements, _ := g.SetRule(nil)
		if err != nil || statements == 0 {
			t.Fatalf("%s without a fault: %v, %d statements", name, err, statements)
		}
		for nth := range statements {
			all := []storetest.Fault{storetest.Refused, storetest.Cut, storetest.Torn, storetest.Lost, storetest.Half}
			for i := range storetest.Rounds(1, 1, len(all)) {
				f := all[(nth+len(name)+2*i)%len(all)]
				g.SetRule(func(n int, _ string) storetest.Fault {
					if n == nth {
						return f
					}
					return storetest.NoFault
				})
				got, err := read()
				_, hits := g.SetRule(nil)
				if faults += hits; errors.Is(err, event.ErrUnavailable) {
					continue
				}
				if err != nil {
					t.Errorf("%s, statement %d %v: %v", name, nth, f, err)
				} else if diff := gocmp.Diff(want, got, storetest.CompareIPs, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, statement %d %v: another answer (-want +got):\n%s", name, nth, f, diff)
				}
			}
		}
	}
	t.Logf("%d statements got a fault", faults)
}
