package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// TestRedoChangesNothing rewinds the writer to random places, as crashes between insert and commit do,
// and compares everything that can be read.
func TestRedoChangesNothing(t *testing.T) {
	b := newBench(t)
	h := newHistory(b, 7)
	n := rounds(30, 30, 60)
	h.happen(n)
	all := event.Query{Account: account, Limit: 100}
	read := func() []*event.Detail {
		w, stop := b.writer(store.WriterConfig{FlushRows: 50})
		defer stop()
		r := b.reader(w)
		var details []*event.Detail
		for _, row := range pages(t, r, all, 10) {
			d, err := r.Event(t.Context(), account, row.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(row, d.Summary); diff != "" {
				t.Fatal("list and single read disagree", diff)
			}
			details = append(details, d)
		}
		return details
	}
	first := read()
	if len(first) != n {
		t.Fatalf("%d of %d events", len(first), n)
	}
	for range 3 {
		b.rewind(func(_ stream.Partition, committed int64) int64 { return rand.Int64N(max(committed, 0) + 1) })
		if diff := gocmp.Diff(first, read(), ipComparer); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestVersions(t *testing.T) {
	b := newBench(t)
	w, _ := b.writer(store.WriterConfig{})
	r := b.reader(w)
	run := func() string {
		d, err := b.ids.New(0)
		if err != nil {
			t.Fatal(err)
		}
		return d.Text(id.Run)
	}
	older := run()
	time.Sleep(2 * time.Millisecond) // runs of one millisecond are ordered by their outcomes
	newer := run()
	in := func(run string) func(*event.Outcome) { return func(o *event.Outcome) { o.Run = run } }
	before := func(run string) func(*event.Outcome) {
		return func(o *event.Outcome) {
			d, err := id.Parse(id.Run, run)
			if err != nil {
				t.Fatal(err)
			}
			o.At = d.Time().Add(-time.Millisecond)
		}
	}
	f := func(want event.Status, wantRun string, happen func(e *event.Event)) {
		t.Helper()
		e := b.event(1)
		b.accept(e)
		happen(e)
		d, err := r.Event(t.Context(), account, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Deliveries[0]; got.Status != want || got.Run != wantRun {
			t.Errorf("got %s of run %q, want %s of %q", got.Status, got.Run, want, wantRun)
		}
	}
	f(event.Delivered, "", func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Delivered), b.outcome(e, "dst_a", event.Retrying), b.outcome(e, "dst_a", event.Failed))
	})
	f(event.Failed, "", func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Failed), b.outcome(e, "dst_a", event.Retrying))
	})
	f(event.Retrying, "", func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Held), b.outcome(e, "dst_a", event.Retrying))
	})
	f(event.Retrying, newer, func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Retrying, in(newer)), b.outcome(e, "dst_a", event.Delivered, in(older), before(newer)), b.outcome(e, "dst_a", event.Delivered, before(newer)))
	})
	// The chain delivers after a replay had failed: what was delivered is never called failed.
	f(event.Delivered, "", func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Failed, in(newer)), b.outcome(e, "dst_a", event.Delivered))
	})
	f(event.Delivered, "", func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Delivered), b.outcome(e, "dst_a", event.Failed, in(newer)))
	})
	f(event.Pending, newer, func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Delivered, before(newer)))
		b.command(e, "dst_a", newer)
	})
	f(event.Delivered, newer, func(e *event.Event) {
		b.record(b.outcome(e, "dst_a", event.Delivered, in(newer)))
		b.command(e, "dst_a", newer) // read again by a redo, after the outcome
	})
}

func (b *bench) command(e *event.Event, dest, run string) {
	b.Helper()
	r, err := (&event.Work{Event: e, Dest: dest, Trigger: event.TriggerReplay, Attempt: 1, Run: run}).Record()
	if err != nil {
		b.Fatal(err)
	}
	b.put(stream.Commands, e.ID.Partition(), r)
}

