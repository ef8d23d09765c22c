// Package released has no code: its tests read what earlier releases have written to the topics of the log. The files
// are beside them, one directory for each release; tools/release/freeze.sh writes them.
package released

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

const recordsFile = "records.json"

// format is what one kind of record looks like.
type format struct {
	// sample has every member, so that all of them are frozen.
	sample any
	encode func(any) (*stream.Record, error)
	decode func(*stream.Record) (any, error)
}

// record is a stream.Record in the file.
type record struct {
	Key     string
	Headers [][2]string `json:",omitempty"`
	Text    string      `json:",omitempty"` // the value, when it is JSON
	Value   []byte      `json:",omitempty"` // the value, when it is not
}

func (r record) record() *stream.Record {
	out := &stream.Record{Key: []byte(r.Key), Value: r.Value}
	if r.Text != "" {
		out.Value = []byte(r.Text)
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, stream.Header{Key: h[0], Value: []byte(h[1])})
	}
	return out
}

func fileRecord(r *stream.Record) record {
	out := record{Key: string(r.Key)}
	if json.Valid(r.Value) {
		out.Text = string(r.Value)
	} else {
		out.Value = r.Value
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, [2]string{h.Key, string(h.Value)})
	}
	return out
}

var (
	at      = time.Date(2026, 11, 23, 10, 20, 30, 456_000_000, time.UTC)
	eventID = id.Lowest(at)
	address = netip.MustParseAddr("203.0.113.7")
	hash    = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

const (
	account     = "acc_0001"
	endpoint    = "ep_0001"
	destination = "dst_0001"
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

var run = eventID.Text(id.Run)

func sampleEvent() *event.Event {
	return &event.Event{
		ID: eventID, Account: account, Endpoint: endpoint, Source: event.SourceProvider, Verdict: event.VerdictObserved,
		Reason: event.SignatureMismatch, Type: "order.paid", Method: "POST", Query: "a=1", RemoteIP: address,
		Dests: []string{destination, "dst_0002"}, DuplicateOf: eventID.Text(id.Event), IdempotencyKey: "order-7",
		Trace: traceparent, Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
		Body: []byte(`{"type":"order.paid"}`), Mismatch: `{"pointer":"/id"}`, DeliverAt: at, ExpiresAt: at.Add(time.Hour),
	}
}

var samples = map[string]format{
	"event": {
		sampleEvent(),
		func(v any) (*stream.Record, error) { return v.(*event.Event).Record(), nil },
		func(r *stream.Record) (any, error) {
			e, err := event.Decode(r)
			if err == nil && len(e.Unknown) > 0 {
				err = fmt.Errorf("header %s is unknown", e.Unknown[0].Key)
			}
			return e, err
		},
	},
	"work": {
		&event.Work{
			Event: sampleEvent(), Dest: destination, Trigger: event.TriggerReplay, Attempt: 3, Due: at,
			Deadline: at.Add(time.Hour), Run: run,
			Parked: event.LaneFull, ParkedBy: 7, ReportedNextAt: at.Add(time.Minute), Prior: event.Failed,
			PriorReason: event.Filtered, FilterRev: 9, Filtered: true, Trace: traceparent,
			Place: event.Place{Slot: 3, Position: 8, Blocks: true}, Behind: eventID.Text(id.Event),
			OpenFor: time.Hour, OpenUntil: at.Add(time.Hour),
		},
		func(v any) (*stream.Record, error) { return v.(*event.Work).Record() },
		func(r *stream.Record) (any, error) { return event.DecodeWork(r) },
	},
	"outcome": {
		&event.Outcome{
			Event: eventID, Account: account, Endpoint: endpoint, Dest: destination, Type: "order.paid", Status: event.Failed,
			Reason: event.Superseded, Code: 503, NextAt: at.Add(time.Minute), At: at, Run: run,
			SkipReason: event.DestinationDisabled, WasParked: true, Behind: eventID.Text(id.Event), Attempt: &event.Attempt{
				ID: eventID, StartedAt: at, Trigger: event.TriggerRetry, OK: true, Code: 503, ErrorCode: event.CodeTimeout,
				ErrorMessage: "no answer", Duration: time.Second, TTFB: time.Millisecond, RetryAfter: time.Minute,
				RemoteIP: address, URL: "https://app.example.com/hooks", Method: "POST",
				RequestHeader: "Webhook-Id: msg_1\n", ResponseHeader: "Retry-After: 60\n", ResponseBody: []byte("busy"),
				Truncated: true, TransformationVersion: 2, Trace: traceparent,
			},
		},
		func(v any) (*stream.Record, error) { return v.(*event.Outcome).Record(), nil },
		func(r *stream.Record) (any, error) { return event.DecodeOutcome(r) },
	},
	"receipt": {
		&event.Receipt{
			Event: eventID, Account: account, Endpoint: endpoint, State: event.ProcessingDone, Reference: "invoice 7",
			Details: `{"total":1}`, At: at,
		},
		func(v any) (*stream.Record, error) { return v.(*event.Receipt).Record(), nil },
		func(r *stream.Record) (any, error) { return event.DecodeReceipt(r) },
	},
	"audit": {
		&audit.Entry{
			ID: eventID, Account: account, At: at, Actor: audit.Actor{Type: audit.ByKey, ID: "key_0001", Name: "ci"},
			Action: audit.KeyUsed, EntityType: "key", Entity: "key_0001", Changes: []string{"name"}, Related: "act_0001",
			RequestID: "req_0001", RemoteIP: address, Node: "a", Count: 7, LastAt: at,
		},
		func(v any) (*stream.Record, error) { return v.(*audit.Entry).Record() },
		func(r *stream.Record) (any, error) { return audit.Decode(r) },
	},
	"hit": {
		&finding.Hit{
			Account: account, Finding: eventID.Text(finding.Prefix), ID: hash, Day: "2026-11-23", At: at,
			ObservedAt: at.Add(-time.Second), N: 2, Kind: finding.Secret, Rule: "stripe-secret-live", RuleName: "own",
			Source: finding.Sources[0], Channel: "body", Sender: "drn_0001", Severity: finding.High, Unverified: true,
			Test: true, Billed: true, Masked: "sk_live_…abcd", Fingerprint: "fpr_0001", Location: finding.Location{
				Source: finding.Sources[0], Label: "app", File: "main.go", Line: 7, Function: "main",
				URL: "https://www.example.com/a", Pointer: "/data/key", DrainID: "drn_0001", DSNID: "dsn_0001",
				EndpointID: endpoint, EventID: eventID.Text(id.Event), ScanID: "scn_0001", TripwireID: "trw_0001",
			},
			LocationHash: hash, Environment: "production", Release: "1.2.3", Method: "GET", Agent: "curl", KeyID: "key_0001",
			RemoteIP: address,
		},
		func(v any) (*stream.Record, error) {
			return &stream.Record{Key: []byte(eventID.Text(finding.Prefix)), Value: v.(*finding.Hit).Encode()}, nil
		},
		func(r *stream.Record) (any, error) { return finding.Decode(r.Value) },
	},
	"counts": {
		&finding.Counts{
			Account: account, Sender: "drn_0001", Minute: at.Truncate(time.Minute), Node: "a", Boot: hash, Version: 3,
			Requests: 1, Lines: 2, Bytes: 3, Hits: 4, Rejected: 5, LastAt: at, Platform: "vercel", LastError: "too_large",
		},
		func(v any) (*stream.Record, error) {
			return &stream.Record{Key: []byte("drn_0001"), Value: v.(*finding.Counts).Encode()}, nil
		},
		func(r *stream.Record) (any, error) { return finding.DecodeCounts(r.Value) },
	},
}

// notRecorded are the fields that the records do not have: a retried record gets its group from another header, unknown
// headers are those of a newer version, and reads compute when the first receipt came.
var notRecorded = []string{"Event.OnlyGroup", "Event.Unknown", "Receipt.FirstAt"}

// TestReleasedSamplesAreComplete: what is frozen at the next release has every field.
func TestReleasedSamplesAreComplete(t *testing.T) {
	for name, f := range samples {
		for _, empty := range emptyFields(reflect.ValueOf(f.sample).Elem()) {
			if !slices.Contains(notRecorded, empty) {
				t.Errorf("the sample of %s has no %s: it would not be frozen", name, empty)
			}
		}
		r := must.Get(f.encode(f.sample))(t)
		for _, problem := range f.problems(fileRecord(r)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

func emptyFields(v reflect.Value) (empty []string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type().PkgPath() == "time" || v.Type().PkgPath() == "net/netip" {
		return nil
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		if v.Field(i).IsZero() {
			empty = append(empty, v.Type().Name()+"."+field.Name)
			continue
		}
		empty = append(empty, emptyFields(v.Field(i))...)
	}
	return empty
}

// TestReleasedRecordsAreRead: a record that an earlier release has written is decoded, and encoded again it says all
// that it said. So a node takes over the log of the version before it.
func TestReleasedRecordsAreRead(t *testing.T) {
	kit.Freeze(t, recordsFile, func() []byte {
		all := map[string]record{}
		for name, f := range samples {
			r := must.Get(f.encode(f.sample))(t)
			all[name] = fileRecord(r)
		}
		text := must.Get(json.MarshalIndent(all, "", "  "))(t)
		return append(text, '\n')
	})
	for version, text := range kit.Released(t, recordsFile) {
		var all map[string]record
		must.Do(t, json.Unmarshal(text, &all))
		for name, r := range all {
			for _, problem := range samples[name].problems(r) {
				t.Errorf("%s of %s: %s", name, version, problem)
			}
		}
	}
}

// problems returns what this version does not read of a record.
func (f format) problems(r record) []string {
	if f.decode == nil {
		return []string{"there is no such record any more"}
	}
	decoded, err := f.decode(r.record())
	if err != nil {
		return []string{err.Error()}
	}
	again, err := f.encode(decoded)
	if err != nil {
		return []string{err.Error()}
	}
	return missing(r, fileRecord(again))
}

// missing returns what a record has no more. More members and headers are none of it.
func missing(before, after record) (lost []string) {
	if before.Key != after.Key {
		lost = append(lost, "the key is "+after.Key)
	}
	now := map[string]string{}
	for _, h := range after.Headers {
		now[h[0]] = h[1]
	}
	for _, h := range before.Headers {
		switch value, there := now[h[0]]; {
		case !there:
			lost = append(lost, "header "+h[0]+" is gone")
		case strings.HasPrefix(h[1], "{"):
			lost = append(lost, kit.MissingMembers([]byte(h[1]), []byte(value))...)
		case value != h[1]:
			lost = append(lost, "header "+h[0]+" is "+value)
		}
	}
	if before.Text != "" {
		return append(lost, kit.MissingMembers([]byte(before.Text), []byte(after.Text))...)
	}
	if !bytes.Equal(before.Value, after.Value) {
		lost = append(lost, fmt.Sprintf("the value was %x and is %x", before.Value, after.Value))
	}
	return lost
}

// TestReleasedMembersAreMissed: the comparison finds a member that this version has no more, and accepts one that it
// has in addition. A release that had one more member looks to this version as if it had removed it.
func TestReleasedMembersAreMissed(t *testing.T) {
	encoded := func(name string) record {
		r := must.Get(samples[name].encode(samples[name].sample))(t)
		return fileRecord(r)
	}
	const madeUp = `{"made_up":1,`
	ev, work, outcome, hit := encoded("event"), encoded("work"), encoded("outcome"), encoded("hit")
	ev.Headers = append(ev.Headers, [2]string{"relay-made-up", "1"})
	last := &work.Headers[len(work.Headers)-1]
	last[1] = madeUp + last[1][1:]
	outcome.Value = append(outcome.Value, 0x80, 0x7d, 1) // field 2000, a varint
	hit.Text = madeUp + hit.Text[1:]
	for name, r := range map[string]record{"event": ev, "work": work, "outcome": outcome, "hit": hit} {
		if len(samples[name].problems(r)) == 0 {
			t.Errorf("a member of %s that this version does not know is not missed", name)
		}
		if name == "event" { // the event's decoder reports it, because it keeps unknown headers
			continue
		}
		if _, err := samples[name].decode(r.record()); err != nil {
			t.Errorf("%s with an unknown member cannot be read: %v", name, err)
		}
		if lost := missing(encoded(name), r); name != "outcome" && len(lost) > 0 {
			t.Errorf("an additional member of %s counts as missing: %v", name, lost)
		}
	}
}

// TestReleasedHeadersOfDeadLetters: names of headers that operators and relay dead read.
func TestReleasedHeadersOfDeadLetters(t *testing.T) {
	letter := func() []byte {
		r := stream.Config{Prefix: "relay."}.DeadLetterRecord(&stream.Record{
			Topic: "relay.events", Partition: 3, Offset: 7, Key: []byte(endpoint), Value: []byte("body"),
		}, stream.StoreGroup, errors.New("cannot decode"))
		var b bytes.Buffer
		for _, h := range r.Headers {
			fmt.Fprintf(&b, "%s: %s\n", h.Key, h.Value)
		}
		gaps, _ := stream.EncodeGaps(100, []stream.Gap{{From: 103, To: 120}, {From: 4000, To: 9000}})
		fmt.Fprintf(&b, "metadata of a commit: %s\n", gaps)
		return b.Bytes()
	}
	kit.Freeze(t, "headers.txt", letter)
	for version, text := range kit.Released(t, "headers.txt") {
		for _, line := range kit.MissingLines(text, letter()) {
			t.Errorf("%s: %s", version, line)
		}
	}
}
