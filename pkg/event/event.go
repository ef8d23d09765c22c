// Package event holds what flows through the topics: the event as it was accepted, the work items
// that ask for a delivery, and the outcomes of deliveries, each with its codec.
//
// The event record is a public interface that any Kafka consumer can read: the value is the body byte
// for byte, everything else is a text header. Work items are the same record with one header more,
// so that a retry carries its event along and needs no look-up. Outcomes are internal and versioned.
package event

import (
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
)

// Verdict says what the verification of the provider's signature came to.
type Verdict string

// Verdicts. Only a rejected event is never delivered; an observed one failed its verification on an
// endpoint that only watches, and carries the reason.
const (
	VerdictVerified   Verdict = "verified"
	VerdictUnverified Verdict = "unverified" // the endpoint asks for no signature, or the event came through the API
	VerdictObserved   Verdict = "observed"
	VerdictRejected   Verdict = "rejected"
)

// Proof says what a receiver may believe of an event: what the verification of its request came to, or that our own
// API made it.
type Proof string

// SentProof is the proof of an event of the API, tests included. Those of the others are their verdicts.
const SentProof Proof = "sent"

// Proof of the event.
func (e *Event) Proof() Proof {
	if e.Source != SourceProvider {
		return SentProof
	}
	return Proof(e.Verdict)
}

// Event is one accepted event. Its time of receipt is the time of its id.
type Event struct {
	ID             id.ID
	Account        string
	Endpoint       string
	Source         Source
	Verdict        Verdict
	Reason         Reason // why it was rejected, skipped or only observed; empty otherwise
	Type           string // empty = none
	Method         string
	Query          string // raw, without the question mark
	RemoteIP       netip.Addr
	Dests          []string // destinations enabled at accept
	DuplicateOf    string   // evt_… of the first one
	IdempotencyKey string
	// Only is the one group that the record is for, when it was put back for a group that could not read it; empty
	// for all. It is not encoded: what follows from the record is for everybody.
	OnlyGroup string
	Header    []Field // as received: canonical names, order and duplicates kept
	Body      []byte
}

// Field is one header line.
type Field struct{ Name, Value string }

// ReceivedAt is the time of the id, in milliseconds.
func (e *Event) ReceivedAt() time.Time { return e.ID.Time() }

// ContentType is the first Content-Type line, or empty.
func (e *Event) ContentType() string { return e.HeaderValue("Content-Type") }

// HeaderValue is the first line with that canonical name, or empty.
func (e *Event) HeaderValue(canonical string) string {
	for _, f := range e.Header {
		if f.Name == canonical {
			return f.Value
		}
	}
	return ""
}

// Names of the record headers.
const (
	hVersion     = "relay-v"
	hID          = "relay-id"
	hAccount     = "relay-account"
	hSource      = "relay-source"
	hVerdict     = "relay-verdict"
	hReason      = "relay-reason"
	hType        = "relay-type"
	hMethod      = "relay-method"
	hQuery       = "relay-query"
	hRemoteIP    = "relay-remote-ip"
	hDests       = "relay-dests"
	hDuplicateOf = "relay-duplicate-of"
	hIdempotency = "relay-idempotency-key"
	hWork        = "relay-work"
	hHeader      = "h:"
)

const version = "1"

// Record encodes the event for the topic events. The body is not copied.
//
// All values share one piece of memory, and so do the names: there are some thirty of each, and this is on
// the path of every event.
func (e *Event) Record() *stream.Record {
	headers := make([]stream.Header, 0, 13+len(e.Header))
	size, names := recordText+len(e.Type)+len(e.Query)+len(e.IdempotencyKey)+len(e.Dests)*destText, 0
	for _, f := range e.Header {
		size += len(f.Value)
		names += len(hHeader) + len(f.Name)
	}
	text := make([]byte, 0, size)
	end := func(key string, start int) { // everything appended since start is the value
		if start < len(text) {
			headers = append(headers, stream.Header{Key: key, Value: text[start:len(text):len(text)]})
		}
	}
	add := func(key, value string) {
		start := len(text)
		text = append(text, value...)
		end(key, start)
	}
	add(hVersion, version)
	start := len(text)
	text = e.ID.Append(append(text, id.Event...))
	end(hID, start)
	add(hAccount, e.Account)
	add(hSource, string(e.Source))
	add(hVerdict, string(e.Verdict))
	add(hReason, string(e.Reason))
	add(hType, e.Type)
	add(hMethod, e.Method)
	add(hQuery, e.Query)
	start = len(text)
	text = e.RemoteIP.AppendTo(text)
	end(hRemoteIP, start)
	start = len(text)
	for i, dest := range e.Dests {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, dest...)
	}
	end(hDests, start)
	add(hDuplicateOf, e.DuplicateOf)
	add(hIdempotency, e.IdempotencyKey)
	var name strings.Builder
	name.Grow(names)
	for _, f := range e.Header {
		from := name.Len()
		name.WriteString(hHeader)
		name.WriteString(f.Name)
		start := len(text)
		text = append(text, f.Value...)
		headers = append(headers, stream.Header{Key: name.String()[from:], Value: text[start:len(text):len(text)]})
	}
	return &stream.Record{Key: []byte(e.Endpoint), Value: e.Body, Headers: headers, Timestamp: e.ReceivedAt()}
}

// Sizes that make the memory of Record right at once; a longer text costs a second piece.
const (
	recordText = 256                                    // id, account, words, address
	destText   = len("dst_01jd0000000000000000000000,") // one destination
)

// RecordID is the id that an event record carries, as text, without the cost of decoding the rest.
func RecordID(r *stream.Record) string {
	for i := range r.Headers {
		if r.Headers[i].Key == hID {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// Decode reads an event record, or the event inside a work item. The body is shared with the record.
// An error means that the record is poison: no retry can mend it.
func Decode(r *stream.Record) (*Event, error) {
	e := &Event{Endpoint: string(r.Key), Body: r.Value}
	size := 0
	for i := range r.Headers {
		size += len(r.Headers[i].Value)
	}
	var text strings.Builder // all values share one piece of memory
	text.Grow(size)
	seen := ""
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
		var err error
		switch h.Key {
		case hVersion:
			seen = v
		case hID:
			e.ID, err = id.Parse(id.Event, v)
		case hAccount:
			e.Account = v
		case hSource:
			e.Source = Source(v)
		case hVerdict:
			e.Verdict = Verdict(v)
		case hReason:
			e.Reason = Reason(v)
		case hType:
			e.Type = v
		case hMethod:
			e.Method = v
		case hQuery:
			e.Query = v
		case hRemoteIP:
			e.RemoteIP, err = netip.ParseAddr(v)
		case hDests:
			e.Dests = strings.Split(v, ",")
		case hDuplicateOf:
			e.DuplicateOf = v
		case hIdempotency:
			e.IdempotencyKey = v
		case stream.HeaderOnlyGroup:
			e.OnlyGroup = v
		}
		if err != nil {
			return nil, fmt.Errorf("decode event header %s: %w", h.Key, err)
		}
	}
	switch {
	case seen != version:
		return nil, fmt.Errorf("decode event: version %q, want %s", seen, version)
	case e.ID.IsZero():
		return nil, fmt.Errorf("decode event: header %s is missing", hID)
	case e.Endpoint == "":
		return nil, fmt.Errorf("decode event: record without a key")
	}
	return e, nil
}
