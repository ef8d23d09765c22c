package event_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func destsOf(h event.Head) (dests []string) {
	h.EachDest(func(d []byte) { dests = append(dests, string(d)) })
	return dests
}

func TestDecodeHead(t *testing.T) {
	f := func(name string, delivers bool, change func(*event.Event)) {
		t.Helper()
		e := sample(t)
		e.DuplicateOf = ""
		change(e)
		h := must.Get(event.DecodeHead(e.Record()))(t)
		if h.ID != e.ID || h.Delivers() != delivers {
			t.Errorf("%s: %+v", name, h)
		}
		if delivers && !slices.Equal(destsOf(h), e.Dests) {
			t.Errorf("%s: destinations %v, want %v", name, destsOf(h), e.Dests)
		}
	}
	for _, source := range []event.Source{event.SourceAPI, event.SourceTripwire, event.SourceTripwireTest} {
		e := sample(t)
		e.Source = source
		h, err := event.DecodeHead(e.Record())
		if use := source != event.SourceAPI; err != nil || h.Use != use || source.IsUse() != use {
			t.Errorf("%s: %+v, %v", source, h, err)
		}
	}
	f("two destinations", true, func(*event.Event) {})
	f("one destination", true, func(e *event.Event) { e.Dests = e.Dests[:1] })
	f("no destination", false, func(e *event.Event) { e.Dests = nil })
	f("duplicate", false, func(e *event.Event) { e.DuplicateOf = "evt_x" })
	f("rejected", false, func(e *event.Event) { e.Verdict = event.VerdictRejected })
}

// The ledger decodes heads and the dispatcher whole records: both have to agree on which records are undecodable.
func FuzzHeadsAgreeWithFullDecoders(f *testing.F) {
	f.Add("relay-id", []byte("evt_nope"), []byte("ep_1"))
	f.Add("relay-v", []byte("2"), []byte("ep_1"))
	f.Add("relay-remote-ip", []byte("nope"), []byte("ep_1"))
	f.Add("relay-verdict", []byte("rejected"), []byte("ep_1"))
	f.Add("relay-duplicate-of", []byte("x"), []byte("ep_1"))
	f.Add("relay-dests", []byte("a,,b"), []byte("ep_1"))
	f.Add("relay-work", []byte(`{"v":1,"d":"dst_1","a":1,"run":"run_1"}`), []byte("ep_1"))
	f.Add("relay-work", []byte(`{"v":1,"d":"dst_1","a":1,"due":1800000000123}`), []byte("ep_1"))
	f.Add("relay-work", []byte(`{"v":1,"d":"dst_1","a":1}`), []byte(""))
	f.Add("relay-work", []byte(`{"v":2,"d":"dst_1","a":1}`), []byte("ep_1"))
	f.Add("x", []byte(""), []byte(""))
	f.Fuzz(func(t *testing.T, key string, value, recordKey []byte) {
		r := sample(t).Record()
		r.Key = recordKey
		r.Headers = append(r.Headers, stream.Header{Key: key, Value: value})
		e, err := event.Decode(r)
		h, herr := event.DecodeHead(r)
		must.Equal(t, err == nil, herr == nil, "Decode says %v, DecodeHead %v", err, herr)
		if err == nil && (h.ID != e.ID || h.Use != e.Source.IsUse() || h.Duplicate != (e.DuplicateOf != "") ||
			(h.Verdict == event.VerdictRejected) != (e.Verdict == event.VerdictRejected)) {
			t.Fatalf("Decode says %+v, DecodeHead %+v", e, h)
		}
		w, err := event.DecodeWork(r)
		c, cerr := event.DecodeWorkHead(r)
		must.Equal(t, err == nil, cerr == nil, "DecodeWork says %v, DecodeWorkHead %v", err, cerr)
		if err == nil && c != (event.WorkHead{Event: w.Event.ID, Dest: w.Dest, Run: w.Run, Due: w.Due}) {
			t.Fatalf("DecodeWork says %+v, DecodeWorkHead %+v", w, c)
		}
	})
}

