// Package event defines the records of the Kafka topics and their codecs, and the types in which the store answers
// reads.
//
// Records: an [Event] as it was accepted (topic events), a [Work] item that asks for one delivery (commands and
// retry.*), an [Outcome] of a delivery (outcomes) and a [Receipt] of the receiver (receipts).
//
// The event record is a public interface that any Kafka consumer can read: the value is the body byte for byte, and
// everything else is a text header. A work item is the same record with one more header, so a retry carries its event
// and needs no look-up. Outcomes and receipts are internal and use the protocol buffers encoding.
//
// Promises: a decoder returns an error for a record that it cannot read and never panics; field numbers and JSON
// members are never reused; [Version] orders the outcomes of a delivery the same way on every node. Begin with event.go
// (Event, Record, Decode), then work.go, outcome.go and status.go; read.go has the types of reads.
package event

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Source says where an event came from.
type Source string

// Sources of events.
const (
	SourceProvider Source = "provider"
	SourceAPI      Source = "api"
	SourceTest     Source = "test"
	// SourceReconcile: the event was fetched from the provider's API, because the provider could not deliver it.
	SourceReconcile Source = "reconcile"
	// Uses of tripwires' ingest URLs; see IsUse. The second one is the use that a test of the tripwire expects.
	SourceTripwire     Source = "tripwire"
	SourceTripwireTest Source = "tripwire_test"
)

// IsUse reports whether a record of the topic events is no event: somebody has used the ingest URL of a tripwire, whose
// id the record has in place of an endpoint's. Its request must not be told from one with an event by time, so it
// makes the same record. The dispatcher makes its hit, and all others skip it.
func (s Source) IsUse() bool { return s == SourceTripwire || s == SourceTripwireTest }

// Verdict is the result of the verification of the provider's signature.
type Verdict string

// Verdicts. Only a rejected event is not delivered. An observed event failed its verification at an endpoint that only
// observes; its Reason says why.
const (
	VerdictVerified   Verdict = "verified"
	VerdictUnverified Verdict = "unverified" // the endpoint asks for no signature, or the event came through the API
	VerdictObserved   Verdict = "observed"
	VerdictRejected   Verdict = "rejected"
)

// Proof tells the receiver how far the origin of an event is proved: the verdict on the provider's request, or that the
// event was sent through this service's API.
type Proof string

// SentProof is the proof of an event that was sent through the API, tests included. An event of a provider has its
// verdict.
const SentProof Proof = "sent"

// Proof returns the proof of the event.
func (e *Event) Proof() Proof {
	if e.Source != SourceProvider && e.Source != SourceReconcile {
		return SentProof
	}
	return Proof(e.Verdict)
}

// Authenticated reports whether the event is known to come from its provider or from a holder of an API key.
func (e *Event) Authenticated() bool {
	return e.Verdict == VerdictVerified || e.Proof() == SentProof
}

// Event is one accepted event. The time inside its id is the time of receipt.
type Event struct {
	ID             id.ID      `header:"relay-id,Event"`
	Account        string     `header:"relay-account"`
	Endpoint       string     // the key of the record
	Source         Source     `header:"relay-source"`
	Verdict        Verdict    `header:"relay-verdict"`
	Reason         Reason     `header:"relay-reason"` // why it was rejected, skipped or only observed; empty otherwise
	Type           string     `header:"relay-type"`   // empty = none
	Method         string     `header:"relay-method"`
	Query          string     `header:"relay-query"` // raw, without the question mark
	RemoteIP       netip.Addr `header:"relay-remote-ip"`
	Dests          []string   `header:"relay-dests"`        // destinations that were enabled when the event was accepted
	DuplicateOf    string     `header:"relay-duplicate-of"` // evt_… of the first event with the same deduplication value
	IdempotencyKey string     `header:"relay-idempotency-key"`
	Trace          string     `header:"relay-trace"`      // traceparent of the span that accepted it; empty: none
	Mismatch       string     `header:"relay-mismatch"`   // a Mismatch as JSON; empty: none was found, or looked for
	DeliverAt      time.Time  `header:"relay-deliver-at"` // automatic deliveries begin then; zero: at once
	ExpiresAt      time.Time  `header:"relay-expires-at"` // no automatic attempt is made from then on; zero: none ends it
	// OnlyGroup is the one consumer group that processes the record, when it was retried from the dead letter topic;
	// empty: every group. Record does not encode it: records made from this one are for every group.
	OnlyGroup string
	Header    []Field // as received: canonical names, order and duplicates kept
	Body      []byte
	// Unknown are headers that a newer version has written. Record writes them again, so that a retry keeps them.
	Unknown []stream.Header
}

