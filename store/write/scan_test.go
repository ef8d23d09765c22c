package write_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/storetest"
)

// Readers see the rows of events while they are scanned. Their offsets are committed when the scan has ended, so a
// writer that ends before it leaves them to the next one. Erased payloads are not scanned.
func TestCommitWaitsForTheScan(t *testing.T) {
	b := newBench(t)
	erased := b.Event(0, func(e *event.Event) { e.Body = []byte("erased") })
	b.Erased = func(d id.ID) bool { return d == erased.ID }
	type call struct {
		events []*event.Event
		end    chan error
	}
	calls := make(chan call)
	deps := write.WriterDeps{Scan: func(ctx context.Context, events []*event.Event) error {
		c := call{events, make(chan error)}
		select {
		case calls <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-c.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	b.ProduceEvents(b.Event(0), erased) // before the writer, which then has both in its first batch
	w, stop := b.WriterWithDeps(write.WriterConfig{Drain: 1}, deps)
	r := b.Reader(w)
	c := <-calls
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10})
	if err != nil || len(page.Rows) != 2 || !page.AsOf.IsZero() {
		t.Errorf("read %d of 2 events during the scan, as of %v, %v", len(page.Rows), page.AsOf, err)
	}
	for _, e := range c.events {
		if e.ID == erased.ID && len(e.Body) > 0 {
			t.Error("an erased payload is scanned")
		}
	}
	stop() // the scan does not end
	is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed before the scan has ended")
	_, _ = b.WriterWithDeps(write.WriterConfig{}, deps)
	for scanned := 0; scanned < 2; {
		c = <-calls
		scanned += len(c.events)
		for _, e := range c.events {
			if e.ID == erased.ID && len(e.Body) > 0 {
				t.Error("an erased payload is scanned")
			}
		}
		c.end <- nil
	}
	storetest.Eventually(t, func() bool { return b.committedOffset(stream.Events, 0) == 2 })
}

// Payloads are scanned while their events wait for a flush, which scans none of them again. Its commit waits for a scan
// that began before it.
func TestScanWaitsForNoFlush(t *testing.T) {
	b := newBench(t)
	calls, end := make(chan []*event.Event), make(chan struct{})
	deps := write.WriterDeps{Scan: func(ctx context.Context, events []*event.Event) error {
		select {
		case calls <- events:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	b.ProduceEvents(b.Event(0), b.Event(0), b.Event(0))
	w, stop := b.WriterWithDeps(write.WriterConfig{FlushEvery: time.Hour}, deps)
	r := b.Reader(w)
	if events := <-calls; len(events) != 3 {
		t.Fatalf("%d events are scanned at once, want 3", len(events))
	}
	is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed")
	b.WaitCaughtUp(r)
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10})
	if err != nil || len(page.Rows) != 3 || !page.AsOf.IsZero() {
		t.Errorf("read %d of 3 events during the scan, as of %v, %v", len(page.Rows), page.AsOf, err)
	}
	is.Equal(t, b.committedOffset(stream.Events, 0), 0, "offset … is committed before the scan has ended")
	end <- struct{}{}
	// a second scan would wait for calls, and the commit for it
	storetest.Eventually(t, func() bool { return b.committedOffset(stream.Events, 0) == 3 })
	stop()
}