func TestDecodeOutcomeHead(t *testing.T) {
	o := &event.Outcome{
		Event: newID(t), Account: "acc_1", Endpoint: "ep_1", Dest: "dst_1", Status: event.Held, Reason: event.BreakerOpen,
		NextAt: time.UnixMilli(1_800_000_000_123).UTC(), At: time.UnixMilli(1_800_000_000_001).UTC(),
		Run: newID(t).Text(id.Run), Behind: newID(t).Text(id.Event),
		Attempt: &event.Attempt{ID: newID(t), OK: true, Trigger: event.TriggerReplay, ResponseBody: []byte("ok")},
	}
	f := func() {
		t.Helper()
		w := must.Get(event.DecodeOutcomeHead(o.Record()))(t)
		want := event.OutcomeHead{Event: o.Event, Dest: []byte(o.Dest), Status: o.Status, NextAt: o.NextAt, At: o.At,
			AttemptHead: event.AttemptHead{OK: o.Attempt != nil}, Behind: []byte(o.Behind)}
		if o.Run != "" {
			want.Run = []byte(o.Run)
		}
		if o.Reason != "" {
			want.Reason = []byte(o.Reason)
		}
		if o.Attempt != nil {
			want.Attempt, want.Trigger = o.Attempt.ID, o.Attempt.Trigger
		}
		is.Same(t, w, want)
		headVersion := must.Get(w.Version(7))(t)
		if version, err := o.Version(7); err != nil || headVersion != version {
			t.Errorf("version %v of the head, %v of the outcome, %v", headVersion, version, err)
		}
	}
	f()
	o.Attempt, o.Status, o.Reason, o.Run = nil, event.Delivered, "", ""
	f()
}

