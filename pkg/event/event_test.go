package event_test

import (
	"bytes"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func newID(t testing.TB) id.ID {
	t.Helper()
	d := must.Get(id.NewGenerator(nil).New(3))(t)
	return d
}

func sample(t testing.TB) *event.Event {
	return &event.Event{
		ID: newID(t), Account: "acc_1", Endpoint: "ep_1", Source: event.SourceProvider, Verdict: event.VerdictObserved,
		Reason: event.SignatureMissing, Type: "order.paid", Method: "POST", Query: "a=1&a=2",
		RemoteIP: netip.MustParseAddr("2001:db8::1"), Dests: []string{"dst_1", "dst_2"}, DuplicateOf: "evt_x",
		IdempotencyKey: "k", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		DeliverAt: time.UnixMilli(1_800_000_000_123).UTC(), ExpiresAt: time.Unix(1_800_000_001, 5).UTC(),
		Header: []event.Field{{Name: "X-A", Value: "1"}, {Name: "Relay-Id", Value: "evt_forged"},
			{Name: "X-A", Value: "\xff2"}},
		Body: []byte("{\"a\":1}\r\n\x00\xfe"),
	}
}

var cmpIP = cmpopts.EquateComparable(netip.Addr{})

func TestEventRecordRoundTrip(t *testing.T) {
	e := sample(t)
	r := e.Record()
	if !r.Timestamp.Equal(e.ReceivedAt()) || string(r.Key) != "ep_1" || !bytes.Equal(r.Value, e.Body) {
		t.Fatalf("record %v", r)
	}
	got := must.Get(event.Decode(r))(t)
	must.Equal(t, cmp.Diff(e, got, cmpIP), "")
}

// The header names are a public interface for Kafka consumers, so the test lists them as literals.
func TestEventRecordHeadersArePublic(t *testing.T) {
	var names []string
	for _, h := range sample(t).Record().Headers {
		names = append(names, h.Key)
	}
	want := "relay-v relay-id relay-account relay-source relay-verdict relay-reason relay-type relay-method " +
		"relay-query relay-remote-ip relay-dests relay-duplicate-of relay-idempotency-key relay-trace " +
		"relay-deliver-at relay-expires-at h:X-A h:Relay-Id h:X-A"
	if got := strings.Join(names, " "); got != want {
		t.Fatalf("headers are\n%s, want\n%s", got, want)
	}
	if hs := (&event.Event{ID: newID(t), Endpoint: "ep_1"}).Record().Headers; len(hs) != 2 {
		t.Fatalf("empty members were written: %v", hs)
	}
}

// A header that a newer version has written survives a retry by this one, once. What a dead letter adds does not.
func TestHeadersOfANewerVersionAreKept(t *testing.T) {
	first := sample(t).Record()
	first.Headers = append(first.Headers, stream.Header{Key: "relay-newer", Value: []byte("x")},
		stream.Header{Key: stream.HeaderDeadRetried, Value: []byte("1")}, stream.Header{Key: "of-a-tool"},
		stream.Header{Key: stream.HeaderOnlyGroup, Value: []byte("store")})
	if e, err := event.Decode(first); err != nil || e.OnlyGroup != "store" {
		t.Errorf("the dead letter is for group %q, %v", e.OnlyGroup, err)
	}
	for range 2 {
		e := must.Get(event.Decode(first))(t)
		work := must.Get((&event.Work{Event: e, Dest: "dst_1", Attempt: 1}).Record())(t)
		kept := 0
		for _, h := range work.Headers {
			if h.Key == "relay-newer" && string(h.Value) == "x" {
				kept++
			}
			if strings.HasPrefix(h.Key, stream.HeaderDead) || h.Key == "of-a-tool" {
				t.Errorf("%s is kept", h.Key)
			}
		}
		is.Equal(t, kept, 1, "the header is there … times")
		first = work
	}
}

func TestDecodeRejectsBrokenRecords(t *testing.T) {
	f := func(name string, spoil func(*stream.Record)) {
		t.Helper()
		r := sample(t).Record()
		spoil(r)
		if _, err := event.Decode(r); err == nil {
			t.Errorf("%s was accepted", name)
		}
		if _, err := event.DecodeHead(r); err == nil {
			t.Errorf("the head of a record with %s was accepted", name)
		}
	}
	f("no key", func(r *stream.Record) { r.Key = nil })
	f("no version", func(r *stream.Record) { r.Headers = r.Headers[1:] })
	f("other version", func(r *stream.Record) { r.Headers[0].Value = []byte("2") })
	f("no id", func(r *stream.Record) { r.Headers[1].Key = "x" })
	f("broken id", func(r *stream.Record) { r.Headers[1].Value = []byte("evt_nope") })
	f("broken address", func(r *stream.Record) { r.Headers[9].Value = []byte("nope") })
}

func TestWorkRoundTrip(t *testing.T) {
	w := &event.Work{
		Event: sample(t), Dest: "dst_2", Trigger: event.TriggerRetry, Attempt: 3,
		Due:      time.UnixMilli(1_800_000_000_123).UTC(),
		Deadline: time.UnixMilli(1_800_000_900_000).UTC(), Run: "run_1", Parked: event.LaneFull,
		ParkedBy: 0xfedcba98, ReportedNextAt: time.UnixMilli(1_800_000_700_000).UTC(), Prior: event.Failed,
		PriorReason: event.Gone410,
		OpenFor:     time.Hour, OpenUntil: time.UnixMilli(1_800_000_800_000).UTC(),
		Trace:     "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
		FilterRev: 7, Filtered: true, Place: event.Place{Slot: math.MaxUint64, Position: 9, Blocks: true}, Behind: "evt_1",
	}
	everyFieldIsSet(t, *w)
	for _, w := range []*event.Work{w, {Event: w.Event, Dest: "dst_2", Attempt: 1}} {
		r := must.Get(w.Record())(t)
		// With the time of the event, its retention would end in the middle of a delivery.
		if !r.Timestamp.IsZero() {
			t.Errorf("the record has the time %v", r.Timestamp)
		}
		r.Headers = append(r.Headers, stream.Header{Key: "of-a-tool", Value: []byte("x")})
		got := must.Get(event.DecodeWork(r))(t)
		must.Equal(t, cmp.Diff(w, got, cmpIP), "")
	}
}

// everyFieldIsSet fails the test if a field of the struct has its zero value: a round trip would not cover it.
func everyFieldIsSet(t *testing.T, of any) {
	t.Helper()
	for field, v := range reflect.ValueOf(of).Fields() {
		if v.IsZero() {
			t.Errorf("%T has no %s", of, field.Name)
		}
	}
}

func TestDecodeRejectsBrokenWorkItems(t *testing.T) {
	f := func(name, header string) {
		t.Helper()
		r := sample(t).Record()
		if header != "" {
			r.Headers = append(r.Headers, stream.Header{Key: "relay-work", Value: []byte(header)})
		}
		if _, err := event.DecodeWork(r); err == nil {
			t.Errorf("a work item with %s was accepted", name)
		}
		if _, err := event.DecodeWorkHead(r); err == nil {
			t.Errorf("the head of a work item with %s was accepted", name)
		}
	}
	f("no header", "")
	f("broken JSON", `{"v":1,"d":"dst_1","a":1`)
	f("a number as text", `{"v":1,"d":"dst_1","a":1,"due":"1"}`)
	f("another version", `{"v":2,"d":"dst_1","a":1}`)
	f("no destination", `{"v":1,"a":1}`)
	f("no attempt", `{"v":1,"d":"dst_1"}`)
}

// A receiver must not take an event that somebody could have sent to the ingest URL for one with a proof.
func TestProof(t *testing.T) {
	for _, c := range []struct {
		source event.Source
		want   event.Proof
	}{
		{event.SourceProvider, event.Proof(event.VerdictObserved)}, {event.SourceAPI, event.SentProof},
		{event.SourceTest, event.SentProof},
	} {
		e := &event.Event{Source: c.source, Verdict: event.VerdictObserved}
		is.Equal(t, e.Proof(), c.want, c.source)
	}
}

func TestWorkWasParked(t *testing.T) {
	for _, c := range []struct {
		work event.Work
		want bool
	}{
		{event.Work{}, false}, {event.Work{Parked: event.LaneFull}, true},
		{event.Work{ReportedNextAt: time.Unix(1_800_000_000, 0)}, true},
	} {
		is.Equal(t, c.work.WasParked(), c.want, "%+v", c.work)
	}
}

// A due time between two milliseconds is rounded up, never down.
func TestWorkIsNeverDueEarlier(t *testing.T) {
	due := time.Unix(1_800_000_000, 123_000_001)
	w := &event.Work{Event: sample(t), Dest: "dst_2", Attempt: 1, Due: due}
	r := must.Get(w.Record())(t)
	got, err := event.DecodeWork(r)
	if err != nil || got.Due.Before(due) || got.Due.Sub(due) >= time.Millisecond {
		t.Fatalf("due %v came back as %v, %v", due, got.Due, err)
	}
}

func TestOutcomeRoundTrip(t *testing.T) {
	o := &event.Outcome{
		Event: newID(t), Account: "acc_1", Endpoint: "ep_1", Dest: "dst_1", Type: "a.b", Status: event.Retrying,
		Reason: event.LaneFull,
		Code:   503, NextAt: time.UnixMilli(1_800_000_000_123).UTC(), At: time.UnixMilli(1_800_000_000_001).UTC(),
		Run: "run_1", SkipReason: event.Purged,
		WasParked: true, Behind: "evt_1",
		Attempt: &event.Attempt{
			ID: newID(t), StartedAt: time.UnixMilli(1_800_000_000_000).UTC(), Trigger: event.TriggerRetry, OK: true, Code: 503,
			ErrorCode: event.CodeHTTPStatus, ErrorMessage: "503 Service Unavailable", Duration: 1500 * time.Microsecond,
			TTFB:       time.Millisecond,
			RetryAfter: 7 * time.Second, RemoteIP: netip.MustParseAddr("192.0.2.1"), URL: "https://example.com/h",
			Method:        "POST",
			RequestHeader: "A: 1\nA: \n", ResponseHeader: "B: 2\n", ResponseBody: []byte("\xff"), Truncated: true,
			TransformationVersion: 3, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
	}
	everyFieldIsSet(t, *o)
	everyFieldIsSet(t, *o.Attempt)
	got, err := event.DecodeOutcome(o.Record())
	must.Do(t, err)
	must.Equal(t, cmp.Diff(o, got, cmpIP), "")
	o.Attempt = nil
	if got, err = event.DecodeOutcome(o.Record()); err != nil || got.Attempt != nil {
		t.Fatalf("%+v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	r := (&event.Work{Event: sample(f), Dest: "dst_1", Attempt: 1}).Event.Record()
	f.Add("relay-id", r.Headers[1].Value, []byte("ep_1"))
	f.Add("relay-work", []byte(`{"v":1,"d":"dst_1","a":1}`), []byte("ep_1"))
	f.Add("h:X", []byte("\xff"), []byte(""))
	f.Fuzz(func(t *testing.T, key string, value, recordKey []byte) {
		r := sample(t).Record()
		r.Key = recordKey
		r.Headers = append(r.Headers, stream.Header{Key: key, Value: value})
		e, err := event.Decode(r)
		if err == nil {
			if again, err := event.Decode(e.Record()); err != nil || again.ID != e.ID || len(again.Header) != len(e.Header) {
				t.Fatalf("a decoded event cannot be encoded and decoded again: %v", err)
			}
		}
		_, _ = event.DecodeWork(r)
	})
}

func FuzzDecodeOutcome(f *testing.F) {
	f.Add(
		(&event.Outcome{Event: newID(f), Endpoint: "ep_1", Dest: "dst_1", Status: event.Failed,
			Attempt: &event.Attempt{RequestHeader: "A: b\n"}}).Record().Value)
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := event.DecodeOutcome(&stream.Record{Key: []byte("ep_1"), Value: value})
		if err != nil {
			return
		}
		if _, err := event.DecodeOutcome(o.Record()); err != nil {
			t.Fatalf("a decoded outcome cannot be encoded and decoded again: %v", err)
		}
	})
}

func BenchmarkOutcome(b *testing.B) {
	o := &event.Outcome{
		Event: newID(b), Account: "acc_1", Endpoint: "ep_1", Dest: "dst_1", Type: "a.b", Status: event.Delivered, Code: 200,
		At: time.Now(),
		Attempt: &event.Attempt{ID: newID(b), StartedAt: time.Now(), Trigger: event.TriggerInitial, OK: true, Code: 200,
			URL: "https://example.com/h", Method: "POST",
			RequestHeader:  event.Lines(strings.Repeat("Relay-Endpoint-Id: ep_01jd0000000000000000000000\n", 14)),
			ResponseHeader: "Content-Length: 0\n", ResponseBody: []byte("ok")},
	}
	b.ReportAllocs()
	for b.Loop() {
		must.Get(event.DecodeOutcome(o.Record()))(b)
	}
}