// Mismatch says where the data of an event does not match the schema of its type. It may hold names from the payload,
// and is erased with it.
type Mismatch struct {
	Version int      `json:"version"` // of the schema
	Pointer string   `json:"pointer"` // JSON pointer into the data
	Message string   `json:"message"`
	Path    []string `json:"-"` // Pointer in parts; not stored
}

// maxMismatch bounds the text of a mismatch, in bytes: a name in its path may be as long as a body.
const maxMismatch = 2000

// Text returns the mismatch as Event.Mismatch has it; "" for none.
func (m *Mismatch) Text() string {
	if m == nil {
		return ""
	}
	short := *m
	if len(short.Pointer) > maxMismatch {
		short.Pointer = ""
	}
	text, _ := json.Marshal(short) // it holds texts and a number
	return string(text)
}

// MismatchOf returns the mismatch of an event, nil for none.
func (e *Event) MismatchOf() *Mismatch {
	var m Mismatch
	if e.Mismatch == "" || json.Unmarshal([]byte(e.Mismatch), &m) != nil {
		return nil
	}
	return &m
}

// Field is one header line.
type Field struct{ Name, Value string }

// ReceivedAt returns the time inside the id, in whole milliseconds.
func (e *Event) ReceivedAt() time.Time { return e.ID.Time() }

// ContentType returns the value of the first Content-Type line, or "".
func (e *Event) ContentType() string { return e.HeaderValue("Content-Type") }

// HeaderValue returns the value of the first line with that canonical name, or "".
func (e *Event) HeaderValue(canonical string) string {
	for _, f := range e.Header {
		if f.Name == canonical {
			return f.Value
		}
	}
	return ""
}

// Names of the record headers that are no fields. All that are not received ones begin with hOwn.
const (
	hOwn     = "relay-"
	hVersion = "relay-v"
	hWork    = "relay-work"
	hHeader  = "h:"
)

const version = "1"

//go:generate go run -C ../../tools ./records ../pkg/event

// Record encodes the event for the topic events. The body is not copied.
//
// All values share one allocation, and so do all names: an event has about thirty of each, and every event passes here.
func (e *Event) Record() *stream.Record {
	size, names := recordText+len(e.Type)+len(e.Query)+len(e.IdempotencyKey)+len(e.Trace)+len(e.Mismatch)+
		len(e.Dests)*destText, 0
	for _, f := range e.Header {
		size += len(f.Value)
		names += len(hHeader) + len(f.Name)
	}
	h := headerText{text: make([]byte, 0, size), headers: make([]stream.Header, 0, 14+len(e.Header)+len(e.Unknown))}
	h.text = append(h.text, version...)
	h.end(hVersion)
	e.addHeaders(&h)
	var name strings.Builder
	name.Grow(names)
	for _, f := range e.Header {
		from := name.Len()
		name.WriteString(hHeader)
		name.WriteString(f.Name)
		h.text = append(h.text, f.Value...)
		h.headers = append(h.headers, stream.Header{Key: name.String()[from:], Value: h.text[h.from:len(h.text):len(h.text)]})
		h.from = len(h.text)
	}
	h.headers = append(h.headers, e.Unknown...)
	return &stream.Record{Key: []byte(e.Endpoint), Value: e.Body, Headers: h.headers, Timestamp: e.ReceivedAt()}
}

// headerText collects headers whose values share one allocation.
type headerText struct {
	text    []byte
	from    int // where the value that is being written begins
	headers []stream.Header
}

// end ends the value that was appended to text, and adds its header unless it is empty.
func (h *headerText) end(name string) {
	if h.from < len(h.text) {
		h.headers = append(h.headers, stream.Header{Key: name, Value: h.text[h.from:len(h.text):len(h.text)]})
		h.from = len(h.text)
	}
}

// appendTime appends a time, unless it is zero.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return t.UTC().AppendFormat(b, time.RFC3339Nano)
}