// Neither the ledger nor the store may take a broken outcome for the state of a delivery.
func TestDecodeRejectsBrokenOutcomes(t *testing.T) {
	const fieldEvent, fieldDest, fieldAttempt, fieldAttemptID, unknown = 1, 3, 11, 1, 99
	decode := func(change func(*event.Outcome), spoil func(*stream.Record)) (full, head error) {
		o := &event.Outcome{Event: newID(t), Endpoint: "ep_1", Dest: "dst_1", Status: event.Delivered, WasParked: true}
		change(o)
		r := o.Record()
		spoil(r)
		_, full = event.DecodeOutcome(r)
		_, head = event.DecodeOutcomeHead(r)
		return full, head
	}
	complete, intact := func(*event.Outcome) {}, func(*stream.Record) {}
	add := func(b ...byte) func(*stream.Record) {
		return func(r *stream.Record) { r.Value = append(r.Value, b...) }
	}
	bytesField := func(num protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	for name, c := range map[string]struct {
		change func(*event.Outcome)
		spoil  func(*stream.Record)
	}{
		"no key":              {complete, func(r *stream.Record) { r.Key = nil }},
		"no event":            {func(o *event.Outcome) { o.Event = id.ID{} }, intact},
		"no destination":      {func(o *event.Outcome) { o.Dest = "" }, intact},
		"no status":           {func(o *event.Outcome) { o.Status = "" }, intact},
		"a cut value":         {complete, func(r *stream.Record) { r.Value = r.Value[:20] }},
		"no last byte":        {complete, func(r *stream.Record) { r.Value = r.Value[:len(r.Value)-1] }},
		"half a tag":          {complete, add(0xff)},
		"a short id":          {complete, add(bytesField(fieldEvent, []byte("short"))...)},
		"a broken attempt":    {complete, add(bytesField(fieldAttempt, []byte{0xff})...)},
		"a short attempt id":  {complete, add(bytesField(fieldAttempt, bytesField(fieldAttemptID, []byte("x")))...)},
		"half a fixed number": {complete, add(protowire.AppendTag(nil, unknown, protowire.Fixed32Type)...)},
	} {
		if full, head := decode(c.change, c.spoil); full == nil || head == nil {
			t.Errorf("an outcome with %s was accepted: %v, its head: %v", name, full, head)
		}
	}
	other := protowire.AppendFixed32(protowire.AppendTag(nil, fieldDest, protowire.Fixed32Type), 7)
	if full, head := decode(complete, add(other...)); full != nil || head != nil {
		t.Errorf("a field of another type is not skipped: %v, %v", full, head)
	}
}

// Heads are read of every record in the log, so decoding them must hardly allocate.
func TestDecodingHeadsHardlyAllocates(t *testing.T) {
	e := sample(t).Record()
	o := (&event.Outcome{Event: newID(t), Endpoint: "ep_1", Dest: "dst_1", Status: event.Delivered, At: time.Now(),
		Attempt: &event.Attempt{ID: newID(t), OK: true}}).Record()
	if n := testing.AllocsPerRun(100, func() { _, _ = event.DecodeHead(e) }); n > 1 {
		t.Errorf("DecodeHead allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		w, _ := event.DecodeOutcomeHead(o)
		_, _ = w.Version(1)
	}); n > 0 {
		t.Errorf("DecodeOutcomeHead allocates %v times", n)
	}
}

// Within a run open states come before final ones and these before delivered; equal ranks are ordered by offset. A
// later run is above an earlier one.
func TestVersionOrder(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	run := id.Lowest(at.Add(time.Hour)).Text(id.Run)
	version := func(run string, status event.Status, at time.Time, offset int64) event.Version {
		t.Helper()
		v := must.Get((&event.Outcome{Run: run, Status: status, At: at}).Version(offset))(t)
		return v
	}
	queued := must.Get(event.QueuedVersion(run))(t)
	ascending := []event.Version{
		{},
		version("", event.Pending, at, 0),
		version("", event.Retrying, at, 9),
		version("", event.Failed, at, 1),
		version("", event.Skipped, at, 2),
		version("", event.Delivered, at, 1),
		version("", event.Delivered, at, 8),
		queued,
		version(run, event.Held, at, 0),
		version(run, event.Failed, at, 3),
		version(run, event.Delivered, at, 0),
		version("", event.Delivered, at.Add(2*time.Hour), 4),
		version(run, event.Delivered, at.Add(3*time.Hour), 2),
	}
	for i := range ascending[1:] {
		a, b := ascending[i], ascending[i+1]
		if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 || a.Big().Cmp(b.Big()) >= 0 {
			t.Errorf("version %d, %v, is not below the next, %v", i, a, b)
		}
		is.Equal(t, event.VersionOf(b.Big()), b, "version %v comes back from the store as", b)
	}
	if _, err := event.QueuedVersion("nope"); err == nil {
		t.Error("a run without an id has a version")
	}
}

// BenchmarkDecode measures what readers save that need the head of a record only: alerts and the ledger.
func BenchmarkDecode(b *testing.B) {
	e := sample(b).Record()
	o := (&event.Outcome{
		Event: newID(b), Account: "acc_1", Endpoint: "ep_1", Dest: "dst_1", Type: "a.b", Status: event.Delivered, Code: 200,
		At: time.Now(), Attempt: &event.Attempt{ID: newID(b), StartedAt: time.Now(), Trigger: event.TriggerInitial,
			OK: true, Code: 200, URL: "https://example.com/h", Method: "POST", ResponseBody: make([]byte, 500),
			RequestHeader: event.Lines(make([]byte, 600))},
	}).Record()
	for _, c := range []struct {
		name   string
		decode func() error
	}{
		{"event", func() error { _, err := event.Decode(e); return err }},
		{"event head", func() error { _, err := event.DecodeHead(e); return err }},
		{"outcome", func() error { _, err := event.DecodeOutcome(o); return err }},
		{"outcome head", func() error { _, err := event.DecodeOutcomeHead(o); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, c.decode())
			}
		})
	}
}