// TestPoison sends a record that cannot be read and one that ClickHouse refuses: both end in dead with
// their value, all others are stored.
func TestPoison(t *testing.T) {
	b := newBench(t)
	b.exec("ALTER TABLE events ADD CONSTRAINT clean CHECK type != 'poison'")
	var good []*event.Event
	for i := range 40 {
		e := b.event(1, func(e *event.Event) { e.Body = fmt.Appendf(nil, "body %d", i) })
		if i%13 == 5 {
			e.Type = "poison"
		} else {
			good = append(good, e)
		}
		b.accept(e)
	}
	b.put(stream.Outcomes, 1, &stream.Record{Key: []byte("ep_1"), Value: []byte{0xff, 0x01}})
	w, _ := b.writer(store.WriterConfig{})
	r := b.reader(w)
	if rows := pages(t, r, event.Query{Account: account, Limit: 100}, 1); len(rows) != len(good) {
		t.Fatalf("%d of %d events are stored", len(rows), len(good))
	}
	dead := b.dead(1)
	if len(dead) != 4 {
		t.Fatalf("%d records in dead", len(dead))
	}
	for _, d := range dead {
		head := map[string]string{}
		for _, h := range d.Headers {
			head[h.Key] = string(h.Value)
		}
		if head[stream.DeadGroup] != store.Group || head[stream.DeadPartition] != "1" || head[stream.DeadError] == "" || head[stream.DeadOffset] == "" {
			t.Errorf("headers %v", head)
		}
		if head[stream.DeadTopic] == stream.Outcomes {
			if string(d.Value) != "\xff\x01" {
				t.Errorf("value %q", d.Value)
			}
			continue
		}
		if e, err := event.Decode(d); err != nil || e.Type != "poison" || !strings.HasPrefix(string(e.Body), "body ") {
			t.Errorf("dead record is not the original: %v %v", e, err)
		}
	}
}

