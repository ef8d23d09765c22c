package read_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// ofRun makes an outcome one of a run or a recovery job.
func ofRun(run string) func(*event.Outcome) { return func(o *event.Outcome) { o.Run = run } }

// newRun returns the id of a run that begins after everything so far.
func (b *bench) newRun(prefix string) string {
	b.Helper()
	time.Sleep(2 * time.Millisecond)
	return b.IDs.NewUnbounded(0).Text(prefix)
}

// An event is found by every run and recovery job that had a delivery of it, whatever later runs did. Other filters
// mean its current state.
func TestEventIsFoundByEveryRun(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	names := []string{"delivered last", "failed last", "queued last", "skipped last", "other destination", "in no run"}
	at := map[id.ID]string{}
	var es []*event.Event
	for _, name := range names {
		e := b.Event(1, func(e *event.Event) { e.Body = []byte(`{"n":1}`) })
		es, at[e.ID] = append(es, e), name
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
	}
	job, first := b.newRun(id.Recovery), b.newRun(id.Run)
	for _, e := range es[:4] {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed, ofRun(job)), b.Outcome(e, "dst_a", event.Failed, ofRun(first)))
	}
	b.ProduceOutcomes(b.Outcome(es[4], "dst_b", event.Delivered, ofRun(first)))
	second := b.newRun(id.Run)
	b.ProduceOutcomes(
		b.Outcome(es[0], "dst_a", event.Delivered, ofRun(second)), b.Outcome(es[1], "dst_a", event.Failed, ofRun(second)),
		b.Outcome(es[3], "dst_a", event.Failed, func(o *event.Outcome) {
			o.Run, o.SkipReason, o.Attempt = second, event.DestinationDisabled, nil
		}))
	b.ProduceCommand(es[2], "dst_a", second)

	check := func(q event.Query, want ...string) {
		t.Helper()
		for _, q.Limit = range []int{100, 1} {
			q.Account = storetest.Account
			got := []string{}
			for _, row := range storetest.ListEvents(t, r, q, 10) {
				got = append(got, at[row.ID])
			}
			slices.Reverse(got) // oldest first, as in names
			if diff := gocmp.Diff(append([]string{}, want...), got); diff != "" {
				name, _ := r.PlanOf(q)
				t.Errorf("plan %s, %+v (-want +got):\n%s", name, q, diff)
			}
		}
	}
	check(event.Query{Runs: []string{job}}, names[:4]...)
	check(event.Query{Runs: []string{first}}, names[:5]...)
	check(event.Query{Runs: []string{second}}, names[:4]...)
	check(event.Query{Runs: []string{job, second}}, names[:4]...)
	check(event.Query{Runs: []string{second, first, job}}, names[:5]...)
	check(event.Query{Runs: []string{b.newRun(id.Run)}})
	for _, run := range []string{job, first, second} {
		of := func(statuses ...event.Status) event.Query {
			return event.Query{Runs: []string{run}, Statuses: statuses}
		}
		failed := []string{"failed last", "skipped last"}
		delivered := []string{"delivered last"}
		if run == first {
			failed = append(failed, "other destination") // to dst_a, without a run
		}
		check(of(event.Failed), failed...)
		check(of(event.Delivered), delivered...)
		check(of(event.Pending), "queued last")
	}
	check(event.Query{Runs: []string{first}, Destinations: []string{"dst_b"}}, "other destination")
	check(event.Query{Runs: []string{job}, Destinations: []string{"dst_b"}})
	check(event.Query{Runs: []string{job}, Endpoints: []string{"ep_1"}, Types: []string{es[0].Type}}, names[:4]...)
	check(event.Query{Runs: []string{job}, Endpoints: []string{"ep_2"}})
	search := &event.Search{Body: []event.BodyMatch{{Members: []string{"n"}, Values: []string{"1"}}}}
	check(event.Query{Runs: []string{job}, Search: search}, names[:4]...)
	check(event.Query{Runs: []string{job}, Search: search, Statuses: []event.Status{event.Delivered}}, "delivered last")
}

