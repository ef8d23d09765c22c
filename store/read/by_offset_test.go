package read_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// Reading by offset returns every event once and in order, although offsets are not in time order.
func TestEventsByOffsetAreCompleteAndInOrder(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	rnd := rand.New(rand.NewPCG(7, 7))
	clock := time.Now().Add(-50 * time.Hour)
	b.IDs = id.NewGenerator(func() time.Time { return clock })
	var events []*event.Event
	for i := range 600 {
		if clock = clock.Add(time.Duration(rnd.Int64N(int64(20 * time.Second)))); i%150 == 149 {
			clock = clock.Add(9 * time.Hour)
		}
		events = append(events, b.Event(4*rnd.IntN(2), func(e *event.Event) { // both in partition 0
			e.Body = make([]byte, rnd.IntN(50))
			switch rnd.IntN(6) {
			case 0:
				e.Verdict, e.Reason = event.VerdictRejected, event.SignatureMissing
			case 1:
				e.Reason, e.DuplicateOf = event.Duplicate, e.ID.Text(id.Event)
			}
		}))
	}
	late := map[id.ID]time.Time{} // when the log appended it
	for _, e := range events {
		late[e.ID] = e.ReceivedAt().Add(time.Duration(rnd.Int64N(int64(15 * time.Second))))
	}
	slices.SortStableFunc(events, func(a, b *event.Event) int { return late[a.ID].Compare(late[b.ID]) })
	records := make([]*stream.Record, len(events))
	for i, e := range events {
		records[i] = e.Record()
		records[i].Timestamp = time.Time{} // the producer would time out on old records
	}
	b.Produce(stream.Events, 0, records...)
	b.WaitCaughtUp(r)
	type row struct {
		id     string
		offset int64
		size   int
		body   int
	}
	for range storetest.Rounds(2, 2, 5) {
		from, to, limit := rnd.IntN(300), 300+rnd.IntN(301), 1+rnd.IntN(60)
		maxBody := 20 + rnd.IntN(40)
		q := event.OffsetQuery{Account: storetest.Account, Endpoint: "ep_0", From: int64(from), To: int64(to), Limit: limit,
			Bytes: 1 + rnd.IntN(2000), MaxBody: maxBody}
		q.Since = slices.MinFunc(events[from:], func(a, b *event.Event) int {
			return cmp.Compare(a.ID.UnixMilli(), b.ID.UnixMilli())
		}).ReceivedAt()
		var got, want []row
		for i, e := range events[from:to] {
			if e.Endpoint != "ep_0" || e.Verdict == event.VerdictRejected || e.DuplicateOf != "" {
				continue
			}
			x := row{e.ID.String(), int64(from + i), len(e.Body), len(e.Body)}
			if x.size > maxBody {
				x.body = 0
			}
			want = append(want, x)
		}
		for q.From < q.To {
			page := must.Get(r.EventsByOffset(t.Context(), q))(t)
			if len(page.Rows) > limit || page.Next <= q.From {
				t.Fatalf("%d rows, next %d after %d", len(page.Rows), page.Next, q.From)
			}
			for _, x := range page.Rows {
				got = append(got, row{x.ID.String(), x.Offset, x.Size, len(x.Body)})
				q.Since = x.ReceivedAt().Add(-time.Minute)
			}
			q.From = page.Next
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("from %d to %d by %d: %d rows, want %d", from, to, limit, len(got), len(want))
		}
	}
}

// An event that the log has appended 90 s after its time, while its partition had no leader, hides none that were
// appended before it, wherever the window of time ends.
func TestEventsByOffsetBesideALateOne(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	since := time.Now().Add(-10 * time.Hour).Truncate(time.Second)
	at := func(after time.Duration) *event.Event {
		b.IDs = id.NewGenerator(func() time.Time { return since.Add(after) })
		return b.Event(0)
	}
	first, late, before := at(0), at(time.Hour-time.Second), at(time.Hour+89*time.Second)
	b.produceOld(first, before, late)
	b.WaitCaughtUp(r)
	q := event.OffsetQuery{
		Account: storetest.Account, Endpoint: first.Endpoint, To: 3, Since: since,
		Limit: 10, Bytes: 1 << 20, MaxBody: 1 << 10,
	}
	var got []id.ID
	for q.From < q.To {
		page, err := r.EventsByOffset(t.Context(), q)
		if err != nil || page.Next <= q.From {
			t.Fatal(page.Next, err)
		}
		for _, x := range page.Rows {
			got = append(got, x.ID)
		}
		q.From = page.Next
	}
	is.List(t, got, []id.ID{first.ID, before.ID, late.ID})
}

// A repeated read of an id that the log does not hold scans new records only, and finds the event once it is appended.
func TestRepeatedScanReadsNewRecordsOnly(t *testing.T) {
	b := newBench(t)
	r := b.Reader(nil)
	late := b.Event(1)
	b.ProduceEvents(b.Event(1), b.Event(1))
	find := func() error {
		must.Get(r.HasEvent(t.Context(), storetest.Account, late.ID))(t)
		e, err := r.Scan(t.Context(), storetest.Account, late.ID)
		if err == nil && e.ID != late.ID {
			t.Fatalf("found %v", e.ID)
		}
		return err
	}
	must.ErrorIs(t, find(), event.ErrNotFound)
	log := must.Get(stream.NewReader(b.Stream, "test"))(t)
	defer log.Close()
	ends := must.Get(log.Ends(t.Context(), stream.Events))(t)
	if below, end := r.AbsentBelow(late.ID),
		ends[stream.Partition{Topic: stream.Events, Index: late.ID.Partition()}]; end < 2 || below != end {
		t.Errorf("the event is known to be absent below %d, want %d", below, end)
	}
	b.ProduceEvents(late)
	is.OK(t, find(), "read of an event that was appended after the first read")
	use := b.Event(1, func(e *event.Event) { e.Source = event.SourceTripwire })
	b.ProduceEvents(use)
	if _, err := r.Scan(t.Context(), storetest.Account, use.ID); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("the use of a tripwire is read as an event: %v", err)
	}
	var made []id.ID
	for range 10_000 {
		made = append(made, b.Event(1).ID)
	}
	if kept := read.RememberAbsent(made); kept < 2048 || kept > 4096 {
		t.Errorf("%d of 10,000 absent ids are remembered", kept)
	}
}

