package write_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

func TestDeliveryVersions(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	run := func() string {
		d := must.Get(b.IDs.New(0))(t)
		return d.Text(id.Run)
	}
	older := run()
	time.Sleep(2 * time.Millisecond) // two runs of one millisecond would be ordered by their outcomes
	newer := run()
	in := func(run string) func(*event.Outcome) { return func(o *event.Outcome) { o.Run = run } }
	before := func(run string) func(*event.Outcome) {
		return func(o *event.Outcome) {
			d := must.Get(id.Parse(id.Run, run))(t)
			o.At = d.Time().Add(-time.Millisecond)
		}
	}
	f := func(want event.Status, wantRun string, produce func(e *event.Event)) {
		t.Helper()
		e := b.Event(1)
		b.ProduceEvents(e)
		produce(e)
		d := must.Get(r.Event(t.Context(), storetest.Account, e.ID))(t)
		if got := d.Deliveries[0]; got.Status != want || got.Run != wantRun {
			t.Errorf("got %s of run %q, want %s of %q", got.Status, got.Run, want, wantRun)
		}
	}
	f(event.Delivered, "", func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered), b.Outcome(e, "dst_a", event.Retrying),
			b.Outcome(e, "dst_a", event.Failed))
	})
	f(event.Failed, "", func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed), b.Outcome(e, "dst_a", event.Retrying))
	})
	f(event.Retrying, "", func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Held), b.Outcome(e, "dst_a", event.Retrying))
	})
	f(event.Retrying, newer, func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Retrying, in(newer)),
			b.Outcome(e, "dst_a", event.Delivered, in(older), before(newer)),
			b.Outcome(e, "dst_a", event.Delivered, before(newer)))
	})
	// An automatic retry delivers after a replay had failed: a delivered event is never shown as failed.
	f(event.Delivered, "", func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed, in(newer)), b.Outcome(e, "dst_a", event.Delivered))
	})
	f(event.Delivered, "", func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered), b.Outcome(e, "dst_a", event.Failed, in(newer)))
	})
	f(event.Pending, newer, func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered, before(newer)))
		b.ProduceCommand(e, "dst_a", newer)
	})
	f(event.Delivered, newer, func(e *event.Event) {
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered, in(newer)))
		b.ProduceCommand(e, "dst_a", newer) // as when the command is read again after the outcome
	})
}

// TestPoisonBecomesDeadLetters: a record that cannot be decoded and rows that ClickHouse rejects become dead letters
// with their value; all others are stored.
func TestPoisonBecomesDeadLetters(t *testing.T) {
	b := newBench(t)
	b.Exec("ALTER TABLE events ADD CONSTRAINT clean CHECK type != 'poison'")
	var good []*event.Event
	for i := range 40 {
		e := b.Event(1, func(e *event.Event) { e.Body = fmt.Appendf(nil, "body %d", i) })
		if i%13 == 5 {
			e.Type = "poison"
		} else {
			good = append(good, e)
		}
		b.ProduceEvents(e)
	}
	b.Produce(stream.Outcomes, 1, &stream.Record{Key: []byte("ep_1"), Value: []byte{0xff, 0x01}})
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	b.WaitCaughtUp(r)
	if rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 100}, 1); len(rows) != len(good) {
		t.Fatalf("%d of %d events are stored", len(rows), len(good))
	}
	dead := b.DeadLetters(1)
	must.Equal(t, len(dead), 4, "dead letters")
	for _, d := range dead {
		head := map[string]string{}
		for _, h := range d.Headers {
			head[h.Key] = string(h.Value)
		}
		if head[stream.HeaderDeadGroup] != stream.StoreGroup || head[stream.HeaderDeadPartition] != "1" ||
			head[stream.HeaderDeadError] == "" ||
			head[stream.HeaderDeadOffset] == "" {
			t.Errorf("headers %v", head)
		}
		if head[stream.HeaderDeadTopic] == stream.Outcomes {
			is.Equal(t, string(d.Value), "\xff\x01", "value %q", d.Value)
			continue
		}
		if e, err := event.Decode(d); err != nil || e.Type != "poison" || !strings.HasPrefix(string(e.Body), "body ") {
			t.Errorf("the dead letter does not hold the original record: %v %v", e, err)
		}
	}
}

