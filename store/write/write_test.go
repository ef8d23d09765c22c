package write_test

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

func TestWriteAndRead(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)

	e := b.Event(1, func(e *event.Event) {
		e.RemoteIP = netip.MustParseAddr("192.0.2.7")
		e.Query, e.IdempotencyKey = "a=1&b=%20", "key'1"
		e.Dests = []string{"dst_a", "dst_b"}
		e.Header = []event.Field{
			{Name: "X-A", Value: "1"}, {Name: "X-A", Value: ""}, {Name: "Content-Type", Value: "text/plain; charset=x"},
			{Name: "X-High", Value: "Zo\xeb"}}
		e.Body = []byte("\x00\xff\r\nbody")
	})
	b.ProduceEvents(e)
	d, err := r.Event(t.Context(), storetest.Account, e.ID)
	must.Do(t, err)
	if !d.AsOf.IsZero() {
		t.Fatalf("the fence timed out: as of %v", d.AsOf)
	}
	must.Equal(t, cmp.Diff(e, d.Event, storetest.CompareIPs), "")
	if d.Status != event.Pending || d.Counts != (event.Counts{Total: 2, Pending: 2}) {
		t.Fatalf("%+v", d.Summary)
	}

	o := b.Outcome(e, "dst_a", event.Retrying, func(o *event.Outcome) {
		o.NextAt = o.At.Add(5 * time.Second)
		o.Attempt.ErrorCode, o.Attempt.ErrorMessage = event.CodeHTTPStatus, "500"
		o.Attempt.Duration, o.Attempt.TTFB, o.Attempt.RetryAfter = 120*time.Millisecond, 30*time.Millisecond, 2*time.Second
		o.Attempt.RemoteIP = netip.MustParseAddr("2001:db8::1")
		o.Attempt.RequestHeader = "A: b: c\n"
		o.Attempt.TransformationVersion = 3
		o.Attempt.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		o.Attempt.ResponseHeader = "B: d\n"
		o.Attempt.ResponseBody, o.Attempt.Truncated = []byte("no\xff"), true
	})
	// otherwise the test would not notice a missing column
	for i, v := 0, reflect.ValueOf(*o.Attempt); i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "OK" {
			t.Errorf("the test's attempt has no %s: set it", name)
		}
	}
	b.ProduceOutcomes(o)
	if d, err = r.Event(t.Context(), storetest.Account, e.ID); err != nil {
		t.Fatal(err)
	}
	if d.Status != event.Retrying || d.Summary.Attempts != 1 || !d.NextAttemptAt.Equal(o.NextAt) || len(d.Attempts) != 1 {
		t.Fatalf("%+v", d.Summary)
	}
	want := event.AttemptRow{Attempt: *o.Attempt, Endpoint: o.Endpoint, Destination: "dst_a", Number: 1, NextAt: o.NextAt}
	must.Equal(t, cmp.Diff(want, d.Attempts[0], storetest.CompareIPs), "")

	b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Delivered), b.Outcome(e, "dst_b", event.Delivered))
	page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 10})
	must.Do(t, err)
	if len(page.Rows) != 1 || page.More || !page.AsOf.IsZero() {
		t.Fatalf("%+v", page)
	}
	row := page.Rows[0]
	if row.ID != e.ID || row.Status != event.Delivered || row.Attempts != 3 ||
		row.Counts != (event.Counts{Total: 2, Delivered: 2}) || row.Size != len(e.Body) {
		t.Fatalf("%+v", row)
	}

	receipt := &event.Receipt{Event: e.ID, Account: storetest.Account, Endpoint: e.Endpoint, State: event.ProcessingDone,
		Reference: "r", At: time.UnixMilli(1_800_000_000_000).UTC()}
	late := *receipt
	late.State = event.ProcessingFailed
	receipt.FirstAt = receipt.At
	b.Produce(stream.Receipts, e.ID.Partition(), receipt.Record(), late.Record())
	if d, err = r.Event(t.Context(), storetest.Account, e.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(receipt, d.Receipt); diff != "" || d.Processing != event.ProcessingDone {
		t.Fatal(diff, d.Processing)
	}

	if _, err := r.Event(t.Context(), "acc_2", e.ID); !errors.Is(err, event.ErrNotFound) {
		t.Fatalf("read by another account: %v, want ErrNotFound", err)
	}
	if _, err := r.Event(t.Context(), storetest.Account, b.Event(1).ID); !errors.Is(err, event.ErrNotFound) {
		t.Fatalf("read of an unknown event: %v, want ErrNotFound", err)
	}
}