// dead reads what stands in a partition of the topic dead.
func (b *bench) dead(partition int32) (records []*stream.Record) {
	b.Helper()
	reader, err := stream.NewReader(b.stream, "test")
	if err != nil {
		b.Fatal(err)
	}
	defer reader.Close()
	ends, err := reader.Ends(b.Context(), stream.Dead)
	if err != nil {
		b.Fatal(err)
	}
	p := stream.Partition{Topic: stream.Dead, Index: partition}
	if ends[p] == 0 {
		return nil
	}
	err = reader.Read(b.Context(), p, 0, func(r *stream.Record) error {
		if records = append(records, r); int64(len(records)) == ends[p] {
			return stream.ErrStop
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return records
}

// TestClickHouseAway takes ClickHouse away under traffic: reads say so at once, the event is found in the
// log, the buffer stays bounded, and afterwards everything is there.
func TestClickHouseAway(t *testing.T) {
	b := newBench(t)
	p := newProxy(t)
	reg := prometheus.NewRegistry()
	cfg := store.WriterConfig{URL: p.url(b), FlushRows: 500}
	w, _ := b.writerOf(cfg, reg)
	r := b.readerOf(store.ReaderConfig{URL: p.url(b), RetentionDays: 30, FenceWait: 20 * time.Second}, w)
	before := b.event(1)
	b.accept(before)
	if _, err := r.Event(t.Context(), account, before.ID); err != nil {
		t.Fatal(err)
	}

	p.down()
	const n = 20_000
	var last *event.Event
	for i := range n {
		last = b.event(i)
		b.producer.Produce(stream.Events, last.ID.Partition(), last.Record(), func(_ *stream.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := b.producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := r.Event(t.Context(), account, last.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(last, d.Event, ipComparer); diff != "" || d.AsOf.IsZero() || d.Status != event.Pending || d.Counts.Pending != 1 {
		t.Fatalf("event from the log: %+v %s", d, diff)
	}
	if _, err := r.Events(t.Context(), event.Query{Account: account, Limit: 1}); !errors.Is(err, event.ErrUnavailable) {
		t.Fatalf("list without ClickHouse: %v", err)
	}
	if err := r.Ping(t.Context()); !errors.Is(err, event.ErrUnavailable) {
		t.Fatalf("ping without ClickHouse: %v", err)
	}
	if got := metric(t, reg, "relay_store_buffered_rows"); got > 500+5_000 {
		t.Fatalf("%v rows are buffered", got)
	}

	p.up()
	rows := 0
	q := event.Query{Account: account, Limit: 100, Until: time.Now().Add(time.Hour)}
	for {
		page, err := r.Events(t.Context(), q)
		if errors.Is(err, event.ErrUnavailable) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !page.AsOf.IsZero() {
			continue // the writer has not caught up
		}
		rows += int(b.query("SELECT uniqExact(id) FROM events"))
		break
	}
	if rows != n+1 {
		t.Fatalf("%d of %d events are stored", rows, n+1)
	}
}

// metric is the value of a gauge or a counter without labels.
func metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue() // it is one of them
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestReadAfterWrite reads and lists right after each write.
func TestReadAfterWrite(t *testing.T) {
	b := newBench(t)
	w, _ := b.writer(store.WriterConfig{})
	r := b.reader(w)
	for i := range rounds(100, 100, 1000) {
		e := b.event(i)
		b.accept(e)
		if i%2 == 0 {
			if _, err := r.Event(t.Context(), account, e.ID); err != nil {
				t.Fatalf("read %d: %v", i, err)
			}
		}
		page, err := r.Events(t.Context(), event.Query{Account: account, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) != 1 || page.Rows[0].ID != e.ID || !page.AsOf.IsZero() {
			t.Fatalf("list %d lacks the event: %+v", i, page)
		}
	}
}

// TestReadOnNodeWithoutWriter waits for the offsets that another node commits.
func TestReadOnNodeWithoutWriter(t *testing.T) {
	b := newBench(t)
	b.writer(store.WriterConfig{FlushSmall: 50 * time.Millisecond})
	r := b.reader(nil)
	for i := range 10 {
		e := b.event(i)
		b.accept(e)
		page, err := r.Events(t.Context(), event.Query{Account: account, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) != 1 || page.Rows[0].ID != e.ID || !page.AsOf.IsZero() {
			t.Fatalf("list %d lacks the event: %+v", i, page)
		}
	}
}

// TestReadWithoutAnyWriter serves what is there and says so; the event is found in the log.
func TestReadWithoutAnyWriter(t *testing.T) {
	b := newBench(t)
	w, stop := b.writer(store.WriterConfig{})
	old := b.event(1)
	b.accept(old)
	r := b.reader(w)
	if _, err := r.Event(t.Context(), account, old.ID); err != nil {
		t.Fatal(err)
	}
	stop()
	e := b.event(1)
	b.accept(e)
	r = b.readerOf(store.ReaderConfig{URL: b.url, RetentionDays: 30, FenceWait: 200 * time.Millisecond}, nil)
	page, err := r.Events(t.Context(), event.Query{Account: account, Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Rows) != 1 || page.AsOf.IsZero() {
		t.Fatalf("%+v", page)
	}
	d, err := r.Event(t.Context(), account, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.Event.ID != e.ID || d.AsOf.IsZero() {
		t.Fatalf("%+v", d)
	}
}

// TestWritersShareTheLog starts and stops writers beside each other under traffic: nothing is lost.
func TestWritersShareTheLog(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	produced := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			e := b.event(n)
			done := make(chan error, 1)
			b.producer.Produce(stream.Events, e.ID.Partition(), e.Record(), func(_ *stream.Record, err error) { done <- err })
			if err := <-done; err != nil {
				t.Error(err)
			}
			n++
		}
		produced <- n
	}()
	_, stop := b.writer(store.WriterConfig{FlushEvery: 50 * time.Millisecond})
	for range 3 {
		_, next := b.writer(store.WriterConfig{FlushEvery: 50 * time.Millisecond})
		time.Sleep(300 * time.Millisecond)
		stop()
		stop = next
	}
	cancel()
	n := <-produced
	r := b.reader(nil)
	if _, err := r.Events(t.Context(), event.Query{Account: account, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if got := b.query("SELECT uniqExact(id) FROM events"); got != uint64(n) {
		t.Fatalf("%d of %d events are stored", got, n)
	}
}

// TestNoDeliveryWithoutItsAttempt: while attempts cannot be written, nobody sees a delivery that one of them brought
// about, in a run or at all; and none that the list of its status would not look for.
func TestNoDeliveryWithoutItsAttempt(t *testing.T) {
	b := newBench(t)
	reg := prometheus.NewRegistry()
	b.writerOf(store.WriterConfig{}, reg)
	run := id.NewGenerator(nil).Next(0).Text(id.Run)
	for i, table := range []string{"attempts", "troubled", "delivery_trouble", "event_keys"} {
		b.exec("RENAME TABLE " + table + " TO elsewhere")
		b.record(b.outcome(b.event(1), "dst_a", event.Failed, func(o *event.Outcome) { o.Run = run }))
		eventually(t, func() bool { return metric(t, reg, "relay_store_away") == 1 })
		count := func(of string) int { return int(b.query("SELECT uniqExact(id) FROM " + of)) }
		if n := count("deliveries"); n != i {
			t.Errorf("without %s: %d deliveries are seen, want %d", table, n, i)
		}
		if n := count("run_deliveries"); table == "attempts" && n != i {
			t.Errorf("%d deliveries of a run are seen without their attempt", n)
		}
		b.exec("RENAME TABLE elsewhere TO " + table)
		eventually(t, func() bool { return count("deliveries") == i+1 })
		for _, of := range []string{"attempts", "troubled", "delivery_trouble", "event_keys", "run_deliveries"} {
			if n := count(of); n != i+1 {
				t.Errorf("%d rows in %s, want %d", n, of, i+1)
			}
		}
		eventually(t, func() bool { return metric(t, reg, "relay_store_away") == 0 })
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	eventuallyWithin(t, 2*time.Minute, holds)
}

func eventuallyWithin(t *testing.T, limit time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come true within %v", limit)
		}
	}
}