// TestClickHouseUnavailable makes ClickHouse unreachable under traffic: reads report that at once, an event is found in
// Kafka, the writer's buffer stays bounded, and afterwards everything is stored.
func TestClickHouseUnavailable(t *testing.T) {
	b := newBench(t)
	p := storetest.NewProxy(t)
	reg := prometheus.NewRegistry()
	cfg := write.WriterConfig{URL: p.URL(b.Bench), FlushRows: 500}
	w, _ := b.WriterWithMetrics(cfg, reg)
	r := b.ReaderWith(cluster.Config{URL: p.URL(b.Bench), RetentionDays: 30}, w)
	before := b.Event(1)
	b.ProduceEvents(before)
	must.Get(r.Event(t.Context(), storetest.Account, before.ID))(t)

	p.Cut()
	const n = 20_000
	var last *event.Event
	for i := range n {
		last = b.Event(i)
		b.Producer.Produce(stream.Events, last.ID.Partition(), last.Record(), func(_ *stream.Record, err error) {
			is.OK(t, err)
		})
	}
	must.Do(t, b.Producer.Flush(t.Context()))
	d := must.Get(r.Event(t.Context(), storetest.Account, last.ID))(t)
	if diff := gocmp.Diff(last, d.Event, storetest.CompareIPs, cmpopts.EquateEmpty()); diff != "" || d.AsOf.IsZero() ||
		d.Status != event.Pending || d.Counts.Pending != 1 {
		t.Fatalf("event from the log: %+v %s", d, diff)
	}
	if _, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1}); !errors.Is(
		err, event.ErrUnavailable) {
		t.Fatalf("list without ClickHouse: %v", err)
	}
	must.ErrorIs(t, r.Ping(t.Context()), event.ErrUnavailable, "ping without ClickHouse")
	if got := storetest.Metric(t, reg, "relay_store_buffered_rows"); got > 500+5_000 {
		t.Fatalf("%v rows are buffered", got)
	}

	p.Restore()
	q := event.Query{Account: storetest.Account, Limit: 100, Until: time.Now().Add(time.Hour)}
	for {
		page, err := r.Events(t.Context(), q)
		if errors.Is(err, event.ErrUnavailable) {
			continue
		}
		must.Do(t, err)
		if !page.AsOf.IsZero() {
			continue // the writer has not caught up
		}
		break
	}
	b.WaitCaughtUp(r)
	rows := int(b.QuerySum("SELECT uniqExact(id) FROM events"))
	if rows != n+1 {
		t.Fatalf("%d of %d events are stored", rows, n+1)
	}
}

// TestReadAfterWrite reads and lists directly after each write.
func TestReadAfterWrite(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	for i := range storetest.Rounds(25, 25, 1000) {
		e := b.Event(i)
		b.ProduceEvents(e)
		if i%2 == 0 {
			if _, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil {
				t.Fatalf("read %d: %v", i, err)
			}
		}
		page := must.Get(r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1}))(t)
		if len(page.Rows) != 1 || page.Rows[0].ID != e.ID || !page.AsOf.IsZero() {
			t.Fatalf("list %d lacks the event: %+v", i, page)
		}
	}
}

// TestReadOnNodeWithoutWriter: the reader asks the writer of another node to flush, and waits for the offsets that it
// commits. Nothing else makes that writer flush. A request that got lost is repeated.
func TestReadOnNodeWithoutWriter(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{FlushEvery: time.Hour, PollEvery: time.Hour})
	lost := 0
	r := must.Get(read.NewReader(
		cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: time.Minute, Timeout: 2 * time.Minute},
		cluster.Deps{Stream: b.Stream,
			AskOthers: func(_ context.Context, targets map[stream.Partition]int64) error {
				if lost++; lost == 1 {
					return nil
				}
				targets, err := store.DecodeTargets(store.EncodeTargets(targets))
				w.RequestFlush(targets)
				return err
			}}))(t)
	defer r.Close()
	for i := range 10 {
		e := b.Event(i)
		b.ProduceEvents(e)
		page := must.Get(r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1}))(t)
		if len(page.Rows) != 1 || page.Rows[0].ID != e.ID || !page.AsOf.IsZero() {
			t.Fatalf("list %d lacks the event: %+v", i, page)
		}
	}
}

