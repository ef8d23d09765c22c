package ledger

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// A book takes no more memory than Span.Limit promises.
func TestBookIsCompact(t *testing.T) {
	const events = 30_000
	ids := id.NewGenerator(time.Now)
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before, b := heap(), newBook(2*events)
	for range events {
		eventID := must.Get(ids.New(0))(t)
		e := &event.Event{ID: eventID, Endpoint: "ep_1", Dests: []string{"dst_a"}}
		must.Do(t, b.addEvent(e.Record()))
		o := &event.Outcome{Event: eventID, Endpoint: "ep_1", Dest: "dst_a", Status: event.Delivered, At: time.Now(),
			Attempt: &event.Attempt{ID: eventID, OK: true}}
		must.Do(t, b.addOutcome(o.Record()))
	}
	each := (heap() - before) / b.size()
	t.Logf("%d bytes for each event and each delivery", each)
	if each > 100 {
		t.Errorf("an event or delivery takes %d bytes, Span.Limit promises 100", each)
	}
	if err := b.addEvent((&event.Event{ID: id.Lowest(time.Now()), Endpoint: "ep_1"}).Record()); !errors.Is(
		err, ErrTooMany) {
		t.Errorf("the book takes more than its limit: %v", err)
	}
}

// The use of a tripwire among the events is none of them.
func TestUsesAreNotCounted(t *testing.T) {
	b := newBook(10)
	e := &event.Event{ID: newModel(t, 1).newID(0), Endpoint: "trw_1", Source: event.SourceTripwire, Dests: []string{"d"}}
	if err := b.addRecord(stream.Events, e.Record()); err != nil || b.size() != 0 {
		t.Errorf("%d entries, %v", b.size(), err)
	}
}
