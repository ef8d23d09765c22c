package event_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

func TestReceiptRoundTrip(t *testing.T) {
	r := &event.Receipt{
		Event: newID(t), Account: "acc_1", Endpoint: "ep_1", State: event.ProcessingDone, Reference: "inv-7",
		Details: `{"a":1}`,
		At:      time.UnixMilli(1_800_000_000_001).UTC(),
	}
	got := must.Get(event.DecodeReceipt(r.Record()))(t)
	must.Equal(t, cmp.Diff(r, got), "")
	for name, spoil := range map[string]func(*event.Receipt, *stream.Record){
		"broken bytes": func(_ *event.Receipt, rec *stream.Record) { rec.Value = []byte{0xff} },
		"a short id":   func(_ *event.Receipt, rec *stream.Record) { rec.Value = append(rec.Value, 0x0a, 1, 'x') },
		"no key":       func(_ *event.Receipt, rec *stream.Record) { rec.Key = nil },
		"no event":     func(r *event.Receipt, rec *stream.Record) { r.Event = id.ID{}; *rec = *r.Record() },
		"no state":     func(r *event.Receipt, rec *stream.Record) { r.State = ""; *rec = *r.Record() },
	} {
		receipt, rec := *r, r.Record()
		spoil(&receipt, rec)
		if _, err := event.DecodeReceipt(rec); err == nil {
			t.Errorf("a receipt with %s was accepted", name)
		}
	}
}

// Once an event is processed, no other receipt is current, however late it comes.
func TestReceiptVersionOrder(t *testing.T) {
	running, failed := &event.Receipt{State: event.ProcessingRunning}, &event.Receipt{State: event.ProcessingFailed}
	done := &event.Receipt{State: event.ProcessingDone}
	ascending := []uint64{running.Version(0), failed.Version(1), running.Version(2), running.Version(1 << 40),
		done.Version(1), done.Version(2)}
	if !slices.IsSorted(ascending) || len(slices.Compact(ascending)) != 6 {
		t.Errorf("versions are not in ascending order: %v", ascending)
	}
}