// TestReadWithoutAnyWriter: without a writer a list shows what is stored and says as of when; an event is found in
// Kafka.
func TestReadWithoutAnyWriter(t *testing.T) {
	b := newBench(t)
	w, stop := b.Writer(write.WriterConfig{})
	old := b.Event(1)
	b.ProduceEvents(old)
	r := b.Reader(w)
	must.Get(r.Event(t.Context(), storetest.Account, old.ID))(t)
	stop()
	e := b.Event(1)
	b.ProduceEvents(e)
	r = b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 200 * time.Millisecond}, nil)
	page := must.Get(r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 5}))(t)
	if len(page.Rows) != 1 || page.AsOf.IsZero() {
		t.Fatalf("%+v", page)
	}
	d := must.Get(r.Event(t.Context(), storetest.Account, e.ID))(t)
	if d.Event.ID != e.ID || d.AsOf.IsZero() {
		t.Fatalf("%+v", d)
	}
}

// TestWritersShareTheLog starts and stops concurrent writers under traffic: no event is lost.
func TestWritersShareTheLog(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	produced := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			e := b.Event(n)
			done := make(chan error, 1)
			b.Producer.Produce(stream.Events, e.ID.Partition(), e.Record(), func(_ *stream.Record, err error) { done <- err })
			is.OK(t, <-done)
			n++
		}
		produced <- n
	}()
	_, stop := b.Writer(write.WriterConfig{FlushEvery: 50 * time.Millisecond})
	for range 3 {
		_, next := b.Writer(write.WriterConfig{FlushEvery: 50 * time.Millisecond})
		time.Sleep(300 * time.Millisecond)
		stop()
		stop = next
	}
	cancel()
	n := <-produced
	b.WaitCaughtUp(b.Reader(nil))
	must.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM events"), uint64(n), "of %d events are stored", n)
}

// TestNoDeliveryWithoutItsAttempt: while attempts or candidates cannot be inserted, no delivery is visible without the
// attempt that led to it, or that the list of its status would not find.
func TestNoDeliveryWithoutItsAttempt(t *testing.T) {
	b := newBench(t)
	reg := prometheus.NewRegistry()
	b.WriterWithMetrics(write.WriterConfig{}, reg)
	run := id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)
	for i, table := range []string{"attempts", "failure_candidates", "failure_candidates_by_endpoint", "event_keys"} {
		b.Exec("RENAME TABLE " + table + " TO elsewhere")
		b.ProduceOutcomes(b.Outcome(b.Event(1), "dst_a", event.Failed, func(o *event.Outcome) { o.Run = run }))
		storetest.Eventually(t, func() bool { return storetest.Metric(t, reg, "relay_store_unavailable_shards") == 1 })
		count := func(of string) int { return int(b.QuerySum("SELECT uniqExact(id) FROM " + of)) }
		is.Equal(t, count("deliveries"), i, "without %s … deliveries are visible", table)
		if n := count("run_deliveries"); table == "attempts" && n != i {
			t.Errorf("%d deliveries of a run are visible without their attempt", n)
		}
		b.Exec("RENAME TABLE elsewhere TO " + table)
		storetest.Eventually(t, func() bool { return count("deliveries") == i+1 })
		for _, of := range []string{
			"attempts", "failure_candidates", "failure_candidates_by_endpoint", "event_keys", "run_deliveries"} {
			is.Equal(t, count(of), i+1, "rows in %s", of)
		}
		storetest.Eventually(t, func() bool { return storetest.Metric(t, reg, "relay_store_unavailable_shards") == 0 })
	}
}
