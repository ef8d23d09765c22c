package event_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

func TestReceiptRoundTrip(t *testing.T) {
	r := &event.Receipt{
		Event: newID(t), Account: "acc_1", Endpoint: "ep_1", State: event.ProcessingDone, Reference: "inv-7",
		Details: `{"a":1}`,
		At:      time.UnixMilli(1_800_000_000_001).UTC(),
	}
	got, err := event.DecodeReceipt(r.Record())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, got); d != "" {
		t.Fatal(d)
	}
	if _, err := event.DecodeReceipt(&stream.Record{Key: []byte("ep_1"), Value: []byte{0xff}}); err == nil {
		t.Fatal("broken bytes were decoded as a receipt")
	}
}