// An acknowledged event is never answered as missing: while the store is behind, and the log cannot be read in time
// either, it is unknown whether it exists. That an older one does not exist is known.
func TestEventIsNotMissingWhileTheLogCannotBeRead(t *testing.T) {
	b := newBench(t)
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 20 * time.Millisecond}, nil)
	b.WaitCaughtUp(r) // the log is empty
	e := b.Event(1)
	b.ProduceEvents(e) // no writer runs: it is in the log only
	release := r.HoldScans(20 * time.Millisecond)
	if _, err := r.Event(t.Context(), storetest.Account, e.ID); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("the log cannot be read: %v", err)
	}
	release()
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || d.Event.ID != e.ID {
		t.Errorf("the log can be read: %+v, %v", d, err)
	}
	release = r.HoldScans(20 * time.Millisecond)
	old, hourAgo := b.Event(1), id.Lowest(time.Now().Add(-time.Hour))
	copy(old.ID[:6], hourAgo[:])
	if _, err := r.Event(t.Context(), storetest.Account, old.ID); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("an id of an hour ago, up to which the store is complete: %v", err)
	}
	release()
	if _, err := r.Event(t.Context(), storetest.Account, b.Event(1).ID); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("neither has the event: %v", err)
	}
}

// While the store is behind, the read of one event has the outcomes that the log has. If they cannot be read, an event
// that may be delivered is not called pending.
func TestEventOfAStoreThatIsBehind(t *testing.T) {
	b := newBench(t)
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 20 * time.Millisecond}, nil)
	b.WaitCaughtUp(r)
	e, other, fresh := b.Event(1), b.Event(1), b.Event(1)
	old := id.Lowest(time.Now().Add(-time.Minute))
	copy(e.ID[:6], old[:])
	b.ProduceEvents(e, other) // no writer runs: the store has nothing
	retried, sent := b.Outcome(e, "dst_a", event.Retrying), b.Outcome(e, "dst_a", event.Delivered)
	b.ProduceOutcomes(b.Outcome(other, "dst_a", event.Failed), retried, sent)
	d, err := r.Event(t.Context(), storetest.Account, e.ID)
	if err != nil || d.AsOf.IsZero() || d.Deliveries[0].Status != event.Delivered || d.Deliveries[0].Attempts != 2 ||
		len(d.Attempts) != 2 || d.Attempts[1].ID != sent.Attempt.ID || d.Attempts[1].Number != 2 ||
		d.Summary.Attempts != 2 || !d.LastAttemptAt.Equal(sent.Attempt.StartedAt) {
		t.Errorf("%+v, %v", d, err)
	}
	b.ProduceEvents(fresh)
	r.LoseOutcomes()
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("without the outcomes: %+v, %v", d, err)
	}
	if d, err := r.Event(t.Context(), storetest.Account, fresh.ID); err == nil && !d.AsOf.Equal(fresh.ReceivedAt()) {
		t.Errorf("an event that was just accepted is shown as of %v", d.AsOf)
	}
}

// Each kind of read for an API key takes one of the key's slots; the service's own reads take none.
func TestReadsOfAKeyTakeSlots(t *testing.T) {
	b := newBench(t)
	r := b.Reader(nil)
	e := b.Event(1)
	t.Cleanup(r.HoldReads(t.Context(), "key_a"))
	reads := map[string]func(ctx context.Context) error{
		"Events": func(ctx context.Context) error {
			_, err := r.Events(ctx, event.Query{Account: storetest.Account, Limit: 1})
			return err
		},
		"Event": func(ctx context.Context) error { _, err := r.Event(ctx, storetest.Account, e.ID); return err },
		"Attempts": func(ctx context.Context) error {
			_, err := r.Attempts(ctx, storetest.Account, e.ID, id.ID{}, 1)
			return err
		},
		"Audit": func(ctx context.Context) error {
			_, err := r.Audit(ctx, audit.Query{Account: storetest.Account, Limit: 1})
			return err
		},
		"RecoveryItems": func(ctx context.Context) error {
			_, err := r.RecoveryItems(ctx, event.RecoveryJob{Account: storetest.Account}, 0, 1, nil)
			return err
		},
		"EventEndpoint": func(ctx context.Context) error {
			_, err := r.EventEndpoint(
				ctx, storetest.Account, e.ID)
			return err
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is.ErrorIs(t, read(event.WithCaller(t.Context(), "key_a", "")), event.ErrOverloaded,
				"read beside eight others of the key")
			if err := read(event.WithCaller(t.Context(), "key_b", "")); errors.Is(err, event.ErrOverloaded) {
				t.Errorf("read of another key: %v", err)
			}
			if err := read(t.Context()); errors.Is(err, event.ErrOverloaded) {
				t.Errorf("read of the service: %v", err)
			}
		})
	}
}
