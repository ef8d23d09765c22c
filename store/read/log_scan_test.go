package read_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// A repeated read of an id that the log does not hold scans new records only, and finds the event once it is appended.
func TestRepeatedScanReadsNewRecordsOnly(t *testing.T) {
	b := newBench(t)
	r := b.Reader(nil)
	late := b.Event(1)
	b.ProduceEvents(b.Event(1), b.Event(1))
	find := func() error {
		_, err := r.LogHasEvent(t.Context(), storetest.Account, late.ID)
		must.Do(t, err)
		e, err := r.Scan(t.Context(), storetest.Account, late.ID)
		if err == nil && e.ID != late.ID {
			t.Fatalf("found %v", e.ID)
		}
		return err
	}
	must.ErrorIs(t, find(), event.ErrNotFound)
	log, err := stream.NewReader(b.Stream, "test")
	must.Do(t, err)
	defer log.Close()
	ends, err := log.Ends(t.Context(), stream.Events)
	must.Do(t, err)
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
			if err := read(event.WithCaller(t.Context(), "key_a", "")); !errors.Is(err, event.ErrOverloaded) {
				t.Errorf("read beside eight others of the key: %v", err)
			}
			if err := read(event.WithCaller(t.Context(), "key_b", "")); errors.Is(err, event.ErrOverloaded) {
				t.Errorf("read of another key: %v", err)
			}
			if err := read(t.Context()); errors.Is(err, event.ErrOverloaded) {
				t.Errorf("read of the service: %v", err)
			}
		})
	}
}