// TestDeliveredByRuns: what runs and recovery jobs have delivered, oldest first and no more than asked for; not what
// failed, was skipped after an earlier delivery, or was delivered without a run.
func TestDeliveredByRuns(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	e := b.Event(1, func(e *event.Event) { e.Dests = []string{"dst_a", "dst_b", "dst_c"} })
	b.ProduceEvents(e)
	job, run := b.newRun(id.Recovery), b.newRun(id.Run)
	now := time.Now().UTC().Truncate(time.Millisecond)
	ended := func(minutes int) func(*event.Outcome) {
		return func(o *event.Outcome) { o.At = now.Add(time.Duration(minutes) * time.Minute) }
	}
	b.ProduceOutcomes(
		b.Outcome(e, "dst_c", event.Delivered),
		b.Outcome(e, "dst_b", event.Retrying, ofRun(run), ended(-4)),
		b.Outcome(e, "dst_b", event.Delivered, ofRun(run), ended(-3)),
		b.Outcome(e, "dst_a", event.Delivered, ofRun(job), ended(-2)),
		b.Outcome(e, "dst_a", event.Failed, ofRun(run), ended(-1)),
		b.Outcome(e, "dst_c", event.Delivered, ofRun(run), ended(0), func(o *event.Outcome) {
			o.SkipReason, o.Attempt = event.DestinationDisabled, nil
		}))
	delivered := func(limit int) (got []string) {
		must.Do(t, r.DeliveredByRuns(t.Context(), limit, func(run string, of id.ID, dest string, at time.Time) {
			is.Equal(t, of, e.ID)
			got = append(got, fmt.Sprint(run, dest, at.Sub(now)))
		}))
		return got
	}
	older, newer := fmt.Sprint(run, "dst_b", -3*time.Minute), fmt.Sprint(job, "dst_a", -2*time.Minute)
	is.Same(t, delivered(10), []string{older, newer})
	is.Same(t, delivered(1), []string{newer})
}

// Pages of a run have each of its events once, in order, after later runs of the same events. A page reads a bounded
// number of rows, however many deliveries the run has.
func TestRunIsPaged(t *testing.T) {
	const n = 130
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{FlushRows: 100})
	r := b.Reader(w)
	b.Exec("SYSTEM STOP MERGES run_deliveries") // several rows of each delivery stay
	first, second, third := b.newRun(id.Run), b.newRun(id.Run), b.newRun(id.Run)
	var all, half []id.ID
	byPartition := map[int32][]*stream.Record{}
	var es []*event.Event
	for i := range n {
		e := b.Event(i%3, func(e *event.Event) { e.Dests = []string{"dst_a", "dst_b"} })
		es = append(es, e)
		outcomes := []*event.Outcome{
			b.Outcome(e, "dst_a", event.Failed), b.Outcome(e, "dst_a", event.Retrying, ofRun(first)),
			b.Outcome(e, "dst_b", event.Failed, ofRun(first)), b.Outcome(e, "dst_a", event.Failed, ofRun(first)),
			b.Outcome(e, "dst_b", event.Failed, ofRun(third)),
		}
		if all = append(all, e.ID); i%2 == 0 {
			half = append(half, e.ID)
			outcomes = append(outcomes, b.Outcome(e, "dst_a", event.Failed, ofRun(second)))
		}
		for _, o := range outcomes {
			byPartition[e.ID.Partition()] = append(byPartition[e.ID.Partition()], o.Record())
		}
	}
	b.ProduceEvents(es...)
	for p, records := range byPartition {
		b.Produce(stream.Outcomes, p, records...)
	}
	newestFirst := func(a, b id.ID) int { return slices.Compare(b[:], a[:]) }
	slices.SortFunc(all, newestFirst)
	slices.SortFunc(half, newestFirst)
	check := func(q event.Query, want []id.ID) {
		t.Helper()
		q.Account = storetest.Account
		var got []id.ID
		for _, row := range storetest.ListEvents(t, r, q, n) {
			got = append(got, row.ID)
		}
		is.List(t, got, want, "%+v: %d events that are not the %d of the run in order", q, len(got), len(want))
	}
	for _, limit := range []int{7, 50, n} {
		check(event.Query{Limit: limit, Runs: []string{first}}, all)
		check(event.Query{Limit: limit, Runs: []string{second}}, half)
		check(event.Query{Limit: limit, Runs: []string{second, first}}, all)
		check(event.Query{Limit: limit, Runs: []string{second}, Statuses: []event.Status{event.Failed}}, half)
		check(event.Query{Limit: limit, Runs: []string{first}, Statuses: []event.Status{event.Delivered}}, nil)
	}

	// Many older deliveries of the run, by events of another time.
	ms := time.Now().Add(-time.Hour).UnixMilli()
	b.Exec(fmt.Sprintf("INSERT INTO run_deliveries (account, run, id, dest, ts, status, last_at, ver) SELECT '%s', '%s', "+
		"unhex(concat(leftPad(hex(toUInt64(%d + number)), 12, '0'), leftPad(hex(number), 20, '0'))), 'dst_a', "+
		"fromUnixTimestamp64Milli(%d + toInt64(number), 'UTC'), 'failed', now(), 1 FROM numbers(200000)",
		storetest.Account, first, ms, ms))
	before := b.QueryCost()
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 50, Runs: []string{first}})
	if err != nil || len(page.Rows) != 50 || page.Rows[49].ID != all[49] {
		t.Fatalf("%d rows, %v", len(page.Rows), err)
	}
	if rows := b.QueryCost().Rows - before.Rows; rows > 40_000 {
		t.Errorf("a page of a large run read %d rows", rows)
	} else {
		t.Logf("a page of a large run read %d rows", rows)
	}
}
