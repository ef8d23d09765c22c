package read_test

import (
	"errors"
	"fmt"
	"os"
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
	"github.com/eventrelay/relay/test/is"
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
		is.Equal(t, must.Get(r.CountCommands(t.Context(), run, since, newer))(t), want, name)
	}
	hour := time.Now().Add(-time.Hour)
	f("all", mine, hour, id.ID{}, 20)
	f("newer", mine, hour, events[6].ID, 6)
	f("newest", mine, hour, events[9].ID, 0)
	f("no run", fmt.Sprint(mine, "x"), hour, id.ID{}, 0)
	f("later", mine, time.Now().Add(time.Hour), id.ID{}, 0)

	w, _ := b.Writer(write.WriterConfig{})
	b.WaitCaughtUp(b.Reader(w)) // a list would read them from the writer's memory
	log := must.Get(stream.NewReader(b.Stream, "test"))(t)
	defer log.Close()
	ends := must.Get(log.Ends(t.Context(), stream.Commands))(t)
	for p, end := range ends {
		if end > 1 {
			must.Do(t, log.Trim(t.Context(), p, end-1))
		}
	}
	f("all, after the log was trimmed", mine, hour, id.ID{}, 20)
	f("newer, after the log was trimmed", mine, hour, events[6].ID, 6)
}

// A selection has every failed delivery once, in the order of the events, however many candidate rows it has. Skipped
// items come last.
func TestSelectRecoveryHasEachFailureOnce(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.ReaderWithSmallPages(w)
	dests := func(e *event.Event) { e.Dests = []string{"dst_a", "dst_b", "dst_gone"} }
	var failed []*event.Event
	var said []*stream.Record
	say := func(e *event.Event, dest string, statuses ...event.Status) {
		for _, s := range statuses {
			said = append(said, b.Outcome(e, dest, s).Record())
		}
	}
	for i := range 10 {
		e := b.Event(1, dests)
		b.ProduceEvents(e)
		say(e, "dst_a", event.Retrying)
		say(e, "dst_b", event.Retrying)
		switch i {
		case 3: // delivered by its last attempt
			say(e, "dst_a", event.Failed, event.Delivered)
			say(e, "dst_b", event.Failed)
		case 4: // still retrying
		default:
			say(e, "dst_a", event.Failed)
			say(e, "dst_b", event.Failed)
			say(e, "dst_gone", event.Failed)
			failed = append(failed, e)
		}
	}
	b.Produce(stream.Outcomes, storetest.PartitionOf(1), said...)
	other := b.Event(2)
	b.ProduceEvents(other)
	b.ProduceOutcomes(b.Outcome(other, "dst_a", event.Failed))

	all := []event.SelectionGroup{
		{Dests: []string{"dst_a"}}, {Dests: []string{"dst_b"}, SkipReason: event.DestinationDisabled},
		{Dests: []string{"dst_a", "dst_b"}, Except: true, SkipReason: event.DestinationDeleted},
	}
	job, sel := b.SelectRecovery(r, b.Selection(all...))
	if sel.Total != 25 || sel.Sendable != 8 || fmt.Sprint(sel.Destinations) != "[{dst_a 8 8} {dst_b 9 0} {dst_gone 8 0}]" {
		t.Errorf("selected %+v", sel)
	}
	items := b.RecoveryItems(r, job, 25, 7)
	slices.Reverse(items)
	for i, x := range items {
		want := event.RecoveryItem{
			Seq: i, Event: x.Event, Destination: "dst_gone", State: event.Skipped, SkipReason: event.DestinationDeleted,
			Type: failed[0].Type}
		switch {
		case i < 8:
			want.Event, want.Destination, want.State, want.SkipReason = failed[i].ID, "dst_a", event.Pending, ""
		case i < 17:
			want.Destination, want.SkipReason = "dst_b", event.DestinationDisabled
		}
		if want.State == event.Pending {
			want.Attempts, want.Code = 0, 0
		}
		is.Equal(t, x, want, "item %d is", i)
	}
	last := job
	last.From, last.Total = 20, 24
	for limit, want := range map[int]string{2: "[23 22] true", 4: "[23 22 21 20] false"} {
		page, err := r.RecoveryItems(t.Context(), last, 0, limit, nil)
		numbers := []int{}
		for _, x := range page.Rows {
			numbers = append(numbers, x.Seq)
		}
		if got := fmt.Sprint(numbers, page.More); err != nil || got != want {
			t.Errorf("of the items 20 to 23, a page of %d is %s, want %s: %v", limit, got, want, err)
		}
	}
	count := func(s event.Selection, want int) {
		t.Helper()
		if _, sel := b.SelectRecovery(r, s); sel.Total != want {
			t.Errorf("selected %+v, want %d", sel, want)
		}
	}
	count(b.Selection(event.SelectionGroup{Dests: []string{"dst_b"}}), 9)
	count(b.Selection(event.SelectionGroup{Dests: []string{}, Except: true}), 25)
	count(b.Selection(event.SelectionGroup{}), 0)
	edge := b.Selection(all[0])
	edge.Since, edge.Until = failed[2].ID.Time(), failed[5].ID.Time() // since is inclusive, until exclusive
	want := 0
	for _, e := range failed {
		if !e.ID.Time().Before(edge.Since) && e.ID.Time().Before(edge.Until) {
			want++
		}
	}
	count(edge, want)
	edge.Until = edge.Since
	count(edge, 0)
}

