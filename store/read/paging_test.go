package read_test

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestPagingWhileRowsArrive pages through 2,000 events (20,000 with RELAY_TORTURE) while more arrive and parts are
// merged. Every event that was acknowledged before the first page is listed exactly once.
func TestPagingWhileRowsArrive(t *testing.T) { pagingWhileRowsArrive(t, true) }

// TestPagingWithoutMerges does the same while no part is merged.
func TestPagingWithoutMerges(t *testing.T) { pagingWhileRowsArrive(t, false) }

func pagingWhileRowsArrive(t *testing.T, merging bool) {
	n, seven, one := 2_000, 105, 15
	switch {
	case os.Getenv("RELAY_TORTURE") != "":
		n, seven, one = 20_000, 7_000, 1_000
	case testing.Short() || storetest.TwoShards(t) || !merging:
		n, seven, one = 1_000, 70, 10
	}
	b := newBench(t)
	if !merging {
		for _, table := range []string{"events", "events_by_endpoint", "deliveries"} {
			b.Exec("SYSTEM STOP MERGES " + table)
		}
	}
	w, _ := b.Writer(write.WriterConfig{FlushRows: n / 4, FlushEvery: 100 * time.Millisecond})
	r := b.Reader(w)
	var known, fifth []id.ID
	for i := range n {
		known = append(known, b.send(i))
		if i%10 == 5 {
			fifth = append(fifth, known[i])
		}
	}
	must.Do(t, b.Producer.Flush(t.Context()))
	newestFirst := func(a, b id.ID) int { return slices.Compare(b[:], a[:]) }
	slices.SortFunc(known, newestFirst)
	slices.SortFunc(fifth, newestFirst)
	old := make(map[id.ID]bool, n)
	for _, d := range known {
		old[d] = true
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	// Merges and new rows follow the number of pages, not the time: on a slow machine there would be merges and new rows
	// only, and few pages.
	merge, pages := make(chan struct{}, 1), 0
	wg.Go(func() {
		for {
			select {
			case <-merge:
				b.Exec("OPTIMIZE TABLE events FINAL")
				b.Exec("OPTIMIZE TABLE events_by_endpoint FINAL")
			case <-ctx.Done():
				return
			}
		}
	})
	f := func(q event.Query, want []id.ID) {
		t.Helper()
		q.Account = storetest.Account
		var got []id.ID
		for ; len(got) < len(want); pages++ {
			if merging && pages%5 == 0 {
				select {
				case merge <- struct{}{}:
				default: // a merge is pending already
				}
			}
			for i := range 5 {
				b.send(5*pages + i)
			}
			page := must.Get(r.Events(t.Context(), q))(t)
			for _, row := range page.Rows {
				if old[row.ID] { // newer events may be listed too
					got = append(got, row.ID)
				}
			}
			if !page.More {
				break
			}
			q.Before = page.Rows[len(page.Rows)-1].ID
		}
		if len(got) < len(want) {
			t.Fatalf("limit %d: %d of %d rows", q.Limit, len(got), len(want))
		}
		must.List(t, got[:len(want)], want, "limit %d: rows were skipped, repeated or in another order", q.Limit)
		t.Logf("limit %d: %d rows are there, after %d pages in all", q.Limit, len(want), pages)
	}
	f(event.Query{Limit: 100}, known)
	f(event.Query{Limit: 7}, known[:seven])
	f(event.Query{Limit: 1, Before: known[0]}, known[1:one])
	f(event.Query{Limit: 100, Endpoints: []string{"ep_5"}}, fifth)
	f(event.Query{Limit: 100, Statuses: []event.Status{event.Pending}}, known[:seven])
}

// send produces the i-th event without waiting for it; it belongs to one of ten endpoints.
func (b *bench) send(i int) id.ID {
	b.Helper()
	e := b.Event(i % 10)
	b.Producer.Produce(stream.Events, e.ID.Partition(), e.Record(), func(_ *stream.Record, err error) {
		if err != nil {
			b.Error(err)
		}
	})
	return e.ID
}

// filterMembers returns the members of a query that are filters: all but the account and the page.
func filterMembers() (names []string) {
	for f := range reflect.TypeFor[event.Query]().Fields() {
		if !slices.Contains([]string{"Account", "Since", "Until", "Before", "Limit"}, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// with returns the query with one more filter.
func with(q event.Query, member string, value any) event.Query {
	reflect.ValueOf(&q).Elem().FieldByName(member).Set(reflect.ValueOf(value))
	return q
}

// samples returns values of each filter that some events of a history have.
func samples(h *history) map[string][]any {
	return map[string][]any{
		"Endpoints":    {[]string{"ep_0"}, []string{"ep_1", "ep_2"}},
		"Sources":      {[]event.Source{event.SourceAPI}, []event.Source{event.SourceTest, event.SourceProvider}},
		"Types":        {[]string{"order.paid"}, []string{"orderly", "user.*"}, []string{"order.created", "user.created"}},
		"Destinations": {[]string{"dst_c"}, []string{"dst_a", "dst_b"}},
		"Runs":         {h.runs[:1], h.runs[1:]},
		"Statuses": {
			[]event.Status{event.Failed, event.Held}, []event.Status{event.Rejected},
			[]event.Status{event.Pending, event.Skipped},
			[]event.Status{event.Delivered, event.Retrying},
		},
		"Processing": {
			[]event.Processing{event.ProcessingFailed}, []event.Processing{event.ProcessingNone, event.ProcessingDone},
			[]event.Processing{event.ProcessingMissing},
		},
		"Search": {&event.Search{Body: []event.BodyMatch{{Members: []string{"n"}, Values: []string{"2"}}}}},
	}
}

// sampleFault returns why the samples of a filter prove nothing: each must exclude some event of the history, and at
// least one must include some.
func sampleFault(h *history, base event.Query, member string, values []any) string {
	events, most := len(h.want(base)), 0
	for _, value := range values {
		n := len(h.want(with(base, member, value)))
		if most = max(most, n); n == events {
			return fmt.Sprintf("the sample %v leaves out none of %d events", value, events)
		}
	}
	if most == 0 {
		return "no event has one of the samples"
	}
	return ""
}

// Every filter member of a query has a definition, and a sample in this test.
func TestEveryFilterIsDefined(t *testing.T) {
	all := samples(&history{runs: []string{"run_a", "run_b"}})
	var seen uint
	for _, member := range filterMembers() {
		if len(all[member]) == 0 {
			t.Errorf("there is no sample of %s", member)
			continue
		}
		asked := read.UsedFilters(with(event.Query{}, member, all[member][0]))
		if bits.OnesCount(asked) != 1 || asked&seen != 0 {
			t.Errorf("%s is not exactly one filter: %b", member, asked)
		}
		seen |= asked
	}
	is.Equal(t, read.IncompleteFilters(), 0, "the filters … lack a condition or a check")
}

// Every plan applies every filter. Each filter is used alone and with each other one, in all the ways that choose
// another plan, and the list agrees with the model. Each plan has each combination of filters once, with random values;
// RELAY_TORTURE tries every value.
func TestEveryPlanAppliesEveryFilter(t *testing.T) {
	seed := kit.Seed(t)
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	h := newHistory(b, seed)
	h.clock = time.Now().Add(-3 * time.Hour) // few windows, so that a list takes few statements
	h.addEvents(80)
	b.WaitCaughtUp(r)
	all, members := samples(h), filterMembers()
	asked := map[string]uint{} // filters that were used, by plan
	takes := map[string]uint{}
	checked := map[string]bool{} // plans with the filters that were used
	check := func(q event.Query) {
		t.Helper()
		name, may := r.PlanOf(q)
		once := fmt.Sprint(name, read.UsedFilters(q))
		if storetest.Rounds(0, 0, 1) == 0 && checked[once] {
			return
		}
		checked[once] = true
		asked[name] |= read.UsedFilters(q)
		takes[name] |= may
		want := h.want(q)
		if q.Search != nil {
			got, _, _ := allPages(t, r, q)
			for i := range want {
				if i >= len(got) || got[i] != want[i].ID {
					t.Fatalf("%s: %+v: %d events, want %d", name, q, len(got), len(want))
				}
			}
			return
		}
		must.Equal(t, gocmp.Diff(want, untimed(storetest.ListEvents(t, r, q, 1))), "", "%s: %+v (-want +got)", name, q)
	}
	base := event.Query{Account: storetest.Account, Limit: 1000, Since: time.Now().Add(-4 * time.Hour)}
	for _, member := range members {
		must.Equal(t, sampleFault(h, base, member, all[member]), "", member)
	}
	check(base)
	for i, lead := range members {
		for _, value := range all[lead] {
			q := with(base, lead, value)
			check(q)
			for k, other := range members {
				if k != i {
					check(with(q, other, pick(h, all[other]...)))
				}
			}
		}
	}
	for _, name := range read.PlanNames() {
		if missing := takes[name] &^ asked[name]; missing != 0 || takes[name] == 0 && name != "events" {
			t.Errorf("plan %s was not used with the filters %b", name, missing)
		}
	}
}
