package event

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Head is the part of an event record that names the deliveries it asks for. DecodeHead costs a fraction of Decode: one
// allocation, for the sender's address. It returns an error for the same records as Decode.
type Head struct {
	ID        id.ID
	Verdict   Verdict // VerdictRejected or empty: DecodeHead drops the other verdicts
	Duplicate bool
	Use       bool   // no event, see Source.IsUse
	dests     []byte // of the record
}

// Delivers reports whether the event asks for any delivery. A rejected event, a duplicate and an event without a
// destination need none: their record is their final state.
func (h *Head) Delivers() bool {
	return h.Verdict != VerdictRejected && !h.Duplicate && len(h.dests) > 0
}

// EachDest calls f with each destination; the bytes share the record's memory.
func (h *Head) EachDest(f func(dest []byte)) {
	for dest := range bytes.SplitSeq(h.dests, []byte(",")) {
		f(dest)
	}
}

// DecodeHead reads the head of a record of the topic events, or of the event in a work item.
func DecodeHead(r *stream.Record) (Head, error) {
	var h Head
	versioned := false
	for i := range r.Headers {
		header := &r.Headers[i]
		var err error
		switch header.Key {
		case hVersion:
			versioned = string(header.Value) == version
		case hID:
			h.ID, err = id.Parse(id.Event, string(header.Value))
		case hSource:
			h.Use = Source(header.Value).IsUse()
		case hRemoteIP:
			_, err = netip.ParseAddr(string(header.Value))
		case hVerdict:
			h.Verdict = ""
			if string(header.Value) == string(VerdictRejected) {
				h.Verdict = VerdictRejected
			}
		case hDuplicateOf:
			h.Duplicate = len(header.Value) > 0
		case hDests:
			h.dests = header.Value
		}
		if err != nil {
			return Head{}, fmt.Errorf("decode event header %s: %w", header.Key, err)
		}
	}
	if !versioned || h.ID.IsZero() || len(r.Key) == 0 {
		return Head{}, errors.New("decode event: version, id or key is missing")
	}
	return h, nil
}

// WorkHead is the part of a work item that names its delivery: the event, the destination, and the run, which is empty
// for automatic attempts. Due is the time before which the attempt must not be made.
type WorkHead struct {
	Event     id.ID
	Dest, Run string
	Due       time.Time
	Place     Place
}

// DecodeWorkHead reads the head of a record of commands or retry.*. It returns an error for the same records as
// DecodeWork.
func DecodeWorkHead(r *stream.Record) (WorkHead, error) {
	h, err := DecodeHead(r)
	if err != nil {
		return WorkHead{}, err
	}
	wire, err := decodeWorkHeader(r)
	if err != nil {
		return WorkHead{}, err
	}
	return WorkHead{Event: h.ID, Dest: wire.Dest, Run: wire.Run, Due: fromMilli(wire.Due),
		Place: wire.place()}, nil
}

// OutcomeHead is an outcome without the details of the request. DecodeOutcomeHead allocates only for a trigger other
// than initial and retry; Dest, Run and Reason share the record's memory.
type OutcomeHead struct {
	Event       id.ID     `wire:"1"`
	Dest        []byte    `wire:"3"`
	Status      Status    `wire:"5,intern"`
	Reason      []byte    `wire:"6"`
	Code        int       `wire:"7"`
	NextAt      time.Time `wire:"8"`
	At          time.Time `wire:"9"`
	Run         []byte    `wire:"10"`
	AttemptHead `wire:"11"`
	// Behind is the event for which a delivery of an ordered destination waits.
	Behind []byte `wire:"14"`
}

// AttemptHead is the part of an attempt that an OutcomeHead has.
type AttemptHead struct {
	Attempt id.ID   `wire:"1"` // of the request; zero when none was made
	Trigger Trigger `wire:"3,intern"`
	OK      bool    `wire:"4"` // the request succeeded
	// ErrorCode says why it has no answer; it shares the record's memory.
	ErrorCode []byte `wire:"6"`
}

// DecodeOutcomeHead reads a record of the topic outcomes.
func DecodeOutcomeHead(r *stream.Record) (OutcomeHead, error) {
	var w OutcomeHead
	err := w.decodeWire(r.Value)
	if err == nil && (w.Event.IsZero() || len(w.Dest) == 0 || w.Status == "" || len(r.Key) == 0) {
		err = errors.New("event, endpoint, destination or status is missing")
	}
	if err != nil {
		return OutcomeHead{}, fmt.Errorf("decode outcome: %w", err)
	}
	return w, nil
}

// statusOf converts b to a Status without an allocation.
func statusOf(b []byte) Status { return intern(b, Delivered, Retrying, Failed, Skipped, Pending, Held) }

// triggerOf converts b to a Trigger, without an allocation for the two most frequent ones.
func triggerOf(b []byte) Trigger { return intern(b, TriggerInitial, TriggerRetry) }

// intern converts b to a string; it allocates only when b is none of words.
func intern[T ~string](b []byte, words ...T) T {
	for _, w := range words {
		if string(b) == string(w) {
			return w
		}
	}
	return T(b)
}

// Version returns the version of the outcome when its record has this offset in the topic outcomes.
func (w *OutcomeHead) Version(offset int64) (Version, error) {
	return versionOf(string(w.Run), w.Status, w.At, offset)
}