// The state of an item is the newest outcome within its job, whatever outcomes other runs add.
func TestRecoveryItemStateIsOfItsJob(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	var es []*event.Event
	for range 9 {
		e := b.Event(1)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
		es = append(es, e)
	}
	job, _ := b.SelectRecovery(r, b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	time.Sleep(2 * time.Millisecond) // the replay below begins later than the job
	in := func(run string, skipped event.Reason) func(*event.Outcome) {
		return func(o *event.Outcome) {
			o.Run, o.SkipReason = run, skipped
			if skipped != "" {
				o.Attempt = nil
			}
		}
	}
	timeout := func(o *event.Outcome) {
		o.Run, o.Code, o.Attempt.Code, o.Attempt.ErrorCode = job.ID, 0, 0, event.CodeTimeout
	}
	b.ProduceOutcomes(
		b.Outcome(es[0], "dst_a", event.Retrying, timeout), b.Outcome(es[0], "dst_a", event.Delivered, in(job.ID, "")),
		b.Outcome(es[1], "dst_a", event.Retrying, in(job.ID, "")), b.Outcome(es[1], "dst_a", event.Failed, timeout),
		b.Outcome(es[2], "dst_a", event.Retrying, timeout),
		b.Outcome(es[3], "dst_a", event.Failed, in(job.ID, event.JobStopped)),
		b.Outcome(es[4], "dst_a", event.Delivered, in(job.ID, event.AlreadyDelivered)),
		b.Outcome(es[5], "dst_a", event.Failed, in(job.ID, event.DestinationDisabled)),
		b.Outcome(es[1], "dst_a", event.Failed, in(job.ID, event.JobStopped)),                  // a second copy
		b.Outcome(es[1], "dst_a", event.Delivered, in(b.IDs.NewUnbounded(0).Text(id.Run), "")), // a replay afterwards
	)
	counts, _, err := r.RecoveryCounts(t.Context(), storetest.Account, job.ID, "rec_other")
	if want := (event.RecoveryCounts{Delivered: 1, Failed: 1, Skipped: 3, Unavailable: 1}); err != nil ||
		len(counts) != 1 || counts[job.ID] != want {
		t.Errorf("counts %+v, %v", counts, err)
	}
	if failures, err := r.RecoveryFailures(t.Context(), storetest.Account, job.ID); err != nil ||
		fmt.Sprint(failures) != "map[dst_a:{1 timeout}]" {
		t.Errorf("failures %v, %v", failures, err)
	}
	show := func(job event.RecoveryJob, limit int, states ...event.Status) (out string) {
		for _, x := range b.RecoveryItems(r, job, 9, limit, states...) {
			out += fmt.Sprintf("%d %s %s %d %d %s;", x.Seq, x.State, x.SkipReason, x.Attempts, x.Code, x.Error)
		}
		return out
	}
	job.Reserved = 7
	said := "6 queued  0 0 ;5 skipped destination_disabled 0 0 ;4 skipped already_delivered 0 0 ;3 skipped job_stopped " +
		"0 0 ;2 queued  1 0 timeout;1 failed  2 0 timeout;0 delivered  2 200 ;"
	if got, want := show(job, 100), "8 pending  0 0 ;7 pending  0 0 ;"+said; got != want {
		t.Errorf("items %s\nwant  %s", got, want)
	}
	job.UnsentReason = event.JobCancelled
	if got, want := show(job, 2), "8 skipped job_cancelled 0 0 ;7 skipped job_cancelled 0 0 ;"+said; got != want {
		t.Errorf("items %s\nwant  %s", got, want)
	}
	if got, want := show(job, 1, event.ItemQueued, event.Failed),
		"6 queued  0 0 ;2 queued  1 0 timeout;1 failed  2 0 timeout;"; got != want {
		t.Errorf("by state %s\nwant %s", got, want)
	}
	d, err := r.Event(t.Context(), storetest.Account, es[3].ID)
	if err != nil || d.Status != event.Failed {
		t.Errorf("an event whose delivery was passed by is %+v, %v", d, err)
	}
}

// Open items are those of which the store has neither a command nor an outcome. They come with the complete event and
// the delivery's earlier state.
func TestOpenRecoveryItems(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	var es []*event.Event
	for i := range 6 {
		e := b.Event(1, func(e *event.Event) { e.Body = make([]byte, []int{10, 5 << 20, 5 << 20, 9 << 20, 1, 0}[i]) })
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) { o.Reason = event.Gone410 }))
		es = append(es, e)
	}
	job, _ := b.SelectRecovery(r, b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	job.Reserved = 6
	b.ProduceOutcomes(b.Outcome(es[2], "dst_a", event.Retrying, func(o *event.Outcome) { o.Run = job.ID }),
		b.Outcome(es[4], "dst_a", event.Delivered))
	work := func(from, to int) (out string) {
		t.Helper()
		must.Do(t, r.CaughtUp(t.Context()))
		err := r.OpenRecoveryItems(t.Context(), job, from, to, func(x *event.OpenRecoveryItem) error {
			size := -1
			if x.StoredEvent != nil {
				size = len(x.StoredEvent.Body)
				if x.StoredEvent.ID != x.Event || x.StoredEvent.Endpoint != "ep_1" ||
					x.StoredEvent.Header[0].Name != "Content-Type" {
					t.Errorf("item %d has event %+v", x.Seq, x.StoredEvent)
				}
			}
			out += fmt.Sprintf("%d %d %s %s;", x.Seq, size, x.Prior.Status, x.Prior.Reason)
			return nil
		})
		must.Do(t, err)
		return out
	}
	b.Exec("ALTER TABLE events DELETE WHERE size = 0 SETTINGS mutations_sync = 1") // its payload is not stored any more
	if got, want := work(0, 6), "0 10 failed gone_410;1 5242880 failed gone_410;3 9437184 failed gone_410;4 1 "+
		"delivered ;5 -1 failed gone_410;"; got != want {
		t.Errorf("work %s\nwant %s", got, want)
	}
	if got, want := work(3, 5), "3 9437184 failed gone_410;4 1 delivered ;"; got != want {
		t.Errorf("work %s\nwant %s", got, want)
	}
	stop := errors.New("enough")
	if err := r.OpenRecoveryItems(t.Context(), job, 0, 6, func(*event.OpenRecoveryItem) error { return stop }); !errors.Is(
		err, stop) {
		t.Errorf("an error of the caller became %v", err)
	}
}