// appendList appends texts with commas between them.
func appendList(b []byte, all []string) []byte {
	for i, text := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text...)
	}
	return b
}

// Sizes for the initial capacity of Record's buffer, in bytes; a longer text costs a second allocation.
const (
	recordText = 256                                    // id, account, enum strings, address
	destText   = len("dst_01jd0000000000000000000000,") // one destination
)

// keepUnknown keeps a header of ours that is of no version up to this one.
func (e *Event) keepUnknown(key, value string) {
	if strings.HasPrefix(key, hOwn) && key != hWork && !strings.HasPrefix(key, stream.HeaderDead) {
		e.Unknown = append(e.Unknown, stream.Header{Key: key, Value: []byte(value)})
	}
}

// TraceID returns the id of the trace in a traceparent, or "".
func TraceID(traceparent string) string {
	const begin, end, whole = 3, 35, 55 // version, trace id, span id, flags (W3C Trace Context)
	if len(traceparent) != whole {
		return ""
	}
	return traceparent[begin:end]
}

// RecordID returns the id of an event record as text, without decoding the rest; "" when there is none.
func RecordID(r *stream.Record) string {
	for i := range r.Headers {
		if r.Headers[i].Key == hID {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// Decode reads an event record, or the event inside a work item. The body is shared with the record. After an error the
// record can never be decoded: a retry does not help, and it belongs in the dead letter topic.
func Decode(r *stream.Record) (*Event, error) {
	e := &Event{Endpoint: string(r.Key), Body: r.Value}
	size := 0
	for i := range r.Headers {
		size += len(r.Headers[i].Value)
	}
	var text strings.Builder // all values share one allocation
	text.Grow(size)
	recordVersion := ""
	for i := range r.Headers {
		h := &r.Headers[i]
		start := text.Len()
		text.Write(h.Value)
		v := text.String()[start:]
		if name, ok := strings.CutPrefix(h.Key, hHeader); ok {
			if e.Header == nil {
				e.Header = make([]Field, 0, len(r.Headers)-i)
			}
			e.Header = append(e.Header, Field{name, v})
			continue
		}
		known, err := e.setHeader(h.Key, v)
		switch {
		case known:
		case h.Key == hVersion:
			recordVersion = v
		case h.Key == stream.HeaderOnlyGroup:
			e.OnlyGroup = v
		default:
			e.keepUnknown(h.Key, v)
		}
		if err != nil {
			return nil, fmt.Errorf("decode event header %s: %w", h.Key, err)
		}
	}
	switch {
	case recordVersion != version:
		return nil, fmt.Errorf("decode event: version %q, want %s", recordVersion, version)
	case e.ID.IsZero():
		return nil, fmt.Errorf("decode event: header %s is missing", hID)
	case e.Endpoint == "":
		return nil, fmt.Errorf("decode event: record without a key")
	}
	return e, nil
}

// Lines are header lines as one text, "Name: value\n" each. They are recorded, stored and searched in this form; only
// the API splits them.
type Lines string

// LinesOf writes fields as lines. A line break in a value, which HTTP does not allow, becomes a space (RFC 9110, 5.5).
func LinesOf(fields []Field) Lines {
	size := 0
	for _, f := range fields {
		size += len(f.Name) + len(": \n") + len(f.Value)
	}
	var b strings.Builder
	b.Grow(size)
	for _, f := range fields {
		b.WriteString(f.Name)
		b.WriteString(": ")
		if strings.IndexByte(f.Value, '\n') < 0 && strings.IndexByte(f.Value, '\r') < 0 {
			b.WriteString(f.Value)
		} else {
			b.WriteString(strings.NewReplacer("\r", " ", "\n", " ").Replace(f.Value))
		}
		b.WriteByte('\n')
	}
	return Lines(b.String())
}

// Value returns the value of the first line with that name, spelled as here; empty without one.
func (l Lines) Value(name string) string {
	text := "\n" + string(l)
	if _, rest, ok := strings.Cut(text, "\n"+name+": "); ok {
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	return ""
}

// Fields splits the lines into names and values.
func (l Lines) Fields() []Field {
	fields := make([]Field, 0, strings.Count(string(l), "\n"))
	for line := range strings.SplitSeq(strings.TrimSuffix(string(l), "\n"), "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}
