package write_test

import (
	"context"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
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
	w, stop := b.WriterWithDeps(write.WriterConfig{Drain: 1}, deps)
	r := b.Reader(w)
	b.ProduceEvents(b.Event(0), erased)
	c := <-calls
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10})
	if err != nil || len(page.Rows) != len(c.events) || !page.AsOf.IsZero() {
		t.Errorf("read %d of %d events during the scan, as of %v, %v", len(page.Rows), len(c.events), page.AsOf, err)
	}
	for _, e := range c.events {
		if e.ID == erased.ID && len(e.Body) > 0 {
			t.Error("an erased payload is scanned")
		}
	}
	stop() // the scan does not end
	if n := b.committedOffset(stream.Events, 0); n != 0 {
		t.Errorf("offset %d is committed before the scan has ended, want 0", n)
	}
	_, _ = b.WriterWithDeps(write.WriterConfig{}, deps)
	for scanned := 0; scanned < 2; {
		c = <-calls
		scanned += len(c.events)
		c.end <- nil
	}
	storetest.Eventually(t, func() bool { return b.committedOffset(stream.Events, 0) == 2 })
}