// A selection fails while the store is behind the log.
func TestSelectRecoveryFailsWhileBehind(t *testing.T) {
	b := newBench(t)
	b.ProduceEvents(b.Event(1)) // without a writer
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 200 * time.Millisecond}, nil)
	if _, err := r.SelectRecovery(t.Context(), b.Selection(), "x"); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("a store that is behind has selected: %v", err)
	}
}

// The selection of 100,000 deliveries among 300,000.
func TestSelectManyForRecovery(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("100,000 deliveries; set RELAY_TORTURE")
	}
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	// An event every 10 ms of the last 50 minutes; a third of the deliveries has failed.
	b.Exec(`INSERT INTO deliveries SELECT 'acc_1', concat(
		reinterpretAsFixedString(byteSwap(bitShiftLeft(toUInt64(ms), 16))),
		reinterpretAsFixedString(byteSwap(toUInt64(number)))) AS id,
		fromUnixTimestamp64Milli(ms, 'UTC'), 'dst_a', 'ep_1', '', 
		if(number % 3 = 0, 'failed', if(number % 3 = 1, 'delivered', 'retrying')), '', '', 500, 0, now(), '', 1
		FROM (SELECT number, toUnixTimestamp64Milli(now64(3)) - 3000000 + number * 10 AS ms FROM numbers(300000))`)
	b.Exec("INSERT INTO failure_candidates_by_endpoint SELECT account, endpoint, id, dest, ts FROM deliveries " +
		"WHERE status != 'delivered'")
	b.Exec("INSERT INTO failure_candidates SELECT account, id, dest, ts, endpoint, type, status, ver FROM deliveries " +
		"WHERE status != 'delivered'")
	began := time.Now()
	job, sel := b.SelectRecovery(r, b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}}))
	took := time.Since(began)
	must.Equal(t, sel.Total, 100_000, "selected %+v", sel)
	began = time.Now()
	job.Total = sel.Total
	if _, err := r.RecoveryItems(t.Context(), job, 50_000, 100, nil); err != nil {
		t.Fatal(err)
	}
	page := time.Since(began)
	b.Exec("INSERT INTO run_deliveries (account, run, id, dest, ts, status, last_at, ver) SELECT 'acc_1', '" + job.ID +
		"', id, dest, ts, 'delivered', now(), 2 FROM recovery_items")
	began = time.Now()
	counts, _, err := r.RecoveryCounts(t.Context(), storetest.Account, job.ID)
	if err != nil || counts[job.ID].Delivered != 100_000 {
		t.Fatalf("counts %v, %v", counts, err)
	}
	t.Logf("selected 100,000 of 300,000 in %v; a page of 100 items in %v; counted in %v", took, page, time.Since(began))
	if took > 30*time.Second {
		t.Errorf("the selection took %v", took)
	}
}
